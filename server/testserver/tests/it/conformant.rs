//! A conformant server: types, defaults, allocated values, validation, immutable fields. The recorded exchanges compare
//! many more cases with a real server.

use http::Method;
use kube_testserver::TestServer;
use serde_json::{Value, json};

use crate::common::{get, send, send_as};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const MERGE: &str = "application/merge-patch+json";

pub(crate) fn server() -> TestServer {
    let server = TestServer::builder().conformant().build();
    server.create_system_objects();
    server
}

pub(crate) fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "nginx"}]},
            },
        },
    })
}

#[tokio::test(start_paused = true)]
async fn defaults_are_stored_and_belong_to_the_manager() {
    let server = server();

    let created = send(&server, Method::POST, DEPLOYMENTS, &deployment())
        .await
        .json();

    assert_eq!(created["spec"]["replicas"], 1);
    assert_eq!(created["spec"]["strategy"]["rollingUpdate"]["maxSurge"], "25%");
    let fields = &created["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"];
    assert!(fields.get("f:progressDeadlineSeconds").is_some(), "{fields}");
}

#[tokio::test(start_paused = true)]
async fn invalid_objects_are_rejected_with_every_cause() {
    let server = server();
    let mut wrong = deployment();
    wrong["spec"]["replicas"] = json!(-1);
    wrong["spec"]["selector"]["matchLabels"]["app"] = json!("other");

    let rejected = send(&server, Method::POST, DEPLOYMENTS, &wrong).await;

    assert_eq!(
        rejected.error(),
        (
            422,
            "Invalid".to_owned(),
            "Deployment.apps \"web\" is invalid: [spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: \
             `selector` does not match template `labels`, spec.replicas: Invalid value: -1: must be greater than or \
             equal to 0]"
                .to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn values_of_the_wrong_type_and_unknown_fields_are_rejected() {
    let server = server();
    let mut wrong = deployment();
    wrong["spec"]["replicas"] = json!("3");
    let rejected = send(&server, Method::POST, DEPLOYMENTS, &wrong).await.error();
    assert_eq!(
        (rejected.0, rejected.2.as_str()),
        (
            400,
            "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct \
             field DeploymentSpec.spec.replicas of type int32"
        )
    );

    let mut unknown = deployment();
    unknown["spec"]["replica"] = json!(3);
    let strict = format!("{DEPLOYMENTS}?fieldValidation=Strict");
    let rejected = send(&server, Method::POST, &strict, &unknown).await.error();
    assert!(
        rejected
            .2
            .ends_with("strict decoding error: unknown field \"spec.replica\""),
        "{}",
        rejected.2
    );
    let warned = send(&server, Method::POST, DEPLOYMENTS, &unknown).await;
    assert_eq!(warned.status, 201);
    assert_eq!(
        warned.headers["warning"],
        "299 - \"unknown field \\\"spec.replica\\\"\""
    );
    assert!(warned.json()["spec"].get("replica").is_none());
}

#[tokio::test(start_paused = true)]
async fn immutable_fields_cannot_change() {
    let server = server();
    send(&server, Method::POST, DEPLOYMENTS, &deployment()).await;
    let mut moved = deployment();
    moved["spec"]["selector"]["matchLabels"]["tier"] = json!("front");
    moved["spec"]["template"]["metadata"]["labels"]["tier"] = json!("front");

    let rejected = send(&server, Method::PUT, &format!("{DEPLOYMENTS}/web"), &moved).await;

    assert!(
        rejected.error().2.ends_with("field is immutable"),
        "{}",
        rejected.text
    );
}

#[tokio::test(start_paused = true)]
async fn services_get_addresses_and_ports_of_their_own() {
    let server = server();
    let service = |name: &str| {
        json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"type": "NodePort", "ports": [{"port": 80}], "selector": {"app": "web"}},
        })
    };

    let one = send(&server, Method::POST, SERVICES, &service("one"))
        .await
        .json();
    let two = send(&server, Method::POST, SERVICES, &service("two"))
        .await
        .json();

    assert!(
        one["spec"]["clusterIP"]
            .as_str()
            .is_some_and(|address| address.starts_with("10.0."))
    );
    assert_ne!(one["spec"]["clusterIP"], two["spec"]["clusterIP"]);
    assert_ne!(
        one["spec"]["ports"][0]["nodePort"],
        two["spec"]["ports"][0]["nodePort"]
    );
    assert_eq!(one["spec"]["ports"][0]["targetPort"], 80);
    let moved = json!({"spec": {"clusterIP": "10.0.0.77"}}).to_string();
    let rejected = send_as(&server, Method::PATCH, &format!("{SERVICES}/one"), MERGE, moved).await;
    assert!(
        rejected.error().2.contains("may not change once set"),
        "{}",
        rejected.text
    );
}

