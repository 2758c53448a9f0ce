//! Manifests: YAML or JSON text with one or many objects.

use std::collections::HashSet;
use std::fmt;

use kube_api_protocol::field_error::quote;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;

/// Why a manifest was rejected. The message never quotes the content of objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    message: String,
}

impl ManifestError {
    fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
        }
    }
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ManifestError {}

/// The objects of a manifest, in order. Documents are separated by `---`; empty ones are skipped, lists are expanded.
/// Every object must have `apiVersion`, `kind` and a name.
pub fn objects(text: &str) -> Result<Vec<Value>, ManifestError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, options())
        .map_err(|error| ManifestError::new(format!("invalid YAML: {error}")))?;
    let mut objects = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        collect(document, &format!("document {}", index + 1), &mut objects)?;
    }
    Ok(objects)
}

/// Parses one YAML document.
pub(crate) fn yaml(text: &str) -> Result<Value, ManifestError> {
    serde_saphyr::from_str_with_options(text, options())
        .map_err(|error| ManifestError::new(error.to_string()))
}

/// Parses one YAML document in which keys may occur twice: the last one counts. Also returns warnings about such keys, as the parser of a
/// real server words them.
pub(crate) fn lenient_yaml(text: &str) -> Result<(Value, Vec<String>), ManifestError> {
    match serde_saphyr::from_str_with_options(text, options()) {
        Ok(value) => return Ok((value, Vec::new())),
        Err(error) => match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { .. } => {}
            other => return Err(ManifestError::new(other.to_string())),
        },
    };
    let value = serde_saphyr::from_str_with_options(text, lenient())
        .map_err(|error| ManifestError::new(error.to_string()))?;
    Ok((value, duplicates(text)))
}

/// Warnings about the keys that a map of a YAML document has already, in the order in which the parser of a real server meets them.
pub(crate) fn duplicates(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(document) = serde_saphyr::from_str_with_options::<Node>(text, lenient()) {
        document.collect_duplicates(&mut found);
    }
    found
}

/// A YAML value with all entries of its maps.
enum Node {
    Scalar,
    List(Vec<Node>),
    Map(Vec<(String, Spanned<Node>)>),
}

