//! Whether a type accepts members that it does not declare.

use std::fmt;

use serde::de::{self, DeserializeOwned, Deserializer, Visitor};

/// Whether `K` accepts any member, like `DynamicObject`, a `Value` or a struct with `#[serde(flatten)]`, in contrast
/// to a struct with declared fields.
pub(super) fn is_open<K: DeserializeOwned>() -> bool {
    !matches!(K::deserialize(Probe), Err(Found::Struct))
}

/// Reports what a type asks its deserializer for.
struct Probe;

#[derive(Debug)]
enum Found {
    Struct,
    Other,
}

impl<'de> Deserializer<'de> for Probe {
    type Error = Found;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Found> {
        Err(Found::Other)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Found> {
        Err(Found::Struct)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Found> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("this deserializer has no value")
    }
}

impl std::error::Error for Found {}

impl de::Error for Found {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Other
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::Pod;
    use kube::core::DynamicObject;
    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    #[derive(Deserialize)]
    struct Projection {
        #[serde(rename = "spec")]
        _spec: Value,
    }

    #[derive(Deserialize)]
    struct Wrapped<T>(#[allow(dead_code)] T);

    #[derive(Deserialize)]
    struct Extended {
        #[serde(flatten)]
        _rest: BTreeMap<String, Value>,
    }

    #[test]
    fn only_structs_with_declared_fields_are_closed() {
        assert!(!is_open::<Pod>());
        assert!(!is_open::<Projection>());
        assert!(!is_open::<Wrapped<Pod>>());
        assert!(is_open::<DynamicObject>());
        assert!(is_open::<Value>());
        assert!(is_open::<Wrapped<Value>>());
        assert!(is_open::<Extended>());
    }
}
