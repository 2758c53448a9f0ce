//! A live cluster: kubectl commands that need controllers.

use crate::cluster::Cluster;

const APPLICATION: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: \"web:1\", ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec: {containers: [{name: db, image: \"db:1\"}]}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: agent, image: \"agent:1\"}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: load, namespace: shop}
spec:
  completions: 2
  template: {spec: {restartPolicy: Never, containers: [{name: load, image: \"load:1\"}]}}
";

async fn start(flags: &[&str]) -> Cluster {
    let cluster = Cluster::start(flags).await;
    let path = cluster.write("application.yaml", APPLICATION);
    cluster.ok(&format!("apply -f {}", path.display())).await;
    cluster
}

const WAIT: &str = "-n shop --timeout=50s";

pub async fn live_cluster_needs_no_other_flag() {
    let cluster = start(&["--live"]).await;
    for workload in ["deploy/web", "sts/db", "ds/agent"] {
        cluster.ok(&format!("rollout status {workload} {WAIT}")).await;
    }
    cluster
        .ok(&format!("wait --for=condition=complete job/load {WAIT}"))
        .await;
    cluster
        .ok(&format!("wait --for=condition=available deploy/web {WAIT}"))
        .await;
    cluster
        .ok(&format!("wait --for=condition=ready pod -l app=db {WAIT}"))
        .await;

    let nodes = cluster.table("get nodes").await;
    assert_eq!(nodes.len(), 2, "{nodes:?}");
    let web = cluster.table("get deploy web -n shop --no-headers").await;
    assert_eq!(&web[0][..4], ["web", "3/3", "3", "3"]);
    let sets = cluster.table("get sts,ds -n shop --no-headers").await;
    assert!(
        sets.iter().any(|row| row[..2] == ["statefulset.apps/db", "2/2"]),
        "{sets:?}"
    );
    let job = cluster.table("get job load -n shop --no-headers").await;
    assert_eq!(&job[0][..3], ["load", "Complete", "2/2"]);
    let described = cluster.ok("describe svc web -n shop").await;
    assert!(described.contains(":8080,10."), "{described}");
    let described = cluster.ok("describe deploy web -n shop").await;
    assert!(described.contains("Scaled up replica set web-"), "{described}");
}

pub async fn rollouts_are_followed_undone_and_scaled() {
    let cluster = start(&["--live"]).await;
    for (workload, container) in [("deploy/web", "web"), ("sts/db", "db"), ("ds/agent", "agent")] {
        let image = format!("get {workload} -n shop -o jsonpath={{.spec.template.spec.containers[0].image}}");
        cluster.ok(&format!("rollout status {workload} {WAIT}")).await;
        cluster
            .ok(&format!("set image {workload} {container}={container}:2 -n shop"))
            .await;
        cluster.ok(&format!("rollout status {workload} {WAIT}")).await;
        let history = cluster.ok(&format!("rollout history {workload} -n shop")).await;
        assert!(
            history.lines().any(|line| line.starts_with('2')),
            "{workload}: {history}"
        );

        cluster.ok(&format!("rollout undo {workload} -n shop")).await;
        cluster.ok(&format!("rollout status {workload} {WAIT}")).await;
        assert_eq!(cluster.ok(&image).await, format!("{container}:1"));
        let images =
            format!("get pods -n shop -l app={container} -o jsonpath={{.items[*].spec.containers[0].image}}");
        let images = cluster.ok(&images).await;
        assert!(
            images.split(' ').all(|image| image == format!("{container}:1")),
            "{images}"
        );
    }
    cluster.ok("rollout restart deploy/web -n shop").await;
    cluster.ok(&format!("rollout status deploy/web {WAIT}")).await;
    cluster.ok("scale deploy/web --replicas=5 -n shop").await;
    cluster
        .ok(&format!(
            "wait --for=jsonpath={{.status.availableReplicas}}=5 deploy/web {WAIT}"
        ))
        .await;
}

pub async fn drained_node_is_empty_and_pods_move() {
    let cluster = start(&["--live", "--objects", "nodes=2"]).await;
    cluster.ok(&format!("rollout status deploy/web {WAIT}")).await;
    cluster.ok(&format!("rollout status sts/db {WAIT}")).await;
    cluster
        .ok(&format!("wait --for=condition=complete job/load {WAIT}"))
        .await;

    cluster
        .ok("drain node-000 --ignore-daemonsets --delete-emptydir-data --force --timeout=50s")
        .await;
    cluster.ok(&format!("rollout status deploy/web {WAIT}")).await;
    let nodes = cluster
        .ok("get pods -n shop -l app=web -o jsonpath={.items[*].spec.nodeName}")
        .await;
    assert!(nodes.split(' ').all(|node| node == "node-001"), "{nodes}");
}

pub async fn namespace_is_deleted_with_everything_in_it() {
    let cluster = start(&["--live"]).await;
    cluster.ok(&format!("rollout status deploy/web {WAIT}")).await;

    cluster.ok("delete namespace shop --timeout=50s").await;
    let left = cluster.ok("get pods,deploy,rs,sts,ds,job -A -o name").await;
    assert_eq!(left, "");
}

pub async fn own_deployment_is_rolled_out_at_once_despite_churn() {
    let cluster = start(&[
        "--live",
        "--objects",
        "pods=100,nodes=4",
        "--churn",
        "50/s",
        "--seed",
        "2",
    ])
    .await;
    cluster.ok(&format!("rollout status deploy/web {WAIT}")).await;
    cluster.ok("set image deploy/web web=web:2 -n shop").await;
    cluster.ok(&format!("rollout status deploy/web {WAIT}")).await;
}
