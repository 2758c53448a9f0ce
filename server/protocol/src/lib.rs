//! The HTTP protocol of Kubernetes list and watch, for servers. See the README.

#![warn(missing_debug_implementations)]

pub mod field_error;
pub mod go_json;
pub mod names;
pub mod negotiation;
pub mod nesting;
pub mod request;
pub mod selector;
pub mod status;
pub mod warning;
pub mod yaml;
