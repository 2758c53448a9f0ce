//! The columns of a table: those kubectl shows for well-known kinds, name and age for the others.

use jiff::Timestamp;
use serde_json::Value;

use crate::item::{Contents, Item, Tree};
use crate::kinds::Kind;

type Cell = fn(&Tree) -> String;

/// One column.
#[derive(Clone, Copy)]
struct Column {
    name: &'static str,
    cell: Cell,
    wide: bool,
}

fn column(name: &'static str, cell: Cell) -> Column {
    Column {
        name,
        cell,
        wide: false,
    }
}

fn wide(name: &'static str, cell: Cell) -> Column {
    Column {
        name,
        cell,
        wide: true,
    }
}

/// The columns of one kind.
pub struct Columns {
    columns: Vec<Column>,
}

impl Columns {
    /// The names.
    pub fn head(&self) -> Vec<&'static str> {
        self.columns.iter().map(|column| column.name).collect()
    }

    /// Inserts the server's columns, or their cells, after the name.
    pub fn insert(&self, row: &mut Vec<String>, of_server: Vec<String>) {
        let name = self.columns.iter().position(|column| column.name == "NAME");
        let at = name.map_or(0, |at| at + 1);
        row.splice(at..at, of_server);
    }

    /// The cells of an object.
    pub fn row(&self, item: &Tree) -> Vec<String> {
        self.columns.iter().map(|column| (column.cell)(item)).collect()
    }
}

/// The columns of a kind: all of them if `all`, with the namespace if `namespaces`.
pub fn of(kind: &Kind, all: bool, namespaces: bool) -> Columns {
    let mut columns = Vec::new();
    if namespaces {
        columns.push(column("NAMESPACE", |item| {
            item.text("/metadata/namespace").unwrap_or_default().to_owned()
        }));
    }
    columns.push(column("NAME", |item| {
        item.text("/metadata/name").unwrap_or_default().to_owned()
    }));
    columns.extend(own(kind));
    // The age of an Event is the time of its last occurrence, which has its own column.
    if kind.kind != "Event" {
        columns.push(column(
            "AGE",
            |item| age(item.text("/metadata/creationTimestamp")),
        ));
    }
    columns.extend(own_wide(kind));
    columns.retain(|column| all || !column.wide);
    Columns { columns }
}

/// Whether this program has columns for a kind besides name and age.
pub fn are_known(kind: &Kind) -> bool {
    !own(kind).is_empty()
}

/// The columns that tell the state of an object, with its cells: without namespace, name and age. Empty if this program has
/// none for its kind.
pub fn essentials(kind: &Kind, item: &Item) -> Vec<(String, String)> {
    let columns = own(kind);
    if columns.is_empty() {
        return Vec::new();
    }
    let item = item.tree();
    columns
        .into_iter()
        .filter(|column| column.name != "LAST SEEN")
        .map(|column| (column.name.to_owned(), (column.cell)(&item)))
        .collect()
}

fn own(kind: &Kind) -> Vec<Column> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => vec![
            column("READY", ready_containers),
            column("STATUS", pod_status),
            column("RESTARTS", restarts),
        ],
        ("", "Node") => vec![
            column("STATUS", node_status),
            column("VERSION", |item| text(item, "/status/nodeInfo/kubeletVersion")),
        ],
        ("apps", "Deployment") => vec![
            column("READY", ready_replicas),
            column("UP-TO-DATE", |item| number(item, "/status/updatedReplicas")),
            column("AVAILABLE", |item| number(item, "/status/availableReplicas")),
        ],
        ("apps", "ReplicaSet") => vec![
            column("DESIRED", |item| number(item, "/spec/replicas")),
            column("CURRENT", |item| number(item, "/status/replicas")),
            column("READY", |item| number(item, "/status/readyReplicas")),
        ],
        ("apps", "StatefulSet") => vec![column("READY", ready_replicas)],
        ("apps", "DaemonSet") => vec![
            column("DESIRED", |item| number(item, "/status/desiredNumberScheduled")),
            column("READY", |item| number(item, "/status/numberReady")),
        ],
        ("batch", "Job") => vec![column("COMPLETIONS", |item| {
            format!(
                "{}/{}",
                number(item, "/status/succeeded"),
                number(item, "/spec/completions")
            )
        })],
        ("batch", "CronJob") => vec![
            column("SCHEDULE", |item| text(item, "/spec/schedule")),
            column("SUSPEND", |item| {
                item.get("/spec/suspend")
                    .map_or("False", |value| match value {
                        Value::Bool(true) => "True",
                        _ => "False",
                    })
                    .to_owned()
            }),
        ],
        ("", "Service") => vec![
            column("TYPE", |item| text(item, "/spec/type")),
            column("CLUSTER-IP", |item| text(item, "/spec/clusterIP")),
            column("PORT(S)", ports),
        ],
        ("", "ConfigMap") => vec![column("DATA", |item| count(item, &["/data", "/binaryData"]))],
        ("", "Secret") => vec![
            column("TYPE", |item| text(item, "/type")),
            column("DATA", |item| count(item, &["/data"])),
        ],
        ("", "Namespace" | "PersistentVolume") => vec![column("STATUS", |item| text(item, "/status/phase"))],
        ("", "PersistentVolumeClaim") => vec![
            column("STATUS", |item| text(item, "/status/phase")),
            column("VOLUME", |item| text(item, "/spec/volumeName")),
            column("CAPACITY", |item| text(item, "/status/capacity/storage")),
        ],
        ("" | "events.k8s.io", "Event") => vec![
            column("LAST SEEN", last_seen),
            column("TYPE", |item| text(item, "/type")),
            column("REASON", |item| text(item, "/reason")),
            column("OBJECT", involved),
            column("MESSAGE", |item| first(item, &["/message", "/note"])),
        ],
        _ => vec![],
    }
}

