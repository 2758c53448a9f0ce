//! The columns of `watch` are those of kubectl: the program's own for common kinds, the server's for all others.

use kube_informers_e2e::Setup;
use serde_json::{Value, json};

use super::place::{Place, Watching, program};

/// Columns whose cells depend on the moment.
const TIMES: [&str; 5] = ["AGE", "LAST SEEN", "FIRST SEEN", "DURATION", "LAST SCHEDULE"];

/// The columns of a table with the cells of its only row. What depends on the moment is left out.
fn cells(head: &str, row: &str) -> Vec<(String, String)> {
    let head: Vec<char> = head.chars().collect();
    let row: Vec<char> = row.chars().collect();
    let is_start = |at: &usize| {
        let before = |count: usize| at.checked_sub(count).and_then(|at| head.get(at)) == Some(&' ');
        head[*at] != ' ' && (*at == 0 || before(1) && before(2))
    };
    let starts: Vec<usize> = (0..head.len()).filter(is_start).collect();
    let part = |of: &[char], number: usize| {
        let end = starts.get(number + 1).copied().unwrap_or(of.len()).min(of.len());
        let text: String = of.get(starts[number]..end).unwrap_or_default().iter().collect();
        text.trim().to_owned()
    };
    (0..starts.len())
        .map(|number| {
            let (name, cell) = (part(&head, number), part(&row, number));
            // `2 (5m ago)`
            let cell = cell.split(" (").next().unwrap_or_default().to_owned();
            match TIMES.contains(&name.as_str()) {
                true => (name, String::new()),
                false => (name, cell),
            }
        })
        .collect()
}

/// What kubectl prints for an object, and what the program prints.
async fn both(place: &Place, object: &str, output: &[&str]) -> [Vec<(String, String)>; 2] {
    let get = [&["get", object][..], output].concat();
    let theirs = place.kubectl(&get, &Value::Null).await;
    let mut theirs = theirs.lines();
    let watch = [&["watch", object, "-n", &place.namespace][..], output].concat();
    let mut ours = Watching::start(place.command(program(), &watch));
    let (head, row) = (ours.line().await, ours.line().await);
    [
        cells(theirs.next().expect("a head"), theirs.next().expect("a row")),
        cells(&head, &row),
    ]
}

/// A pod template.
fn template() -> Value {
    json!({
        "metadata": { "labels": { "app": "web" } },
        "spec": { "containers": [{ "name": "web", "image": "web:1" }, { "name": "log", "image": "log:2" }], "restartPolicy": "Always" },
    })
}

