//! The values of an index by a field.

use serde_json::Value;

use super::{FieldPath, Lazy};

impl<K> Lazy<K> {
    /// A string, number or boolean as text, or each element of a list of them. Nothing if the field is absent, is something
    /// else, or cannot be decoded.
    pub(crate) fn index_values(&self, path: &FieldPath) -> Vec<String> {
        let value = match self.path(path) {
            Ok(Some(value)) => value,
            // The error was counted and logged.
            Ok(None) | Err(_) => return Vec::new(),
        };
        if let Some(text) = value.as_str() {
            return vec![text.to_owned()];
        }
        match self.value(path) {
            Ok(Some(Value::Array(elements))) => elements.iter().filter_map(scalar).collect(),
            Ok(Some(value)) => scalar(&value).into_iter().collect(),
            Ok(None) | Err(_) => Vec::new(),
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}
