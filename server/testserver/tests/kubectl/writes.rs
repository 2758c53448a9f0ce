//! Writing with kubectl: create, apply, patch, scale, label, delete.

use serde_json::{Value, json};

use crate::cluster::Cluster;

const WEB: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: \"web:1\", env: [{name: A, value: \"1\"}, {name: B, value: \"2\"}]}
      - {name: log, image: \"log:1\"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: conf}
data: {a: \"1\"}
";

async fn json_of(cluster: &Cluster, object: &str) -> Value {
    serde_json::from_str(&cluster.ok(&format!("get {object} -o json")).await).unwrap()
}

pub async fn apply_creates_keeps_and_changes_objects() {
    let cluster = Cluster::start(&[]).await;
    let path = cluster.write("web.yaml", WEB);
    let apply = format!("apply -f {}", path.display());

    assert_eq!(
        cluster.ok(&apply).await,
        "deployment.apps/web created\nconfigmap/conf created\n"
    );
    assert_eq!(
        cluster.ok(&apply).await,
        "deployment.apps/web unchanged\nconfigmap/conf unchanged\n"
    );

    // Another image, one variable less, one container less: a strategic merge patch with directives.
    let changed = WEB
        .replace("web:1", "web:2")
        .replace(", {name: B, value: \"2\"}", "")
        .replace("      - {name: log, image: \"log:1\"}\n", "");
    cluster.write("web.yaml", &changed);
    assert_eq!(
        cluster.ok(&apply).await,
        "deployment.apps/web configured\nconfigmap/conf unchanged\n"
    );
    let web = json_of(&cluster, "deploy web").await;
    let containers = web
        .pointer("/spec/template/spec/containers")
        .unwrap()
        .as_array()
        .unwrap()
        .clone();
    assert_eq!(containers.len(), 1);
    assert_eq!(containers[0]["image"], "web:2");
    assert_eq!(containers[0]["env"], json!([{ "name": "A", "value": "1" }]));

    assert!(
        cluster
            .ok(&format!("diff -f {}", path.display()))
            .await
            .is_empty()
    );
    assert_eq!(
        cluster.ok(&format!("delete -f {}", path.display())).await,
        "deployment.apps \"web\" deleted\nconfigmap \"conf\" deleted\n"
    );
}

pub async fn server_side_apply_reports_conflicts_and_can_force_them() {
    let cluster = Cluster::start(&[]).await;
    let path = cluster.write(
        "conf.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {a: \"1\"}\n",
    );
    let apply = format!("apply --server-side -f {}", path.display());
    assert_eq!(cluster.ok(&apply).await, "configmap/conf serverside-applied\n");

    let error = {
        cluster.write(
            "conf.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {a: \"2\"}\n",
        );
        cluster.error(&format!("{apply} --field-manager=other")).await
    };
    assert!(
        error.contains("Apply failed with 1 conflict: conflict with \"kubectl\": .data.a"),
        "{error}"
    );

    cluster
        .ok(&format!("{apply} --field-manager=other --force-conflicts"))
        .await;
    assert_eq!(json_of(&cluster, "cm conf").await["data"], json!({ "a": "2" }));
}

pub async fn every_patch_type_is_accepted() {
    let cluster = Cluster::start(&[]).await;
    let path = cluster.write("web.yaml", WEB);
    cluster.ok(&format!("create -f {}", path.display())).await;

    let strategic = r#"{"spec":{"template":{"spec":{"containers":[{"name":"log","image":"log:2"}]}}}}"#;
    cluster
        .ok_with(&["patch", "deploy", "web", "-p", strategic])
        .await;
    let patch = r#"[{"op":"replace","path":"/spec/replicas","value":4}]"#;
    cluster
        .ok_with(&["patch", "deploy", "web", "--type=json", "-p", patch])
        .await;
    cluster
        .ok_with(&[
            "patch",
            "cm",
            "conf",
            "--type=merge",
            "-p",
            r#"{"data":{"a":null,"b":"2"}}"#,
        ])
        .await;

    let web = json_of(&cluster, "deploy web").await;
    assert_eq!(web["spec"]["replicas"], 4);
    let images: Vec<&Value> = web
        .pointer("/spec/template/spec/containers")
        .unwrap()
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["image"])
        .collect();
    assert_eq!(images, ["web:1", "log:2"]);
    assert_eq!(json_of(&cluster, "cm conf").await["data"], json!({ "b": "2" }));
    let error = cluster
        .error("patch deploy web --type=json -p [{\"op\":\"remove\",\"path\":\"/no/such\"}]")
        .await;
    assert!(
        error.contains("the server rejected our request due to an error in our request"),
        "{error}"
    );
}

pub async fn labels_annotations_scale_images_and_cordons_are_set() {
    let cluster = Cluster::start(&["--objects", "nodes=1"]).await;
    let path = cluster.write("web.yaml", WEB);
    cluster.ok(&format!("create -f {}", path.display())).await;

    assert_eq!(
        cluster.ok("label deploy web tier=front").await,
        "deployment.apps/web labeled\n"
    );
    assert_eq!(
        cluster.ok("label deploy web tier-").await,
        "deployment.apps/web unlabeled\n"
    );
    cluster.ok("annotate deploy web note=hello").await;
    assert_eq!(
        cluster.ok("scale deploy web --replicas=7").await,
        "deployment.apps/web scaled\n"
    );
    cluster.ok("set image deploy/web log=log:9").await;
    cluster.ok("cordon node-000").await;

    let web = json_of(&cluster, "deploy web").await;
    assert_eq!(web["metadata"]["annotations"]["note"], "hello");
    assert_eq!(web["metadata"]["labels"], json!({ "app": "web" }));
    assert_eq!(web["spec"]["replicas"], 7);
    assert_eq!(
        web.pointer("/spec/template/spec/containers/1/image").unwrap(),
        "log:9"
    );
    assert_eq!(cluster.table("get nodes").await[1][1], "Ready,SchedulingDisabled");
}

pub async fn duplicate_conflicting_and_invalid_writes_are_rejected_with_a_reason() {
    let cluster = Cluster::start(&[]).await;
    let path = cluster.write("web.yaml", WEB);
    let create = format!("create -f {}", path.display());
    cluster.ok(&create).await;

    let error = cluster.error(&create).await;
    assert!(
        error.contains("(AlreadyExists)") && error.contains("deployments.apps \"web\" already exists"),
        "{error}"
    );
    let stale = WEB
        .split("---")
        .nth(1)
        .unwrap()
        .replace("{name: conf}", "{name: conf, resourceVersion: \"1\"}");
    let stale = cluster.write("stale.yaml", &stale);
    let error = cluster.error(&format!("replace -f {}", stale.display())).await;
    assert!(
        error.contains("(Conflict)") && error.contains("the object has been modified"),
        "{error}"
    );
    let invalid = cluster.write(
        "bad.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: Bad_Name}\n",
    );
    let error = cluster.error(&format!("create -f {}", invalid.display())).await;
    assert!(
        error.contains("metadata.name: Invalid value: \"Bad_Name\": a lowercase RFC 1123 subdomain"),
        "{error}"
    );
    let error = cluster.error("delete cm missing").await;
    assert!(error.contains("configmaps \"missing\" not found"), "{error}");
}

pub async fn delete_waits_for_finalizers_and_supports_collections() {
    let cluster = Cluster::start(&[]).await;
    let held = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, labels: {set: held}, finalizers: [example.com/hold]}\n";
    let held = cluster.write("held.yaml", held);
    cluster.ok(&format!("create -f {}", held.display())).await;

    cluster.ok("delete cm held --wait=false").await;
    assert!(
        json_of(&cluster, "cm held").await["metadata"]
            .get("deletionTimestamp")
            .is_some()
    );
    cluster
        .ok_with(&[
            "patch",
            "cm",
            "held",
            "--type=merge",
            "-p",
            r#"{"metadata":{"finalizers":null}}"#,
        ])
        .await;
    assert!(cluster.error("get cm held").await.contains("NotFound"));

    for name in ["a", "b", "c"] {
        let text =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, labels: {{set: abc}}}}\n");
        let path = cluster.write("one.yaml", &text);
        cluster.ok(&format!("create -f {}", path.display())).await;
    }
    cluster.ok("delete cm -l set=abc").await;
    assert_eq!(cluster.ok("get cm -l set=abc -o name").await, "");
}

