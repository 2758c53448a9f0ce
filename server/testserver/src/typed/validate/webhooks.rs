//! Configurations of admission webhooks.

use http::Uri;
use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::names;
use serde_json::{Value, json};

use crate::typed::{items, rules, text};
use crate::webhooks::conditions;

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
const REVIEWS: &[&str] = &["v1", "v1beta1"];

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

/// The endpoint of a webhook: a URL or a service.
pub(crate) fn check_client(config: &Value, at: &str, errors: &mut Vec<FieldError>) {
    match (config["url"].as_str(), config.get("service")) {
        (Some(url), None) => check_url(url, &format!("{at}.url"), errors),
        (None, Some(service)) => check_service(service, &format!("{at}.service"), errors),
        _ => errors.push(FieldError::required(
            at,
            "exactly one of url or service is required",
        )),
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

/// The versions of reviews that an endpoint accepts; `missing` explains that there must be one.
pub(crate) fn check_review_versions(
    versions: &[&str],
    missing: &str,
    field: &str,
    errors: &mut Vec<FieldError>,
) {
    if versions.is_empty() {
        errors.push(FieldError::required(field, missing));
        return;
    }
    for (index, version) in versions.iter().enumerate() {
        let field = format!("{field}[{index}]");
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(field, *version, "duplicate version"));
            continue;
        }
        for broken in names::dns_1035_label(version) {
            errors.push(FieldError::invalid(field.as_str(), *version, broken));
        }
    }
    if !versions.iter().any(|version| REVIEWS.contains(version)) {
        let detail = format!("must include at least one of {}", REVIEWS.join(", "));
        errors.push(FieldError::invalid(field, json!(versions), detail));
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

fn check_url(url: &str, field: &str, errors: &mut Vec<FieldError>) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (rest, fragment) = url.split_once('#').unwrap_or((url, ""));
    let scheme = rest.split_once("://").map_or("", |(scheme, _)| scheme);
    // Without a host it cannot be parsed.
    let parsed = rest.parse::<Uri>().ok();
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        errors.push(FieldError::invalid(field, scheme, detail));
    }
    let host = parsed.as_ref().and_then(Uri::host).unwrap_or_default();
    if host.is_empty() {
        let detail = format!("host must be specified{FORM}");
        errors.push(FieldError::invalid(field, "", detail));
    }
    let authority = parsed.as_ref().and_then(Uri::authority);
    if let Some((user, _)) = authority.and_then(|authority| authority.as_str().rsplit_once('@')) {
        let detail = "user information is not permitted in the URL";
        errors.push(FieldError::invalid(field, user, detail));
    }
    if !fragment.is_empty() {
        let detail = "fragments are not permitted in the URL";
        errors.push(FieldError::invalid(field, fragment, detail));
    }
    if let Some(query) = parsed
        .as_ref()
        .and_then(Uri::query)
        .filter(|query| !query.is_empty())
    {
        let detail = "query parameters are not permitted in the URL";
        errors.push(FieldError::invalid(field, query, detail));
    }
}

fn check_service(service: &Value, at: &str, errors: &mut Vec<FieldError>) {
    // A real server confuses the two, and so reports the other one as missing.
    for (field, checked) in [("name", "/namespace"), ("namespace", "/name")] {
        if text(service, checked).is_empty() {
            errors.push(FieldError::required(format!("{at}.{field}"), ""));
        }
    }
    if let Some(port) = service.get("port").and_then(Value::as_i64)
        && !(1..=65535).contains(&port)
    {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(format!("{at}.port"), port, detail));
    }
    let path = text(service, "/path");
    let field = format!("{at}.path");
    match path {
        "" | "/" => return,
        "//" => {
            errors.push(FieldError::invalid(field, path, "segment[0] may not be empty"));
            return;
        }
        _ => {}
    }
    if !path.starts_with('/') {
        errors.push(FieldError::invalid(field.as_str(), path, "must start with a '/'"));
    }
    // The first character is taken for the slash.
    let mut characters = path.chars();
    characters.next();
    let checked = characters.as_str();
    let checked = checked.strip_suffix('/').unwrap_or(checked);
    for (index, segment) in checked.split('/').enumerate() {
        if segment.is_empty() {
            let detail = format!("segment[{index}] may not be empty");
            errors.push(FieldError::invalid(field.as_str(), path, detail));
            continue;
        }
        for broken in names::dns_1123_subdomain(segment) {
            let detail = format!("segment[{index}]: {broken}");
            errors.push(FieldError::invalid(field.as_str(), path, detail));
        }
    }
}
