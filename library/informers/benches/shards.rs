//! The cost of one of several replicas: `cargo bench -p kube-informers --bench shards`.
//!
//! A server with 10,000 pods listens on a socket, with and without support for shards. A replica, in its own process
//! so that its memory can be measured, keeps all, half or a quarter of them during 2,000 changes.
//!
//! With `-- --moves` it prints what a replica receives when it gains a sixteenth of the hash space. These numbers do not
//! depend on the profile.

#[allow(dead_code, reason = "the other benchmark uses the rest")]
#[path = "line/data.rs"]
mod data;
#[allow(dead_code, reason = "the other benchmark uses the rest")]
#[path = "line/measure.rs"]
mod measure;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, ShardRange};
use kube_informers::{Informer, Scope};
use kube_testserver::TestServer;

const PODS: usize = 10_000;
const CHANGES: usize = 2_000;
const TIMEOUT: Duration = Duration::from_secs(120);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [flag, url, replicas] = arguments.as_slice()
        && flag == "--replica"
    {
        return replica(url, replicas.parse().expect("a number of replicas"));
    }
    if arguments.iter().any(|argument| argument == "--moves") {
        return moves();
    }
    println!(
        "{:<10} {:>8} {:>8} {:>12} {:>10} {:>10} {:>8}",
        "server", "replicas", "objects", "resident MB", "list MB", "watch MB", "CPU s"
    );
    for honours in [true, false] {
        for replicas in [1, 2, 4] {
            let server = if honours { "honours" } else { "ignores" };
            println!("{server:<10} {replicas:>8} {}", measured(honours, replicas));
        }
    }
}

/// Runs one replica against a new server and returns its report.
fn measured(honours: bool, replicas: u32) -> String {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime");
    let builder = TestServer::builder().bookmark_interval(Duration::from_secs(1));
    let builder = if honours { builder.sharding() } else { builder };
    let server = runtime.block_on(builder.listen("127.0.0.1:0")).expect("a port");
    load(&server);
    let names: Vec<(String, String)> = (0..PODS)
        .map(|number| {
            let pod = data::pod(number, 0);
            let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default().to_owned();
            (text("namespace"), text("name"))
        })
        .collect();

    let mut child = Command::new(std::env::current_exe().expect("the path of this program"))
        .args([
            "--replica",
            &server.url().expect("it listens"),
            &replicas.to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a run of this program");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut line = || lines.next().expect("a line").expect("text");
    assert_eq!(line(), "synced");
    for number in 0..CHANGES {
        let (namespace, name) = &names[number * 7 % PODS];
        server.modify::<Pod>(namespace.as_str(), name, |pod| {
            let annotations = pod.metadata.annotations.get_or_insert_default();
            annotations.insert("change".to_owned(), number.to_string());
        });
    }
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "{}", server.resource_version()).expect("it listens");
    let said = line();
    assert!(child.wait().expect("an end").success());
    said
}

/// Creates the pods.
fn load(server: &TestServer) {
    let pods = (0..PODS).map(|number| {
        let mut pod = data::pod(number, 0);
        pod["apiVersion"] = "v1".into();
        pod["kind"] = "Pod".into();
        // Random in all digits, as real UIDs are: FNV-1a maps texts that differ only at the end to nearby hashes.
        let mixed = (number as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (high, low) = (mixed >> 32, mixed & 0xffff);
        pod["metadata"]["uid"] = format!("{high:08x}-{low:04x}-4000-8000-{number:012x}").into();
        pod
    });
    server.load(pods);
}

/// What a replica receives when it gains a sixteenth, and what a list of the gained range alone would be.
fn moves() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    println!(
        "{:<10} {:>8} {:>10} {:>12} {:>10} {:>10}",
        "server", "owned", "move MB", "range MB", "objects", "decoded"
    );
    for honours in [true, false] {
        let builder = TestServer::builder();
        let builder = if honours { builder.sharding() } else { builder };
        let server = builder.build();
        load(&server);
        for owned in [1, 4, 8, 15] {
            let name = if honours { "honours" } else { "ignores" };
            let line = runtime.block_on(gain(&server, owned));
            println!("{name:<10} {:>8} {line}", format!("{owned}/16"));
        }
    }
}

async fn gain(server: &TestServer, owned: usize) -> String {
    let sixteenths = |range: std::ops::Range<usize>| {
        Shard::new(ShardField::Uid, ShardRange::ALL.split(16)[range].to_vec())
    };
    let start = async |shard: Shard| {
        let scope = Scope::all().shard(shard);
        let informer = Informer::<Pod>::scoped(server.client(), scope).start();
        informer.synced_within(TIMEOUT).await.expect("it syncs");
        informer
    };
    let stats = |informer: &Informer<Pod>| informer.stats().members[0].reflector.clone();
    let range = start(sixteenths(owned..owned + 1)).await;
    let replica = start(sixteenths(0..owned)).await;
    let before = stats(&replica);

    replica.set_shard(sixteenths(0..owned + 1)).expect("it runs");
    replica.settled().await.expect("it runs");

    let after = stats(&replica);
    let listed = after.list_items - before.list_items;
    format!(
        "{:>10.1} {:>12.1} {:>10} {:>10}",
        (after.bytes - before.bytes) as f64 / 1e6,
        stats(&range).bytes as f64 / 1e6,
        listed,
        listed - (after.reused - before.reused),
    )
}

/// Keeps the first of so many shards, and says what that costs.
fn replica(url: &str, replicas: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let config = kube::Config::new(url.parse().expect("an address"));
        let client = kube::Client::try_from(config).expect("a client");
        let first = ShardRange::ALL.split(replicas).into_iter().take(1);
        let scope = Scope::all().shard(Shard::new(ShardField::Uid, first));
        let before = measure::resident();
        let informer = Informer::<Pod>::scoped(client, scope).start();
        informer.synced_within(TIMEOUT).await.expect("it syncs");
        let bytes = || informer.stats().members[0].reflector.bytes as f64 / 1e6;
        let listed = bytes();
        println!("synced");

        let mut version = String::new();
        std::io::stdin().read_line(&mut version).expect("a version");
        informer
            .wait_for_within(version.trim(), TIMEOUT)
            .await
            .expect("it follows");
        println!(
            "{:>8} {:>12.1} {:>10.1} {:>10.1} {:>8.2}",
            informer.store().len(),
            measure::resident() - before,
            listed,
            bytes() - listed,
            measure::cpu_seconds(),
        );
    });
}
