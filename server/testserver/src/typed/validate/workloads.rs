//! Deployments, replica sets, stateful sets, daemon sets, replication controllers, jobs and cron jobs.

use std::collections::HashMap;
use std::sync::OnceLock;

use kube_api_protocol::field_error::FieldError;
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::typed::internal::quoted;
use crate::typed::{rules, table, text};

/// The workloads of `apps`.
pub(super) fn check(kind: &Kind, object: &Value, errors: &mut Vec<FieldError>) {
    if !matches!(
        kind.kind.as_str(),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet"
    ) {
        return;
    }
    let mut found = Vec::new();
    check_selector(kind, object, &mut found);
    let policy = text(object, "/spec/template/spec/restartPolicy");
    if !matches!(policy, "" | "Always") {
        found.push(FieldError::not_supported(
            "spec.template.spec.restartPolicy",
            policy,
            &["Always"],
        ));
    }
    let deadline = object.pointer("/spec/template/spec/activeDeadlineSeconds");
    if deadline.is_some_and(|deadline| !deadline.is_null()) {
        let detail = format!("activeDeadlineSeconds in {} is not Supported", kind.kind);
        found.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            detail,
        ));
    }
    let strategies: Option<(&str, &[&str])> = match kind.kind.as_str() {
        "Deployment" => Some(("strategy", &["Recreate", "RollingUpdate"])),
        "DaemonSet" => Some(("updateStrategy", &["RollingUpdate", "OnDelete"])),
        _ => None,
    };
    if let Some((field, supported)) = strategies {
        let strategy = object.pointer(&format!("/spec/{field}")).unwrap_or(&Value::Null);
        if !supported.contains(&text(strategy, "/type")) {
            let field = format!("spec.{field}");
            let shown = quoted(kind.message(), &field, strategy);
            found.push(FieldError::not_supported(field, strategy.clone(), supported).showing(shown));
        }
    }
    if kind.kind == "Deployment" {
        check_strategy(object, &mut found);
        let number = |name: &str| {
            object
                .pointer(&format!("/spec/{name}"))
                .and_then(Value::as_i64)
                .unwrap_or(0)
        };
        let deadline = number("progressDeadlineSeconds");
        if (0..=number("minReadySeconds")).contains(&deadline) {
            let detail = "must be greater than minReadySeconds";
            found.push(FieldError::invalid(
                "spec.progressDeadlineSeconds",
                deadline,
                detail,
            ));
        }
    }
    let management = text(object, "/spec/podManagementPolicy");
    if kind.kind == "StatefulSet" && !matches!(management, "OrderedReady" | "Parallel") {
        let detail = "must be 'OrderedReady' or 'Parallel'";
        found.push(FieldError::invalid(
            "spec.podManagementPolicy",
            management,
            detail,
        ));
    }
    // The selector comes first in the message of a real server.
    found.append(errors);
    *errors = found;
}

fn check_selector(kind: &Kind, object: &Value, errors: &mut Vec<FieldError>) {
    let Some(selector) = object
        .pointer("/spec/selector")
        .filter(|selector| !selector.is_null())
    else {
        errors.push(FieldError::required("spec.selector", ""));
        let empty = Value::Null;
        let labels = object.pointer("/spec/template/metadata/labels").unwrap_or(&empty);
        errors.push(mismatch(labels));
        return;
    };
    let before = errors.len();
    rules::selector(selector, "spec.selector", errors);
    if errors.len() > before {
        return;
    }
    let is_empty = ["matchLabels", "matchExpressions"].iter().all(|field| {
        selector
            .get(field)
            .is_none_or(|value| value == &json!({}) || value == &json!([]))
    });
    if is_empty {
        let kind = kind.kind.to_lowercase();
        let detail = format!("empty selector is invalid for {kind}");
        errors.push(FieldError::invalid("spec.selector", selector.clone(), detail));
        return;
    }
    let labels = object
        .pointer("/spec/template/metadata/labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    if !selects(selector, &labels) {
        errors.push(mismatch(&labels));
    }
}

fn mismatch(labels: &Value) -> FieldError {
    FieldError::invalid(
        "spec.template.metadata.labels",
        labels.clone(),
        "`selector` does not match template `labels`",
    )
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let exact = selector.get("matchLabels").and_then(Value::as_object);
    let label = |key: &str| labels.get(key).and_then(Value::as_str);
    let exact = exact
        .into_iter()
        .flatten()
        .all(|(key, value)| label(key) == value.as_str());
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    exact
        && expressions.into_iter().flatten().all(|expression| {
            let found = label(text(expression, "/key"));
            let listed = expression
                .get("values")
                .and_then(Value::as_array)
                .is_some_and(|values| {
                    values
                        .iter()
                        .any(|value| value.as_str() == found && found.is_some())
                });
            match text(expression, "/operator") {
                "In" => listed,
                "NotIn" => !listed,
                "Exists" => found.is_some(),
                "DoesNotExist" => found.is_none(),
                _ => true,
            }
        })
}

