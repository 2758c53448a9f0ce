//! Validates the rules of a definition.

use std::cmp::Reverse;

use kube_api_protocol::field_error::FieldError;
use serde_json::{Value, json};

use super::super::field;
use super::paths::normalize;
use super::{Level, Rule, Rules};
use kube_cel::Type;

/// The reasons that a rule can give.
const REASONS: &[&str] = &[
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

/// One error for each mistake in the rules of a schema. Compiles them, so do not call it while holding a lock of the
/// server.
///
/// `is_unchanged` says that the definition had this schema before: then only the cost of all its rules is limited.
pub(crate) fn invalid_rules(schema: &Value, path: &str, is_unchanged: bool) -> Vec<FieldError> {
    let rules = Rules::estimate(schema, path);
    let mut found = Found {
        is_unchanged,
        ..Found::default()
    };
    if let Some(root) = &rules.root {
        visit(&rules, root, schema, &mut found);
    }
    // Expressions are compiled only if nothing else is wrong.
    if !found.malformed.is_empty() {
        return found.malformed;
    }
    let mut errors = found.uncompiled;
    if found.total > TOTAL_LIMIT {
        found.expensive.sort_by_key(|(cost, _)| Reverse(*cost));
        for (_, path) in found.expensive.into_iter().take(NAMED) {
            let why =
                "contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema";
            errors.push(FieldError::forbidden(path, why));
        }
        let what = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        errors.push(FieldError::forbidden(
            path,
            exceeded(what, found.total, TOTAL_LIMIT),
        ));
    }
    errors
}

/// The estimated cost of one rule or message, and of all rules of a schema.
const RULE_LIMIT: u64 = 10_000_000;
const TOTAL_LIMIT: u64 = 100_000_000;
/// How many expensive rules are named if their total is too large, and which ones are expensive.
const NAMED: usize = 4;
const EXPENSIVE: u64 = TOTAL_LIMIT / 100;

/// What is wrong with the rules of a schema.
#[derive(Default)]
struct Found {
    is_unchanged: bool,
    malformed: Vec<FieldError>,
    uncompiled: Vec<FieldError>,
    total: u64,
    /// The costs and fields of expensive rules.
    expensive: Vec<(u64, String)>,
}

impl Found {
    /// Adds the cost of an expression, and an error if it is too large by itself.
    fn spend(&mut self, what: &str, field: String, cost: u64) {
        if cost > RULE_LIMIT && !self.is_unchanged {
            let why = exceeded(what, cost, RULE_LIMIT);
            self.uncompiled.push(FieldError::forbidden(field.as_str(), why));
        }
        self.total = self.total.saturating_add(cost);
        if cost >= EXPENSIVE {
            self.expensive.push((cost, field));
        }
    }
}

fn exceeded(what: &str, cost: u64, limit: u64) -> String {
    let factor = cost as f64 / limit as f64;
    let factor = if factor > 100.0 {
        "more than 100x".to_owned()
    } else if factor < 1.5 {
        format!("{factor:.6}x")
    } else {
        format!("{factor:.1}x")
    };
    format!(
        "{what} exceeds budget by factor of {factor} (try simplifying the rule, or adding maxItems, maxProperties, and maxLength \
         where arrays, maps, and strings are declared)"
    )
}

fn visit(rules: &Rules, level: &Level, schema: &Value, found: &mut Found) {
    let below = [
        (level.values.as_deref(), schema.get("additionalProperties")),
        (level.items.as_deref(), schema.get("items")),
    ];
    let properties = level
        .properties
        .iter()
        .map(|(name, level)| (Some(level), field(schema, name)));
    for (level, schema) in below.into_iter().chain(properties) {
        if let (Some(level), Some(schema)) = (level, schema) {
            visit(rules, level, schema, found);
        }
    }
    for (position, rule) in level.rules.iter().enumerate() {
        let path = format!("{}.x-kubernetes-validations[{position}]", level.path);
        form(rule, schema, &path, &mut found.malformed);
        compiled(rules, rule, level, &path, found);
    }
}

fn form(rule: &Rule, schema: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let has_line_breaks = |text: &str| text.contains(['\n', '\r']);
    let (text, message) = (rule.rule.trim(), rule.message.trim());
    if text.is_empty() {
        errors.push(FieldError::required(
            format!("{path}.rule"),
            "rule is not specified",
        ));
    } else if !rule.message.is_empty() && message.is_empty() {
        let field = format!("{path}.message");
        errors.push(FieldError::invalid(
            field,
            rule.message.as_str(),
            "must be non-empty if specified",
        ));
    } else if has_line_breaks(message) {
        let field = format!("{path}.message");
        errors.push(FieldError::invalid(
            field,
            rule.message.as_str(),
            "must not contain line breaks",
        ));
    } else if has_line_breaks(text) && message.is_empty() {
        let why = "message must be specified if rule contains line breaks";
        errors.push(FieldError::required(format!("{path}.message"), why));
    }
    if !rule.message_expression.is_empty() && rule.message_expression.trim().is_empty() {
        let why = "messageExpression must be non-empty if specified";
        errors.push(FieldError::required(format!("{path}.messageExpression"), why));
    }
    if let Some(reason) = rule.reason.as_deref().filter(|reason| !REASONS.contains(reason)) {
        errors.push(FieldError::not_supported(
            format!("{path}.reason"),
            reason,
            REASONS,
        ));
    }
    let field_path = rule.field_path.as_str();
    let mut refuse =
        |why: &str| errors.push(FieldError::invalid(format!("{path}.fieldPath"), field_path, why));
    if !field_path.is_empty() {
        if field_path.trim().is_empty() {
            refuse("must be non-empty if specified");
        }
        if has_line_breaks(field_path) {
            refuse("must not contain line breaks");
        }
        if normalize(field_path, schema).is_none() {
            refuse("must be a valid path");
        }
    }
}

fn compiled(rules: &Rules, rule: &Rule, level: &Level, path: &str, found: &mut Found) {
    let Some(program) = rules.program(rule.program) else {
        return;
    };
    if let Ok(program) = program
        && *program.output() == Type::Bool
    {
        let cost = program.estimated_cost().saturating_mul(level.cardinality);
        found.spend("estimated rule cost", format!("{path}.rule"), cost);
    }
    let refuse = |name: &str, why: String| {
        FieldError::invalid(
            format!("{path}.{name}"),
            Value::Null,
            format!("{}: {why}", shown(rule)),
        )
        .without_value()
    };
    let errors = &mut found.uncompiled;
    match program {
        Err(error) => errors.push(refuse("rule", format!("compilation failed: {error}"))),
        Ok(program) if *program.output() != Type::Bool => {
            errors.push(refuse(
                "rule",
                "cel expression must evaluate to a bool".to_owned(),
            ));
        }
        // The message of an invalid rule is not compiled.
        Ok(_) => match rules.program(rule.message_program) {
            Some(Err(error)) => {
                let why = format!("messageExpression compilation failed: {error}");
                errors.push(refuse("messageExpression", why));
            }
            Some(Ok(message)) if *message.output() != Type::String => {
                let why = "messageExpression must evaluate to a string";
                errors.push(refuse("messageExpression", why.to_owned()));
            }
            Some(Ok(message)) => found.spend(
                "estimated messageExpression cost",
                format!("{path}.messageExpression"),
                message.estimated_cost(),
            ),
            None => {}
        },
    }
    let errors = &mut found.uncompiled;
    let uses_old = program.as_ref().is_ok_and(|program| program.uses("oldSelf"));
    match (&level.uncorrelated, rule.optional_old) {
        (Some(within), _) if uses_old => {
            let why =
                format!("oldSelf cannot be used on the uncorrelatable portion of the schema within {within}");
            errors.push(FieldError::invalid(
                format!("{path}.rule"),
                rule.rule.as_str(),
                why,
            ));
        }
        (_, Some(optional)) if !uses_old => {
            let why = "may not be set if oldSelf is not used in rule";
            errors.push(FieldError::invalid(
                format!("{path}.optionalOldSelf"),
                optional,
                why,
            ));
        }
        _ => {}
    }
}

/// A rule as a real server shows it: its Go struct as JSON.
fn shown(rule: &Rule) -> String {
    let fields = [
        ("Rule", json!(rule.rule)),
        ("Message", json!(rule.message)),
        ("MessageExpression", json!(rule.message_expression)),
        ("Reason", json!(rule.reason)),
        ("FieldPath", json!(rule.field_path)),
        ("OptionalOldSelf", json!(rule.optional_old)),
    ];
    let fields: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    // Go escapes these letters for HTML.
    format!("{{{}}}", fields.join(","))
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}
