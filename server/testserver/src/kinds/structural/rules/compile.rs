//! Reads the rules of a schema and compiles their expressions.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::super::{format_errors, properties};
use super::bounds::{self, bounds_of};
use super::types::{escape, is_embedded, type_of};
use super::{Level, Rule, Rules};
use kube_cel::{Bounds, Declarations, Expression, Type};

impl Rules {
    /// Compiles the rules of the schema at this path. Do not call it while holding a lock of the server.
    pub(crate) fn compile(schema: &Value, path: &str) -> Rules {
        Rules::compile_with(schema, path, false)
    }

    /// The same with estimates of their cost.
    pub(super) fn estimate(schema: &Value, path: &str) -> Rules {
        Rules::compile_with(schema, path, true)
    }

    fn compile_with(schema: &Value, path: &str, estimates: bool) -> Rules {
        let mut sources = Sources {
            list: Vec::new(),
            estimates,
        };
        let kind = type_of(schema, true, "selfType");
        let place = SchemaPlace {
            path: path.to_owned(),
            uncorrelated: None,
            cardinality: Some(1),
            is_resource: true,
        };
        let root = level(schema, kind, place, &mut sources);
        let sources = sources.list;
        Rules {
            root,
            programs: Expression::compile_all(&sources),
        }
    }
}

/// The expressions to compile.
struct Sources {
    list: Vec<(String, Declarations)>,
    /// Whether their costs are to be estimated.
    estimates: bool,
}

/// Where a schema is.
struct SchemaPlace {
    path: String,
    /// The list or map within which old and new values cannot be compared.
    uncorrelated: Option<String>,
    /// How many values there can be; `None` if a list or map around has no limit.
    cardinality: Option<u64>,
    /// Whether it is the schema of a whole object.
    is_resource: bool,
}

/// The rules of a schema and below it; `None` if there are none. Schemas are limited in depth, so the recursion is too.
fn level(schema: &Value, kind: Option<Type>, place: SchemaPlace, sources: &mut Sources) -> Option<Level> {
    let SchemaPlace {
        path,
        uncorrelated,
        cardinality,
        is_resource,
    } = place;
    let within = cardinality.and_then(|own| Some(own.saturating_mul(bounds::most_children(schema)?)));
    let child = |path: String, uncorrelated: &Option<String>, schema: &Value| SchemaPlace {
        path,
        uncorrelated: uncorrelated.clone(),
        cardinality: within,
        is_resource: is_embedded(schema),
    };
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
        let place = child(format!("{path}.properties[{name}]"), &uncorrelated, schema);
        if let Some(kind) = below(schema, name)
            && let Some(level) = level(schema, kind, place, sources)
        {
            found.insert(name.clone(), level);
        }
    }
    let values = schema
        .get("additionalProperties")
        .filter(|values| values.is_object());
    let values = values.and_then(|values| {
        let place = child(format!("{path}.additionalProperties"), &uncorrelated, values);
        level(values, below(values, "")?, place, sources)
    });
    let items = schema.get("items").and_then(|items| {
        // Only elements with keys can be found again in the old list.
        let is_keyed = schema.get("x-kubernetes-list-type").and_then(Value::as_str) == Some("map");
        let uncorrelated = uncorrelated.clone().or_else(|| (!is_keyed).then(|| path.clone()));
        let place = child(format!("{path}.items"), &uncorrelated, items);
        level(items, below(items, "")?, place, sources)
    });
    let kind = kind.as_ref().unwrap_or(&Type::Dyn);
    let mut sized = None;
    let rules = field_rules(schema).map(|rule| {
        if sources.estimates && sized.is_none() {
            sized = bounds_of(schema, is_resource).map(|(bounds, least)| (Arc::new(bounds), least));
        }
        let bounds = sized.as_ref().map(|(bounds, _)| bounds.clone());
        read(rule, kind, bounds, sources)
    });
    let rules: Vec<Rule> = rules.collect();
    if rules.is_empty() && items.is_none() && values.is_none() && found.is_empty() {
        return None;
    }
    Some(Level {
        path,
        rules,
        cardinality: cardinality.unwrap_or_else(|| bounds::most_values(sized.map_or(0, |(_, least)| least))),
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

fn read(rule: &Value, kind: &Type, bounds: Option<Arc<Bounds>>, sources: &mut Sources) -> Rule {
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
    let mut declared = Declarations::default()
        .with_formats(format_errors)
        .with("self", kind.clone())
        .with("oldSelf", old);
    if let Some(bounds) = bounds {
        declared = declared.bounded(bounds);
    }
    let mut add = |source: &str| {
        let is_source = !source.trim().is_empty();
        is_source.then(|| {
            sources.list.push((source.to_owned(), declared.clone()));
            sources.list.len() - 1
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
