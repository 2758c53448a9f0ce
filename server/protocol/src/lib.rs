#![doc = include_str!("../README.md")]
#![warn(missing_debug_implementations)]

pub mod field_error;
pub mod go_json;
pub mod gzip;
pub mod jsonpath;
pub mod list;
pub mod names;
pub mod negotiation;
pub mod nesting;
pub mod protobuf;
pub mod request;
pub mod resource;
pub mod selector;
pub mod status;
pub mod table;
pub mod warning;
pub mod watch;
pub mod yaml;
