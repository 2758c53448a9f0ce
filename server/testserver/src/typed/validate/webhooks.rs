//! Configurations of admission webhooks.

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::names;
use serde_json::{Value, json};

use crate::hooks::conditions;
use crate::kinds::client_config::{REVIEWS, check_client, check_review_versions};
use crate::typed::{items, rules, text};

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

pub(super) fn check(configuration: &Value, errors: &mut Vec<FieldError>) {
    let mut names: Vec<&str> = Vec::new();
    for (index, webhook) in items(configuration, "/webhooks") {
        let at = format!("webhooks[{index}]");
        check_webhook(webhook, &at, errors);
        let versions = strings(webhook, "/admissionReviewVersions");
        let missing = format!("must specify one of {}", REVIEWS.join(", "));
        let field = format!("{at}.admissionReviewVersions");
        check_review_versions(&versions, &missing, &field, errors);
        let name = text(webhook, "/name");
        if !name.is_empty() && names.contains(&name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), name));
        }
        names.push(name);
    }
}

fn check_webhook(webhook: &Value, at: &str, errors: &mut Vec<FieldError>) {
    check_name(text(webhook, "/name"), &format!("{at}.name"), errors);
    for (index, rule) in items(webhook, "/rules") {
        check_rule(rule, &format!("{at}.rules[{index}]"), errors);
    }
    let mut one_of = |field: &str, supported: &[&str]| {
        if let Some(value) = webhook.get(field).and_then(Value::as_str)
            && !supported.contains(&value)
        {
            errors.push(FieldError::not_supported(
                format!("{at}.{field}"),
                value,
                supported,
            ));
        }
    };
    one_of("failurePolicy", &["Fail", "Ignore"]);
    one_of("matchPolicy", &["Equivalent", "Exact"]);
    one_of("sideEffects", &["None", "NoneOnDryRun"]);
    if webhook.get("sideEffects").is_none_or(Value::is_null) {
        let detail = "must specify one of None, NoneOnDryRun";
        errors.push(FieldError::required(format!("{at}.sideEffects"), detail));
    }
    if let Some(seconds) = webhook.get("timeoutSeconds").and_then(Value::as_i64)
        && !(1..=30).contains(&seconds)
    {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(
            format!("{at}.timeoutSeconds"),
            seconds,
            detail,
        ));
    }
    for field in ["namespaceSelector", "objectSelector"] {
        if let Some(selector) = webhook.get(field) {
            rules::selector(selector, &format!("{at}.{field}"), errors);
        }
    }
    if let Some(policy) = webhook.get("reinvocationPolicy").and_then(Value::as_str)
        && !["IfNeeded", "Never"].contains(&policy)
    {
        let field = format!("{at}.reinvocationPolicy");
        errors.push(FieldError::not_supported(field, policy, &["IfNeeded", "Never"]));
    }
    check_client(&webhook["clientConfig"], &format!("{at}.clientConfig"), errors);
    check_conditions(webhook, &format!("{at}.matchConditions"), errors);
}

/// The most match conditions of a webhook.
const CONDITIONS: usize = 64;

fn check_conditions(webhook: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let count = items(webhook, "/matchConditions").count();
    if count > CONDITIONS {
        errors.push(FieldError::too_many(at, count, CONDITIONS));
    }
    let mut names: Vec<&str> = Vec::new();
    for (index, condition) in items(webhook, "/matchConditions") {
        let at = format!("{at}[{index}]");
        let (name, expression) = (text(condition, "/name"), text(condition, "/expression").trim());
        if expression.is_empty() {
            errors.push(FieldError::required(format!("{at}.expression"), ""));
        } else if let Err(why) = conditions::check(expression) {
            errors.push(FieldError::invalid(format!("{at}.expression"), expression, why));
        }
        let field = format!("{at}.name");
        if name.is_empty() {
            errors.push(FieldError::required(field.as_str(), ""));
            continue;
        }
        for broken in names::label_key(name) {
            errors.push(FieldError::invalid(field.as_str(), name, broken));
        }
        if names.contains(&name) {
            errors.push(FieldError::duplicate(field, name));
        }
        names.push(name);
    }
}

/// Compiles the match conditions of a configuration, which is too slow while a lock of the store is held. The validation finds
/// them compiled.
pub(crate) fn compile_conditions(webhooks: &Value) {
    for (_, webhook) in items(webhooks, "") {
        for (_, condition) in items(webhook, "/matchConditions") {
            let _ = conditions::check(text(condition, "/expression").trim());
        }
    }
}

/// A name with at least three segments.
fn check_name(name: &str, field: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
        return;
    }
    let broken = names::dns_1123_subdomain(name);
    if !broken.is_empty() {
        errors.push(FieldError::invalid(field, name, broken.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(field, name, detail));
    }
}

fn strings<'a>(value: &'a Value, pointer: &str) -> Vec<&'a str> {
    items(value, pointer)
        .filter_map(|(_, item)| item.as_str())
        .collect()
}

fn check_rule(rule: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let list = |field: &str| strings(rule, &format!("/{field}"));
    let wildcard = |list: &[&str]| list.len() > 1 && list.contains(&"*");
    let mut check = |field: &str, what: &str| {
        let values = list(field);
        if values.is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), ""));
        }
        if wildcard(&values) {
            let detail = format!("if '*' is present, must not specify other {what}");
            errors.push(FieldError::invalid(
                format!("{at}.{field}"),
                json!(values),
                detail,
            ));
        }
        for (index, value) in values.iter().enumerate() {
            let field = format!("{at}.{field}[{index}]");
            if what == "operations" && !OPERATIONS.contains(value) {
                errors.push(FieldError::not_supported(field, *value, OPERATIONS));
            } else if what == "API versions" && value.is_empty() {
                errors.push(FieldError::required(field, ""));
            }
        }
    };
    check("operations", "operations");
    check("apiGroups", "API groups");
    check("apiVersions", "API versions");
    check_resources(&list("resources"), &format!("{at}.resources"), errors);
    const SCOPES: &[&str] = &["*", "Cluster", "Namespaced"];
    if let Some(scope) = rule.get("scope").and_then(Value::as_str)
        && !SCOPES.contains(&scope)
    {
        errors.push(FieldError::not_supported(format!("{at}.scope"), scope, SCOPES));
    }
}

fn check_resources(resources: &[&str], at: &str, errors: &mut Vec<FieldError>) {
    if resources.is_empty() {
        errors.push(FieldError::required(at, ""));
    }
    let (mut all_subresources, mut all_resources) = (Vec::new(), Vec::new());
    let mut plain = false;
    for (index, &entry) in resources.iter().enumerate() {
        let field = format!("{at}[{index}]");
        if entry.is_empty() {
            errors.push(FieldError::required(field, ""));
            continue;
        }
        let Some((resource, subresource)) = entry.split_once('/') else {
            plain = entry != "*";
            continue;
        };
        if all_subresources.contains(&resource) {
            let detail = format!("if '{resource}/*' is present, must not specify {entry}");
            errors.push(FieldError::invalid(field.as_str(), entry, detail));
        }
        if all_resources.contains(&subresource) {
            let detail = format!("if '*/{subresource}' is present, must not specify {entry}");
            errors.push(FieldError::invalid(field, entry, detail));
        }
        if subresource == "*" {
            all_subresources.push(resource);
        }
        if resource == "*" {
            all_resources.push(subresource);
        }
    }
    if resources.len() > 1 && resources.contains(&"*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(at, json!(resources), detail));
    }
    if resources.contains(&"*") && plain {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(at, json!(resources), detail));
    }
}
