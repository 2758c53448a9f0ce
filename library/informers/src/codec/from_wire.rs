//! `FromWire`: the types that a codec can produce.

use serde::de::DeserializeOwned;

use super::{Codec, Encoding, LazyOptions, json, open, protobuf};
use crate::object::Object;

/// A type whose objects can be read from a server: every [`Object`] that serde can deserialize, and [`Lazy`](crate::lazy::Lazy) objects.
///
/// It cannot be implemented otherwise.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be read from an API server",
    note = "it must implement `kube_informers::Object` and `serde::Deserialize`"
)]
pub trait FromWire: Object + Sized {
    /// The codec of the type.
    #[doc(hidden)]
    fn codec(options: LazyOptions) -> Codec<Self>;
}

impl<K: Object + DeserializeOwned> FromWire for K {
    fn codec(_: LazyOptions) -> Codec<K> {
        Codec {
            encoding: Encoding::Auto,
            is_open: open::is_open::<K>(),
            json: json::decode_function(),
            protobuf: protobuf::decode_function(),
            lazy: None,
        }
    }
}
