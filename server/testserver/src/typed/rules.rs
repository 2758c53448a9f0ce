//! Applies the rules of `rules.txt`.

use std::collections::HashMap;
use std::sync::OnceLock;

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::names;
use kube_protobuf::schema::{self, Message};
use serde_json::{Value, json};

use super::internal::quoted;
use super::{quantity, table};

#[derive(Debug)]
struct Row {
    path: &'static str,
    rules: Vec<Rule>,
}

#[derive(Debug)]
enum Rule {
    Required,
    OneOf(Vec<&'static str>),
    Label,
    Subdomain,
    PortName,
    Port,
    Count,
    Positive,
    AboveZero,
    Percent,
    Quantities,
    Selector,
    EnvName,
    DataKeys,
    Range(i64, i64),
}

fn rows() -> &'static HashMap<&'static str, Vec<Row>> {
    static ROWS: OnceLock<HashMap<&'static str, Vec<Row>>> = OnceLock::new();
    ROWS.get_or_init(|| table::parse(include_str!("rules.txt"), Row::parse))
}

impl Row {
    fn parse(line: &'static str) -> Option<Row> {
        let mut words = line.split_whitespace();
        let path = words.next()?;
        let mut rules = Vec::new();
        while let Some(word) = words.next() {
            rules.push(match word {
                "required" => Rule::Required,
                "oneof" => Rule::OneOf(words.by_ref().collect()),
                "label" => Rule::Label,
                "subdomain" => Rule::Subdomain,
                "portname" => Rule::PortName,
                "port" => Rule::Port,
                "count" => Rule::Count,
                "positive" => Rule::Positive,
                "abovezero" => Rule::AboveZero,
                "percent" => Rule::Percent,
                "quantities" => Rule::Quantities,
                "selector" => Rule::Selector,
                "envname" => Rule::EnvName,
                "datakeys" => Rule::DataKeys,
                "range" => Rule::Range(words.next()?.parse().ok()?, words.next()?.parse().ok()?),
                _ => return None,
            });
        }
        (!rules.is_empty()).then_some(Row { path, rules })
    }
}

/// The errors of a value of this type.
pub(super) fn check(message: &'static Message, value: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for row in rows().get(message.name()).into_iter().flatten() {
        let field = join(path, row.path);
        let found = table::at(value, row.path);
        for rule in &row.rules {
            let before = errors.len();
            match (rule, found) {
                (Rule::Required, found) if found.is_none_or(is_zero) => {
                    errors.push(FieldError::required(field.as_str(), required_detail(&field)));
                }
                (rule, Some(value)) => rule.check(value, &field, errors),
                (_, None) => {}
            }
            if errors.len() > before {
                break;
            }
        }
    }
}

fn required_detail(field: &str) -> &'static str {
    if field.ends_with("pathType") {
        "pathType must be specified"
    } else if field.ends_with("accessModes")
        && !field.contains("volumeClaimTemplates")
        && field == "spec.accessModes"
    {
        "at least 1 access mode is required"
    } else if field.ends_with("topologyKey") {
        "can not be empty"
    } else {
        ""
    }
}

pub(super) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// Whether the value is Go's zero value, which counts as missing.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) => false,
    }
}

