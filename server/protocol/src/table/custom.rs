//! Tables of custom kinds: the columns of their definition.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::cells::Reader;
use super::columns::{Column, NAME, definition};
use crate::resource::Column as CustomColumn;

pub(super) fn column_definitions(columns: &[CustomColumn]) -> Vec<Value> {
    if columns.is_empty() {
        let age = "when the object was created";
        return vec![Column::definition(&NAME), definition("Age", "date", "", age, 0)];
    }
    let own = columns.iter().map(|column| {
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

pub(super) fn cells(columns: &[CustomColumn], object: &Value, now: Timestamp) -> Vec<Value> {
    let name = Reader(object).name();
    if columns.is_empty() {
        return vec![name, Reader(object).age(now)];
    }
    let own = columns.iter().map(|column| match column.path.first(object) {
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
        let column = |name: &str, kind: &str, path: &str| CustomColumn {
            name: name.to_owned(),
            kind: kind.to_owned(),
            format: String::new(),
            description: String::new(),
            priority: 0,
            path: path.parse().unwrap(),
        };
        let columns = [
            column("Size", "integer", ".spec.size"),
            column("Ratio", "number", ".spec.ratio"),
            column("On", "boolean", ".spec.on"),
            column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"),
            column("Tags", "string", ".spec.tags"),
            column("Seen", "date", ".status.seen"),
            column("Wrong", "integer", ".spec.on"),
        ];
        let object = json!({
            "metadata": { "name": "w" },
            "spec": { "size": 3, "ratio": 1.5, "on": true, "tags": ["a", "b"] },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }], "seen": "1970-01-01T00:00:00Z" },
        });
        let now = Timestamp::from_second(60).unwrap();

        assert_eq!(
            cells(&columns, &object, now),
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
        let empty = cells(&columns, &json!({ "metadata": { "name": "e" } }), now);
        assert_eq!(empty.iter().filter(|cell| cell.is_null()).count(), 7);
        assert_eq!(column_definitions(&columns)[1]["name"], "Size");
    }

    #[test]
    fn default_columns_are_name_and_age() {
        let object = json!({ "metadata": { "name": "w", "creationTimestamp": "1970-01-01T00:00:00Z" } });

        assert_eq!(
            cells(&[], &object, Timestamp::from_second(5).unwrap()),
            [json!("w"), json!("5s")]
        );
        assert_eq!(column_definitions(&[])[1]["name"], "Age");
    }
}
