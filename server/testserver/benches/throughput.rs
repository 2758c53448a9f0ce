//! Throughput of the server: megabytes of lists, watch events and writes per second; and the time from the start of a process to the
//! response to its first request.
//!
//! `cargo bench -p kube-testserver -- [objects] [watchers] [events]`, by default 200,000, 1,000 and 2,000.
//! In process the numbers are the server's alone; over the socket they include hyper and the kernel.
//!
//! `cargo bench -p kube-testserver -- watches [watchers] [events]` measures watches alone, without other objects. It also
//! prints the processor time of an event, which varies less than the rate on a machine with other work.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::{BodyExt, Full};
use kube_testserver::{TestServer, TestService};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tower_service::Service;

/// The argument of the processes whose start is measured.
const FIRST_REQUEST: &str = "first-request";

fn main() {
    if std::env::args().nth(1).as_deref() == Some(FIRST_REQUEST) {
        first_request();
        return;
    }
    let watches_only = std::env::args().any(|argument| argument == "watches");
    let numbers: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let number = |at: usize, default: usize| numbers.get(at).copied().unwrap_or(default);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    if watches_only {
        runtime.block_on(watches(number(0, 1_000), number(1, 2_000)));
    } else {
        runtime.block_on(run(number(0, 200_000), number(1, 1_000), number(2, 2_000)));
    }
}

async fn watches(watchers: usize, events: usize) {
    let server = TestServer::new();
    let before = cpu_time();
    let (delivered, took) = watch(&server, watchers, events).await;
    report("watch", delivered, "events", took);
    let cpu = cpu_time() - before;
    let each = cpu.as_secs_f64() * 1e6 / delivered as f64;
    println!("{each:.2} µs of processor time per delivered event");
}

/// The processor time of this process. In hundredths of a second, the unit of `/proc`.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("/proc/self/stat");
    // The name in parentheses may contain spaces. User and system time are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = ticks.map(|field| field.parse::<u64>().expect("ticks")).sum();
    Duration::from_millis(ticks * 10)
}

async fn run(objects: usize, watchers: usize, events: usize) {
    let server = TestServer::builder()
        .listen("127.0.0.1:0")
        .await
        .expect("a free port");
    let started = Instant::now();
    server.load((0..objects).map(pod));
    report("load", objects, "objects", started.elapsed());

    let (bytes, took) = list(&server.service(), "/api/v1/pods").await;
    megabytes("list in process", bytes, took);
    let accept = "/api/v1/pods?resourceVersion=0";
    let (bytes, took) = list(&server.service(), accept).await;
    megabytes("list in process, cached", bytes, took);
    let (bytes, took) = paged(&server.service()).await;
    megabytes("list in process, pages of 500", bytes, took);
    let (bytes, took) = over_socket(&server, "/api/v1/pods").await;
    megabytes("list over the socket", bytes, took);

    for (count, label) in [(1, "watch, 1 watcher"), (watchers, "watch, many watchers")] {
        let (delivered, took) = watch(&server, count, events).await;
        report(label, delivered, "events", took);
    }
    drop(server);
    writes("", &TestServer::new()).await;
    writes(", conformant", &TestServer::builder().conformant().build()).await;
    starts();
}

/// Writes of one client, without the socket.
async fn writes(how: &str, server: &TestServer) {
    const WRITES: usize = 10_000;
    let namespaces = (0..100).map(|number| {
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": format!("ns-{number}") } })
    });
    server.load(namespaces);
    let collection = |number: usize| format!("/api/v1/namespaces/ns-{}/pods", number % 100);
    let object = |number: usize| format!("{}/pod-{number:06}", collection(number));
    let created: Vec<_> = (0..WRITES)
        .map(|number| write("POST", &collection(number), "application/json", &pod(number)))
        .collect();
    let replaced = (0..WRITES).map(|number| {
        let mut pod = pod(number);
        pod["metadata"]["labels"]["release"] = "2".into();
        write("PUT", &object(number), "application/json", &pod)
    });
    let replaced: Vec<_> = replaced.collect();
    let patched = (0..WRITES).map(|number| {
        let patch = json!({ "metadata": { "labels": { "release": "3" } } });
        write("PATCH", &object(number), "application/merge-patch+json", &patch)
    });
    let patched: Vec<_> = patched.collect();
    for (what, requests) in [("create", created), ("update", replaced), ("patch", patched)] {
        let started = Instant::now();
        for request in requests {
            let response = server.service().call(request).await.expect("a response");
            assert!(response.status().is_success(), "{what}: {}", response.status());
        }
        report(&format!("{what}{how}"), WRITES, "writes", started.elapsed());
    }
}

fn write(method: &str, path: &str, content: &str, body: &Value) -> Request<Full<Bytes>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", content)
        .body(body.to_string().into())
        .expect("a request")
}

/// A process of its own: nothing is compiled, parsed or cached in advance.
fn starts() {
    let program = std::env::current_exe().expect("a path");
    let mut times: Vec<Duration> = (0..20)
        .map(|_| {
            let started = Instant::now();
            let status = std::process::Command::new(&program).arg(FIRST_REQUEST).status();
            assert!(status.expect("started").success());
            started.elapsed()
        })
        .collect();
    times.sort();
    let median = times[times.len() / 2].as_secs_f64() * 1e3;
    let longest = times[times.len() - 1].as_secs_f64() * 1e3;
    println!("start to first response          {median:>10.1} ms (median of 20), {longest:.1} ms (longest)");
}

