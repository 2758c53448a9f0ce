//! Evaluates the rules of a schema for one object, with the errors of a real server.

use std::collections::BTreeMap;

use kube_api_protocol::field_error::FieldError;
use serde_json::{Map, Value as Json};

use super::super::{field, schema_type};
use super::paths::normalize;
use super::types::{list_keys, value_of};
use super::{Level, Rule, Rules, Violations};
use kube_cel::{Expression, Failure, Value};

/// The limits of a real server: for one expression, and for all rules of an object together.
const CALL_LIMIT: u64 = 1_000_000;
const BUDGET: u64 = 10_000_000;
/// The size of a computed message.
const LONGEST_MESSAGE: usize = 5 * 1024;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

pub(super) fn run(
    rules: &Rules,
    root: &Level,
    schema: &Json,
    object: &Map<String, Json>,
    old: Option<&Map<String, Json>>,
) -> Violations {
    let (object, old) = (
        Json::Object(named(object.clone())),
        old.cloned().map(Json::Object),
    );
    let mut run = Run {
        rules,
        left: BUDGET,
        found: Violations::default(),
    };
    let place = Place {
        path: String::new(),
        old: old.as_ref(),
        ancestor: None,
    };
    // The errors are in the list; whether it is complete does not matter here.
    let _ = run.visit(root, schema, &object, &place);
    run.found
}

/// The object with a name: a generated one is chosen later, when the object is stored.
fn named(mut object: Map<String, Json>) -> Map<String, Json> {
    if let Some(Json::Object(metadata)) = object.get_mut("metadata")
        && !metadata.contains_key("name")
        && let Some(base) = metadata.get("generateName").and_then(Json::as_str)
    {
        let name = format!("{base}xxxxx");
        metadata.insert("name".to_owned(), name.into());
    }
    object
}

struct Run<'a> {
    rules: &'a Rules,
    /// What is left of the budget.
    left: u64,
    found: Violations,
}

/// No further rules are evaluated.
struct Stop;

/// A position in the object.
struct Place<'a> {
    path: String,
    /// The value that is replaced; `None` if there is none, or if it cannot be found.
    old: Option<&'a Json>,
    /// The nearest value around this one that replaces another one: the new one and the old one.
    ancestor: Option<(&'a Json, &'a Json)>,
}

impl<'a> Place<'a> {
    /// Below `value`, which is at this place.
    fn below(&self, value: &'a Json, path: String, old: Option<&'a Json>) -> Place<'a> {
        Place {
            path,
            old,
            ancestor: self.old.map(|old| (value, old)).or(self.ancestor),
        }
    }

    fn field(&self, value: &'a Json, name: &str, is_property: bool) -> Place<'a> {
        let path = match (self.path.as_str(), is_property) {
            ("", true) => name.to_owned(),
            (path, true) => format!("{path}.{name}"),
            (path, false) => format!("{path}[{name}]"),
        };
        self.below(value, path, self.old.and_then(|old| old.get(name)))
    }

    /// The path as errors show it.
    fn shown(&self) -> &str {
        match self.path.as_str() {
            "" => "<nil>",
            path => path,
        }
    }

    /// Whether the value is the one that was stored before.
    fn is_unchanged(&self, value: &Json) -> bool {
        match (self.old, self.ancestor) {
            (Some(old), _) => old == value,
            (None, Some((new, old))) => new == old,
            (None, None) => false,
        }
    }
}

