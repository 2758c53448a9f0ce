//! Health checks and metrics.

use crate::state::ServerState;

/// The checks that a verbose response lists.
const CHECKS: &[&str] = &["ping", "log", "etcd"];

/// The body of `/livez`, `/readyz` and `/healthz`, or of one check below them; `None` if there is no such check.
pub(super) fn body(segments: &[&str], verbose: bool) -> Option<String> {
    match segments {
        [name] if verbose => {
            let mut text: String = CHECKS.iter().map(|check| format!("[+]{check} ok\n")).collect();
            text.push_str(&format!("{name} check passed\n"));
            Some(text)
        }
        [_] => Some("ok".to_owned()),
        [_, check] => CHECKS.contains(check).then(|| "ok".to_owned()),
        _ => None,
    }
}

/// The body of `/metrics`: what the server can count, in the text format of Prometheus.
pub(super) fn metrics(state: &ServerState) -> String {
    let mut text = String::from(
        "# HELP apiserver_storage_objects Number of stored objects.\n# TYPE apiserver_storage_objects gauge\n",
    );
    let mut lines: Vec<String> = {
        let store = state.store.read();
        let counts = store.collections().map(|(resource, objects)| {
            format!(
                "apiserver_storage_objects{{resource=\"{resource}\"}} {}\n",
                objects.len()
            )
        });
        counts.collect()
    };
    lines.sort();
    text.extend(lines);
    text.push_str("# HELP apiserver_longrunning_requests Number of open watches.\n# TYPE apiserver_longrunning_requests gauge\n");
    text.push_str(&format!(
        "apiserver_longrunning_requests{{verb=\"WATCH\"}} {}\n",
        state.hub.count(None)
    ));
    text
}
