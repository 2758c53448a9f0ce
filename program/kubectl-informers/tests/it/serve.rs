//! `serve`: the JSON API, the stream, metrics and probes, over a socket.

use std::net::SocketAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube_testserver::builders::{Build, config_map, node, pod, secret};
use kube_testserver::{Fault, RequestMatcher};
use serde_json::Value;

use crate::http::{Events, get};
use crate::program::{Cluster, Program, within};

/// Starts `serve` on any port and waits until it listens.
pub async fn serve(cluster: &Cluster, arguments: &[&str]) -> (Program, SocketAddr) {
    let mut all = vec!["serve", "--port", "0"];
    all.extend(arguments);
    let mut program = cluster.start(&all);
    let line = program.line_with("Serving http://").await;
    let address = line
        .trim_start_matches("Serving http://")
        .split('/')
        .next()
        .unwrap()
        .to_owned();
    (program, address.parse().unwrap())
}

/// The same, and everything is in the caches.
pub async fn synced(cluster: &Cluster, arguments: &[&str]) -> (Program, SocketAddr) {
    let (program, address) = serve(cluster, arguments).await;
    within("readiness", async {
        while get(address, "/readyz").await.code != 200 {}
    })
    .await;
    (program, address)
}

fn names(found: &Value) -> Vec<&str> {
    let items = found["items"].as_array().unwrap();
    items
        .iter()
        .map(|item| item["metadata"]["name"].as_str().unwrap())
        .collect()
}

