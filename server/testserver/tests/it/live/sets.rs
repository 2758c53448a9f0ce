//! Stateful sets, daemon sets, and the slices of services.

use std::cell::Cell;
use std::time::Duration;

use kube_testserver::builders::node;
use kube_testserver::{PodRule, TestServer};
use serde_json::{Value, json};

use super::{cluster, condition, delete, idle, image, images, names, object, patch, post, status, workload};

fn is_ready(pod: &Value) -> bool {
    condition(pod, "Ready").starts_with("True")
}

#[tokio::test(start_paused = true)]
async fn stateful_set_creates_its_pods_in_order_with_claims() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().ready_after(Duration::from_secs(3)));
    let mut db = workload("StatefulSet", "db", Some(3));
    db["spec"]["serviceName"] = json!("db");
    db["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": { "name": "data" },
        "spec": { "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } },
    }]);
    post(&server, "statefulsets.apps", &db).await;
    let early = Cell::new(false);
    server
        .wait_for("three pods are ready", |server| {
            let pods = server.objects("pods");
            let unready = pods.iter().filter(|pod| !is_ready(pod)).count();
            early.set(early.get() || unready > 1);
            pods.len() == 3 && unready == 0
        })
        .await;

    assert!(!early.get(), "a pod was created before its predecessor was ready");
    idle(&server).await;
    assert_eq!(names(&server, "pods"), ["db-0", "db-1", "db-2"]);
    assert_eq!(
        names(&server, "persistentvolumeclaims"),
        ["data-db-0", "data-db-1", "data-db-2"]
    );
    let pod = object(&server, "pods", "db-1");
    assert_eq!(pod["spec"]["hostname"], "db-1");
    assert_eq!(pod["spec"]["subdomain"], "db");
    assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    let claim = &pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"];
    assert_eq!(*claim, "data-db-1");
    let state = status(&server, "statefulsets.apps", "db");
    assert_eq!(
        (&state["readyReplicas"], &state["updatedReplicas"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(state["currentRevision"], state["updateRevision"]);

    // In reverse order, one at a time; claims stay.
    patch(
        &server,
        "statefulsets.apps",
        "db",
        &json!({ "spec": { "replicas": 1 } }),
    )
    .await;
    idle(&server).await;
    assert_eq!(names(&server, "pods"), ["db-0"]);
    assert_eq!(server.count("persistentvolumeclaims"), 3);
}

#[tokio::test(start_paused = true)]
async fn parallel_stateful_set_creates_all_pods_at_once() {
    let server = cluster(&["n1"]);
    server.pod_rule(PodRule::all().never_ready());
    let mut db = workload("StatefulSet", "db", Some(3));
    db["spec"]["podManagementPolicy"] = json!("Parallel");
    post(&server, "statefulsets.apps", &db).await;
    idle(&server).await;

    assert_eq!(names(&server, "pods"), ["db-0", "db-1", "db-2"]);
}

#[tokio::test(start_paused = true)]
async fn stateful_set_is_updated_from_the_last_pod_down_to_the_partition() {
    let server = cluster(&["n1"]);
    let mut db = workload("StatefulSet", "db", Some(3));
    db["spec"]["updateStrategy"] = json!({ "type": "RollingUpdate", "rollingUpdate": { "partition": 2 } });
    post(&server, "statefulsets.apps", &db).await;
    idle(&server).await;
    let before = status(&server, "statefulsets.apps", "db")["currentRevision"].clone();

    patch(&server, "statefulsets.apps", "db", &image("main:2")).await;
    idle(&server).await;
    let image_of = |server: &TestServer, pod: &str| {
        let pod = object(server, "pods", pod);
        pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned()
    };
    assert_eq!(images(&server), ["main:1", "main:1", "main:2"]);
    assert_eq!(image_of(&server, "db-2"), "main:2");
    let state = status(&server, "statefulsets.apps", "db");
    assert_eq!(
        (&state["updatedReplicas"], &state["currentReplicas"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(state["currentRevision"], before);
    assert_ne!(state["updateRevision"], before);

    // A pod below the partition comes back with the old template.
    delete(&server, "pods", "db-0").await;
    idle(&server).await;
    assert_eq!(image_of(&server, "db-0"), "main:1");

    let all = json!({ "spec": { "updateStrategy": { "rollingUpdate": { "partition": 0 } } } });
    patch(&server, "statefulsets.apps", "db", &all).await;
    idle(&server).await;
    assert_eq!(images(&server), ["main:2", "main:2", "main:2"]);
    let state = status(&server, "statefulsets.apps", "db");
    assert_eq!(state["currentRevision"], state["updateRevision"]);
    assert_eq!(server.count("controllerrevisions.apps"), 2);
}

#[tokio::test(start_paused = true)]
async fn daemon_set_runs_one_pod_on_every_node_that_fits() {
    let server = cluster(&["n1", "n2"]);
    let mut gpu = workload("DaemonSet", "agent", None);
    gpu["spec"]["template"]["spec"]["nodeSelector"] = json!({ "agent": "yes" });
    post(&server, "daemonsets.apps", &gpu).await;
    idle(&server).await;
    assert_eq!(server.count("pods"), 0);

    let label = json!({ "metadata": { "labels": { "agent": "yes" } } });
    for name in ["n1", "n2"] {
        patch(&server, "nodes", name, &label).await;
    }
    // A cordoned node still gets its pod.
    patch(
        &server,
        "nodes",
        "n2",
        &json!({ "spec": { "unschedulable": true } }),
    )
    .await;
    idle(&server).await;
    let mut nodes: Vec<Value> = server
        .objects("pods")
        .iter()
        .map(|pod| pod["spec"]["nodeName"].clone())
        .collect();
    nodes.sort_by_key(ToString::to_string);
    assert_eq!(nodes, ["n1", "n2"]);
    let state = status(&server, "daemonsets.apps", "agent");
    assert_eq!(
        (&state["desiredNumberScheduled"], &state["numberReady"]),
        (&json!(2), &json!(2))
    );

    patch(
        &server,
        "nodes",
        "n1",
        &json!({ "metadata": { "labels": { "agent": null } } }),
    )
    .await;
    idle(&server).await;
    assert_eq!(server.count("pods"), 1);
    server.create(node("n3"));
    patch(&server, "nodes", "n3", &label).await;
    idle(&server).await;
    assert_eq!(server.count("pods"), 2);
}

#[tokio::test(start_paused = true)]
async fn daemon_set_is_updated_one_node_at_a_time() {
    let server = cluster(&["n1", "n2", "n3"]);
    server.pod_rule(PodRule::all().ready_after(Duration::from_secs(2)));
    post(&server, "daemonsets.apps", &workload("DaemonSet", "agent", None)).await;
    let ready = |server: &TestServer| server.objects("pods").iter().filter(|pod| is_ready(pod)).count();
    server
        .wait_for("all pods are ready", |server| ready(server) == 3)
        .await;

    patch(&server, "daemonsets.apps", "agent", &image("main:2")).await;
    let fewest = Cell::new(3);
    server
        .wait_for("the update", |server| {
            fewest.set(fewest.get().min(ready(server)));
            images(server) == ["main:2"; 3] && ready(server) == 3
        })
        .await;

    assert_eq!(fewest.get(), 2);
    idle(&server).await;
    let state = status(&server, "daemonsets.apps", "agent");
    assert_eq!(state["updatedNumberScheduled"], 3);
    assert_eq!(state["observedGeneration"], 2);
}

#[tokio::test(start_paused = true)]
async fn endpoint_slice_follows_the_pods_of_a_service() {
    let server = cluster(&["n1"]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "name": "http", "port": 80, "targetPort": "web" }] },
    });
    post(&server, "services", &service).await;
    idle(&server).await;
    let slices = |server: &TestServer| server.objects("endpointslices.discovery.k8s.io");
    assert_eq!(slices(&server).len(), 1);
    assert_eq!(
        slices(&server)[0]["metadata"]["labels"]["kubernetes.io/service-name"],
        "web"
    );

    let mut web = workload("Deployment", "web", Some(2));
    web["spec"]["template"]["spec"]["containers"][0]["ports"] =
        json!([{ "name": "web", "containerPort": 8080 }]);
    post(&server, "deployments.apps", &web).await;
    idle(&server).await;
    let slice = &slices(&server)[0];
    assert_eq!(slices(&server).len(), 1);
    assert_eq!(
        slice["ports"],
        json!([{ "name": "http", "port": 8080, "protocol": "TCP" }])
    );
    let endpoints = slice["endpoints"].as_array().unwrap();
    assert_eq!(endpoints.len(), 2);
    for endpoint in endpoints {
        let pod = object(&server, "pods", endpoint["targetRef"]["name"].as_str().unwrap());
        assert_eq!(endpoint["addresses"][0], pod["status"]["podIP"]);
        let conditions = json!({ "ready": true, "serving": true, "terminating": false });
        assert_eq!(endpoint["conditions"], conditions);
        assert_eq!(endpoint["nodeName"], "n1");
    }

    // A pod that ends is still listed, as terminating, until it is gone.
    server.pod_rule(PodRule::all().end_after(Duration::from_secs(5)));
    let name = names(&server, "pods").remove(0);
    delete(&server, "pods", &name).await;
    idle(&server).await;
    let ending = slices(&server)[0]["endpoints"].as_array().unwrap().clone();
    let ending: Vec<&Value> = ending
        .iter()
        .filter(|endpoint| endpoint["conditions"]["terminating"] == true)
        .collect();
    assert_eq!(ending.len(), 1);
    assert_eq!(ending[0]["conditions"]["ready"], false);

    delete(&server, "services", "web").await;
    idle(&server).await;
    assert_eq!(slices(&server).len(), 0);
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_split_into_slices_of_a_hundred() {
    let server = cluster(&["n1"]);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": "web" },
        "spec": { "selector": { "app": "web" }, "ports": [{ "port": 80 }] },
    });
    post(&server, "services", &service).await;
    post(
        &server,
        "replicasets.apps",
        &workload("ReplicaSet", "web", Some(250)),
    )
    .await;
    idle(&server).await;

    let mut sizes: Vec<usize> = server
        .objects("endpointslices.discovery.k8s.io")
        .iter()
        .map(|slice| slice["endpoints"].as_array().unwrap().len())
        .collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [50, 100, 100]);
}