pub async fn create_commands_and_other_protobuf_writers_work() {
    let cluster = Cluster::start(&[]).await;
    for (arguments, said) in [
        ("create ns team", "namespace/team created"),
        ("create cm conf --from-literal=a=b", "configmap/conf created"),
        (
            "create secret generic pass --from-literal=a=b",
            "secret/pass created",
        ),
        ("create sa bot", "serviceaccount/bot created"),
        (
            "create deployment web --image=web:1 --replicas=0 --port=80",
            "deployment.apps/web created",
        ),
        ("create job once --image=x", "job.batch/once created"),
        (
            "create role r --verb=get --resource=pods",
            "role.rbac.authorization.k8s.io/r created",
        ),
        ("create quota q --hard=pods=3", "resourcequota/q created"),
        (
            "create pdb p --selector=app=web --min-available=50%",
            "poddisruptionbudget.policy/p created",
        ),
        (
            "create ingress i --rule=a.example/=web:80",
            "ingress.networking.k8s.io/i created",
        ),
        (
            "autoscale deploy web --min=1 --max=3 --cpu-percent=70",
            "horizontalpodautoscaler.autoscaling/web autoscaled",
        ),
        ("expose deploy web --port=80", "service/web exposed"),
        ("run lone --image=x", "pod/lone created"),
        ("auth can-i delete nodes", "yes"),
    ] {
        assert_eq!(cluster.ok(arguments).await.trim(), said, "kubectl {arguments}");
    }

    let web = json_of(&cluster, "deploy web").await;
    assert_eq!(web["spec"]["replicas"], 0);
    let container = web.pointer("/spec/template/spec/containers/0").unwrap();
    assert_eq!(
        container["ports"],
        json!([{ "containerPort": 80, "protocol": "TCP" }])
    );
    assert_eq!(
        json_of(&cluster, "secret pass").await["data"],
        json!({ "a": "Yg==" })
    );
    assert_eq!(json_of(&cluster, "pdb p").await["spec"]["minAvailable"], "50%");
    assert_eq!(
        json_of(&cluster, "quota q").await["spec"]["hard"],
        json!({ "pods": "3" })
    );
    assert!(cluster.ok("auth whoami").await.contains("system:masters"));
}

pub async fn controllers_reconcile_deployments_of_kubectl_under_churn() {
    let cluster = Cluster::start(&["--objects", "nodes=2", "--churn", "300/s", "--seed", "4"]).await;
    let path = cluster.write("web.yaml", WEB);
    cluster.ok(&format!("apply -f {}", path.display())).await;

    cluster.ok("rollout status deploy web --timeout=50s").await;
    assert!(!cluster.ok("get pods -l app=web -o name").await.trim().is_empty());

    cluster.ok("set image deploy/web log=log:2").await;
    cluster.ok("rollout status deploy web --timeout=50s").await;
    assert_eq!(cluster.ok("get rs -l app=web -o name").await.lines().count(), 2);
    cluster.ok("rollout undo deploy web").await;
    cluster.ok("rollout status deploy web --timeout=50s").await;
    let image = cluster
        .ok("get deploy web -o jsonpath={.spec.template.spec.containers[1].image}")
        .await;
    assert_eq!(image, "log:1");
    let history = cluster.ok("rollout history deploy web").await;
    assert!(history.contains('3'), "{history}");

    cluster.ok("delete deploy web").await;
    cluster.ok("wait --for=delete pod -l app=web --timeout=50s").await;
}
