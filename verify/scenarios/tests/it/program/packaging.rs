//! `serve` in a cluster: it runs with exactly the permissions of `packaging/serve.yaml`.

use std::net::SocketAddr;
use std::time::Duration;

use kube_informers_e2e::{Setup, TIMEOUT};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::place::{Place, Watching, err, program};

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/serve.yaml");
/// Of the page.
const TOKEN: &str = "0123456789abcdef";

/// The response to a request with the token of the page.
async fn get(address: SocketAddr, path: &str) -> String {
    let response = async {
        let mut socket = TcpStream::connect(address).await?;
        let request =
            format!("GET {path} HTTP/1.0\r\nHost: {address}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n");
        socket.write_all(request.as_bytes()).await?;
        let mut response = String::new();
        socket.read_to_string(&mut response).await?;
        std::io::Result::Ok(response)
    };
    timeout(TIMEOUT, response)
        .await
        .expect("a response in time")
        .expect("a response")
}

/// Waits for a response that has these words.
async fn becomes(address: SocketAddr, path: &str, words: &str) -> String {
    let mut last = String::new();
    let found = timeout(TIMEOUT, async {
        let mut look = tokio::time::interval(Duration::from_millis(100));
        loop {
            look.tick().await;
            last = get(address, path).await;
            if last.contains(words) {
                return;
            }
        }
    })
    .await;
    assert!(found.is_ok(), "{path} without {words:?}: {last}");
    last
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real API server: verify/scenarios/run starts one"]
async fn serve_runs_with_exactly_the_permissions_of_the_manifest() {
    // It creates objects with fixed names, which an existing cluster may have.
    let Some(place) = Place::new("the manifest of serve", &Setup::own()).await else {
        return;
    };
    let nothing = Value::Null;
    place
        .kubectl(&["create", "namespace", "informers"], &nothing)
        .await;
    // As packaging/README.md describes it. The manifest names its own namespace.
    let admin = |arguments: &[&str]| {
        let mut command = place.command("kubectl", arguments);
        command.args(["--namespace", "informers"]);
        super::place::finish(command)
    };
    let applied = admin(&["apply", "-f", MANIFEST]).await;
    assert!(applied.status.success(), "{}", err(&applied));
    let account = ["--as", "system:serviceaccount:informers:informers"];
    for kind in ["pods", "nodes", "events", "deployments.apps"] {
        for verb in ["list", "watch"] {
            let may = [&["auth", "can-i", verb, kind, "--all-namespaces"][..], &account].concat();
            assert_eq!(admin(&may).await.stdout, b"yes\n", "{verb} {kind}");
        }
        for verb in ["get", "create", "update", "patch", "delete", "deletecollection"] {
            let may = [&["auth", "can-i", verb, kind, "--all-namespaces"][..], &account].concat();
            assert_eq!(admin(&may).await.stdout, b"no\n", "{verb} {kind}");
        }
    }
    for kind in [
        "secrets",
        "configmaps",
        "services",
        "replicasets.apps",
        "serviceaccounts",
    ] {
        let may = [&["auth", "can-i", "list", kind, "--all-namespaces"][..], &account].concat();
        assert_eq!(admin(&may).await.stdout, b"no\n", "{kind}");
    }

    // With the token of the ServiceAccount and nothing else, as in the pod.
    let token = admin(&["create", "token", "informers"]).await;
    assert!(token.status.success(), "{}", err(&token));
    let token = String::from_utf8(token.stdout).expect("UTF-8");
    let deployment = admin(&["get", "deployment", "informers", "-o", "json"]).await;
    let deployment: Value = serde_json::from_slice(&deployment.stdout).expect("JSON");
    let arguments = &deployment["spec"]["template"]["spec"]["containers"][0]["args"];
    let arguments: Vec<&str> = arguments
        .as_array()
        .expect("arguments")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let mut all = arguments.clone();
    all.extend(["--port", "0", "--api-token", token.trim()]);
    let mut command = place.command(program(), &all);
    command.env("KUBECTL_INFORMERS_TOKEN", TOKEN);
    let mut serving = Watching::start(command);
    let line = serving.line_with("Serving http://").await;
    // `Serving http://0.0.0.0:8090/`, and how to send the token.
    let served = line.split("http://").nth(1).expect("an address");
    let host = served.split('/').next().expect("a host");
    let port = host.rsplit(':').next().expect("a port");
    let address: SocketAddr = format!("127.0.0.1:{port}").parse().expect("an address");

    becomes(address, "/readyz", " 200 OK").await;
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "seen" },
        "spec": { "containers": [{ "name": "a", "image": "a:1" }] } });
    place.kubectl(&["create", "-f", "-"], &pod).await;
    becomes(address, "/api/v1/kinds/pods/objects", "\"seen\"").await;
    let status = get(address, "/api/v1/status").await;
    assert!(status.contains("\"health\":\"live\""), "{status}");

    // Other kinds are refused, and the message names the account.
    let watch = ["watch", "secrets", "-A", "--api-token", token.trim()];
    let refused = place.run(&watch).await;
    assert_eq!(refused.status.code(), Some(1), "{}", err(&refused));
    assert!(
        err(&refused).contains("--serviceaccount=informers:informers"),
        "{}",
        err(&refused)
    );
}