fn own_wide(kind: &Kind) -> Vec<Column> {
    match (kind.group.as_str(), kind.kind.as_str()) {
        ("", "Pod") => vec![
            wide("IP", |item| text(item, "/status/podIP")),
            wide("NODE", |item| text(item, "/spec/nodeName")),
        ],
        ("", "Node") => vec![
            wide("OS-IMAGE", |item| text(item, "/status/nodeInfo/osImage")),
            wide("CONTAINER-RUNTIME", |item| {
                text(item, "/status/nodeInfo/containerRuntimeVersion")
            }),
        ],
        ("apps", _) => vec![
            wide("CONTAINERS", |item| containers(item, "name")),
            wide("IMAGES", |item| containers(item, "image")),
        ],
        _ => vec![wide("UID", |item| {
            item.text("/metadata/uid").unwrap_or_default().to_owned()
        })],
    }
}

/// Missing values are shown as `<none>`, as in kubectl.
fn text(item: &Tree, pointer: &str) -> String {
    item.text(pointer)
        .filter(|text| !text.is_empty())
        .unwrap_or("<none>")
        .to_owned()
}

fn first(item: &Tree, pointers: &[&str]) -> String {
    let found = pointers.iter().find_map(|pointer| item.text(pointer));
    found.unwrap_or_default().to_owned()
}

fn number(item: &Tree, pointer: &str) -> String {
    item.get(pointer).and_then(Value::as_i64).unwrap_or(0).to_string()
}

fn count(item: &Tree, pointers: &[&str]) -> String {
    let sizes = pointers
        .iter()
        .filter_map(|pointer| item.get(pointer).and_then(Value::as_object))
        .map(serde_json::Map::len);
    sizes.sum::<usize>().to_string()
}

fn ready_replicas(item: &Tree) -> String {
    let wanted = item.get("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    format!("{}/{wanted}", number(item, "/status/readyReplicas"))
}

fn list<'a>(item: &'a Tree, pointer: &str) -> &'a [Value] {
    item.get(pointer)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

fn ready_containers(item: &Tree) -> String {
    let ready = list(item, "/status/containerStatuses")
        .iter()
        .filter(|status| status.get("ready").and_then(Value::as_bool) == Some(true))
        .count();
    format!("{ready}/{}", list(item, "/spec/containers").len())
}

fn restarts(item: &Tree) -> String {
    list(item, "/status/containerStatuses")
        .iter()
        .filter_map(|status| status.get("restartCount")?.as_i64())
        .fold(0i64, i64::saturating_add)
        .to_string()
}

/// The phase, or the reason why a container is not running.
fn pod_status(item: &Tree) -> String {
    if item.get("/metadata/deletionTimestamp").is_some() {
        return "Terminating".to_owned();
    }
    let reason = list(item, "/status/containerStatuses").iter().find_map(|status| {
        let state = status.get("state")?;
        let waiting = state.pointer("/waiting/reason").and_then(Value::as_str);
        let ended = state.pointer("/terminated/reason").and_then(Value::as_str);
        waiting.or(ended)
    });
    reason
        .or(item.text("/status/reason"))
        .or(item.text("/status/phase"))
        .unwrap_or("Unknown")
        .to_owned()
}

fn node_status(item: &Tree) -> String {
    let ready = list(item, "/status/conditions")
        .iter()
        .find(|condition| condition.get("type").and_then(Value::as_str) == Some("Ready"))
        .and_then(|condition| condition.get("status")?.as_str());
    let mut status = match ready {
        Some("True") => "Ready".to_owned(),
        Some("False") => "NotReady".to_owned(),
        _ => "Unknown".to_owned(),
    };
    if item.get("/spec/unschedulable").and_then(Value::as_bool) == Some(true) {
        status.push_str(",SchedulingDisabled");
    }
    status
}

