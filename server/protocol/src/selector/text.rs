//! Selectors of objects as text.

use serde_json::Value;

/// A selector as text: unchanged if it is a string, otherwise built from a map or from `matchLabels` and
/// `matchExpressions`.
#[doc(alias = "FormatLabelSelector")]
pub fn selector_text(selector: &Value) -> String {
    let Value::Object(fields) = selector else {
        return selector.as_str().unwrap_or_default().to_owned();
    };
    let structured = fields.contains_key("matchLabels") || fields.contains_key("matchExpressions");
    let labels = if structured {
        fields.get("matchLabels").and_then(Value::as_object)
    } else {
        Some(fields)
    };
    let mut parts: Vec<(String, String)> = labels
        .into_iter()
        .flatten()
        .map(|(key, value)| {
            (
                key.clone(),
                format!("{key}={}", value.as_str().unwrap_or_default()),
            )
        })
        .collect();
    let expressions = fields
        .get("matchExpressions")
        .and_then(Value::as_array)
        .filter(|_| structured);
    for expression in expressions.into_iter().flatten() {
        let text = |name: &str| expression.get(name).and_then(Value::as_str).unwrap_or_default();
        let key = text("key");
        let values = expression.get("values").and_then(Value::as_array);
        let mut values: Vec<&str> = values.into_iter().flatten().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let part = match text("operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "DoesNotExist" => format!("!{key}"),
            _ => key.to_owned(),
        };
        parts.push((key.to_owned(), part));
    }
    parts.sort();
    parts
        .into_iter()
        .map(|(_, part)| part)
        .collect::<Vec<_>>()
        .join(",")
}
