//! Converts objects between the versions of a resource.
//!
//! Most versions have the same fields; custom kinds without a conversion webhook always do. The events of the two
//! groups and the two versions of horizontal pod autoscalers differ and are mapped field by field.

use serde_json::{Map, Value, json};

use super::Kind;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

impl Kind {
    /// Converts an object of version `from` to this version. Both must share a collection.
    pub(crate) fn convert_from(&self, from: &Kind, mut object: Value) -> Value {
        let Value::Object(fields) = &mut object else {
            return object;
        };
        match (
            from.api_version().as_str(),
            self.api_version().as_str(),
            self.kind.as_str(),
        ) {
            ("v1", "events.k8s.io/v1", "Event") => rename(fields, EVENT_FIELDS.iter().copied()),
            ("events.k8s.io/v1", "v1", "Event") => {
                rename(fields, EVENT_FIELDS.iter().map(|(core, events)| (*events, *core)));
            }
            ("autoscaling/v2", "autoscaling/v1", _) => autoscaler_to_v1(fields),
            ("autoscaling/v1", "autoscaling/v2", _) => autoscaler_to_v2(fields),
            _ => {}
        }
        fields.insert("apiVersion".to_owned(), Value::String(self.api_version()));
        fields.insert("kind".to_owned(), Value::String(self.kind.clone()));
        object
    }
}

/// Fields whose names differ: core first, `events.k8s.io` second.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

fn rename<'a>(fields: &mut Map<String, Value>, names: impl Iterator<Item = (&'a str, &'a str)>) {
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}

fn autoscaler_to_v1(fields: &mut Map<String, Value>) {
    let mut kept = Vec::new();
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        if let Some(percentage) = take_cpu(spec, "metrics", "/resource/target/averageUtilization") {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), percentage);
        }
        kept.extend(spec.remove("metrics").map(|metrics| (METRICS, metrics)));
        kept.extend(spec.remove("behavior").map(|behavior| (BEHAVIOR, behavior)));
    }
    if let Some(Value::Object(status)) = fields.get_mut("status") {
        if let Some(percentage) = take_cpu(status, "currentMetrics", "/resource/current/averageUtilization") {
            status.insert("currentCPUUtilizationPercentage".to_owned(), percentage);
        }
        kept.extend(
            status
                .remove("currentMetrics")
                .map(|metrics| (CURRENT_METRICS, metrics)),
        );
        kept.extend(
            status
                .remove("conditions")
                .map(|conditions| (CONDITIONS, conditions)),
        );
    }
    // Fields that v1 lacks are stored in annotations, as JSON text.
    let kept: Vec<_> = kept.into_iter().filter(|(_, value)| !is_empty(value)).collect();
    if kept.is_empty() {
        return;
    }
    let metadata = fields.entry("metadata").or_insert_with(|| json!({}));
    if let Value::Object(metadata) = metadata
        && let Value::Object(annotations) = metadata.entry("annotations").or_insert_with(|| json!({}))
    {
        for (name, value) in kept {
            annotations.insert(name.to_owned(), Value::String(value.to_string()));
        }
    }
}

fn autoscaler_to_v2(fields: &mut Map<String, Value>) {
    let mut take = |name: &str| -> Option<Value> {
        let metadata = fields.get_mut("metadata")?.as_object_mut()?;
        let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
        let value = serde_json::from_str(annotations.get(name)?.as_str()?).ok()?;
        annotations.remove(name);
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
        Some(value)
    };
    let (metrics, behavior) = (take(METRICS), take(BEHAVIOR));
    let (current, conditions) = (take(CURRENT_METRICS), take(CONDITIONS));
    if let Some(Value::Object(spec)) = fields.get_mut("spec") {
        let cpu = spec.remove("targetCPUUtilizationPercentage").map(|percentage| {
            json!({ "type": "Resource", "resource": {
                "name": "cpu", "target": { "type": "Utilization", "averageUtilization": percentage },
            } })
        });
        put_metrics(spec, "metrics", cpu, metrics);
        spec.extend(behavior.map(|behavior| ("behavior".to_owned(), behavior)));
    }
    if let Some(Value::Object(status)) = fields.get_mut("status") {
        let cpu = status
            .remove("currentCPUUtilizationPercentage")
            .map(|percentage| {
                json!({ "type": "Resource", "resource": {
                "name": "cpu", "current": { "averageUtilization": percentage },
            } })
            });
        put_metrics(status, "currentMetrics", cpu, current);
        status.extend(conditions.map(|conditions| ("conditions".to_owned(), conditions)));
    }
}

