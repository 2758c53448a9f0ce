//! Elections between client-go and ours, if a Go toolchain is installed.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kube_leases::{Candidate, Election, ElectionConfig, LeaseName};
use kube_testserver::TestServer;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Builds the program; prints the reason if it cannot. The first build fetches client-go's modules and takes minutes.
async fn built() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/leader-election-go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("leader-election-go");
    let build = Command::new("go")
        .args(["build", "-mod=readonly", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .output()
        .await;
    let reason = match build {
        Ok(output) if output.status.success() => return Some(program),
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("go cannot be run: {error}"),
    };
    eprintln!(
        "\n*** SKIPPED: client-go's leader election was not built, so nothing was tested here: {reason} ***\n"
    );
    None
}

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

    /// Waits for a line; others may come before it, since client-go reports leaders in a separate goroutine.
    async fn wait_for_line(&mut self, expected: &str) {
        let said = async {
            while let Some(line) = self.lines.next_line().await.unwrap() {
                if line == expected {
                    return;
                }
            }
            panic!("it ended without printing {expected:?}");
        };
        timeout(TIMEOUT, said)
            .await
            .unwrap_or_else(|_| panic!("it did not print {expected:?}"));
    }
}

fn candidate(server: &TestServer, identity: &str) -> Candidate {
    Election::new(
        server.client(),
        LeaseName::new("shop", "cart-controller"),
        identity,
    )
    .config(ElectionConfig {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(300),
        ..ElectionConfig::default()
    })
    .start()
    .unwrap()
}

#[tokio::test]
async fn go_and_rust_candidates_respect_leases_and_hand_over() {
    let Some(program) = built().await else { return };
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

    // A killed candidate releases nothing, so the lease must expire.
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
