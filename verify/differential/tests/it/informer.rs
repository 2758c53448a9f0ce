//! client-go's informer as a client of the embedded server.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_differential::go;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const TIMEOUT: Duration = Duration::from_secs(60);

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
            .expect("the informer starts");
        let lines = BufReader::new(process.stdout.take().expect("stdout is piped")).lines();
        Self { process, lines }
    }

    /// The next line, abbreviated: `added shop/cart initial`.
    async fn next(&mut self) -> Option<String> {
        let line = timeout(TIMEOUT, self.lines.next_line())
            .await
            .expect("a line within the timeout");
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

    async fn next_lines(&mut self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..count {
            lines.push(self.next().await.expect("the informer is still running"));
        }
        lines
    }
}

pub async fn client_go_informer_lists_watches_and_notices_missed_deletes() {
    let program = go::build("client-go");
    let server = TestServer::start().await.expect("a loopback socket");
    server.create(pod("shop", "cart"));
    server.create(pod("shop", "till"));
    let mut informer = Informer::start(&program, &server.url().expect("a URL"));

    let mut initial = informer.next_lines(3).await;
    initial.sort();
    assert_eq!(
        initial,
        ["added shop/cart initial", "added shop/till initial", "synced"]
    );

    server.create(pod("shop", "shelf"));
    server.modify::<Pod>("shop", "till", |pod| *pod = pod.clone().label("tier", "front"));
    server.delete::<Pod>("shop", "shelf");
    assert_eq!(
        informer.next_lines(3).await,
        [
            "added shop/shelf",
            "updated shop/till",
            "deleted shop/shelf observed"
        ]
    );

    // A pod is deleted while no watch is open, and the history of that is compacted.
    server.refuse_connections(true);
    server.break_watches();
    server.delete::<Pod>("shop", "cart");
    server.compact();
    server.refuse_connections(false);
    loop {
        // client-go also delivers updates for unchanged objects after a relist.
        match informer
            .next()
            .await
            .expect("the informer is still running")
            .as_str()
        {
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
    assert!(informer.process.wait().await.expect("an exit status").success());
}
