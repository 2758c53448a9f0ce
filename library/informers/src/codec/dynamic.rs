//! Decodes a `DynamicObject` of any encoding without its derived `Deserialize`.
//!
//! The derived implementation buffers the whole object twice because of `#[serde(flatten)]`. This one reads each
//! member once. The result is the same, except that the type is filled in where a list omits it.

use std::any::{Any, TypeId};
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::{DynamicObject, TypeMeta};
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};

use super::Expected;

/// Whether `K` is `DynamicObject`.
pub(super) fn is_dynamic<K: 'static>() -> bool {
    TypeId::of::<K>() == TypeId::of::<DynamicObject>()
}

/// The `DynamicObject` that was decoded, which the caller knows as `K`.
pub(super) fn into<K: 'static>(members: Members, expected: &Expected) -> Result<K, String> {
    let mut object = Some(members.into_object(expected));
    (&mut object as &mut dyn Any)
        .downcast_mut::<Option<K>>()
        .and_then(Option::take)
        .ok_or_else(|| "this decoder supports dynamic objects only".to_owned())
}

/// The members of an object.
pub(super) struct Members {
    api_version: Option<String>,
    kind: Option<String>,
    metadata: ObjectMeta,
    data: Map<String, Value>,
}

impl Members {
    fn into_object(self, expected: &Expected) -> DynamicObject {
        DynamicObject {
            // The items of a typed list omit both and the events of a watch do not: the object is the same either way.
            types: Some(TypeMeta {
                api_version: self.api_version.unwrap_or_else(|| expected.api_version.clone()),
                kind: self.kind.unwrap_or_else(|| expected.kind.clone()),
            }),
            metadata: self.metadata,
            data: Value::Object(self.data),
        }
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MembersVisitor)
    }
}

struct MembersVisitor;

impl<'de> Visitor<'de> for MembersVisitor {
    type Value = Members;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
        let mut members = Members {
            api_version: None,
            kind: None,
            metadata: ObjectMeta::default(),
            data: Map::new(),
        };
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => members.api_version = map.next_value()?,
                "kind" => members.kind = map.next_value()?,
                "metadata" => members.metadata = map.next_value()?,
                _ => {
                    let value = map.next_value()?;
                    members.data.insert(key, value);
                }
            }
        }
        Ok(members)
    }
}
