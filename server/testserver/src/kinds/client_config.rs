//! Checks of the endpoints of webhooks, in admission configurations and in definitions.

use http::Uri;
use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::names;
use serde_json::{Value, json};

use crate::fields::text;

/// The versions of reviews that a server sends.
pub(crate) const REVIEWS: &[&str] = &["v1", "v1beta1"];

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