fn check_strategy(object: &Value, errors: &mut Vec<FieldError>) {
    let rolling = object
        .pointer("/spec/strategy/rollingUpdate")
        .filter(|rolling| rolling.is_object());
    if text(object, "/spec/strategy/type") == "Recreate" && rolling.is_some() {
        let detail = "may not be specified when strategy `type` is 'Recreate'";
        errors.push(FieldError::forbidden("spec.strategy.rollingUpdate", detail));
        return;
    }
    let zero = |name: &str| {
        rolling
            .and_then(|rolling| rolling.get(name))
            .is_some_and(|value| value == &json!(0) || value == "0%")
    };
    if zero("maxUnavailable") && zero("maxSurge") {
        let value = rolling
            .and_then(|rolling| rolling.get("maxUnavailable"))
            .cloned()
            .unwrap_or_default();
        let detail = "may not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(
            "spec.strategy.rollingUpdate.maxUnavailable",
            value,
            detail,
        ));
    }
}

/// A replication controller selects by plain labels.
pub(super) fn check_replication_controller(object: &Value, errors: &mut Vec<FieldError>) {
    let selector = object.pointer("/spec/selector").and_then(Value::as_object);
    if selector.is_none_or(serde_json::Map::is_empty) {
        errors.push(FieldError::required("spec.selector", ""));
    }
    if object.pointer("/spec/template").is_none_or(Value::is_null) {
        errors.push(FieldError::required("spec.template", ""));
        return;
    }
    let labels = object
        .pointer("/spec/template/metadata/labels")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let matches = selector
        .into_iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    if !matches {
        errors.push(mismatch(&labels));
    }
}

/// A job, or the template of one at `path`.
pub(super) fn check_job(object: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let pointer = format!("/{}", path.replace('.', "/"));
    let policy = text(object, &format!("{pointer}/template/spec/restartPolicy"));
    if !matches!(policy, "OnFailure" | "Never") {
        let at = format!("{path}.template.spec.restartPolicy");
        if matches!(policy, "" | "Always") {
            let detail = "valid values: \"OnFailure\", \"Never\"";
            errors.push(FieldError::required(at, detail));
        } else {
            errors.retain(|error| error.field != at);
            errors.push(FieldError::not_supported(at, policy, &["OnFailure", "Never"]));
        }
    }
    let is_manual = object.pointer(&format!("{pointer}/manualSelector")) == Some(&json!(true));
    let selector = object
        .pointer(&format!("{pointer}/selector/matchLabels"))
        .and_then(Value::as_object);
    let generated = |selector: &serde_json::Map<String, Value>| {
        selector.len() == 1 && selector.contains_key("batch.kubernetes.io/controller-uid")
    };
    if let Some(selector) = selector.filter(|selector| !is_manual && !generated(selector)) {
        let value = json!({ "matchLabels": selector });
        errors.push(FieldError::invalid(
            format!("{path}.selector"),
            value,
            "`selector` not auto-generated",
        ));
    }
    // The selector of a template in a cron job is not compared.
    if let Some(selector) = object.pointer("/spec/selector").filter(|_| path == "spec") {
        let labels = object.pointer("/spec/template/metadata/labels");
        let labels = labels.cloned().unwrap_or_else(|| json!({}));
        if !selects(selector, &labels) {
            errors.push(mismatch(&labels));
        }
    }
    if text(object, &format!("{pointer}/completionMode")) == "Indexed"
        && object
            .pointer(&format!("{pointer}/completions"))
            .is_none_or(Value::is_null)
    {
        let detail = "when completion mode is Indexed";
        errors.push(FieldError::required(format!("{path}.completions"), detail));
    }
}

/// A cron job and its schedule.
pub(super) fn check_cron_job(object: &Value, errors: &mut Vec<FieldError>) {
    let schedule = text(object, "/spec/schedule");
    if !schedule.is_empty() {
        if schedule.contains("TZ") {
            let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
            errors.push(FieldError::invalid("spec.schedule", schedule, detail));
        } else if let Some(why) = schedule_error(schedule) {
            errors.push(FieldError::invalid("spec.schedule", schedule, why));
        }
    }
    if let Some(zone) = object.pointer("/spec/timeZone").and_then(Value::as_str) {
        check_time_zone(zone, errors);
    }
    check_job(object, "spec.jobTemplate.spec", errors);
    let name = text(object, "/metadata/name");
    // Jobs append eleven characters to the name.
    if name.len() > 52 {
        errors.push(FieldError::invalid(
            "metadata.name",
            name,
            "must be no more than 52 characters",
        ));
    }
}