#[tokio::test(start_paused = true)]
async fn string_data_is_folded_on_create_and_patch() {
    let server = server();
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "1"},
    });
    send(&server, Method::POST, SECRETS, &secret).await;

    let patch = json!({"stringData": {"b": "2"}}).to_string();
    let patched = send_as(&server, Method::PATCH, &format!("{SECRETS}/s"), MERGE, patch)
        .await
        .json();

    assert_eq!(patched["data"], json!({"a": "MQ==", "b": "Mg=="}));
    assert!(patched.get("stringData").is_none());
}

#[tokio::test(start_paused = true)]
async fn scale_can_be_applied() {
    let server = server();
    send(&server, Method::POST, DEPLOYMENTS, &deployment()).await;
    let scale = json!({
        "apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 4},
    });

    let path = format!("{DEPLOYMENTS}/web/scale?fieldManager=scaler&force=true");
    let applied = send_as(
        &server,
        Method::PATCH,
        &path,
        "application/apply-patch+yaml",
        scale.to_string(),
    )
    .await;

    assert_eq!(applied.status, 200, "{}", applied.text);
    assert_eq!(applied.json()["spec"]["replicas"], 4);
    let web = get(&server, &format!("{DEPLOYMENTS}/web")).await.json();
    let manager = web["metadata"]["managedFields"]
        .as_array()
        .and_then(|managers| {
            managers
                .iter()
                .find(|manager| manager["manager"] == "scaler")
                .cloned()
        })
        .expect("the manager of the scale");
    assert_eq!(manager["subresource"], "scale");
    assert_eq!(manager["fieldsV1"]["f:spec"], json!({"f:replicas": {}}));
}

#[tokio::test(start_paused = true)]
async fn dry_run_returns_defaults_and_no_version() {
    let server = server();
    let mut versioned = deployment();
    versioned["metadata"]["resourceVersion"] = json!("7");

    let dry = send(
        &server,
        Method::POST,
        &format!("{DEPLOYMENTS}?dryRun=All"),
        &versioned,
    )
    .await;

    assert_eq!(dry.status, 201, "{}", dry.text);
    assert_eq!(dry.json()["spec"]["replicas"], 1);
    assert!(
        dry.json()["metadata"].get("resourceVersion").is_none(),
        "{}",
        dry.text
    );
}

#[tokio::test(start_paused = true)]
async fn tokens_are_issued_for_service_accounts() {
    let server = server();
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}});
    send(&server, Method::POST, accounts, &account).await;

    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["vault"]}});
    let issued = send(
        &server,
        Method::POST,
        &format!("{accounts}/robot/token"),
        &request,
    )
    .await;

    assert_eq!(issued.status, 201, "{}", issued.text);
    let token = issued.json()["status"]["token"]
        .as_str()
        .map(|token| token.split('.').count());
    assert_eq!(token, Some(3));
    let short = json!({"spec": {"expirationSeconds": 5}});
    let mut reviewed = Vec::new();
    for audience in ["vault", "other"] {
        let review =
            json!({ "spec": { "token": issued.json()["status"]["token"], "audiences": [audience] } });
        let path = "/apis/authentication.k8s.io/v1/tokenreviews";
        let review = send(&server, Method::POST, path, &review).await.json();
        reviewed.push(review["status"].clone());
    }
    assert_eq!(
        reviewed[0]["user"]["username"],
        "system:serviceaccount:default:robot"
    );
    assert_eq!(reviewed[0]["audiences"], json!(["vault"]));
    assert_eq!(reviewed[1]["authenticated"], false, "for another audience");

    let rejected = send(&server, Method::POST, &format!("{accounts}/robot/token"), &short).await;
    assert_eq!(rejected.status, 422);
}

#[tokio::test(start_paused = true)]
async fn a_new_cluster_has_the_system_objects() {
    let server = server();

    let namespaces = get(&server, "/api/v1/namespaces").await.names();
    assert_eq!(
        namespaces,
        ["default", "kube-node-lease", "kube-public", "kube-system"]
    );
    assert_eq!(
        get(&server, "/api/v1/namespaces/default/services/kubernetes")
            .await
            .status,
        200
    );
    assert_eq!(
        get(&server, "/livez?verbose").await.text.lines().last(),
        Some("livez check passed")
    );
    assert_eq!(get(&server, "/readyz/etcd").await.text, "ok");
    assert!(
        get(&server, "/metrics")
            .await
            .text
            .contains("apiserver_storage_objects{resource=\"namespaces\"} 4")
    );
}

