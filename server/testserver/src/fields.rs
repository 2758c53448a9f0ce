//! Reading and writing fields of JSON objects, as the controllers need them.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A text; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A number, if there is one.
pub(crate) fn number(object: &Value, pointer: &str) -> Option<i64> {
    object.pointer(pointer).and_then(Value::as_i64)
}

/// The elements of a list; none if it is missing.
pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// Sets a field below existing or new objects.
pub(crate) fn set(object: &mut Value, path: &[&str], value: impl Into<Value>) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let mut parent = object;
    for name in parents {
        let Value::Object(fields) = parent else { return };
        let child = fields.entry(*name).or_insert_with(|| Value::Object(Map::new()));
        if child.is_null() {
            *child = Value::Object(Map::new());
        }
        parent = child;
    }
    if let Value::Object(fields) = parent {
        fields.insert((*last).to_owned(), value.into());
    }
}

/// Sets a number that Go leaves out if it is zero.
pub(crate) fn set_count(status: &mut Map<String, Value>, name: &str, count: usize) {
    if count > 0 {
        status.insert(name.to_owned(), json!(count));
    }
}

/// An annotation; empty if there is none.
pub(crate) fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    object
        .pointer("/metadata/annotations")
        .and_then(|annotations| annotations.get(name)?.as_str())
        .unwrap_or_default()
}

/// The uid of the controller of an object.
pub(crate) fn controller_uid(object: &Value) -> Option<&str> {
    list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| owner.get("controller").and_then(Value::as_bool) == Some(true))
        .and_then(|owner| owner.get("uid")?.as_str())
}

/// The owner reference of an object to its controller.
pub(crate) fn controller_reference(owner: &Value) -> Value {
    json!({
        "apiVersion": text(owner, "/apiVersion"), "kind": text(owner, "/kind"), "name": text(owner, "/metadata/name"),
        "uid": text(owner, "/metadata/uid"), "controller": true, "blockOwnerDeletion": true,
    })
}

/// Whether a label selector with `matchLabels` and `matchExpressions` matches. An empty one matches nothing: no workload may
/// have one, and a missing one must not claim every pod.
pub(crate) fn selects(selector: &Value, labels: &BTreeMap<String, String>) -> bool {
    let exact = selector.get("matchLabels").and_then(Value::as_object);
    let expressions = list(selector, "/matchExpressions");
    let is_empty = exact.is_none_or(Map::is_empty) && expressions.is_empty();
    let equal = exact.into_iter().flatten().all(|(key, value)| {
        let label = labels.get(key).map(String::as_str);
        label.is_some() && label == value.as_str()
    });
    !is_empty
        && equal
        && expressions
            .iter()
            .all(|one| meets(one, |key| labels.get(key).map(String::as_str)))
}

/// Whether one requirement of a label or node selector is met.
pub(crate) fn meets<'a>(requirement: &Value, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
    let value = lookup(text(requirement, "/key"));
    let values = list(requirement, "/values");
    let listed = || value.is_some_and(|value| values.iter().any(|one| one.as_str() == Some(value)));
    let compare = |test: fn(&i64, &i64) -> bool| {
        let bound = values
            .first()
            .and_then(|bound| bound.as_str()?.parse::<i64>().ok());
        let value = value.and_then(|value| value.parse::<i64>().ok());
        value
            .zip(bound)
            .is_some_and(|(value, bound)| test(&value, &bound))
    };
    match text(requirement, "/operator") {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(i64::gt),
        "Lt" => compare(i64::lt),
        _ => false,
    }
}

/// A number of pods, given as such or as a percentage of a total.
pub(crate) fn share(value: Option<&Value>, total: i64, usual: i64, round_up: bool) -> i64 {
    match value {
        Some(Value::Number(count)) => count.as_i64().unwrap_or(usual),
        Some(Value::String(text)) => {
            let percent: i64 = text.trim_end_matches('%').parse().unwrap_or(0);
            let hundredths = percent.saturating_mul(total);
            if round_up {
                hundredths.saturating_add(99) / 100
            } else {
                hundredths / 100
            }
        }
        _ => usual,
    }
}

/// A condition of a status, by type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == kind)
}

pub(crate) fn condition_is(object: &Value, kind: &str, status: &str) -> bool {
    condition(object, kind).is_some_and(|condition| text(condition, "/status") == status)
}