fn check_time_zone(zone: &str, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "spec.timeZone";
    static ZONES: OnceLock<HashMap<&str, Vec<Vec<&str>>>> = OnceLock::new();
    if zone.is_empty() {
        let detail = "timeZone must be nil or non-empty string";
        errors.push(FieldError::invalid(FIELD, zone, detail));
        return;
    }
    if zone.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.push(FieldError::invalid(FIELD, zone, detail));
        return;
    }
    let zones = ZONES.get_or_init(|| {
        let names = |line: &'static str| Some(line.split(' ').collect());
        table::parse(include_str!("../zones.txt"), names)
    });
    let (area, name) = zone.rsplit_once('/').unwrap_or((".", zone));
    let known = zones
        .get(area)
        .into_iter()
        .flatten()
        .flatten()
        .any(|known| *known == name);
    if !known {
        errors.push(FieldError::invalid(
            FIELD,
            zone,
            format!("unknown time zone {zone}"),
        ));
    }
}

/// Why a schedule in cron format cannot be parsed, in the words of the parser that a real server uses.
fn schedule_error(schedule: &str) -> Option<String> {
    const DESCRIPTORS: &[&str] = &[
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    ];
    if schedule.starts_with('@') {
        let known = DESCRIPTORS.contains(&schedule) || schedule.starts_with("@every ");
        return (!known).then(|| format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != 5 {
        return Some(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    const MONTHS: &[&str] = &[
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
    let bounds: [(u32, u32, &[&str]); 5] = [
        (0, 59, &[]),
        (0, 23, &[]),
        (1, 31, &[]),
        (1, 12, MONTHS),
        (0, 6, DAYS),
    ];
    fields
        .iter()
        .zip(bounds)
        .flat_map(|(field, bounds)| field.split(',').map(move |part| (part, bounds)))
        .find_map(|(part, (low, high, words))| part_error(part, low, high, words))
}

fn part_error(part: &str, low: u32, high: u32, words: &[&str]) -> Option<String> {
    let (range, step) = part
        .split_once('/')
        .map_or((part, None), |(range, step)| (range, Some(step)));
    if let Some(step) = step {
        match step.parse::<u32>() {
            Err(_) => {
                return Some(format!(
                    "failed to parse int from {step}: strconv.Atoi: parsing \"{step}\": invalid syntax"
                ));
            }
            Ok(0) => return Some(format!("step of range should be a positive number: {part}")),
            Ok(_) => {}
        }
    }
    if matches!(range, "*" | "?") {
        return None;
    }
    let number = |text: &str| {
        let word = words.iter().position(|word| word.eq_ignore_ascii_case(text));
        let first = if words.len() == 12 { 1 } else { 0 };
        match word.and_then(|at| u32::try_from(at).ok()) {
            Some(at) => Ok(at + first),
            None => text.parse::<u32>().map_err(|_| {
                format!("failed to parse int from {text}: strconv.Atoi: parsing \"{text}\": invalid syntax")
            }),
        }
    };
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    let (from, to) = match (number(from), number(to)) {
        (Ok(from), Ok(to)) => (from, to),
        (Err(error), _) | (_, Err(error)) => return Some(error),
    };
    if from < low {
        return Some(format!(
            "beginning of range ({from}) below minimum ({low}): {part}"
        ));
    }
    if to > high {
        return Some(format!("end of range ({to}) above maximum ({high}): {part}"));
    }
    (from > to).then(|| format!("beginning of range ({from}) beyond end of range ({to}): {part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_zones_are_those_of_the_database() {
        let errors = |zone: &str| {
            let mut errors = Vec::new();
            check_time_zone(zone, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for good in [
            "UTC",
            "Europe/Berlin",
            "America/Argentina/Buenos_Aires",
            "Etc/GMT+1",
        ] {
            assert!(errors(good).is_empty(), "{good}");
        }
        for bad in [
            "Europe/berlin",
            "Berlin",
            "Europe",
            ".",
            "Europe/",
            "/UTC",
            "../UTC",
        ] {
            let expected = format!("spec.timeZone: Invalid value: {bad:?}: unknown time zone {bad}");
            assert_eq!(errors(bad), [expected]);
        }
        assert!(errors("local")[0].contains("explicit time zone"));
        assert!(errors("")[0].contains("non-empty"));
    }

    #[test]
    fn schedules_are_parsed_as_by_a_real_server() {
        for good in [
            "* * * * *",
            "*/5 0-6 1,15 jan-mar mon",
            "@hourly",
            "@every 5m",
            "0 0 * * SUN",
        ] {
            assert_eq!(schedule_error(good), None, "{good}");
        }
        assert_eq!(
            schedule_error("* * * *").as_deref(),
            Some("expected exactly 5 fields, found 4: [* * * *]")
        );
        assert_eq!(
            schedule_error("61 * * * *").as_deref(),
            Some("end of range (61) above maximum (59): 61")
        );
        assert!(schedule_error("@never").is_some() && schedule_error("*/0 * * * *").is_some());
    }
}
