//! The OpenAPI v3 schemas of the built-in kinds, as a real server publishes them. The file is written by `verify/scenarios/openapi`.

use std::collections::HashMap;
use std::io::Read;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use serde_json::{Map, Value};

use crate::kinds::Kind;

const FILE: &[u8] = include_bytes!("schemas.json.gz");
const PREFIX: &str = "#/components/schemas/";

/// The schemas by name, and the names by group, version and kind.
struct Schemas {
    schemas: Map<String, Value>,
    names: HashMap<(String, String, String), String>,
}

/// Read by the first client that asks for a document.
fn all() -> &'static Schemas {
    static SCHEMAS: OnceLock<Schemas> = OnceLock::new();
    SCHEMAS.get_or_init(|| {
        let mut text = Vec::new();
        // The file is part of the program, and a test reads it.
        let read = GzDecoder::new(FILE).read_to_end(&mut text);
        debug_assert!(read.is_ok(), "{read:?}");
        let schemas: Map<String, Value> = serde_json::from_slice(&text).unwrap_or_default();
        let mut names = HashMap::new();
        for (name, schema) in &schemas {
            let kinds = schema
                .get("x-kubernetes-group-version-kind")
                .and_then(Value::as_array);
            for kind in kinds.into_iter().flatten() {
                let text = |field: &str| kind[field].as_str().unwrap_or_default().to_owned();
                names.insert((text("group"), text("version"), text("kind")), name.clone());
            }
        }
        Schemas { schemas, names }
    })
}

/// The name of the schema of a built-in kind; `None` if it has none.
pub(super) fn name_of(kind: &Kind) -> Option<&'static str> {
    if kind.custom {
        return None;
    }
    let key = (kind.group.clone(), kind.version.clone(), kind.kind.clone());
    all().names.get(&key).map(String::as_str)
}

/// All schemas by name.
pub(super) fn every() -> impl Iterator<Item = (&'static String, &'static Value)> {
    all().schemas.iter()
}

/// Adds a schema and all schemas that it refers to.
pub(super) fn add(name: &str, into: &mut Map<String, Value>) {
    if into.contains_key(name) {
        return;
    }
    let Some(schema) = all().schemas.get(name) else {
        return;
    };
    into.insert(name.to_owned(), schema.clone());
    for reference in references(schema) {
        add(&reference, into);
    }
}

/// The names of the schemas that a schema refers to.
fn references(schema: &Value) -> Vec<String> {
    match schema {
        Value::Object(members) => {
            let own = members.get("$ref").and_then(Value::as_str);
            let own = own
                .and_then(|reference| reference.strip_prefix(PREFIX))
                .map(str::to_owned);
            own.into_iter()
                .chain(members.values().flat_map(references))
                .collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn every_stored_kind_has_a_schema_whose_references_exist() {
        let mut found = Map::new();
        for kind in Registry::builtin().iter().filter(|kind| kind.is_stored()) {
            let name = name_of(kind);
            assert!(name.is_some(), "{} has no schema", kind.group_kind());
            add(name.unwrap_or_default(), &mut found);
        }
        for schema in found.values() {
            for reference in references(schema) {
                assert!(found.contains_key(&reference), "{reference}");
            }
        }
    }
}