/// Adds a condition to a list or replaces it. The time of its last transition is kept while its status is the same.
pub(crate) fn put_condition(conditions: &mut Vec<Value>, mut condition: Value, now: &str) {
    let kind = text(&condition, "/type").to_owned();
    let index = conditions.iter().position(|one| text(one, "/type") == kind);
    let before = index.and_then(|index| conditions.get(index));
    let kept = before.filter(|before| before.get("status") == condition.get("status"));
    condition["lastTransitionTime"] = match kept.and_then(|before| before.get("lastTransitionTime")) {
        Some(time) => time.clone(),
        None => now.into(),
    };
    match index.and_then(|index| conditions.get_mut(index)) {
        Some(before) => *before = condition,
        None => conditions.push(condition),
    }
}

/// The seconds since a time in an object; `None` without a readable one.
pub(crate) fn seconds_since(time: &str, now: Timestamp) -> Option<i64> {
    let time: Timestamp = time.parse().ok()?;
    Some(now.as_second().saturating_sub(time.as_second()))
}

/// Encodes a number in letters and digits, without vowels so that it spells no words.
pub(crate) fn letters(mut number: u64, length: usize) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    let base = ALPHABET.len() as u64;
    let mut letters = String::with_capacity(length);
    for _ in 0..length {
        let index = usize::try_from(number % base).unwrap_or_default();
        letters.extend(ALPHABET.get(index).map(|byte| char::from(*byte)));
        number /= base;
    }
    letters
}

/// The FNV-1a hash of a text.
pub(crate) fn fnv(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// An event that occurred once.
pub(crate) fn event(name: &str, object: &Value, kind: &str, reason: &str, message: &str, now: &str) -> Value {
    let text = |pointer: &str| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let namespace = match text("/metadata/namespace") {
        "" => "default",
        namespace => namespace,
    };
    let component = match reason {
        "Scheduled" | "FailedScheduling" => "default-scheduler",
        "ScalingReplicaSet" => "deployment-controller",
        "SuccessfulCreate" | "SuccessfulDelete" => "replicaset-controller",
        "NodeNotReady" | "NodeReady" => "node-controller",
        _ => "kubelet",
    };
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": name, "namespace": namespace },
        "involvedObject": {
            "apiVersion": text("/apiVersion"), "kind": text("/kind"), "name": text("/metadata/name"),
            "namespace": text("/metadata/namespace"), "uid": text("/metadata/uid"),
        },
        "type": kind, "reason": reason, "message": message, "count": 1,
        "firstTimestamp": now, "lastTimestamp": now, "source": { "component": component },
        "reportingComponent": component, "reportingInstance": "",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_round_up_for_surge_and_down_for_unavailable_pods() {
        let share_of = |value: Value, round_up| share(Some(&value), 10, 1, round_up);
        assert_eq!(share_of(json!("25%"), true), 3);
        assert_eq!(share_of(json!("25%"), false), 2);
        assert_eq!(share_of(json!(4), true), 4);
        assert_eq!(share(None, 10, 7, true), 7);
    }

    #[test]
    fn selectors_combine_labels_and_expressions() {
        let labels = BTreeMap::from([
            ("app".to_owned(), "web".to_owned()),
            ("weight".to_owned(), "5".to_owned()),
        ]);
        let matches = |selector: Value| selects(&selector, &labels);
        assert!(matches(json!({ "matchLabels": { "app": "web" } })));
        assert!(!matches(
            json!({ "matchLabels": { "app": "web", "tier": "front" } })
        ));
        assert!(!matches(json!({})));
        let expression = |key: &str, operator: &str, values: &[&str]| json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] });
        assert!(matches(expression("app", "In", &["api", "web"])));
        assert!(!matches(expression("app", "NotIn", &["web"])));
        assert!(matches(expression("tier", "DoesNotExist", &[])));
        assert!(matches(expression("weight", "Gt", &["4"])));
        assert!(!matches(expression("weight", "Lt", &["4"])));
    }

    #[test]
    fn condition_keeps_its_transition_time_while_its_status_is_the_same() {
        let mut conditions = Vec::new();
        put_condition(
            &mut conditions,
            json!({ "type": "Ready", "status": "True" }),
            "t1",
        );
        put_condition(
            &mut conditions,
            json!({ "type": "Ready", "status": "True", "reason": "a" }),
            "t2",
        );
        assert_eq!(conditions[0]["lastTransitionTime"], "t1");
        put_condition(
            &mut conditions,
            json!({ "type": "Ready", "status": "False" }),
            "t3",
        );
        assert_eq!(
            (conditions.len(), &conditions[0]["lastTransitionTime"]),
            (1, &json!("t3"))
        );
    }
}