impl Rule {
    fn check(&self, value: &Value, field: &str, errors: &mut Vec<FieldError>) {
        let text = value.as_str().unwrap_or_default();
        let mut invalid = |why: String| errors.push(FieldError::invalid(field, value.clone(), why));
        match self {
            Rule::Required => {}
            Rule::OneOf(allowed) => {
                if !allowed.contains(&text) {
                    errors.push(FieldError::not_supported(field, text, allowed));
                }
            }
            Rule::Label => names::dns_1123_label(text).into_iter().for_each(invalid),
            Rule::Subdomain => names::dns_1123_subdomain(text).into_iter().for_each(invalid),
            Rule::PortName => port_name_errors(text).into_iter().for_each(invalid),
            Rule::Port => match value {
                Value::String(name) => port_name_errors(name).into_iter().for_each(invalid),
                _ => {
                    if !value.as_i64().is_some_and(|port| (1..=65535).contains(&port)) {
                        invalid("must be between 1 and 65535, inclusive".into());
                    }
                }
            },
            Rule::Count => {
                if value.as_f64().is_some_and(|number| number < 0.0) {
                    invalid("must be greater than or equal to 0".into());
                }
            }
            Rule::Positive => {
                if value.as_f64().is_some_and(|number| number <= 0.0) {
                    invalid("must be greater than 0".into());
                }
            }
            Rule::AboveZero => {
                if value.as_f64().is_some_and(|number| number <= 0.0) {
                    invalid("must be greater than zero".into());
                }
            }
            Rule::Percent => match value {
                Value::String(text) => {
                    let digits = text.strip_suffix('%').unwrap_or_default();
                    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                        invalid(
                            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
                             '93%', regex used for validation is '[0-9]+%')"
                                .into(),
                        );
                    }
                }
                _ => {
                    if value.as_i64().is_some_and(|number| number < 0) {
                        invalid("must be greater than or equal to 0".into());
                    }
                }
            },
            Rule::Quantities => {
                for (name, quantity) in value.as_object().into_iter().flatten() {
                    if quantity::is_negative(quantity) {
                        let detail = "must be greater than or equal to 0";
                        errors.push(FieldError::invalid(
                            format!("{field}[{name}]"),
                            quantity.clone(),
                            detail,
                        ));
                    }
                }
            }
            Rule::Selector => selector(value, field, errors),
            Rule::EnvName => {
                let printable = |c: char| (' '..='~').contains(&c) && c != '=';
                if !text.chars().all(printable) {
                    invalid(
                        "a valid environment variable name must consist only of printable ASCII characters other than \
                         '='"
                        .into(),
                    );
                }
            }
            Rule::DataKeys => {
                for key in value.as_object().into_iter().flatten().map(|(key, _)| key) {
                    for broken in data_key(key) {
                        errors.push(FieldError::invalid(
                            format!("{field}[{key}]"),
                            key.as_str(),
                            broken,
                        ));
                    }
                }
            }
            Rule::Range(low, high) => {
                if !value
                    .as_i64()
                    .is_some_and(|number| (*low..=*high).contains(&number))
                {
                    let why = format!("must be between {low} and {high}, inclusive");
                    invalid(why);
                }
            }
        }
    }
}

fn port_name_errors(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.is_empty() || name.len() > 15 {
        errors.push("must be no more than 15 characters".to_owned());
    }
    if !name
        .bytes()
        .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}

fn data_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if key.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || !key.bytes().all(fits) {
        errors.push(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or \
             'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
                .to_owned(),
        );
    }
    if key == "." || key == ".." {
        errors.push(format!("must not be '{key}'"));
    } else if key.starts_with("..") {
        errors.push("must not start with '..'".to_owned());
    }
    errors
}

/// Validates a label selector.
pub(super) fn selector(value: &Value, field: &str, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    for (key, value) in value
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        let at = join(field, "matchLabels");
        for broken in names::label_key(key) {
            errors.push(FieldError::invalid(at.as_str(), key.as_str(), broken));
        }
        let value = value.as_str().unwrap_or_default();
        for broken in names::label_value(value) {
            errors.push(FieldError::invalid(at.as_str(), value, broken));
        }
    }
    for (index, expression) in super::items(value, "/matchExpressions") {
        let at = join(field, &format!("matchExpressions[{index}]"));
        let values = expression
            .get("values")
            .and_then(Value::as_array)
            .map_or(0, Vec::len);
        match super::text(expression, "/operator") {
            "In" | "NotIn" if values == 0 => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.push(FieldError::required(format!("{at}.values"), detail));
            }
            "Exists" | "DoesNotExist" if values > 0 => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.push(FieldError::forbidden(format!("{at}.values"), detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => {
                errors.push(FieldError::invalid(
                    format!("{at}.operator"),
                    json!(other),
                    "not a valid selector operator",
                ));
            }
        }
        let key = super::text(expression, "/key");
        for broken in names::label_key(key) {
            errors.push(FieldError::invalid(format!("{at}.key"), key, broken));
        }
    }
    if errors.len() > before && field == "spec.selector" {
        let shown = quoted(schema::lookup("apps/v1", "Deployment"), "spec.selector", value);
        errors.push(FieldError::invalid(field, value.clone(), "invalid label selector").showing(shown));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_can_be_read() {
        assert!(rows().len() > 40);
        assert!(rows().contains_key("core.v1.Container"));
    }
}