async fn shop() -> Cluster {
    let cluster = Cluster::new().await;
    for (namespace, name, app, on) in [
        ("shop", "cart-1", "cart", "node-1"),
        ("shop", "cart-2", "cart", "node-2"),
        ("shop", "web-1", "web", "node-1"),
        ("media", "player", "player", "node-1"),
    ] {
        let mut pod = pod(namespace, name).label("app", app);
        pod.spec.get_or_insert_default().node_name = Some(on.to_owned());
        cluster.server.create(pod);
    }
    cluster.server.create(node("node-1"));
    cluster
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_listed_by_name_namespace_label_and_index() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["pods,nodes"]).await;
    let list = async |query: &str| {
        get(address, &format!("/api/v1/kinds/pods/objects{query}"))
            .await
            .json()
    };

    assert_eq!(names(&list("").await), ["player", "cart-1", "cart-2", "web-1"]);
    assert_eq!(names(&list("?name=CART").await), ["cart-1", "cart-2"]);
    assert_eq!(names(&list("?namespace=media").await), ["player"]);
    assert_eq!(
        names(&list("?labelSelector=app%20in%20(web,player)").await),
        ["player", "web-1"]
    );
    assert_eq!(
        names(&list("?index=spec.nodeName&value=node-2").await),
        ["cart-2"]
    );
    assert_eq!(
        names(&list("?index=spec.nodeName&value=node-1&name=cart").await),
        ["cart-1"]
    );
    let page = list("?limit=1&offset=1").await;
    assert_eq!((names(&page), &page["total"]), (vec!["cart-1"], &Value::from(4)));
    assert!(page["resourceVersion"].is_string());

    let indexes = get(address, "/api/v1/kinds/pods/indexes/metadata.labels")
        .await
        .json();
    assert_eq!(
        indexes["values"][0],
        serde_json::json!({ "value": "app=cart", "count": 2 })
    );
    let rows = list("?view=rows&limit=1").await;
    assert_eq!(rows["rows"][0]["cells"][1], "player");
    assert_eq!(rows["columns"][1], "NAME");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_query_is_rejected_with_the_reason() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["pods"]).await;
    for (path, code, words) in [
        (
            "/api/v1/kinds/nodes/objects",
            404,
            "is not watched here; these are: pods",
        ),
        ("/api/v1/kinds/pods/objects?lable=x", 400, "there is no parameter"),
        ("/api/v1/kinds/pods/objects?limit=few", 400, "whole number"),
        (
            "/api/v1/kinds/pods/objects?labelSelector=a%3D%3D%3D",
            400,
            "label selector",
        ),
        (
            "/api/v1/kinds/pods/objects?index=zone&value=a",
            400,
            "has no index",
        ),
        ("/api/v1/kinds/pods/objects?index=namespace", 400, "needs a value"),
        ("/api/v1/kinds/pods/objects/shop/nobody", 404, "has no object"),
        ("/api/v1/kinds/pods/objects/%ff/x", 400, "UTF-8"),
        ("/api/v1/watch?kind=gadgets", 404, "is not watched here"),
        ("/nothing", 404, "there is nothing at"),
        ("/../../etc/passwd", 404, "there is nothing at"),
    ] {
        let answer = get(address, path).await;
        assert_eq!(answer.code, code, "{path}: {}", answer.body);
        assert!(
            answer.json()["error"].as_str().unwrap().contains(words),
            "{path}: {}",
            answer.body
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_object_keeps_its_history() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["pods,nodes"]).await;
    let path = "/api/v1/kinds/pods/objects/shop/web-1";
    let mut events = Events::open(address, "/api/v1/watch?kind=pods&name=web-1", "").await;
    assert_eq!(events.next().await.unwrap().event, "hello");
    let before = get(address, path).await.json();
    assert_eq!(
        (&before["changes"], &before["deleted"]),
        (&Value::from(0), &Value::from(false))
    );

    cluster.server.modify("shop", "web-1", |pod: &mut Pod| {
        pod.spec.get_or_insert_default().containers[0].image = Some("web:2".to_owned());
    });
    assert_eq!(events.next_of("change").await.data["event"], "updated");
    let changed = get(address, path).await.json();
    let fields = changed["history"][0]["diff"].as_array().unwrap();
    assert!(
        fields
            .iter()
            .any(|field| field["path"] == "/spec/containers/0/image" && field["new"] == "web:2"),
        "{fields:?}"
    );
    assert_eq!(changed["object"]["spec"]["containers"][0]["image"], "web:2");

    cluster.server.delete::<Pod>("shop", "web-1");
    within("the end of the pod", async {
        while events.next_of("change").await.data["event"] != "deleted" {}
    })
    .await;
    let gone = get(address, path).await.json();
    assert_eq!(gone["deleted"], true);
    assert_eq!(gone["object"]["metadata"]["name"], "web-1", "as it last was");
    assert_eq!(
        get(address, "/api/v1/kinds/nodes/objects/-/node-1").await.code,
        200
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_resumes_at_its_position() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["pods"]).await;
    let cursor = get(address, "/api/v1/kinds/pods/objects").await.json()["cursor"]
        .as_str()
        .unwrap()
        .to_owned();
    for name in ["new-1", "new-2"] {
        cluster.server.create(pod("shop", name).label("app", name));
    }

    let mut first = Events::open(address, &format!("/api/v1/watch?since={cursor}"), "").await;
    let hello = first.next().await.unwrap();
    assert_eq!(
        (hello.event.as_str(), &hello.data["fresh"]),
        ("hello", &Value::from(false))
    );
    let one = first.next_of("change").await;
    assert_eq!(one.data["name"], "new-1");
    drop(first);
    let headers = format!("Last-Event-ID: {}\r\n", one.id.unwrap());
    let mut second = Events::open(address, &format!("/api/v1/watch?since={cursor}"), &headers).await;
    assert_eq!(
        second.next_of("change").await.data["name"],
        "new-2",
        "the header goes before the address"
    );

    let mut chosen = Events::open(
        address,
        &format!("/api/v1/watch?since={cursor}&labelSelector=app=new-2"),
        "",
    )
    .await;
    assert_eq!(chosen.next_of("change").await.data["name"], "new-2");
    let mut foreign = Events::open(address, "/api/v1/watch?since=0123-4", "").await;
    assert_eq!(
        foreign.next().await.unwrap().data["fresh"],
        true,
        "a place of another run is none here"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_reader_is_notified() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["configmaps"]).await;
    let cursor = get(address, "/api/v1/kinds/configmaps/objects").await.json()["cursor"]
        .as_str()
        .unwrap()
        .to_owned();
    for number in 0..4200 {
        cluster
            .server
            .create(config_map("shop", &format!("map-{number}")));
    }
    let logged = async || {
        get(address, "/api/v1/changes?limit=1").await.json()["last"]
            .as_u64()
            .unwrap()
    };
    within("all changes", async { while logged().await < 4200 {} }).await;

    let mut late = Events::open(address, &format!("/api/v1/watch?since={cursor}"), "").await;
    let gap = late.next_of("gap").await;
    assert!(gap.data["missed"].as_u64().unwrap() >= 100, "{gap:?}");
    assert_eq!(
        late.next_of("change").await.data["event"],
        "added",
        "and goes on with what is left"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn readiness_names_what_is_missing() {
    let cluster = shop().await;
    cluster
        .server
        .fault(RequestMatcher::resource("nodes").forever(), Fault::status(503));
    let (_program, address) = serve(&cluster, &["pods,nodes"]).await;

    within("the pods", async {
        let waits = |body: &str| body.lines().count() == 1 && body.ends_with("not synced yet: nodes\n");
        while !waits(&get(address, "/readyz").await.body) {}
    })
    .await;
    let answer = get(address, "/readyz").await;
    assert_eq!((answer.code, get(address, "/healthz").await.code), (503, 200));
    // The status is updated once a second, perhaps just before the list was complete.
    within("the watch that is open", async {
        let mut look = tokio::time::interval(std::time::Duration::from_millis(50));
        loop {
            let status = get(address, "/api/v1/status").await.json();
            assert_eq!(status["synced"], false);
            if status["kinds"][0]["objects"] == 4 && status["cost"]["watches"] == 1 {
                break;
            }
            look.tick().await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_counted() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["pods"]).await;
    let mut events = Events::open(address, "/api/v1/watch", "").await;
    assert_eq!(events.next().await.unwrap().event, "hello");
    cluster.server.create(pod("shop", "new"));
    events.next_of("change").await;

    let answer = get(address, "/metrics").await;
    assert!(
        answer
            .header("content-type")
            .unwrap()
            .starts_with("application/openmetrics-text; version=1.0.0")
    );
    for line in [
        "kube_informers_changes_total{name=\"pods\",group=\"\",version=\"v1\",resource=\"pods\",event=\"added\"} 1.0",
        "informer_synced{name=\"pods\"} 1.0",
        "informer_objects{name=\"pods\"} 5.0",
        "reflector_lists_total{name=\"pods\"} 1.0",
        "informer_handler_backlog{name=\"pods\",handler=\"shown\"} 0.0",
        "# EOF",
    ] {
        assert!(
            answer.body.lines().any(|found| found == line),
            "{line} is not in:\n{}",
            answer.body
        );
    }
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_the_cost_of_the_process() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["pods"]).await;

    let body = get(address, "/metrics").await.body;

    let value = |name: &str| -> f64 {
        let line = body.lines().find(|line| line.starts_with(&format!("{name} ")));
        let line = line.unwrap_or_else(|| panic!("{name} is not in:\n{body}"));
        line.split(' ').nth(1).unwrap().parse().unwrap()
    };
    assert!(value("process_cpu_seconds_total") > 0.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_open_fds") > 3.0);
    assert!(value("process_start_time_seconds") > 1.7e9);
}

/// A cluster can have any number of managers, and Prometheus not any number of series.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_count_changes_by_manager_and_have_bounded_series() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["pods"]).await;
    let pods: kube::Api<Pod> = kube::Api::namespaced(cluster.server.client(), "shop");
    for number in 0..250 {
        let manager = kube::api::PatchParams {
            field_manager: Some(format!("manager-{number:03}")),
            ..Default::default()
        };
        let patch = serde_json::json!({ "metadata": { "labels": { "turn": number.to_string() } } });
        pods.patch("cart-1", &manager, &kube::api::Patch::Merge(patch))
            .await
            .unwrap();
    }

    let counted = |body: &str| -> Vec<(String, f64)> {
        body.lines()
            .filter(|line| line.starts_with("kubectl_informers_manager_changes_total{name=\"pods\""))
            .map(|line| {
                let manager = line
                    .split("manager=\"")
                    .nth(1)
                    .unwrap()
                    .split('"')
                    .next()
                    .unwrap();
                let value = line.rsplit(' ').next().unwrap();
                (manager.to_owned(), value.parse().unwrap())
            })
            .collect()
    };
    let found = within("every change", async {
        loop {
            let found = counted(&get(address, "/metrics").await.body);
            if found.iter().map(|(_, count)| count).sum::<f64>() >= 250.0 {
                return found;
            }
        }
    })
    .await;
    assert!(found.len() <= 201, "{}", found.len());
    assert!(found.contains(&("manager-000".to_owned(), 1.0)), "{found:?}");
    let other = found.iter().find(|(manager, _)| manager == "other");
    assert!(other.is_some_and(|(_, count)| *count >= 50.0), "{found:?}");
}

/// The table in the documentation lists what is exported.
#[tokio::test(flavor = "multi_thread")]
async fn every_metric_is_documented_announced_once_and_a_number() {
    let cluster = shop().await;
    let (_program, address) = synced(&cluster, &["pods,deployments"]).await;
    let mut events = Events::open(address, "/api/v1/watch", "").await;
    assert_eq!(events.next().await.unwrap().event, "hello");
    cluster.server.create(pod("shop", "new"));
    events.next_of("change").await;

    let body = get(address, "/metrics").await.body;

    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/serve.md");
    let docs = std::fs::read_to_string(docs).unwrap();
    let types: Vec<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    assert!(types.len() > 25, "{body}");
    for announced in &types {
        let (name, kind) = announced.split_once(' ').unwrap();
        let sample = match kind {
            "counter" => format!("{name}_total"),
            _ => name.to_owned(),
        };
        assert!(
            docs.contains(&format!("`{sample}`")),
            "{sample} is not in docs/reference/serve.md"
        );
        let again = types.iter().filter(|other| other.split(' ').next() == Some(name));
        assert_eq!(again.count(), 1, "{name}");
    }
    for line in body.lines().filter(|line| !line.starts_with('#')) {
        let (_, value) = line.rsplit_once(' ').unwrap();
        assert!(value.parse::<f64>().is_ok(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_secrets_are_in_no_response() {
    let cluster = Cluster::new().await;
    let canary = "correct-horse-battery";
    let mut object = secret("shop", "db").annotation(
        "kubectl.kubernetes.io/last-applied-configuration",
        &format!("{{\"stringData\":{{\"password\":\"{canary}\"}}}}"),
    );
    object.data = Some([("password".to_owned(), k8s_openapi::ByteString(canary.into()))].into());
    cluster.server.create(object);
    let (program, address) = synced(&cluster, &["secrets"]).await;
    let mut events = Events::open(address, "/api/v1/watch?status=true", "").await;
    assert_eq!(events.next().await.unwrap().event, "hello");
    cluster.server.modify("shop", "db", |secret: &mut Secret| {
        let other = k8s_openapi::ByteString(format!("{canary}2").into());
        secret.data = Some([("password".to_owned(), other)].into());
    });
    let change = events.next_of("change").await;
    assert_eq!(change.data["diff"][0]["new"], "<22 bytes>");

    let mut everything = format!("{:?}", change.data) + &program.everything();
    for path in [
        "/api/v1/kinds/secrets/objects",
        "/api/v1/kinds/secrets/objects?view=rows",
        "/api/v1/kinds/secrets/objects/shop/db",
        "/api/v1/kinds/secrets/indexes/metadata.labels",
        "/api/v1/changes",
        "/api/v1/status",
        "/metrics",
    ] {
        let answer = get(address, path).await;
        assert_eq!(answer.code, 200, "{path}");
        everything.push_str(&answer.body);
    }
    assert!(
        everything.contains("<21 bytes>"),
        "the value is there, as its length"
    );
    for form in [
        canary.to_owned(),
        STANDARD.encode(canary),
        STANDARD.encode(format!("{canary}2")),
    ] {
        assert!(!everything.contains(&form), "a value was shown");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn show_secrets_is_refused() {
    let cluster = Cluster::new().await;
    let ended = cluster.run(&["serve", "--show-secrets", "--port", "0"]).await;
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.err.contains("--show-secrets cannot be used with serve"),
        "{}",
        ended.err
    );
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn it_ends_promptly_with_streams_open_and_leaves_nothing_behind() {
    let cluster = shop().await;
    let (program, address) = synced(&cluster, &["pods"]).await;
    let mut events = Events::open(address, "/api/v1/watch", "").await;
    assert_eq!(events.next().await.unwrap().event, "hello");

    program.signal("TERM").await;
    // That the pods are synced may come late; after that there is only the end.
    while let Some(sent) = events.next().await {
        assert_eq!(sent.event, "synced");
    }
    assert_eq!(program.end().await.code, Some(143));
    within("the end of all watches", async {
        while cluster.server.open_watches() > 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
