//! client-go's leader election competes with ours.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use kube_differential::go;
use kube_leases::{Candidate, Election, ElectionConfig, LeaseName};
use kube_testserver::TestServer;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

struct GoCandidate {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl GoCandidate {
    fn start(program: &Path, server: &TestServer) -> Self {
        let mut process = Command::new(program)
            .args(["-server", &server.url().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        Self { process, lines }
    }

    /// Waits for a line. Other lines may precede it: client-go reports leaders from a separate goroutine.
    async fn wait_for_line(&mut self, expected: &str) {
        let line = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line == expected {
                    return;
                }
            }
            panic!("the program ended without the line {expected:?}");
        };
        timeout(TIMEOUT, line)
            .await
            .unwrap_or_else(|_| panic!("no line {expected:?} within the timeout"));
    }
}

fn candidate(server: &TestServer, identity: &str) -> Candidate {
    Election::new(
        server.client(),
        LeaseName::new("shop", "cart-controller"),
        identity,
    )
    .config(ElectionConfig {
        // Long enough for a busy machine: a candidate that cannot renew in time stops leading.
        lease_duration: Duration::from_secs(10),
        renew_deadline: Duration::from_secs(8),
        retry_period: Duration::from_millis(300),
        ..ElectionConfig::default()
    })
    .start()
    .unwrap()
}

pub async fn candidates_of_both_languages_exclude_each_other_and_hand_over() {
    let program = go::build("leader-election");
    let server = TestServer::start().await.unwrap();
    let first = candidate(&server, "rust-1");
    timeout(TIMEOUT, first.leading()).await.unwrap().unwrap();
    let mut go = GoCandidate::start(&program, &server);

    go.wait_for_line("leader rust-1").await;
    assert!(first.is_leader());
    first.shutdown().await;
    go.wait_for_line("leads").await;

    let mut second = candidate(&server, "rust-2");
    while second.leader().as_deref() != Some("go") {
        timeout(TIMEOUT, second.changed()).await.unwrap().unwrap();
    }
    assert!(!second.is_leader());
    drop(go.process.stdin.take());
    go.wait_for_line("stopped").await;
    let leadership = timeout(TIMEOUT, second.leading()).await.unwrap().unwrap();
    assert!(go.process.wait().await.unwrap().success());

    // A killed candidate does not release its Lease: the next one waits for it to expire.
    let mut go = GoCandidate::start(&program, &server);
    go.wait_for_line("leader rust-2").await;
    assert!(leadership.is_held());
    second.shutdown().await;
    go.wait_for_line("leads").await;
    go.process.kill().await.unwrap();
    let third = candidate(&server, "rust-3");
    timeout(TIMEOUT, third.leading()).await.unwrap().unwrap();
    third.shutdown().await;
}
