//! Messages written field by field.

use kube_protobuf::wire::{FIXED64, VARINT, put_bytes, put_tag, put_varint};
use kube_protobuf::{Options, from_message, schema};
use serde_json::Value;

/// A message under construction.
#[derive(Default, Clone)]
pub struct Bytes(pub Vec<u8>);

impl Bytes {
    pub fn new() -> Self {
        Self::default()
    }
    pub fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Self {
        put_bytes(&mut self.0, field, bytes.as_ref());
        self
    }
    pub fn message(self, field: u32, message: Bytes) -> Self {
        self.bytes(field, message.0)
    }
    pub fn number(mut self, field: u32, number: i64) -> Self {
        put_tag(&mut self.0, field, VARINT);
        put_varint(&mut self.0, number.cast_unsigned());
        self
    }
    pub fn double(mut self, field: u32, double: f64) -> Self {
        put_tag(&mut self.0, field, FIXED64);
        self.0.extend_from_slice(&double.to_le_bytes());
        self
    }
}

pub fn read(api_version: &str, kind: &str, bytes: &Bytes) -> Result<Value, kube_protobuf::Error> {
    let message = schema::lookup(api_version, kind).unwrap();
    from_message(message, &bytes.0, None, &Options::default())
}

/// The value at a pointer of an object.
pub fn at(api_version: &str, kind: &str, bytes: Bytes, pointer: &str) -> Option<Value> {
    let value = read(api_version, kind, &bytes).unwrap_or_else(|error| panic!("{error}"));
    value.pointer(pointer).cloned()
}

pub fn spec(field: u32, number: i64) -> Bytes {
    Bytes::new().message(2, Bytes::new().number(field, number))
}

pub fn metadata(metadata: Bytes) -> Bytes {
    Bytes::new().message(1, metadata)
}
