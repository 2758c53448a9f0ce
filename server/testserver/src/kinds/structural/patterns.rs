//! The regular expressions of a schema, compiled once.

use std::collections::HashMap;
use std::sync::Arc;

use kube_api_protocol::field_error::FieldError;
use regex::{Regex, RegexBuilder};
use serde_json::Value;

use super::properties;

/// Limit for one compiled expression. Larger ones are rejected as invalid: they would take seconds to compile.
const COMPILED_LIMIT: usize = 4 << 20;

/// The compiled `pattern`s of a schema, by their text. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns(Arc<HashMap<String, Regex>>);

impl Patterns {
    /// Compiles every pattern of a schema and leaves out the invalid ones, which [`invalid_patterns`] reports.
    pub(crate) fn compile(schema: &Value) -> Patterns {
        let mut compiled = HashMap::new();
        visit(schema, "", &mut |_, pattern| {
            if !compiled.contains_key(pattern)
                && let Ok(regex) = compile(pattern)
            {
                compiled.insert(pattern.to_owned(), regex);
            }
        });
        Patterns(Arc::new(compiled))
    }

    /// Whether a text violates a pattern. Invalid patterns match everything: no stored definition contains one, but a
    /// test can put one into [`Kind::schema`](crate::kinds::Kind::schema).
    pub(super) fn violates(&self, pattern: &str, text: &str) -> bool {
        self.0.get(pattern).is_some_and(|regex| !regex.is_match(text))
    }
}

/// One error for each pattern of a schema that is not a valid regular expression.
pub(crate) fn invalid_patterns(schema: &Value, field: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut known: HashMap<String, Option<String>> = HashMap::new();
    visit(schema, field, &mut |field, pattern| {
        let result = known
            .entry(pattern.to_owned())
            .or_insert_with(|| compile(pattern).err());
        if let Some(error) = result {
            let detail = format!("must be a valid regular expression, but isn't: {error}");
            errors.push(FieldError::invalid(format!("{field}.pattern"), pattern, detail));
        }
    });
    errors
}

fn compile(pattern: &str) -> Result<Regex, String> {
    let compiled = RegexBuilder::new(pattern).size_limit(COMPILED_LIMIT).build();
    compiled.map_err(|error| {
        // The parser draws the position below the expression; its last line is the reason.
        let text = error.to_string();
        let reason = text.lines().last().unwrap_or_default();
        reason.trim_start_matches("error: ").to_owned()
    })
}

/// Calls `found` with the path and text of every pattern. Definitions are limited in depth, so the recursion is too.
fn visit(schema: &Value, field: &str, found: &mut impl FnMut(&str, &str)) {
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str) {
        found(field, pattern);
    }
    for (name, schema) in properties(schema) {
        visit(schema, &format!("{field}.properties[{name}]"), found);
    }
    for keyword in ["items", "additionalProperties", "not"] {
        if let Some(schema) = schema.get(keyword) {
            visit(schema, &format!("{field}.{keyword}"), found);
        }
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        let schemas = schema
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        for (position, schema) in schemas.enumerate() {
            visit(schema, &format!("{field}.{keyword}[{position}]"), found);
        }
    }
}
