//! A real cluster is stopped with its handle, even after a panic.

use std::path::Path;

use kube_informers_e2e::{Server, Setup};
use tokio::task::JoinError;

/// The processes of a cluster, from the pid files of the script.
fn processes(directory: &Path) -> Vec<String> {
    ["etcd.pid", "apiserver.pid"]
        .iter()
        .filter_map(|file| std::fs::read_to_string(directory.join(file)).ok())
        .map(|number| number.trim().to_owned())
        .collect()
}

/// Whether a process is running.
fn runs(process: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| !state.trim_start().starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real API server: verify/scenarios/run starts one"]
async fn cluster_stops_with_its_handle_even_after_a_panic() {
    let server = match Server::real(&Setup::own()).await {
        Ok(server) => server,
        Err(error) => {
            return error
                .skip_loudly("stopping a cluster after a panic")
                .expect("a cluster, or a reason to skip");
        }
    };
    let directory = server
        .as_cluster()
        .expect("a real cluster")
        .directory()
        .to_owned();
    let processes = processes(&directory);
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().all(|process| runs(process)));

    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let _server = server;
        // Unwinds without a message: a log with panics is one with failures.
        std::panic::resume_unwind(Box::new("this panic is part of the test"));
    });
    let ended = tasks.join_next().await;

    assert!(ended.is_some_and(|ended: Result<(), JoinError>| ended.is_err_and(|error| error.is_panic())));
    assert!(
        !processes.iter().any(|process| runs(process)),
        "a process is still running"
    );
    assert!(!directory.exists(), "the directory was not removed");
}