/// Starts a server, and creates an object over its socket.
fn first_request() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let server = TestServer::builder().conformant().listen("127.0.0.1:0").await;
        let server = server.expect("a free port");
        let address = server.url().unwrap_or_default().replace("http://", "");
        let mut stream = TcpStream::connect(address).await.expect("a connection");
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "bench" } }).to_string();
        let request = format!(
            "POST /api/v1/namespaces HTTP/1.1\r\nhost: bench\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{namespace}",
            namespace.len()
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut response = String::new();
        stream.read_to_string(&mut response).await.expect("whole");
        assert!(response.starts_with("HTTP/1.1 201"), "{response}");
    });
}

fn pod(number: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": format!("ns-{}", number % 100), "name": format!("pod-{number:06}"),
            "labels": {"app": format!("app-{}", number % 50), "pod-template-hash": "7d9c6b5f4"},
            "annotations": {"example.com/note": "n".repeat(400)},
        },
        "spec": {
            "nodeName": format!("node-{}", number % 500), "serviceAccountName": "default",
            "containers": (0..3).map(|container| json!({
                "name": format!("c{container}"), "image": "registry.example/app/image:1.2.3",
                "env": (0..8).map(|env| json!({"name": format!("VARIABLE_{env}"), "value": "v".repeat(30)})).collect::<Vec<_>>(),
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
            })).collect::<Vec<_>>(),
        },
        "status": {"phase": "Running", "podIP": "10.0.0.1", "hostIP": "10.1.0.1"},
    })
}

fn get(path: &str) -> Request<Full<Bytes>> {
    Request::get(path).body(Full::default()).expect("a request")
}

async fn list(service: &TestService, path: &str) -> (usize, Duration) {
    let started = Instant::now();
    let mut body = service
        .clone()
        .call(get(path))
        .await
        .expect("a response")
        .into_body();
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        bytes += frame.expect("whole").into_data().map_or(0, |data| data.len());
    }
    (bytes, started.elapsed())
}

async fn paged(service: &TestService) -> (usize, Duration) {
    let started = Instant::now();
    let (mut bytes, mut token) = (0, String::new());
    loop {
        let path = format!("/api/v1/pods?limit=500&continue={token}");
        let body = service
            .clone()
            .call(get(&path))
            .await
            .expect("a response")
            .into_body();
        let page = body.collect().await.expect("whole").to_bytes();
        bytes += page.len();
        // The continue token is at the start of the page; the items need not be parsed.
        let head = String::from_utf8_lossy(page.get(..1024.min(page.len())).unwrap_or_default()).into_owned();
        match head
            .split_once("\"continue\":\"")
            .and_then(|(_, rest)| rest.split_once('"'))
        {
            Some((next, _)) => token = next.to_owned(),
            None => return (bytes, started.elapsed()),
        }
    }
}

async fn over_socket(server: &TestServer, path: &str) -> (usize, Duration) {
    let address = server.url().unwrap_or_default().replace("http://", "");
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n");
    let started = Instant::now();
    stream.write_all(request.as_bytes()).await.expect("sent");
    let (mut bytes, mut buffer) = (0, vec![0; 256 * 1024]);
    loop {
        match stream.read(&mut buffer).await.expect("whole") {
            0 => return (bytes, started.elapsed()),
            read => bytes += read,
        }
    }
}

async fn watch(server: &TestServer, watchers: usize, events: usize) -> (usize, Duration) {
    let path = format!(
        "/api/v1/configmaps?watch=true&resourceVersion={}",
        server.resource_version()
    );
    let mut bodies = Vec::new();
    for _ in 0..watchers {
        bodies.push(
            server
                .service()
                .call(get(&path))
                .await
                .expect("a response")
                .into_body(),
        );
    }
    let started = Instant::now();
    let readers = join_all(bodies.into_iter().map(|mut body| async move {
        let mut seen = 0;
        while seen < events {
            let Some(Ok(frame)) = body.frame().await else {
                break;
            };
            seen += frame.into_data().map_or(0, |data| lines(&data));
        }
        seen
    }));
    let writer = async {
        for number in 0..events {
            server.put(json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "bench", "name": format!("c{}", number % 100)},
                "data": {"n": format!("{watchers}-{number}"), "filling": "x".repeat(1000)},
            }));
            // Yield now and then, so that the readers run as they would with writers on other connections.
            if number % 10 == 0 {
                tokio::task::yield_now().await;
            }
        }
    };
    let (seen, ()) = tokio::join!(readers, writer);
    (seen.into_iter().sum(), started.elapsed())
}

/// The number of lines. In chunks whose count fits into a byte, which is vectorised: with the obvious loop, counting took
/// more than twice the time of everything else.
fn lines(data: &[u8]) -> usize {
    let count = |chunk: &[u8]| chunk.iter().map(|&byte| u8::from(byte == b'\n')).sum::<u8>();
    data.chunks(255).map(|chunk| usize::from(count(chunk))).sum()
}

fn report(what: &str, count: usize, unit: &str, took: Duration) {
    let rate = count as f64 / took.as_secs_f64();
    println!(
        "{what:32} {count:>10} {unit:8} in {:>7.2} s  {rate:>12.0} {unit}/s",
        took.as_secs_f64()
    );
}

fn megabytes(what: &str, bytes: usize, took: Duration) {
    let size = bytes as f64 / 1e6;
    let rate = size / took.as_secs_f64();
    println!(
        "{what:32} {size:>10.1} MB       in {:>7.2} s  {rate:>12.0} MB/s",
        took.as_secs_f64()
    );
}