impl Run<'_> {
    fn visit(&mut self, level: &Level, schema: &Json, value: &Json, place: &Place<'_>) -> Result<(), Stop> {
        if value.is_null() {
            return Ok(());
        }
        self.evaluate(level, schema, value, place)?;
        match value {
            Json::Array(items) => self.visit_items(level, schema, value, items, place),
            Json::Object(fields) => {
                if let Some(below) = &level.values {
                    for (name, inner) in fields {
                        if let Some(schema) = field(schema, name) {
                            self.visit(below, schema, inner, &place.field(value, name, false))?;
                        }
                    }
                }
                for (name, below) in &level.properties {
                    if let (Some(inner), Some(schema)) = (fields.get(name), field(schema, name)) {
                        self.visit(below, schema, inner, &place.field(value, name, true))?;
                    }
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn visit_items(
        &mut self,
        level: &Level,
        schema: &Json,
        value: &Json,
        items: &[Json],
        place: &Place<'_>,
    ) -> Result<(), Stop> {
        let (Some(below), Some(item_schema)) = (&level.items, schema.get("items")) else {
            return Ok(());
        };
        let replaced = Keyed::new(schema, place.old);
        for (position, item) in items.iter().enumerate() {
            let path = format!("{}[{position}]", place.path);
            self.visit(
                below,
                item_schema,
                item,
                &place.below(value, path, replaced.get(item)),
            )?;
        }
        Ok(())
    }

    fn evaluate(
        &mut self,
        level: &Level,
        schema: &Json,
        value: &Json,
        place: &Place<'_>,
    ) -> Result<(), Stop> {
        if level.rules.is_empty() {
            return Ok(());
        }
        if self.left == 0 {
            return self.stop(schema, place, OUT_OF_BUDGET.to_owned());
        }
        let (new, old) = (
            value_of(schema, value),
            place.old.map(|old| value_of(schema, old)),
        );
        for rule in &level.rules {
            let program = match self.rules.program(rule.program) {
                Some(Ok(program)) => program,
                Some(Err(error)) => {
                    let why = format!("rule compile error: compilation failed: {error}");
                    self.refuse(schema, place, why);
                    continue;
                }
                None => continue,
            };
            let is_optional = rule.optional_old == Some(true);
            let is_transition = program.uses("oldSelf");
            if is_transition && old.is_none() && !is_optional {
                continue;
            }
            let mut variables = vec![("self", new.clone())];
            match (&old, is_optional) {
                (old, true) => variables.push(("oldSelf", Value::Optional(old.clone().map(Into::into)))),
                (Some(old), false) => variables.push(("oldSelf", old.clone())),
                (None, false) => {}
            }
            match self.result(program, rule, &variables, schema, place)? {
                None | Some(true) => {}
                Some(false) => {
                    let detail = self.message(rule, &variables, schema, place)?;
                    let violation = violation(rule, schema, value, place, detail);
                    if is_transition || !place.is_unchanged(value) {
                        self.found.errors.push(violation);
                    } else {
                        self.found.kept.push(violation);
                    }
                }
            }
        }
        Ok(())
    }

    /// Evaluates one expression; its cost is spent.
    fn spend(&mut self, program: &Expression, variables: &[(&str, Value)]) -> (Result<Value, Failure>, bool) {
        let (value, cost) = program.evaluate(variables, CALL_LIMIT);
        let affordable = cost <= self.left;
        self.left = self.left.saturating_sub(cost);
        (value, affordable)
    }

    /// Whether a rule holds; `None` if it cannot be evaluated, which was reported.
    fn result(
        &mut self,
        program: &Expression,
        rule: &Rule,
        variables: &[(&str, Value)],
        schema: &Json,
        place: &Place<'_>,
    ) -> Result<Option<bool>, Stop> {
        let (value, affordable) = self.spend(program, variables);
        if !affordable {
            self.stop(schema, place, OUT_OF_BUDGET.to_owned())?;
        }
        let rule = rule.name();
        match value {
            Ok(value) => Ok(Some(value == Value::Bool(true))),
            Err(Failure::OutOfBudget) => {
                let why = format!(
                    "'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to \
                     call cost exceeds limit for rule: {rule}"
                );
                self.stop(schema, place, why).map(|()| None)
            }
            Err(Failure::Error { message: error, .. }) if error.starts_with("no such overload") => {
                let why = format!(
                    "'{error}': call arguments did not match a supported operator, function or macro signature for \
                     rule: {rule}"
                );
                self.refuse(schema, place, why);
                Ok(None)
            }
            Err(Failure::Error { message: error, .. }) => {
                self.refuse(schema, place, format!("{error} evaluating rule: {rule}"));
                Ok(None)
            }
        }
    }

    /// The message of a broken rule: the computed one, if there is one and it can be computed.
    fn message(
        &mut self,
        rule: &Rule,
        variables: &[(&str, Value)],
        schema: &Json,
        place: &Place<'_>,
    ) -> Result<String, Stop> {
        if let Some(Ok(program)) = self.rules.program(rule.message_program) {
            let (value, affordable) = self.spend(program, variables);
            if !affordable {
                let why = "messageExpression evaluation failed due to running out of cost budget, no further validation \
                           rules will be run";
                self.stop(schema, place, why.to_owned())?;
            }
            match value {
                Ok(Value::String(text)) => {
                    let text = text.trim();
                    if !text.is_empty() && text.len() <= LONGEST_MESSAGE && !text.contains('\n') {
                        return Ok(text.to_owned());
                    }
                }
                Err(Failure::OutOfBudget) => {
                    let why = format!(
                        "no further validation rules will be run due to call cost exceeds limit for messageExpression: \
                         {:?}",
                        rule.message_expression
                    );
                    self.stop(schema, place, why)?;
                }
                _ => {}
            }
        }
        Ok(match rule.message.trim() {
            "" => format!("failed rule: {}", rule.name()),
            message => message.to_owned(),
        })
    }

    fn refuse(&mut self, schema: &Json, place: &Place<'_>, why: String) {
        let kind = schema_type(schema).unwrap_or_default();
        self.found
            .errors
            .push(FieldError::invalid(place.shown(), kind, why));
    }

    fn stop(&mut self, schema: &Json, place: &Place<'_>, why: String) -> Result<(), Stop> {
        self.refuse(schema, place, why);
        Err(Stop)
    }
}

impl Rule {
    /// How errors name the rule.
    fn name(&self) -> &str {
        match self.message.trim() {
            "" => self.rule.trim(),
            message => message,
        }
    }
}

fn violation(rule: &Rule, schema: &Json, value: &Json, place: &Place<'_>, detail: String) -> FieldError {
    let below = normalize(&rule.field_path, schema).filter(|path| !path.is_empty());
    let path = match (place.path.as_str(), below) {
        ("", Some(below)) => below,
        (path, Some(below)) => format!("{path}.{below}"),
        (_, None) => place.shown().to_owned(),
    };
    let is_scalar = !matches!(schema_type(schema), Some("object" | "array"));
    let shown = |error: FieldError| if is_scalar { error } else { error.without_value() };
    match rule.reason.as_deref() {
        Some("FieldValueForbidden") => FieldError::forbidden(path, detail),
        Some("FieldValueRequired") => FieldError::required(path, detail),
        Some("FieldValueDuplicate") => shown(FieldError::duplicate(path, value.clone())),
        _ => shown(FieldError::invalid(path, value.clone(), detail)),
    }
}

/// The elements of the old list by their keys. Elements of lists without keys cannot be found again.
struct Keyed<'a> {
    keys: Vec<&'a str>,
    items: BTreeMap<String, &'a Json>,
}

impl<'a> Keyed<'a> {
    fn new(schema: &'a Json, old: Option<&'a Json>) -> Keyed<'a> {
        let is_keyed = schema.get("x-kubernetes-list-type").and_then(Json::as_str) == Some("map");
        let mut keyed = Keyed {
            keys: list_keys(schema).filter(|_| is_keyed).collect(),
            items: BTreeMap::new(),
        };
        for item in old.and_then(Json::as_array).into_iter().flatten() {
            if let Some(key) = keyed.key(item) {
                keyed.items.entry(key).or_insert(item);
            }
        }
        keyed
    }

    fn get(&self, item: &Json) -> Option<&'a Json> {
        self.items.get(&self.key(item)?).copied()
    }

    /// The values of an element that identify it, as text.
    fn key(&self, item: &Json) -> Option<String> {
        if self.keys.is_empty() {
            return None;
        }
        let part = |key: &&str| {
            let value = item.get(*key)?;
            let is_scalar = value.is_string() || value.is_number() || value.is_boolean();
            is_scalar.then(|| value.to_string())
        };
        let parts: Option<Vec<String>> = self.keys.iter().map(part).collect();
        parts.map(|parts| parts.join("\0"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(spec: Json) -> Json {
        json!({ "type": "object", "properties": { "spec": spec } })
    }

    fn check(schema: &Json, spec: Json, old: Option<Json>) -> Vec<String> {
        let object = |spec: Json| json!({ "spec": spec }).as_object().cloned().unwrap();
        let rules = Rules::compile(schema, "schema");
        let (object, old) = (object(spec), old.map(object));
        let errors = rules.check(schema, &object, old.as_ref(), &[]).errors;
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn transition_rules_are_evaluated_for_values_that_can_be_compared() {
        let fixed = json!([{ "rule": "self == oldSelf", "message": "is fixed" }]);
        let item = json!({ "type": "object", "properties": {
            "k": { "type": "string" }, "v": { "type": "integer", "x-kubernetes-validations": fixed },
        } });
        let schema = schema(json!({ "type": "object", "properties": {
            "size": { "type": "integer", "x-kubernetes-validations": fixed },
            "keyed": { "type": "array", "items": item, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"] },
            "counts": { "type": "object", "additionalProperties": { "type": "integer", "x-kubernetes-validations": fixed } },
        } }));
        let none: [&str; 0] = [];
        assert_eq!(check(&schema, json!({ "size": 1 }), None), none);
        assert_eq!(check(&schema, json!({ "size": 1 }), Some(json!({}))), none);
        assert_eq!(check(&schema, json!({}), Some(json!({ "size": 1 }))), none);
        assert_eq!(
            check(&schema, json!({ "size": 2 }), Some(json!({ "size": 1 }))),
            ["spec.size: Invalid value: 2: is fixed"]
        );
        let old = json!({ "keyed": [{ "k": "a", "v": 1 }, { "k": "b", "v": 2 }], "counts": { "x": 1 } });
        let new = json!({ "keyed": [{ "k": "b", "v": 3 }, { "k": "a", "v": 1 }, { "k": "c", "v": 9 }], "counts": { "x": 2, "y": 1 } });
        assert_eq!(
            check(&schema, new, Some(old)),
            [
                "spec.counts[x]: Invalid value: 2: is fixed",
                "spec.keyed[0].v: Invalid value: 3: is fixed"
            ]
        );
    }

    #[test]
    fn optional_old_values_are_seen_by_creations_too() {
        let rule = "oldSelf.hasValue() ? self >= oldSelf.value() : self == 1";
        let schema = schema(
            json!({ "type": "object", "properties": { "size": { "type": "integer",
            "x-kubernetes-validations": [{ "rule": rule, "optionalOldSelf": true, "messageExpression": "'not %d'.format([self])" }] } } }),
        );
        assert_eq!(
            check(&schema, json!({ "size": 2 }), None),
            ["spec.size: Invalid value: 2: not 2"]
        );
        assert_eq!(
            check(&schema, json!({ "size": 2 }), Some(json!({ "size": 1 }))),
            [] as [&str; 0]
        );
        assert_eq!(
            check(&schema, json!({ "size": 1 }), Some(json!({ "size": 3 }))),
            ["spec.size: Invalid value: 1: not 1"]
        );
    }

    #[test]
    fn unchanged_values_that_break_a_rule_are_kept() {
        let schema = schema(json!({ "type": "object", "properties": {
            "size": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self < 5" }] },
            "list": { "type": "array", "items": { "type": "integer", "x-kubernetes-validations": [{ "rule": "self < 5" }] } },
            "other": { "type": "integer" },
        } }));
        let old = json!({ "size": 9, "list": [9], "other": 1 });
        assert_eq!(
            check(
                &schema,
                json!({ "size": 9, "list": [9], "other": 2 }),
                Some(old.clone())
            ),
            [] as [&str; 0]
        );
        assert_eq!(
            check(
                &schema,
                json!({ "size": 8, "list": [9, 1], "other": 2 }),
                Some(old)
            ),
            [
                "spec.list[0]: Invalid value: 9: failed rule: self < 5",
                "spec.size: Invalid value: 8: failed rule: self < 5"
            ]
        );
    }

    #[test]
    fn the_budget_of_an_object_ends_its_validation() {
        let costly = "self.all(a, self.all(b, a == b || true))";
        let schema = schema(json!({ "type": "object", "properties": {
            "lists": { "type": "array", "items": { "type": "array", "items": { "type": "integer" },
                "x-kubernetes-validations": [{ "rule": costly }] } },
        } }));
        let list: Vec<u32> = (0..300).collect();
        let errors = check(&schema, json!({ "lists": vec![list; 60] }), None);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].contains("running out of cost budget"), "{errors:?}");
        let list: Vec<u32> = (0..2000).collect();
        let errors = check(&schema, json!({ "lists": [list] }), None);
        assert!(
            errors[0].contains("call cost exceeds limit for rule"),
            "{errors:?}"
        );
    }
}
