//! Manifests: YAML or JSON text with one or many objects.

use std::fmt;

use serde_json::Value;

use crate::admission::field_error::quote;

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

/// Parses one YAML document in which keys may occur twice: the last one counts. Also returns a warning about the first such key, as the
/// parser of a real server words it.
pub(crate) fn lenient_yaml(text: &str) -> Result<(Value, Option<String>), ManifestError> {
    use serde_saphyr::options::DuplicateKeyPolicy;
    let warning = match serde_saphyr::from_str_with_options(text, options()) {
        Ok(value) => return Ok((value, None)),
        Err(error) => match error.without_snippet() {
            serde_saphyr::Error::DuplicateMappingKey { key, location } => {
                let line = value_line(text, usize::try_from(location.line()).unwrap_or_default());
                let key = quote(key.as_deref().unwrap_or_default());
                format!("line {line}: key {key} already set in map")
            }
            other => return Err(ManifestError::new(other.to_string())),
        },
    };
    let lenient =
        serde_saphyr::options! { with_snippet: false, duplicate_keys: DuplicateKeyPolicy::LastWins };
    let value = serde_saphyr::from_str_with_options(text, lenient)
        .map_err(|error| ManifestError::new(error.to_string()))?;
    Ok((value, Some(warning)))
}

/// The line where the value of a key begins that is on this line: on the same, or on the next one that is not empty.
fn value_line(text: &str, line: usize) -> usize {
    let content = |line: &str| {
        let line = line.split(" #").next().unwrap_or_default().trim().to_owned();
        (!line.is_empty() && !line.starts_with('#')).then_some(line)
    };
    let mut below = text.lines().enumerate().skip(line.saturating_sub(1));
    let own = below.next().and_then(|(_, own)| content(own)).unwrap_or_default();
    if !own.ends_with(':') {
        return line;
    }
    let next = below.find(|(_, next)| content(next).is_some());
    next.map_or(line, |(at, _)| at + 1)
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
    fn the_last_of_equal_keys_counts_and_the_first_is_warned_about() {
        let (value, warning) = lenient_yaml("a: 1\nb:\n\n  # two\n  c: 1\nb: # again\n\n  c: 2\n").unwrap();
        assert_eq!(value, serde_json::json!({ "a": 1, "b": { "c": 2 } }));
        assert_eq!(warning.as_deref(), Some("line 8: key \"b\" already set in map"));

        let (value, warning) = lenient_yaml("a: 1\na: 2\n").unwrap();
        assert_eq!(
            (value["a"].as_i64(), warning.as_deref()),
            (Some(2), Some("line 2: key \"a\" already set in map"))
        );
        assert_eq!(lenient_yaml("a: 1").unwrap().1, None);
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