fn put_metrics(fields: &mut Map<String, Value>, name: &str, cpu: Option<Value>, others: Option<Value>) {
    let mut metrics: Vec<Value> = cpu.into_iter().collect();
    if let Some(Value::Array(others)) = others {
        metrics.extend(others);
    }
    if !metrics.is_empty() {
        fields.insert(name.to_owned(), Value::Array(metrics));
    }
}

/// Removes the first CPU utilization from a list of metrics and returns its percentage.
fn take_cpu(fields: &mut Map<String, Value>, list: &str, percentage: &str) -> Option<Value> {
    let metrics = fields.get_mut(list)?.as_array_mut()?;
    let position = metrics.iter().position(|metric| {
        metric.pointer("/resource/name").is_some_and(|name| name == "cpu")
            && metric.pointer(percentage).is_some()
    })?;
    metrics.remove(position).pointer(percentage).cloned()
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::Registry;
    use super::*;

    #[test]
    fn event_conversion_round_trips() {
        let registry = Registry::builtin();
        let core = registry.resource("", "v1", "events").unwrap();
        let events = registry.resource("events.k8s.io", "v1", "events").unwrap();
        let stored = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": { "name": "e" }, "reason": "Started",
            "involvedObject": { "kind": "Pod", "name": "cart" }, "message": "hello", "count": 2,
            "source": { "component": "kubelet" }, "reportingComponent": "kubelet",
        });

        let other = events.convert_from(&core, stored.clone());

        assert_eq!(
            other,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": { "name": "e" }, "reason": "Started",
                "regarding": { "kind": "Pod", "name": "cart" }, "note": "hello", "deprecatedCount": 2,
                "deprecatedSource": { "component": "kubelet" }, "reportingController": "kubelet",
            })
        );
        assert_eq!(core.convert_from(&events, other), stored);
    }

    #[test]
    fn autoscaler_conversion_round_trips() {
        let registry = Registry::builtin();
        let v1 = registry
            .resource("autoscaling", "v1", "horizontalpodautoscalers")
            .unwrap();
        let v2 = registry
            .resource("autoscaling", "v2", "horizontalpodautoscalers")
            .unwrap();
        let stored = json!({
            "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": { "name": "web" },
            "spec": { "maxReplicas": 9, "behavior": { "scaleUp": {} }, "metrics": [
                { "type": "Resource",
                  "resource": { "name": "cpu", "target": { "type": "Utilization", "averageUtilization": 80 } } },
                { "type": "Pods", "pods": { "metric": { "name": "hits" } } },
            ] },
            "status": { "conditions": [{ "type": "AbleToScale", "status": "True" }] },
        });

        let older = v1.convert_from(&v2, stored.clone());

        assert_eq!(
            older["spec"],
            json!({ "maxReplicas": 9, "targetCPUUtilizationPercentage": 80 })
        );
        assert_eq!(older["status"], json!({}));
        assert_eq!(v2.convert_from(&v1, older), stored);
    }

    #[test]
    fn other_kinds_only_change_their_api_version() {
        let v1 = Kind::new("example.com", "v1", "Widget");
        let v2 = Kind::new("example.com", "v2", "Widget");

        let object = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "spec": { "size": 1 } });
        assert_eq!(
            v2.convert_from(&v1, object),
            json!({ "apiVersion": "example.com/v2", "kind": "Widget", "spec": { "size": 1 } })
        );
        assert_eq!(v2.convert_from(&v1, json!("text")), json!("text"));
    }
}