/// Objects of common kinds, with the status that controllers would report.
fn objects(unique: &str) -> Vec<(&'static str, Value, Value)> {
    let app = || json!({ "matchLabels": { "app": "web" } });
    let mut once = template();
    once["spec"]["restartPolicy"] = json!("Never");
    let core = |kind: &str, name: &str, rest: Value| {
        let mut object = json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name } });
        let fields = object.as_object_mut().expect("an object");
        fields.extend(rest.as_object().expect("fields").clone());
        object
    };
    let of = |group: &str, kind: &str, spec: Value| json!({ "apiVersion": format!("{group}/v1"), "kind": kind, "metadata": { "name": "web" }, "spec": spec });
    let mut node = core("Node", unique, json!({}));
    node["metadata"]["labels"] =
        json!({ "node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/db": "" });
    node["spec"] = json!({ "unschedulable": true });
    let containers = template()["spec"]["containers"].clone();
    vec![
        (
            "pod",
            core(
                "Pod",
                "web",
                json!({ "spec": { "containers": containers, "initContainers": [{ "name": "prepare", "image": "p:1" }] } }),
            ),
            json!({ "phase": "Pending", "initContainerStatuses": [{
                "name": "prepare", "ready": false, "restartCount": 2, "image": "p:1", "imageID": "",
                "state": { "waiting": { "reason": "CrashLoopBackOff" } },
                "lastState": { "terminated": { "exitCode": 1, "finishedAt": "2026-01-02T03:04:05Z" } },
            }] }),
        ),
        (
            "node",
            node,
            json!({
                "conditions": [{ "type": "Ready", "status": "True", "reason": "R", "message": "m" }],
                "addresses": [{ "type": "InternalIP", "address": "10.1.2.3" }],
                "nodeInfo": {
                    "kubeletVersion": "v1.37.1", "osImage": "Linux 7", "kernelVersion": "7.1", "containerRuntimeVersion": "containerd://3",
                    "architecture": "amd64", "bootID": "", "machineID": "", "systemUUID": "", "operatingSystem": "linux", "kubeProxyVersion": "",
                },
            }),
        ),
        (
            "deployment.apps",
            of(
                "apps",
                "Deployment",
                json!({ "replicas": 3, "selector": app(), "template": template() }),
            ),
            json!({ "replicas": 3, "readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1 }),
        ),
        (
            "replicaset.apps",
            of(
                "apps",
                "ReplicaSet",
                json!({ "replicas": 3, "selector": app(), "template": template() }),
            ),
            json!({ "replicas": 2, "readyReplicas": 1 }),
        ),
        (
            "statefulset.apps",
            of(
                "apps",
                "StatefulSet",
                json!({ "replicas": 3, "serviceName": "web", "selector": app(), "template": template() }),
            ),
            json!({ "replicas": 2, "readyReplicas": 1 }),
        ),
        (
            "daemonset.apps",
            of(
                "apps",
                "DaemonSet",
                json!({ "selector": app(), "template": template() }),
            ),
            json!({
                "desiredNumberScheduled": 5, "currentNumberScheduled": 4, "numberReady": 3, "updatedNumberScheduled": 2,
                "numberAvailable": 1, "numberMisscheduled": 0,
            }),
        ),
        (
            "job.batch",
            of("batch", "Job", json!({ "parallelism": 2, "template": once })),
            json!({ "active": 1, "succeeded": 1 }),
        ),
        (
            "cronjob.batch",
            of(
                "batch",
                "CronJob",
                json!({ "schedule": "5 4 * * *", "timeZone": "Etc/UTC", "jobTemplate": { "spec": { "template": once } } }),
            ),
            json!({ "lastScheduleTime": "2026-01-02T03:04:05Z" }),
        ),
        (
            "service",
            core(
                "Service",
                "web",
                json!({ "spec": { "type": "LoadBalancer", "selector": { "app": "web" }, "ports": [
                    { "name": "http", "port": 80, "nodePort": 31234 }, { "name": "dns", "port": 53, "protocol": "UDP", "nodePort": 31235 },
                ] } }),
            ),
            json!({ "loadBalancer": { "ingress": [{ "ip": "10.9.8.7" }] } }),
        ),
        (
            "configmap",
            core("ConfigMap", "web", json!({ "data": { "a": "1", "b": "2" } })),
            Value::Null,
        ),
        (
            "secret",
            core("Secret", "web", json!({ "stringData": { "a": "1" } })),
            Value::Null,
        ),
        (
            "persistentvolumeclaim",
            core(
                "PersistentVolumeClaim",
                "web",
                json!({ "spec": { "accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "resources": { "requests": { "storage": "1Gi" } } } }),
            ),
            Value::Null,
        ),
        (
            "event",
            core(
                "Event",
                "web",
                json!({
                    "involvedObject": { "kind": "Pod", "name": "web", "namespace": unique }, "reason": "BackOff", "type": "Warning",
                    "message": "Back-off restarting", "lastTimestamp": "2026-01-02T03:04:05Z", "count": 3, "source": { "component": "kubelet" },
                }),
            ),
            Value::Null,
        ),
        // These are the server's.
        (
            "ingress.networking.k8s.io",
            of("networking.k8s.io", "Ingress", ingress("old.example")),
            json!({ "loadBalancer": { "ingress": [{ "ip": "10.9.8.6" }] } }),
        ),
        (
            "poddisruptionbudget.policy",
            of(
                "policy",
                "PodDisruptionBudget",
                json!({ "minAvailable": 2, "selector": app() }),
            ),
            Value::Null,
        ),
    ]
}

fn ingress(host: &str) -> Value {
    json!({ "ingressClassName": "nginx", "rules": [{ "host": host, "http": { "paths": [{
        "path": "/", "pathType": "Prefix", "backend": { "service": { "name": "web", "port": { "number": 80 } } },
    }] } }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real API server: verify/scenarios/run starts one"]
async fn the_columns_of_common_kinds_are_those_of_kubectl() {
    let Some(place) = Place::new("the columns of common kinds", &Setup::shared()).await else {
        return;
    };
    for (kind, object, status) in objects(&place.namespace) {
        place.kubectl(&["create", "-f", "-"], &object).await;
        let name = object["metadata"]["name"].as_str().expect("a name");
        let named = format!("{kind}/{name}");
        if !status.is_null() {
            let patch = json!({ "status": status }).to_string();
            let patch = [
                "patch",
                &named,
                "--subresource",
                "status",
                "--type",
                "merge",
                "-p",
                &patch,
            ];
            place.kubectl(&patch, &Value::Null).await;
        }
        for output in [&[][..], &["-o", "wide"]] {
            let [theirs, ours] = both(&place, &named, output).await;
            assert!(theirs.len() > 1, "{theirs:?}");
            assert_eq!(ours, theirs, "{named} {output:?}");
        }
    }
    let node = ["delete", "node", &place.namespace];
    place.kubectl(&node, &Value::Null).await;
    place.leave().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real API server: verify/scenarios/run starts one"]
async fn live_changes_have_the_columns_of_the_server_before_and_after() {
    let Some(place) = Place::new("the columns of the server", &Setup::shared()).await else {
        return;
    };
    let group = format!("{}.example.com", place.namespace);
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": format!("widgets.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": {
                    "type": "object", "properties": { "size": { "type": "integer" }, "note": { "type": "string" } },
                } } } },
                "additionalPrinterColumns": [
                    { "name": "Size", "type": "integer", "jsonPath": ".spec.size" },
                    { "name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1 },
                    { "name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp" },
                ],
            }],
        },
    });
    place.kubectl(&["create", "-f", "-"], &definition).await;
    let established = [
        "wait",
        "--for=condition=Established",
        "crd",
        &format!("widgets.{group}"),
    ];
    place.kubectl(&established, &Value::Null).await;
    let widget = |size: u64| json!({ "apiVersion": format!("{group}/v1"), "kind": "Widget", "metadata": { "name": "w" }, "spec": { "size": size } });
    place.kubectl(&["create", "-f", "-"], &widget(1)).await;
    let web = |host: &str| json!({ "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "web" }, "spec": ingress(host) });
    place.kubectl(&["create", "-f", "-"], &web("old.example")).await;

    let resource = format!("widgets.{group}");
    let [theirs, ours] = both(&place, &format!("{resource}/w"), &[]).await;
    assert_eq!(ours, theirs);
    assert!(ours.contains(&("SIZE".to_owned(), "1".to_owned())), "{ours:?}");
    let mut watches = Vec::new();
    for kind in [resource.as_str(), "ingress"] {
        let watch = ["watch", kind, "-n", &place.namespace, "-o", "brief"];
        let mut watching = Watching::start(place.command(program(), &watch));
        watching.says("watching for changes").await;
        watches.push(watching);
    }

    for size in 2..6 {
        place.kubectl(&["replace", "-f", "-"], &widget(size)).await;
        let line = watches[0].line().await;
        let change = format!("{}/w  {} → {size}  by kubectl-replace", place.namespace, size - 1);
        assert!(line.ends_with(&change), "{line}");
    }
    place.kubectl(&["replace", "-f", "-"], &web("new.example")).await;
    let line = watches[1].line().await;
    assert!(
        line.ends_with("/web  old.example → new.example  by kubectl-replace"),
        "{line}"
    );
    place.kubectl(&["delete", "widgets", "w"], &Value::Null).await;
    let line = watches[0].line().await;
    assert!(line.contains("/w  deleted  5  by unknown"), "{line}");
    place.kubectl(&["delete", "crd", &resource], &Value::Null).await;
    place.leave().await;
}
