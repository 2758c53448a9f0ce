//! Reading with kubectl.

use serde_json::Value;

use crate::cluster::Cluster;

pub async fn get_prints_the_usual_columns() {
    let cluster = Cluster::start(&["--objects", "pods=6,nodes=2,services=1,configmaps=1,secrets=1"]).await;
    let heading = |table: &[Vec<String>]| table.first().cloned().unwrap_or_default();

    let pods = cluster.table("get pods -A").await;
    assert_eq!(
        heading(&pods),
        ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    );
    assert_eq!(pods.len(), 7);
    assert_eq!(pods[1][2..5], ["1/1", "Running", "0"]);
    let wide = cluster.table("get pods -A -o wide").await;
    assert_eq!(
        heading(&wide)[6..],
        ["IP", "NODE", "NOMINATED NODE", "READINESS GATES"]
    );

    let nodes = cluster.table("get nodes").await;
    assert_eq!(heading(&nodes), ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
    assert_eq!(nodes[1][..3], ["node-000", "Ready", "control-plane"]);
    assert_eq!(
        heading(&cluster.table("get deploy -A").await)[2..5],
        ["READY", "UP-TO-DATE", "AVAILABLE"]
    );
    assert_eq!(
        heading(&cluster.table("get rs -A").await)[2..5],
        ["DESIRED", "CURRENT", "READY"]
    );
    assert_eq!(
        heading(&cluster.table("get svc -A").await)[2..6],
        ["TYPE", "CLUSTER-IP", "EXTERNAL-IP", "PORT(S)"]
    );
    assert_eq!(heading(&cluster.table("get cm -A").await)[2..], ["DATA", "AGE"]);
    assert_eq!(
        heading(&cluster.table("get secrets -A").await)[2..],
        ["TYPE", "DATA", "AGE"]
    );
    assert_eq!(
        heading(&cluster.table("get leases -A").await)[2..],
        ["HOLDER", "AGE"]
    );
    assert_eq!(heading(&cluster.table("get ns").await), ["NAME", "STATUS", "AGE"]);
    assert!(cluster.ok("get all -A").await.contains("deployment.apps/cart"));
}

pub async fn yaml_and_json_output_includes_the_type() {
    let cluster = Cluster::start(&["--objects", "pods=3,nodes=1"]).await;

    let list: Value = serde_json::from_str(&cluster.ok("get pods -n shop -o json").await).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 3);
    assert_eq!(list["items"][0]["kind"], "Pod");
    let yaml = cluster.ok("get node node-000 -o yaml").await;
    assert!(yaml.starts_with("apiVersion: v1\nkind: Node\n"), "{yaml}");
    let names = cluster.ok("get pods -n shop -o name").await;
    assert_eq!(names.lines().count(), 3);
    assert!(names.starts_with("pod/cart-"), "{names}");
    let phases = cluster
        .ok("get pods -n shop -o jsonpath={.items[*].status.phase}")
        .await;
    assert_eq!(phases, "Running Running Running");
    assert_eq!(cluster.table("get pods -n shop --chunk-size=1").await.len(), 4);
}

pub async fn selectors_filter_and_invalid_ones_are_reported() {
    let cluster = Cluster::start(&["--objects", "pods=12,nodes=2"]).await;

    let of_cart = cluster.ok("get pods -A -l app=cart -o name").await;
    assert!(!of_cart.is_empty() && of_cart.lines().all(|line| line.starts_with("pod/cart-")));
    let on_node = cluster
        .ok("get pods -A --field-selector spec.nodeName=node-000 -o name")
        .await
        .lines()
        .count();
    let elsewhere = cluster
        .ok("get pods -A --field-selector spec.nodeName!=node-000 -o name")
        .await
        .lines()
        .count();
    assert_eq!(on_node + elsewhere, 12);
    let error = cluster.error("get pods --field-selector spec.color=red").await;
    assert!(error.contains("field label not supported: spec.color"), "{error}");
    let error = cluster.error("get pod missing").await;
    assert!(
        error.contains("Error from server (NotFound): pods \"missing\" not found"),
        "{error}"
    );
}

pub async fn describe_shows_an_object_and_its_events() {
    let cluster = Cluster::start(&["--objects", "pods=2,nodes=1", "--churn", "200/s"]).await;
    // At a high rate every object soon has events.
    cluster
        .follow("get events -A -w")
        .line_with(&["node/node-000"])
        .await;

    let node = cluster.ok("describe node node-000").await;
    assert!(
        node.contains("Name:") && node.contains("node-000") && node.contains("Capacity:"),
        "{node}"
    );
    assert!(
        node.contains("NodeNotReady") || node.contains("NodeReady"),
        "{node}"
    );
    let deployment = cluster.ok("describe deployment -n shop cart").await;
    assert!(
        deployment.contains("Selector:") && deployment.contains("app=cart"),
        "{deployment}"
    );
}

pub async fn watch_prints_changes() {
    let cluster = Cluster::start(&["--objects", "pods=1,nodes=1"]).await;
    let mut follower = cluster.follow("get configmaps -n default -w");
    let first = cluster.write(
        "cm.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seen}\ndata: {a: \"1\"}\n",
    );
    cluster.ok(&format!("create -f {}", first.display())).await;

    let line = follower.line_with(&["seen"]).await;
    assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), ["seen", "1"]);
    cluster
        .ok_with(&[
            "patch",
            "cm",
            "seen",
            "--type=merge",
            "-p",
            r#"{"data":{"b":"2"}}"#,
        ])
        .await;
    follower.line_with(&["seen", " 2 "]).await;
}

pub async fn discovery_lists_kinds_and_versions() {
    let cluster = Cluster::start(&[]).await;

    let resources = cluster.ok("api-resources").await;
    for (name, kind) in [
        ("pods", "Pod"),
        ("deployments", "Deployment"),
        ("customresourcedefinitions", "CustomResourceDefinition"),
    ] {
        assert!(
            resources
                .lines()
                .any(|line| line.starts_with(name) && line.ends_with(kind)),
            "{resources}"
        );
    }
    let verbs = cluster
        .ok("api-resources --namespaced=false --verbs=watch -o name")
        .await;
    assert!(verbs.contains("nodes") && !verbs.contains("pods\n"), "{verbs}");
    let versions = cluster.ok("api-versions").await;
    assert!(
        versions.contains("autoscaling/v2") && versions.lines().any(|line| line == "v1"),
        "{versions}"
    );
    let version = cluster.ok("version").await;
    assert!(version.contains("Server Version: v1.37.1"), "{version}");
    assert_eq!(cluster.ok("get --raw /readyz").await, "ok");
    assert!(
        cluster
            .ok("explain configmap.metadata")
            .await
            .contains("ObjectMeta")
    );
}