fn ports(item: &Tree) -> String {
    let ports: Vec<String> = list(item, "/spec/ports")
        .iter()
        .map(|port| {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or(0);
            let protocol = port.get("protocol").and_then(Value::as_str).unwrap_or("TCP");
            format!("{number}/{protocol}")
        })
        .collect();
    match ports.is_empty() {
        true => "<none>".to_owned(),
        false => ports.join(","),
    }
}

fn containers(item: &Tree, field: &str) -> String {
    let names: Vec<&str> = list(item, "/spec/template/spec/containers")
        .iter()
        .filter_map(|container| container.get(field)?.as_str())
        .collect();
    names.join(",")
}

fn involved(item: &Tree) -> String {
    let part = |field: &str| {
        item.text(&format!("/involvedObject/{field}"))
            .or_else(|| item.text(&format!("/regarding/{field}")))
            .unwrap_or_default()
    };
    format!("{}/{}", part("kind").to_lowercase(), part("name"))
}

fn last_seen(item: &Tree) -> String {
    age([
        "/lastTimestamp",
        "/series/lastObservedTime",
        "/eventTime",
        "/metadata/creationTimestamp",
    ]
    .iter()
    .find_map(|pointer| item.text(pointer)))
}

/// How long ago, as kubectl shows it: `45s`, `7m12s`, `3h5m`, `4d2h`, `90d`.
pub fn age(timestamp: Option<&str>) -> String {
    let Some(then) = timestamp.and_then(|text| text.parse::<Timestamp>().ok()) else {
        return "<unknown>".to_owned();
    };
    short(Timestamp::now().as_second().saturating_sub(then.as_second()))
}

/// Two units where the first is small, one where it is not.
fn short(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let with = |first: i64, unit: &str, rest: i64, rest_unit: &str| match rest {
        0 => format!("{first}{unit}"),
        rest => format!("{first}{unit}{rest}{rest_unit}"),
    };
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => with(minutes, "m", seconds % 60, "s"),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => with(hours, "h", minutes % 60, "m"),
        28_800..172_800 => format!("{hours}h"),
        172_800..691_200 => with(days, "d", hours % 24, "h"),
        691_200..63_072_000 => format!("{days}d"),
        63_072_000..252_288_000 => with(days / 365, "y", days % 365, "d"),
        _ => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(kind: &Kind, value: Value) -> Vec<String> {
        of(kind, false, true).row(&Tree(value))
    }

    #[test]
    fn a_pod_shows_why_it_is_not_running() {
        let pod = json!({
            "metadata": { "name": "cart", "namespace": "shop" },
            "spec": { "containers": [{ "name": "a" }, { "name": "b" }] },
            "status": { "phase": "Pending", "containerStatuses": [
                { "ready": true, "restartCount": 2, "state": { "running": {} } },
                { "ready": false, "restartCount": 5, "state": { "waiting": { "reason": "CrashLoopBackOff" } } },
            ] },
        });

        assert_eq!(
            row(&Kind::for_tests("", "v1", "Pod", "pods"), pod),
            ["shop", "cart", "1/2", "CrashLoopBackOff", "7", "<unknown>"]
        );
    }

    #[test]
    fn other_kinds_have_name_and_age() {
        let kind = Kind::for_tests("example.com", "v1", "Widget", "widgets");
        assert_eq!(of(&kind, false, false).head(), ["NAME", "AGE"]);
        assert_eq!(of(&kind, true, true).head(), ["NAMESPACE", "NAME", "AGE", "UID"]);
    }

    #[test]
    fn every_kind_has_as_many_cells_as_names_for_any_object() {
        for (group, kind) in [
            ("", "Pod"),
            ("", "Node"),
            ("apps", "Deployment"),
            ("apps", "ReplicaSet"),
            ("apps", "StatefulSet"),
            ("apps", "DaemonSet"),
            ("batch", "Job"),
            ("batch", "CronJob"),
            ("", "Service"),
            ("", "ConfigMap"),
            ("", "Secret"),
            ("", "Namespace"),
            ("", "PersistentVolumeClaim"),
            ("", "Event"),
            ("x", "Y"),
        ] {
            let columns = of(&Kind::for_tests(group, "v1", kind, "things"), true, true);
            for value in [
                json!({}),
                json!(null),
                json!({ "spec": [], "status": 1, "data": "x" }),
            ] {
                assert_eq!(columns.row(&Tree(value)).len(), columns.head().len());
            }
        }
    }

    #[test]
    fn ages_are_short() {
        let shown: Vec<String> = [
            -5, 7, 119, 120, 130, 601, 11_000, 100_000, 180_000, 800_000, 70_000_000,
        ]
        .map(short)
        .to_vec();
        assert_eq!(
            shown,
            [
                "0s", "7s", "119s", "2m", "2m10s", "10m", "3h3m", "27h", "2d2h", "9d", "2y80d"
            ]
        );
    }
}
