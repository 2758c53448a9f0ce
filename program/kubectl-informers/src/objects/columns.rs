//! The columns of a table: those of kubectl for common kinds, name and age for the others.

use kube_api_protocol::table::PrinterColumns;

use crate::objects::item::{Contents, Item, Tree};
use crate::objects::kinds::Kind;

const NAMESPACE: &str = "NAMESPACE";
const NAME: &str = "NAME";
/// Columns whose cells change by themselves.
const TIMES: [&str; 5] = ["AGE", "LAST SEEN", "FIRST SEEN", "DURATION", "LAST SCHEDULE"];

/// The columns of one kind.
pub struct Columns {
    printer: PrinterColumns,
    namespaces: bool,
    names: Vec<String>,
    /// The places of the names among the columns of the printer.
    places: Vec<usize>,
}

impl Columns {
    /// The names.
    pub fn head(&self) -> Vec<String> {
        let namespace = self.namespaces.then(|| NAMESPACE.to_owned());
        namespace.into_iter().chain(self.names.iter().cloned()).collect()
    }

    /// Inserts the server's columns, or their cells, after the name.
    pub fn insert(&self, row: &mut Vec<String>, of_server: Vec<String>) {
        let name = self.head().iter().position(|name| name == NAME);
        let at = name.map_or(0, |at| at + 1);
        row.splice(at..at, of_server);
    }

    /// The places of the columns of the wide output that say nothing about any of these rows.
    pub fn idle(&self, rows: &[Vec<String>]) -> Vec<usize> {
        let before = usize::from(self.namespaces);
        let is_wide: Vec<bool> = self.printer.head().map(|(_, is_wide)| is_wide).collect();
        let wide = self
            .places
            .iter()
            .enumerate()
            .filter(|(_, place)| is_wide.get(**place) == Some(&true))
            .map(|(at, _)| at + before);
        wide.filter(|at| {
            let cells = rows.iter().filter_map(|row| row.get(*at));
            cells
                .into_iter()
                .all(|cell| matches!(cell.as_str(), "" | "<none>"))
        })
        .collect()
    }

    /// The cells of an object.
    pub fn row(&self, item: &Tree) -> Vec<String> {
        let namespace = self
            .namespaces
            .then(|| item.text("/metadata/namespace").unwrap_or_default().to_owned());
        let mut cells = self.printer.row(&item.0);
        let shown = self
            .places
            .iter()
            .map(|place| cells.get_mut(*place).map(std::mem::take).unwrap_or_default());
        namespace.into_iter().chain(shown).collect()
    }
}

/// The columns of a kind: all of them if `all`, with the namespace if `namespaces`.
pub fn of(kind: &Kind, all: bool, namespaces: bool) -> Columns {
    let printer = printer(kind).unwrap_or_else(PrinterColumns::name_and_age);
    let shown = printer
        .head()
        .enumerate()
        .filter(|(_, (_, is_wide))| all || !is_wide);
    let (places, names) = shown.map(|(place, (name, _))| (place, name)).unzip();
    Columns {
        printer,
        namespaces,
        names,
        places,
    }
}

/// Whether this program has columns for a kind besides name and age.
pub fn are_known(kind: &Kind) -> bool {
    printer(kind).is_some()
}

/// The columns that tell the state of an object, with its cells: without namespace, name and times. Empty if this program has
/// none for its kind.
pub fn essentials(kind: &Kind, item: &Item) -> Vec<(String, String)> {
    let Some(printer) = printer(kind) else {
        return Vec::new();
    };
    let cells = printer.row(&item.tree().0);
    printer
        .head()
        .zip(cells)
        .filter(|((name, is_wide), _)| !is_wide && name != NAME && !TIMES.contains(&name.as_str()))
        .map(|((name, _), cell)| {
            // How long ago the last restart was is no change.
            let cell = match name.as_str() {
                "RESTARTS" => cell.split(" (").next().unwrap_or_default().to_owned(),
                _ => cell,
            };
            (name, cell)
        })
        .collect()
}

/// The columns of common kinds. Those of others are requested from the server, which may be newer than this program.
fn printer(kind: &Kind) -> Option<PrinterColumns> {
    let is_common = matches!(
        (kind.group.as_str(), kind.kind.as_str()),
        (
            "",
            "Pod"
                | "Node"
                | "Service"
                | "ConfigMap"
                | "Secret"
                | "Namespace"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
                | "Event",
        ) | ("events.k8s.io", "Event")
            | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet")
            | ("batch", "Job" | "CronJob")
    );
    PrinterColumns::of(&kind.group, &kind.plural).filter(|_| is_common)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::objects::item::received;

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
        assert_eq!(of(&kind, true, true).head(), ["NAMESPACE", "NAME", "AGE"]);
        assert!(!are_known(&kind));
    }

    #[test]
    fn wide_columns_without_a_value_are_idle() {
        let columns = of(&Kind::for_tests("", "v1", "Pod", "pods"), true, true);
        let row = |node: &str| {
            let spec = json!({ "nodeName": node });
            columns.row(&Tree(json!({ "metadata": { "name": "cart" }, "spec": spec })))
        };
        let idle = |rows: &[Vec<String>]| -> Vec<String> {
            let head = columns.head();
            columns
                .idle(rows)
                .into_iter()
                .map(|at| head[at].clone())
                .collect()
        };
        assert_eq!(
            idle(&[row(""), row("")]),
            ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
        );
        assert_eq!(
            idle(&[row(""), row("node-1")]),
            ["IP", "NOMINATED NODE", "READINESS GATES"]
        );
    }

    #[test]
    fn times_are_not_essential() {
        let kind = Kind::for_tests("", "v1", "Pod", "pods");
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "cart" },
            "spec": { "containers": [{ "name": "a" }] },
            "status": { "phase": "Running", "containerStatuses": [{
                "restartCount": 2, "lastState": { "terminated": { "finishedAt": "2026-01-02T03:04:05Z" } },
            }] },
        });
        assert!(row(&kind, pod.clone())[4].contains("2 ("));
        let cells: Vec<String> = essentials(&kind, &received(&kind, pod))
            .into_iter()
            .map(|(_, cell)| cell)
            .collect();
        assert_eq!(cells, ["0/1", "Running", "2"]);
    }

    #[test]
    fn common_kinds_need_no_table_of_the_server() {
        for (group, kind, plural) in [
            ("", "Pod", "pods"),
            ("", "Node", "nodes"),
            ("apps", "Deployment", "deployments"),
            ("apps", "ReplicaSet", "replicasets"),
            ("apps", "StatefulSet", "statefulsets"),
            ("apps", "DaemonSet", "daemonsets"),
            ("batch", "Job", "jobs"),
            ("batch", "CronJob", "cronjobs"),
            ("", "Service", "services"),
            ("", "ConfigMap", "configmaps"),
            ("", "Secret", "secrets"),
            ("", "Namespace", "namespaces"),
            ("", "PersistentVolume", "persistentvolumes"),
            ("", "PersistentVolumeClaim", "persistentvolumeclaims"),
            ("", "Event", "events"),
            ("events.k8s.io", "Event", "events"),
        ] {
            let kind = Kind::for_tests(group, "v1", kind, plural);
            assert!(are_known(&kind), "{plural}");
            let columns = of(&kind, true, true);
            assert!(columns.head().iter().any(|name| name == NAME), "{plural}");
            for value in [
                json!({}),
                json!(null),
                json!({ "spec": [], "status": 1, "data": "x" }),
            ] {
                assert_eq!(columns.row(&Tree(value)).len(), columns.head().len());
            }
        }
    }
}
