//! Tables of custom kinds: the columns of their definition.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cells::Reader;
use super::columns::{Column, NAME, definition};
use crate::kinds::Kind;

pub(super) fn column_definitions(kind: &Kind) -> Vec<Value> {
    if kind.columns.is_empty() {
        let age = "when the object was created";
        return vec![Column::definition(&NAME), definition("Age", "date", "", age, 0)];
    }
    let own = kind.columns.iter().map(|column| {
        let usual = || {
            format!(
                "Custom resource definition column (in JSONPath format): {}",
                column.path
            )
        };
        let description = if column.description.is_empty() {
            usual()
        } else {
            column.description.clone()
        };
        definition(
            &column.name,
            &column.kind,
            &column.format,
            &description,
            column.priority,
        )
    });
    std::iter::once(Column::definition(&NAME)).chain(own).collect()
}

pub(super) fn cells(kind: &Kind, object: &Value, now: Timestamp) -> Vec<Value> {
    let name = Reader(object).name();
    if kind.columns.is_empty() {
        return vec![name, Reader(object).age(now)];
    }
    let own = kind.columns.iter().map(|column| match column.path.first(object) {
        None | Some(Value::Null) => Value::Null,
        Some(value) => cell(&column.kind, value, now),
    });
    std::iter::once(name).chain(own).collect()
}

/// Converts a value to the type of its column; null if it does not fit.
fn cell(kind: &str, value: &Value, now: Timestamp) -> Value {
    match (kind, value) {
        ("integer", Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => json!(whole),
            // Fractions are truncated, as by a real server.
            (None, Some(number)) if number.abs() < 9e15 => json!(number.trunc() as i64),
            _ => Value::Null,
        },
        ("number", Value::Number(number)) => json!(number.as_f64()),
        ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => json!(age::since(text, now)),
        ("string", Value::String(_)) => value.clone(),
        ("string", other) => json!(other.to_string()),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_follow_the_definition_and_its_types() {
        let path = |text: &str| text.parse().unwrap();
        let kind = Kind::new("example.com", "v1", "Widget")
            .column("Size", "integer", path(".spec.size"))
            .column("Ratio", "number", path(".spec.ratio"))
            .column("On", "boolean", path(".spec.on"))
            .column(
                "Ready",
                "string",
                path(".status.conditions[?(@.type=='Ready')].status"),
            )
            .column("Tags", "string", path(".spec.tags"))
            .column("Seen", "date", path(".status.seen"))
            .column("Wrong", "integer", path(".spec.on"));
        let object = json!({
            "metadata": { "name": "w" },
            "spec": { "size": 3, "ratio": 1.5, "on": true, "tags": ["a", "b"] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }], "seen": "1970-01-01T00:00:00Z" },
        });
        let now = Timestamp::from_second(60).unwrap();

        assert_eq!(
            cells(&kind, &object, now),
            [
                json!("w"),
                json!(3),
                json!(1.5),
                json!(true),
                json!("True"),
                json!("[\"a\",\"b\"]"),
                json!("60s"),
                json!(null)
            ]
        );
        let empty = cells(&kind, &json!({ "metadata": { "name": "e" } }), now);
        assert_eq!(empty.iter().filter(|cell| cell.is_null()).count(), 7);
        assert_eq!(column_definitions(&kind)[1]["name"], "Size");
    }

    #[test]
    fn default_columns_are_name_and_age() {
        let kind = Kind::new("example.com", "v1", "Widget");
        let object = json!({ "metadata": { "name": "w", "creationTimestamp": "1970-01-01T00:00:00Z" } });

        assert_eq!(
            cells(&kind, &object, Timestamp::from_second(5).unwrap()),
            [json!("w"), json!("5s")]
        );
        assert_eq!(column_definitions(&kind)[1]["name"], "Age");
    }
}