#[tokio::test(start_paused = true)]
async fn logs_are_those_of_the_test_and_exec_names_the_missing_node() {
    let server = server();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "main", "image": "nginx"}]},
    });
    let pods = "/api/v1/namespaces/default/pods";
    send(&server, Method::POST, pods, &pod).await;

    assert_eq!(get(&server, &format!("{pods}/web/log")).await.text, "");
    server.set_log("default/web", "main", "one\ntwo\n");
    assert_eq!(
        get(&server, &format!("{pods}/web/log?tailLines=1")).await.text,
        "two\n"
    );
    let exec = get(&server, &format!("{pods}/web/exec?command=ls")).await.error();
    assert_eq!(
        (exec.0, exec.2.as_str()),
        (400, "pod web does not have a host assigned")
    );
    let wrong = get(&server, &format!("{pods}/web/log?container=other"))
        .await
        .error();
    assert_eq!(wrong.2, "container other is not valid for pod web");
    assert_eq!(get(&server, &format!("{pods}/none/log")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn the_components_of_the_cluster_are_healthy() {
    let server = server();

    let list = get(&server, "/api/v1/componentstatuses").await;

    assert_eq!(list.names(), ["controller-manager", "etcd-0", "scheduler"]);
    assert_eq!(
        list.headers["warning"],
        "299 - \"v1 ComponentStatus is deprecated in v1.19+\""
    );
    let one = get(&server, "/api/v1/componentstatuses/etcd-0").await.json();
    assert_eq!(one["conditions"][0]["type"], "Healthy");
}

#[tokio::test(start_paused = true)]
async fn the_v2_document_describes_what_is_served() {
    let server = server();

    let document = get(&server, "/openapi/v2").await.json();

    assert_eq!(document["swagger"], "2.0");
    let kind =
        &document["definitions"]["io.k8s.api.apps.v1.Deployment"]["x-kubernetes-group-version-kind"][0];
    assert_eq!(kind["kind"], "Deployment");
}

#[tokio::test(start_paused = true)]
async fn patches_with_unknown_fields_are_rejected_if_the_client_is_strict() {
    let server = server();
    send(&server, Method::POST, DEPLOYMENTS, &deployment()).await;
    let path = format!("{DEPLOYMENTS}/web");
    let patch = json!({"spec": {"replica": 3}});
    for (content_type, body, quoted) in [
        ("merge-patch", patch.clone(), r#"\"replica\":3"#),
        (
            "strategic-merge-patch",
            patch.clone(),
            r#""map[spec:map[replica:3]]""#,
        ),
        (
            "json-patch",
            json!([{"op": "add", "path": "/spec/replica", "value": 3}]),
            r#"\"replica\":3"#,
        ),
    ] {
        let content_type = format!("application/{content_type}+json");
        let patch = async |query: &str| {
            let path = format!("{path}{query}");
            send_as(&server, Method::PATCH, &path, &content_type, body.to_string()).await
        };
        let rejected = patch("?fieldValidation=Strict").await;
        assert_eq!(rejected.status, 422, "{content_type}");
        let (_, reason, message) = rejected.error();
        assert_eq!(reason, "Invalid");
        assert!(
            message.starts_with(" \"\" is invalid: patch: Invalid value: "),
            "{message}"
        );
        assert!(message.contains(quoted), "{message}");
        assert!(
            message.ends_with("strict decoding error: unknown field \"spec.replica\""),
            "{message}"
        );

        let warned = patch("").await;
        assert_eq!(warned.status, 200, "{content_type}");
        assert_eq!(
            warned.headers["warning"],
            "299 - \"unknown field \\\"spec.replica\\\"\""
        );
        let ignored = patch("?fieldValidation=Ignore").await;
        assert_eq!((ignored.status, ignored.headers.get("warning")), (200, None));
        assert!(ignored.json()["spec"].get("replica").is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_kind_does_not_have_cannot_be_applied() {
    let server = server();
    let mut unknown = deployment();
    unknown["spec"]["template"]["spec"]["containers"][0]["imag"] = json!("nginx");
    let apply = async |object: &Value| {
        let path = format!("{DEPLOYMENTS}/web?fieldManager=test&fieldValidation=Ignore");
        let apply = "application/apply-patch+yaml";
        send_as(&server, Method::PATCH, &path, apply, object.to_string()).await
    };
    let rejected = apply(&unknown).await;
    assert_eq!(
        rejected.error(),
        (
            500,
            String::new(),
            "failed to create typed patch object (/web; apps/v1, Kind=Deployment): \
             .spec.template.spec.containers[name=\"web\"].imag: field not declared in schema"
                .to_owned()
        )
    );
    let containers = &mut unknown["spec"]["template"]["spec"]["containers"];
    let side = json!({ "name": "side", "image": "nginx", "prt": 1 });
    *containers = json!([containers[0], side]);
    let message = apply(&unknown).await.error().2;
    assert!(
        message.ends_with(
            "errors:\n  .spec.template.spec.containers[name=\"web\"].imag: field not declared in schema\n  \
             .spec.template.spec.containers[name=\"side\"].prt: field not declared in schema"
        ),
        "{message}"
    );
    assert_eq!(apply(&deployment()).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn ephemeral_containers_are_added_but_neither_changed_nor_removed() {
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let server = server();
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    });
    send(&server, Method::POST, PODS, &pod).await;
    let path = format!("{PODS}/web/ephemeralcontainers");
    // Nothing else of the pod counts.
    let debug = |name: &str, image: &str| {
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
            "spec": {"containers": [], "ephemeralContainers": [{"name": name, "image": image}]},
        })
    };

    let first = send(&server, Method::PUT, &path, &debug("first", "busybox")).await;
    assert_eq!(first.status, 200, "{}", first.text);
    let strategic = "application/strategic-merge-patch+json";
    let second =
        json!({"spec": {"ephemeralContainers": [{"name": "second", "image": "busybox"}]}}).to_string();
    let second = send_as(&server, Method::PATCH, &path, strategic, second).await;
    assert_eq!(second.status, 200, "{}", second.text);
    let stored = get(&server, &path).await.json();
    let names: Vec<&Value> = stored["spec"]["ephemeralContainers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|container| &container["name"])
        .collect();
    assert_eq!(names.len(), 2, "{names:?}");
    assert_eq!(stored["spec"]["containers"][0]["name"], "web");

    let changed = send(&server, Method::PUT, &path, &debug("first", "alpine")).await;
    assert_eq!(changed.status, 422);
    let message = changed.error().2;
    assert!(
        message.contains("existing ephemeral containers \"first\" may not be changed"),
        "{message}"
    );
    assert!(
        message.contains("existing ephemeral containers \"second\" may not be removed"),
        "{message}"
    );
    let missing = send(
        &server,
        Method::PUT,
        &format!("{PODS}/none/ephemeralcontainers"),
        &pod,
    )
    .await;
    assert_eq!(missing.status, 404);
}

#[tokio::test(start_paused = true)]
async fn flow_schemas_say_whether_their_priority_level_exists() {
    const GROUP: &str = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let server = server();
    let schema =
        json!({"metadata": {"name": "shop"}, "spec": {"priorityLevelConfiguration": {"name": "fast"}}});
    let level = json!({
        "metadata": {"name": "fast"},
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}},
    });
    let dangling = async || {
        let schema = get(&server, &format!("{GROUP}/flowschemas/shop")).await.json();
        let condition = &schema["status"]["conditions"][0];
        format!("{} {}", condition["status"], condition["reason"])
    };

    let created = send(&server, Method::POST, &format!("{GROUP}/flowschemas"), &schema).await;
    assert_eq!(created.json()["status"], json!({}), "{}", created.text);
    assert_eq!(dangling().await, "\"True\" \"NotFound\"");

    let levels = format!("{GROUP}/prioritylevelconfigurations");
    let created = send(&server, Method::POST, &levels, &level).await;
    assert_eq!(created.status, 201, "{}", created.text);
    assert_eq!(dangling().await, "\"False\" \"Found\"");

    send(&server, Method::DELETE, &format!("{levels}/fast"), &Value::Null).await;
    assert_eq!(dangling().await, "\"True\" \"NotFound\"");
}

#[tokio::test(start_paused = true)]
async fn volumes_are_timed_when_their_phase_changes() {
    const VOLUMES: &str = "/api/v1/persistentvolumes";
    const TIME: &str = "lastPhaseTransitionTime";
    let server = server();
    let volume = json!({
        "metadata": {"name": "disk"},
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}},
    });
    let created = send(&server, Method::POST, VOLUMES, &volume).await.json();
    let first = created["status"][TIME].as_str().expect("a time").to_owned();
    let path = format!("{VOLUMES}/disk/status");
    let patch = async |status: Value| {
        let body = json!({ "status": status }).to_string();
        let patched = send_as(&server, Method::PATCH, &path, MERGE, body).await.json();
        patched["status"][TIME].as_str().expect("a time").to_owned()
    };

    tokio::time::advance(std::time::Duration::from_secs(60)).await;
    assert_eq!(patch(json!({"phase": "Pending", "message": "soon"})).await, first);
    let second = patch(json!({"phase": "Available"})).await;
    assert!(second > first, "{second}");
    let chosen = json!({"phase": "Bound", TIME: "2020-01-01T00:00:00Z"});
    assert_eq!(patch(chosen).await, "2020-01-01T00:00:00Z");
}
