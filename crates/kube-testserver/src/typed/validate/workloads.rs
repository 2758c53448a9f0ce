//! Deployments, replica sets, stateful sets, daemon sets, replication controllers, jobs and cron jobs.

use serde_json::{Value, json};

use crate::admission::field_error::FieldError;
use crate::kinds::Kind;
use crate::typed::{rules, text};

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
    if kind.kind == "Deployment" {
        check_strategy(object, &mut found);
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
        let empty = json!({});
        let labels = object.pointer("/spec/template/metadata/labels").unwrap_or(&empty);
        errors.push(mismatch(labels));
        return;
    };
    rules::selector(selector, "spec.selector", errors);
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