impl Node {
    fn collect_duplicates(&self, found: &mut Vec<String>) {
        match self {
            Node::Scalar => {}
            Node::List(items) => items.iter().for_each(|item| item.collect_duplicates(found)),
            Node::Map(entries) => {
                let mut known = HashSet::new();
                for (key, value) in entries {
                    value.value.collect_duplicates(found);
                    if !known.insert(key) {
                        let line = value.referenced.line();
                        found.push(format!("line {line}: key {} already set in map", quote(key)));
                    }
                }
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyNode;

        impl<'de> Visitor<'de> for AnyNode {
            type Value = Node;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("any value")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_i128<E>(self, _: i128) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_u128<E>(self, _: u128) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_str<E>(self, _: &str) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_bytes<E>(self, _: &[u8]) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_unit<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_none<E>(self) -> Result<Node, E> {
                Ok(Node::Scalar)
            }

            fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
                Node::deserialize(deserializer)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Node::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Node, A::Error> {
                let mut map = Vec::new();
                while let Some(entry) = entries.next_entry()? {
                    map.push(entry);
                }
                Ok(Node::Map(map))
            }
        }

        deserializer.deserialize_any(AnyNode)
    }
}

fn lenient() -> serde_saphyr::Options {
    use serde_saphyr::options::DuplicateKeyPolicy;
    serde_saphyr::options! { with_snippet: false, duplicate_keys: DuplicateKeyPolicy::LastWins }
}

fn options() -> serde_saphyr::Options {
    // The parser's message may quote the text, which could be a Secret.
    serde_saphyr::options! { with_snippet: false }
}

fn collect(document: Value, place: &str, objects: &mut Vec<Value>) -> Result<(), ManifestError> {
    let text = |name: &str| document.get(name).and_then(Value::as_str).unwrap_or_default();
    if !document.is_object() {
        return Err(ManifestError::new(format!(
            "{place} is not an object: write fields such as `kind: Pod`"
        )));
    }
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    for (name, value) in [("apiVersion", api_version), ("kind", kind)] {
        if value.is_empty() {
            return Err(ManifestError::new(format!(
                "{place} has no {name}: every object needs one"
            )));
        }
    }
    if kind.ends_with("List") && document.get("items").is_some_and(Value::is_array) {
        let Some(Value::Array(items)) = document.get("items").cloned() else {
            return Ok(());
        };
        for (index, item) in items.into_iter().enumerate() {
            collect(item, &format!("{place}, item {}", index + 1), objects)?;
        }
        return Ok(());
    }
    let named = |field: &str| {
        let name = document
            .pointer(&format!("/metadata/{field}"))
            .and_then(Value::as_str);
        name.is_some_and(|name| !name.is_empty())
    };
    if !named("name") && !named("generateName") {
        return Err(ManifestError::new(format!(
            "{place} ({kind}) has no metadata.name: give it one"
        )));
    }
    objects.push(document);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds(text: &str) -> Vec<String> {
        objects(text)
            .unwrap()
            .iter()
            .map(|object| object["kind"].as_str().unwrap().to_owned())
            .collect()
    }

    #[test]
    fn the_last_of_equal_keys_counts_and_all_others_are_warned_about() {
        let (value, warnings) = lenient_yaml("a: 1\nb:\n\n  # two\n  c: 1\nb: # again\n\n  c: 2\n").unwrap();
        assert_eq!(value, serde_json::json!({ "a": 1, "b": { "c": 2 } }));
        assert_eq!(warnings, ["line 8: key \"b\" already set in map"]);

        let (value, warnings) =
            lenient_yaml("a: 1\na: 2\nb:\n- c: 1\n  c:\n  - x\n  c: ~\na: {d: true, d: 1.5}\n").unwrap();
        assert!(value["a"]["d"].is_f64());
        let expected = [(2, "a"), (6, "c"), (7, "c"), (8, "d"), (8, "a")];
        let expected = expected.map(|(line, key)| format!("line {line}: key \"{key}\" already set in map"));
        assert_eq!(warnings, expected);
        assert!(lenient_yaml("a: 1").unwrap().1.is_empty());
        assert!(lenient_yaml("a: [").is_err());
    }

    #[test]
    fn documents_and_lists_become_objects_in_order() {
        let text = "
# comment
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: ConfigMap
  metadata: {name: a}
  data: {port: \"80\"}
- apiVersion: v1
  kind: Secret
  metadata: {generateName: b-}
";
        assert_eq!(kinds(text), ["Namespace", "ConfigMap", "Secret"]);
        assert_eq!(kinds(""), Vec::<String>::new());
        assert_eq!(
            kinds("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"}}"),
            ["Pod"]
        );
    }

    #[test]
    fn values_keep_their_type() {
        let object = &objects(
            "apiVersion: v1\nkind: X\nmetadata: {name: x}\nspec: {a: 1, b: \"1\", c: true, d: null}",
        )
        .unwrap()[0];
        assert_eq!(
            object["spec"],
            serde_json::json!({ "a": 1, "b": "1", "c": true, "d": null })
        );
    }

    #[test]
    fn errors_name_the_missing_field_and_the_document() {
        let error = |text: &str| objects(text).unwrap_err().to_string();

        assert_eq!(
            error("kind: Pod"),
            "document 1 has no apiVersion: every object needs one"
        );
        assert_eq!(
            error("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Pod\n"),
            "document 2 (Pod) has no metadata.name: give it one"
        );
        assert_eq!(
            error("just text"),
            "document 1 is not an object: write fields such as `kind: Pod`"
        );
        assert!(error("a: [").starts_with("invalid YAML: "));
    }

    #[test]
    fn errors_do_not_quote_the_text() {
        let error =
            objects("apiVersion: v1\nkind: Secret\ndata: {password: aHVudGVyMg==}\nbad: [").unwrap_err();
        assert!(!error.to_string().contains("aHVudGVyMg"), "{error}");
    }

    proptest! {
        #[test]
        fn arbitrary_text_is_parsed_or_rejected_without_a_panic(text in "[a-z0-9:{}\\[\\]\\-&*!|> \n\"']{0,60}") {
            let _ = objects(&text);
        }
    }
}
