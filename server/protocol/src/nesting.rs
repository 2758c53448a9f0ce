//! The nesting depth of JSON. Reading, writing and dropping a value recurse, so the depth is limited.

use serde_json::Value;

/// The maximum nesting of stored objects. JSON parsers commonly stop at 128, and the managed fields, which repeat the
/// nesting of the object, are a few levels deeper than the object.
pub const DEEPEST: usize = 100;

/// Whether a value is nested deeper than `limit`. Recurses no deeper than that itself.
pub fn is_deeper(value: &Value, limit: usize) -> bool {
    match value {
        Value::Array(items) => limit == 0 || items.iter().any(|item| is_deeper(item, limit - 1)),
        Value::Object(fields) => limit == 0 || fields.values().any(|field| is_deeper(field, limit - 1)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn depth_is_counted_in_arrays_and_objects() {
        assert!(!is_deeper(&json!(1), 0));
        assert!(is_deeper(&json!([]), 0) && !is_deeper(&json!([]), 1));
        assert!(is_deeper(&json!({"a": [{}]}), 2) && !is_deeper(&json!({"a": [{}]}), 3));
    }
}
