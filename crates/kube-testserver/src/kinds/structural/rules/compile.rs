//! Reads the rules of a schema and compiles their expressions.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::properties;
use super::types::{escape, is_embedded, type_of};
use super::{Level, Rule, Rules};
use crate::expression::{Declarations, Expression, Type};

impl Rules {
    /// Compiles the rules of the schema at this path. Do not call it while holding a lock of the server.
    pub(crate) fn compile(schema: &Value, path: &str) -> Rules {
        let mut sources = Vec::new();
        let kind = type_of(schema, true, "selfType");
        let root = level(schema, kind, path.to_owned(), None, &mut sources);
        Rules {
            root,
            programs: Expression::compile_all(&sources),
        }
    }
}

type Sources = Vec<(String, Declarations)>;

/// The rules of a schema and below it; `None` if there are none. Schemas are limited in depth, so the recursion is too.
fn level(
    schema: &Value,
    kind: Option<Type>,
    path: String,
    uncorrelated: Option<String>,
    sources: &mut Sources,
) -> Option<Level> {
    let below = |schema: &Value, name: &str| {
        let kind = match &kind {
            Some(Type::List(element)) => Some((**element).clone()),
            Some(Type::Map(_, value)) => Some((**value).clone()),
            Some(Type::Object(object)) => match escape(name) {
                Some(escaped) => object.fields.get(&escaped).cloned(),
                None => type_of(schema, is_embedded(schema), "selfType"),
            },
            _ => None,
        };
        // Values of an unknown type have no rules.
        kind.map(Some)
    };
    let mut found = BTreeMap::new();
    for (name, schema) in properties(schema) {
        let path = format!("{path}.properties[{name}]");
        if let Some(kind) = below(schema, name)
            && let Some(level) = level(schema, kind, path, uncorrelated.clone(), sources)
        {
            found.insert(name.clone(), level);
        }
    }
    let values = schema
        .get("additionalProperties")
        .filter(|values| values.is_object());
    let values = values.and_then(|values| {
        let path = format!("{path}.additionalProperties");
        level(values, below(values, "")?, path, uncorrelated.clone(), sources)
    });
    let items = schema.get("items").and_then(|items| {
        // Only elements with keys can be found again in the old list.
        let is_keyed = schema.get("x-kubernetes-list-type").and_then(Value::as_str) == Some("map");
        let uncorrelated = uncorrelated.clone().or_else(|| (!is_keyed).then(|| path.clone()));
        level(
            items,
            below(items, "")?,
            format!("{path}.items"),
            uncorrelated,
            sources,
        )
    });
    let rules = field_rules(schema);
    let rules: Vec<Rule> = rules
        .map(|rule| read(rule, kind.as_ref().unwrap_or(&Type::Dyn), sources))
        .collect();
    if rules.is_empty() && items.is_none() && values.is_none() && found.is_empty() {
        return None;
    }
    Some(Level {
        path,
        rules,
        uncorrelated,
        items: items.map(Box::new),
        values: values.map(Box::new),
        properties: found,
    })
}

fn field_rules(schema: &Value) -> impl Iterator<Item = &Value> {
    let rules = schema.get("x-kubernetes-validations").and_then(Value::as_array);
    rules.into_iter().flatten()
}

fn read(rule: &Value, kind: &Type, sources: &mut Sources) -> Rule {
    let text = |name: &str| {
        rule.get(name)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let optional_old = rule.get("optionalOldSelf").and_then(Value::as_bool);
    let old = match optional_old {
        Some(true) => Type::optional(kind.clone()),
        _ => kind.clone(),
    };
    let declared = Declarations::default()
        .with("self", kind.clone())
        .with("oldSelf", old);
    let mut add = |source: &str| {
        let is_source = !source.trim().is_empty();
        is_source.then(|| {
            sources.push((source.to_owned(), declared.clone()));
            sources.len() - 1
        })
    };
    let (rule_text, message_expression) = (text("rule"), text("messageExpression"));
    Rule {
        program: add(&rule_text),
        message_program: add(&message_expression),
        rule: rule_text,
        message: text("message"),
        reason: rule.get("reason").and_then(Value::as_str).map(str::to_owned),
        field_path: text("fieldPath"),
        optional_old,
        message_expression,
    }
}
