#![doc = include_str!("../README.md")]

mod canonical;
mod cbor;
pub mod de;
pub mod envelope;
mod error;
mod head;
pub mod path;
mod quantity;
pub mod raw;
pub mod schema;
pub mod ser;
mod text;
pub mod wire;

pub use de::{Options, TypeMeta, explain_json, from_message};
pub use envelope::{Envelope, MEDIA_TYPE, from_body};
pub use error::{Error, ErrorKind};
