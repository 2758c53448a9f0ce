//! Tables of workloads: deployments, sets, jobs and related kinds.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Cells;
use super::age;
use super::cells::Reader;
use super::columns::{AGE, Column, NAME, boolean, integer, text, wide};

pub(super) fn columns(key: (&str, &str)) -> Option<(&'static [Column], Cells)> {
    Some(match key {
        ("apps", "deployments") => (DEPLOYMENT, deployment),
        ("apps", "replicasets") | ("", "replicationcontrollers") => (REPLICA_SET, replica_set),
        ("apps", "statefulsets") => (STATEFUL_SET, stateful_set),
        ("apps", "daemonsets") => (DAEMON_SET, daemon_set),
        ("apps", "controllerrevisions") => (CONTROLLER_REVISION, controller_revision),
        ("batch", "jobs") => (JOB, job),
        ("batch", "cronjobs") => (CRON_JOB, cron_job),
        ("autoscaling", "horizontalpodautoscalers") => (AUTOSCALER, autoscaler),
        ("policy", "poddisruptionbudgets") => (DISRUPTION_BUDGET, disruption_budget),
        ("", "podtemplates") => (POD_TEMPLATE, pod_template),
        _ => return None,
    })
}

const TEMPLATE: &str = "/spec/template/spec/containers";

/// The desired replicas, one by default.
fn wanted(object: Reader<'_>) -> i64 {
    object.at("/spec/replicas").and_then(Value::as_i64).unwrap_or(1)
}

const DEPLOYMENT: &[Column] = &[
    NAME,
    text("Ready"),
    text("Up-to-date"),
    text("Available"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let [names, images] = object.containers(TEMPLATE);
    vec![
        object.name(),
        json!(format!(
            "{}/{}",
            object.number("/status/readyReplicas"),
            wanted(object)
        )),
        json!(object.number("/status/updatedReplicas")),
        json!(object.number("/status/availableReplicas")),
        object.age(now),
        names,
        images,
        json!(object.selector("/spec/selector")),
    ]
}

const REPLICA_SET: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let [names, images] = object.containers(TEMPLATE);
    vec![
        object.name(),
        json!(wanted(object)),
        json!(object.number("/status/replicas")),
        json!(object.number("/status/readyReplicas")),
        object.age(now),
        names,
        images,
        json!(object.selector("/spec/selector")),
    ]
}

const STATEFUL_SET: &[Column] = &[NAME, text("Ready"), AGE, wide("Containers"), wide("Images")];

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let [names, images] = object.containers(TEMPLATE);
    let ready = format!("{}/{}", object.number("/status/readyReplicas"), wanted(object));
    vec![object.name(), json!(ready), object.age(now), names, images]
}

const DAEMON_SET: &[Column] = &[
    NAME,
    integer("Desired"),
    integer("Current"),
    integer("Ready"),
    integer("Up-to-date"),
    integer("Available"),
    text("Node Selector"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let [names, images] = object.containers(TEMPLATE);
    vec![
        object.name(),
        json!(object.number("/status/desiredNumberScheduled")),
        json!(object.number("/status/currentNumberScheduled")),
        json!(object.number("/status/numberReady")),
        json!(object.number("/status/updatedNumberScheduled")),
        json!(object.number("/status/numberAvailable")),
        json!(object.selector("/spec/template/spec/nodeSelector")),
        object.age(now),
        names,
        images,
        json!(object.selector("/spec/selector")),
    ]
}

const CONTROLLER_REVISION: &[Column] = &[NAME, text("Controller"), text("Revision"), AGE];

fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let owners = object.list("/metadata/ownerReferences").iter().map(Reader);
    let controller = owners
        .into_iter()
        .find(|owner| owner.flag("/controller"))
        .map_or_else(
            || "<none>".to_owned(),
            |owner| {
                let kind = owner.text("/kind").to_lowercase();
                match owner.text("/apiVersion").split_once('/') {
                    Some((group, _)) => format!("{kind}.{group}/{}", owner.text("/name")),
                    None => format!("{kind}/{}", owner.text("/name")),
                }
            },
        );
    vec![
        object.name(),
        json!(controller),
        json!(object.number("/revision")),
        object.age(now),
    ]
}

