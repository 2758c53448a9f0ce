//! The differences between two series of pictures, by path.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The picture, the object and the field: `rolled out/Deployment web/status/replicas`.
    pub at: String,
    /// The recorded value, if any.
    pub recorded: Option<Value>,
    /// The value on the embedded server, if any.
    pub found: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<Value>| value.as_ref().map_or("nothing".to_owned(), Value::to_string);
        let (recorded, found) = (text(&self.recorded), text(&self.found));
        write!(f, "{}: recorded {recorded}, found {found}", self.at)
    }
}

/// What differs between recorded pictures and others.
pub fn differences(
    recorded: &BTreeMap<String, Vec<Value>>,
    found: &BTreeMap<String, Vec<Value>>,
) -> Vec<Difference> {
    let mut all = Vec::new();
    let none = Vec::new();
    let mut names: Vec<&String> = recorded.keys().chain(found.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let recorded = by_title(recorded.get(name).unwrap_or(&none));
        let found = by_title(found.get(name).unwrap_or(&none));
        let mut titles: Vec<&String> = recorded.keys().chain(found.keys()).collect();
        titles.sort();
        titles.dedup();
        for title in titles {
            walk(
                format!("{name}/{title}"),
                recorded.get(title).copied(),
                found.get(title).copied(),
                &mut all,
            );
        }
    }
    all
}

/// Objects by kind and name. Those with the same name, such as the pods of a replica set, are numbered.
fn by_title(objects: &[Value]) -> BTreeMap<String, &Value> {
    let mut titled = BTreeMap::new();
    for object in objects {
        let text = |pointer| {
            object
                .pointer(pointer)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        let title = format!("{} {}", text("/kind"), text("/metadata/name"));
        let mut unique = title.clone();
        let mut number = 2;
        while titled.contains_key(&unique) {
            unique = format!("{title} ({number})");
            number += 1;
        }
        titled.insert(unique, object);
    }
    titled
}

fn walk(at: String, recorded: Option<&Value>, found: Option<&Value>, all: &mut Vec<Difference>) {
    match (recorded, found) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                walk(format!("{at}/{key}"), before.get(key), after.get(key), all);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after))) => {
            for index in 0..before.len().max(after.len()) {
                walk(format!("{at}/{index}"), before.get(index), after.get(index), all);
            }
        }
        (recorded, found) if recorded != found => all.push(Difference {
            at,
            recorded: recorded.cloned(),
            found: found.cloned(),
        }),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn differences_name_picture_object_and_field() {
        let pod = |node: &str| json!({ "kind": "Pod", "metadata": { "name": "web-*" }, "spec": { "nodeName": node } });
        let pictures = |pods: &[&str]| {
            BTreeMap::from([(
                "rolled out".to_owned(),
                pods.iter().map(|node| pod(node)).collect(),
            )])
        };
        assert!(differences(&pictures(&["a", "b"]), &pictures(&["a", "b"])).is_empty());
        let found = differences(&pictures(&["a", "b"]), &pictures(&["a", "c", "d"]));
        let places: Vec<&str> = found.iter().map(|difference| difference.at.as_str()).collect();
        assert_eq!(
            places,
            [
                "rolled out/Pod web-* (2)/spec/nodeName",
                "rolled out/Pod web-* (3)"
            ]
        );
    }
}
