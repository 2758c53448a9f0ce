//! Objects as values of CEL.

use std::collections::HashMap;
use std::sync::Arc;

use cel::Value;
use cel::objects::{Key, Map};
use serde_json::Value as Json;

/// The value of a part of an object. Whole numbers are signed integers, as in Kubernetes, so that they can be computed with.
pub(super) fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(is) => Value::Bool(is),
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) => Value::Int(whole),
            (None, Some(large)) => Value::UInt(large),
            (None, None) => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::String(Arc::new(text)),
        Json::Array(elements) => Value::List(Arc::new(elements.into_iter().map(value).collect())),
        Json::Object(fields) => {
            let fields: HashMap<Key, Value> = fields
                .into_iter()
                .map(|(name, field)| (Key::String(Arc::new(name)), value(field)))
                .collect();
            Value::Map(Map {
                map: Arc::new(fields),
            })
        }
    }
}
