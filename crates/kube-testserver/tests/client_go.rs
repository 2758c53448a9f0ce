//! client-go's informer against the server: where a Go toolchain is there, and loudly skipped where it is not.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

/// Builds the program, or says why not. The first build fetches client-go's modules and takes minutes.
async fn built() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/client-go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-go-informer");
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
        "\n*** SKIPPED: client-go's informer was not built, so nothing was tested here: {reason} ***\n"
    );
    None
}

struct Informer {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Informer {
    fn start(program: &Path, server: &str) -> Self {
        let mut process = Command::new(program)
            .args(["-server", server])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("the program was built");
        let lines = BufReader::new(process.stdout.take().expect("it is piped")).lines();
        Self { process, lines }
    }

    /// The next line, in short: `added shop/cart initial`.
    async fn next(&mut self) -> Option<String> {
        let line = timeout(PATIENCE, self.lines.next_line())
            .await
            .expect("a line in time");
        let line: Value = serde_json::from_str(&line.expect("text")?).expect("JSON");
        let field = |name: &str| line[name].as_str().unwrap_or_default().to_owned();
        let mut text = field("event");
        if !field("name").is_empty() {
            text.push_str(&format!(" {}/{}", field("namespace"), field("name")));
        }
        if line["initial"] == true {
            text.push_str(" initial");
        }
        if !field("cause").is_empty() {
            text.push_str(&format!(" {}", field("cause")));
        }
        Some(text)
    }

    async fn some(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..count {
            lines.push(self.next().await.expect("it goes on"));
        }
        lines
    }
}

#[tokio::test]
async fn client_gos_informer_lists_watches_and_notices_what_it_missed() {
    let Some(program) = built().await else { return };
    let server = TestServer::start().await.expect("a loopback socket");
    server.create(pod("shop", "cart"));
    server.create(pod("shop", "till"));
    let mut informer = Informer::start(&program, &server.url().expect("it listens"));

    let mut initial = informer.some(3).await;
    initial.sort();
    assert_eq!(
        initial,
        ["added shop/cart initial", "added shop/till initial", "synced"]
    );

    server.create(pod("shop", "shelf"));
    server.modify::<Pod>("shop", "till", |pod| *pod = pod.clone().label("tier", "front"));
    server.delete::<Pod>("shop", "shelf");
    assert_eq!(
        informer.some(3).await,
        [
            "added shop/shelf",
            "updated shop/till",
            "deleted shop/shelf observed"
        ]
    );

    // A pod goes while nobody watches, and the history with it.
    server.refuse_connections(true);
    server.break_watches();
    server.delete::<Pod>("shop", "cart");
    server.compact();
    server.refuse_connections(false);
    loop {
        // client-go tells of unchanged objects of a relist too.
        match informer.next().await.expect("it goes on").as_str() {
            "updated shop/till" => {}
            other => {
                assert_eq!(other, "deleted shop/cart missed");
                break;
            }
        }
    }

    drop(informer.process.stdin.take());
    let mut stored = Vec::new();
    while let Some(line) = informer.next().await {
        stored.extend(line.strip_prefix("stored ").map(str::to_owned));
    }
    assert_eq!(stored, ["shop/till"]);
    assert!(informer.process.wait().await.expect("it was started").success());
}