const JOB: &[Column] = &[
    NAME,
    text("Status"),
    text("Completions"),
    text("Duration"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let [names, images] = object.containers(TEMPLATE);
    let succeeded = object.number("/status/succeeded");
    let completions = match (
        object.at("/spec/completions").and_then(Value::as_i64),
        object.number("/spec/parallelism"),
    ) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, parallel @ 2..) => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let start = object.text("/status/startTime");
    let duration = match object.text("/status/completionTime") {
        _ if start.is_empty() => String::new(),
        "" => age::since(start, now),
        end => age::between(start, end).unwrap_or_default(),
    };
    let holds = |kind: &str| object.condition(kind) == Some("True");
    let status = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if object.is_being_deleted() {
        "Terminating"
    } else {
        let others = ["Suspended", "FailureTarget", "SuccessCriteriaMet"];
        others.into_iter().find(|kind| holds(kind)).unwrap_or("Running")
    };
    vec![
        object.name(),
        json!(status),
        json!(completions),
        json!(duration),
        object.age(now),
        names,
        images,
        json!(object.selector("/spec/selector")),
    ]
}

const CRON_JOB: &[Column] = &[
    NAME,
    text("Schedule"),
    text("Timezone"),
    boolean("Suspend"),
    integer("Active"),
    text("Last Schedule"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let [names, images] = object.containers("/spec/jobTemplate/spec/template/spec/containers");
    let last = match object.text("/status/lastScheduleTime") {
        "" => "<none>".to_owned(),
        last => age::since(last, now),
    };
    // A real server prints this flag as a word.
    let suspend = if object.flag("/spec/suspend") {
        "True"
    } else {
        "False"
    };
    vec![
        object.name(),
        json!(object.text("/spec/schedule")),
        json!(object.text_or("/spec/timeZone", "<none>")),
        json!(suspend),
        json!(object.list("/status/active").len()),
        json!(last),
        object.age(now),
        names,
        images,
        json!(object.selector("/spec/jobTemplate/spec/selector")),
    ]
}

const AUTOSCALER: &[Column] = &[
    NAME,
    text("Reference"),
    text("Targets"),
    text("MinPods"),
    text("MaxPods"),
    text("Replicas"),
    AGE,
];

/// Autoscalers of both versions.
fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let target = |name: &str| object.text(&format!("/spec/scaleTargetRef/{name}"));
    let mut targets: Vec<String> = object
        .list("/spec/metrics")
        .iter()
        .enumerate()
        .map(|(index, metric)| {
            let current = object
                .list("/status/currentMetrics")
                .get(index)
                .unwrap_or(&Value::Null);
            metric_target(Reader(metric), Reader(current))
        })
        .collect();
    if let Some(percentage) = object.at("/spec/targetCPUUtilizationPercentage") {
        let current = object.at("/status/currentCPUUtilizationPercentage");
        let current = current.map_or_else(|| "<unknown>".to_owned(), |current| format!("{current}%"));
        targets.push(format!("cpu: {current}/{percentage}%"));
    }
    let shown = match targets.len() {
        0 => "<none>".to_owned(),
        count @ 3.. => format!(
            "{} + {} more...",
            targets.get(..2).unwrap_or_default().join(", "),
            count - 2
        ),
        _ => targets.join(", "),
    };
    vec![
        object.name(),
        json!(format!("{}/{}", target("kind"), target("name"))),
        json!(shown),
        json!(object.scalar_or("/spec/minReplicas", "<unset>")),
        json!(object.number("/spec/maxReplicas")),
        json!(object.number("/status/currentReplicas")),
        object.age(now),
    ]
}

/// `cpu: 40%/80%`: the metric with its current and target value.
fn metric_target(metric: Reader<'_>, current: Reader<'_>) -> String {
    let (source, named) = match metric.text("/type") {
        "Resource" => ("resource", true),
        "ContainerResource" => ("containerResource", true),
        "Pods" => ("pods", false),
        "Object" => ("object", false),
        "External" => ("external", false),
        _ => return "<unknown type>".to_owned(),
    };
    let value = |of: Reader<'_>, part: &str, name: &str| {
        of.at(&format!("/{source}/{part}/{name}")).map(|value| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if name == "averageUtilization" {
                format!("{text}%")
            } else {
                text
            }
        })
    };
    let form = ["averageValue", "averageUtilization", "value"]
        .into_iter()
        .find(|form| value(metric, "target", form).is_some());
    let wanted = form
        .and_then(|form| value(metric, "target", form))
        .unwrap_or_else(|| "<auto>".to_owned());
    let present = form
        .and_then(|form| value(current, "current", form))
        .unwrap_or_else(|| "<unknown>".to_owned());
    if named {
        format!("{}: {present}/{wanted}", metric.text(&format!("/{source}/name")))
    } else if form == Some("averageValue") && source != "pods" {
        format!("{present}/{wanted} (avg)")
    } else {
        format!("{present}/{wanted}")
    }
}

const DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    text("Min Available"),
    text("Max Unavailable"),
    integer("Allowed Disruptions"),
    AGE,
];

fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    vec![
        object.name(),
        json!(object.scalar_or("/spec/minAvailable", "N/A")),
        json!(object.scalar_or("/spec/maxUnavailable", "N/A")),
        json!(object.number("/status/disruptionsAllowed")),
        object.age(now),
    ]
}

const POD_TEMPLATE: &[Column] = &[NAME, text("Containers"), text("Images"), text("Pod Labels")];

fn pod_template(object: &Value, _: Timestamp) -> Vec<Value> {
    let object = Reader(object);
    let [names, images] = object.containers("/template/spec/containers");
    vec![
        object.name(),
        names,
        images,
        json!(object.selector("/template/metadata/labels")),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{pairs, printed};
    use super::*;

    #[test]
    fn deployment_shows_ready_replicas() {
        let deployment = json!({
            "metadata": { "name": "web", "creationTimestamp": "2026-01-01T23:00:00Z" },
            "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "web" } },
                "template": { "spec": { "containers": [{ "name": "a", "image": "a:1" }, { "name": "b", "image": "b:1" }] } } },
            "status": { "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 2 },
        });
        assert_eq!(
            printed("apps", "deployments", deployment, true),
            pairs(&[
                ("Name", "web"),
                ("Ready", "2/3"),
                ("Up-to-date", "3"),
                ("Available", "2"),
                ("Age", "60m"),
                ("Containers", "a,b"),
                ("Images", "a:1,b:1"),
                ("Selector", "app=web"),
            ])
        );
    }

    #[test]
    fn jobs_show_their_status_completions_and_duration() {
        let job = json!({
            "metadata": { "name": "j" }, "spec": { "completions": 2 },
            "status": { "succeeded": 2, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:42Z",
                "conditions": [{ "type": "Complete", "status": "True" }] },
        });
        assert_eq!(
            printed("batch", "jobs", job, false)[1..4],
            pairs(&[
                ("Status", "Complete"),
                ("Completions", "2/2"),
                ("Duration", "42s")
            ])
        );
        let running = json!({ "spec": { "parallelism": 3 } });
        assert_eq!(
            printed("batch", "jobs", running, false)[1..4],
            pairs(&[
                ("Status", "Running"),
                ("Completions", "0/1 of 3"),
                ("Duration", "")
            ])
        );
        let cron = json!({ "spec": { "schedule": "* * * * *" }, "status": { "active": [{}] } });
        assert_eq!(
            printed("batch", "cronjobs", cron, false)[1..6],
            pairs(&[
                ("Schedule", "* * * * *"),
                ("Timezone", "<none>"),
                ("Suspend", "False"),
                ("Active", "1"),
                ("Last Schedule", "<none>"),
            ])
        );
    }

    #[test]
    fn autoscalers_show_current_and_target_metrics() {
        let v1 = json!({ "spec": { "scaleTargetRef": { "kind": "Deployment", "name": "web" }, "maxReplicas": 5,
            "targetCPUUtilizationPercentage": 80 }, "status": { "currentReplicas": 2 } });
        assert_eq!(
            printed("autoscaling", "horizontalpodautoscalers", v1, false)[1..6],
            pairs(&[
                ("Reference", "Deployment/web"),
                ("Targets", "cpu: <unknown>/80%"),
                ("MinPods", "<unset>"),
                ("MaxPods", "5"),
                ("Replicas", "2"),
            ])
        );
        let metric = json!({ "type": "External", "external": { "target": { "averageValue": "10" } } });
        let current = json!({ "external": { "current": { "averageValue": "4" } } });
        assert_eq!(metric_target(Reader(&metric), Reader(&current)), "4/10 (avg)");
    }
}
