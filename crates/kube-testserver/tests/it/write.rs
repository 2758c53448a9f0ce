//! Create, update and delete, with the rules and error messages of a real server.

use http::Method;
use k8s_openapi::api::core::v1::Pod;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, deployment, pod, secret};
use serde_json::{Value, json};

use crate::common::{Watch, get, send, version};

const PODS: &str = "/api/v1/namespaces/shop/pods";

fn cart() -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "cart"}, "spec": {"containers": []}})
}

#[tokio::test(start_paused = true)]
async fn create_sets_the_server_owned_fields() {
    let server = TestServer::new();
    let mut body = cart();
    body["metadata"]["uid"] = json!("mine");
    body["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    body["status"] = json!({"phase": "Running"});

    let created = send(&server, Method::POST, PODS, &body).await;

    assert_eq!(created.status, 201);
    let pod = created.json();
    assert_eq!(
        (pod["kind"].as_str(), pod["apiVersion"].as_str()),
        (Some("Pod"), Some("v1"))
    );
    assert_eq!(pod["metadata"]["namespace"], "shop");
    assert_eq!(pod["metadata"]["resourceVersion"], "2");
    assert_eq!(pod["metadata"]["generation"], 1);
    let uid = pod["metadata"]["uid"].as_str().expect("a uid");
    assert_eq!((uid.len(), uid.as_bytes()[14]), (36, b'4'));
    assert!(
        pod["metadata"]["creationTimestamp"]
            .as_str()
            .is_some_and(|time| time.ends_with('Z'))
    );
    assert!(pod["metadata"].get("deletionTimestamp").is_none());
    assert_eq!(
        pod["status"],
        json!({"phase": "Pending", "qosClass": "BestEffort"}),
        "clients cannot set the status on create"
    );
    assert_eq!(pod["metadata"]["managedFields"][0]["operation"], "Update");
    assert_eq!(get(&server, &format!("{PODS}/cart")).await.json(), pod);
}

#[tokio::test(start_paused = true)]
async fn names_are_generated() {
    let server = TestServer::new();
    let body = json!({"metadata": {"generateName": "cart-"}});

    let first = send(&server, Method::POST, PODS, &body).await.json();
    let second = send(&server, Method::POST, PODS, &body).await.json();

    let name = first["metadata"]["name"].as_str().expect("a name");
    assert!(name.starts_with("cart-") && name.len() == 10, "{name}");
    assert_ne!(first["metadata"]["name"], second["metadata"]["name"]);
    assert_eq!(first["metadata"]["generateName"], "cart-");
}

#[tokio::test(start_paused = true)]
async fn creates_are_rejected_as_by_a_real_server() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let refused = async |path: &str, body: Value| send(&server, Method::POST, path, &body).await.error();
    let error = |code: u16, reason: &str, message: &str| (code, reason.to_owned(), message.to_owned());

    assert_eq!(
        refused(PODS, cart()).await,
        error(409, "AlreadyExists", "pods \"cart\" already exists")
    );
    assert_eq!(
        refused(PODS, json!({"metadata": {}})).await,
        error(
            422,
            "Invalid",
            "Pod \"\" is invalid: metadata.name: Required value: name or generateName is required"
        )
    );
    assert_eq!(
        refused(PODS, json!({"metadata": {"name": "x", "namespace": "other"}})).await,
        error(
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    );
    assert_eq!(
        refused(
            PODS,
            json!({"apiVersion": "apps/v1", "kind": "Pod", "metadata": {"name": "x"}})
        )
        .await,
        error(
            400,
            "BadRequest",
            "the API version in the data (apps/v1) does not match the expected API version (v1)"
        )
    );
    assert_eq!(refused(PODS, json!([])).await.0, 400);
    assert_eq!(
        refused(PODS, json!({"metadata": {"name": "x", "resourceVersion": "7"}}))
            .await
            .0,
        500
    );
    assert_eq!(
        refused(PODS, json!({"metadata": {"name": "x", "labels": {"a b": "c"}}}))
            .await
            .0,
        422
    );
    assert_eq!(refused("/api/v1/pods", cart()).await.0, 405);
    assert_eq!(refused("/api/v1/namespaces/shop/pods/cart", cart()).await.0, 405);
}

#[tokio::test(start_paused = true)]
async fn namespaces_must_exist_only_if_enabled() {
    let strict = TestServer::builder().require_namespaces().build();

    let refused = send(&strict, Method::POST, PODS, &cart()).await;
    assert_eq!(refused.error().2, "namespaces \"shop\" not found");

    let namespace = json!({"metadata": {"name": "shop"}});
    let created = send(&strict, Method::POST, "/api/v1/namespaces", &namespace)
        .await
        .json();
    assert_eq!(
        created["metadata"]["labels"]["kubernetes.io/metadata.name"],
        "shop"
    );
    assert_eq!(created["status"]["phase"], "Active");
    assert_eq!(send(&strict, Method::POST, PODS, &cart()).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn update_requires_the_current_version() {
    let server = TestServer::new();
    let created = send(&server, Method::POST, PODS, &cart()).await.json();
    let mut newer = created.clone();
    newer["metadata"]["labels"] = json!({"app": "cart"});

    let updated = send(&server, Method::PUT, &format!("{PODS}/cart"), &newer).await;
    let stale = send(&server, Method::PUT, &format!("{PODS}/cart"), &newer).await;

    assert_eq!(version(&updated.json()), 3);
    assert_eq!(
        stale.error(),
        (
            409,
            "Conflict".to_owned(),
            "Operation cannot be fulfilled on pods \"cart\": the object has been modified; please apply your changes \
             to the latest version and try again"
                .to_owned()
        )
    );
    assert_eq!(stale.json()["details"], json!({"name": "cart", "kind": "pods"}));
}

#[tokio::test(start_paused = true)]
async fn update_keeps_server_owned_fields() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let mut body = get(&server, &format!("{PODS}/cart")).await.json();
    let before = body.clone();
    body["metadata"]["creationTimestamp"] = json!("2000-01-01T00:00:00Z");
    body["metadata"]["generation"] = json!(77);
    body["status"]["phase"] = json!("Running");
    body["spec"]["activeDeadlineSeconds"] = json!(5);
    body["spec"]["nodeName"] = json!("worker-1");

    let updated = send(&server, Method::PUT, &format!("{PODS}/cart"), &body)
        .await
        .json();

    assert_eq!(
        updated["metadata"]["creationTimestamp"],
        before["metadata"]["creationTimestamp"]
    );
    assert_eq!(updated["metadata"]["generation"], 2, "the spec changed once");
    assert_eq!(
        updated["status"]["phase"], "Pending",
        "the status is a subresource"
    );

    body["metadata"]["uid"] = json!("another");
    body["metadata"]["resourceVersion"] = updated["metadata"]["resourceVersion"].clone();
    let other = send(&server, Method::PUT, &format!("{PODS}/cart"), &body)
        .await
        .error();
    assert_eq!(other.0, 409);
    assert!(
        other
            .2
            .contains("Precondition failed: UID in precondition: another"),
        "{}",
        other.2
    );
}

#[tokio::test(start_paused = true)]
async fn status_is_written_through_its_subresource() {
    let server = TestServer::new();
    server.create(deployment("shop", "web"));
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    let mut body = get(&server, path).await.json();
    body["status"] = json!({"replicas": 3});
    body["spec"]["replicas"] = json!(9);
    body["metadata"]["labels"] = json!({"not": "here"});

    let updated = send(&server, Method::PUT, &format!("{path}/status"), &body)
        .await
        .json();

    assert_eq!(updated["status"]["replicas"], 3);
    assert_eq!(updated["spec"]["replicas"], 1);
    assert_eq!(updated["metadata"]["generation"], 1);
    assert!(updated["metadata"].get("labels").is_none());
    assert_eq!(get(&server, &format!("{path}/status")).await.json(), updated);
    let config_map = "/api/v1/namespaces/shop/configmaps/x/status";
    assert_eq!(
        get(&server, config_map).await.status,
        404,
        "config maps have no status"
    );
}

#[tokio::test(start_paused = true)]
async fn no_op_write_keeps_the_version() {
    let server = TestServer::new();
    let created = send(&server, Method::POST, PODS, &cart()).await.json();

    let updated = send(&server, Method::PUT, &format!("{PODS}/cart"), &created)
        .await
        .json();

    assert_eq!(updated, created);
    assert_eq!(server.resource_version(), 2);
}

#[tokio::test(start_paused = true)]
async fn dry_run_stores_nothing() {
    let server = TestServer::new();

    let tried = send(&server, Method::POST, &format!("{PODS}?dryRun=All"), &cart()).await;

    assert_eq!(tried.status, 201);
    assert!(tried.json()["metadata"]["uid"].is_string());
    assert_eq!((server.count("pods"), server.resource_version()), (0, 1));
    assert_eq!(
        send(&server, Method::POST, &format!("{PODS}?dryRun=Some"), &cart())
            .await
            .status,
        422
    );
    server.create(pod("shop", "cart"));
    assert_eq!(
        send(
            &server,
            Method::DELETE,
            &format!("{PODS}/cart?dryRun=All"),
            &Value::Null
        )
        .await
        .status,
        200
    );
    assert_eq!(server.count("pods"), 1);
}

/// A client tries an update, and then performs it with the object that it got.
#[tokio::test(start_paused = true)]
async fn dry_run_of_an_update_returns_the_version_of_the_object() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let path = format!("{PODS}/cart");
    let mut cart = get(&server, &path).await.json();
    server.create(pod("shop", "other"));
    cart["metadata"]["labels"]["a"] = json!("b");

    let tried = send(&server, Method::PUT, &format!("{path}?dryRun=All"), &cart).await;

    assert_eq!(
        tried.json()["metadata"]["resourceVersion"],
        cart["metadata"]["resourceVersion"]
    );
    assert_eq!(send(&server, Method::PUT, &path, &tried.json()).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn scale_is_read_and_written() {
    let server = TestServer::new();
    server.create(deployment("shop", "web"));
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";

    let mut scale = get(&server, &format!("{path}/scale")).await.json();
    assert_eq!(
        (scale["kind"].as_str(), scale["spec"]["replicas"].as_i64()),
        (Some("Scale"), Some(1))
    );
    assert_eq!(scale["status"]["selector"], "app=web");
    scale["spec"]["replicas"] = json!(5);
    let scaled = send(&server, Method::PUT, &format!("{path}/scale"), &scale).await;
    assert_eq!(scaled.json()["spec"]["replicas"], 5);
    let deployment = get(&server, path).await.json();
    assert_eq!(
        (
            deployment["spec"]["replicas"].as_i64(),
            deployment["metadata"]["generation"].as_i64()
        ),
        (Some(5), Some(2))
    );

    let stale = send(&server, Method::PUT, &format!("{path}/scale"), &scale).await;
    assert_eq!(stale.status, 409);
    scale["metadata"] = json!({"name": "web"});
    scale["spec"]["replicas"] = json!(-1);
    assert_eq!(
        send(&server, Method::PUT, &format!("{path}/scale"), &scale)
            .await
            .status,
        422
    );
    assert_eq!(get(&server, &format!("{PODS}/x/scale")).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn delete_returns_the_object_or_a_status() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let web = server.create(deployment("shop", "web"));

    let pod = send(&server, Method::DELETE, &format!("{PODS}/cart"), &Value::Null).await;
    let path = "/apis/apps/v1/namespaces/shop/deployments/web";
    let status = send(
        &server,
        Method::DELETE,
        path,
        &json!({"kind": "DeleteOptions", "apiVersion": "v1"}),
    )
    .await;

    assert_eq!((pod.status, pod.json()["kind"].as_str()), (200, Some("Pod")));
    assert_eq!(
        status.json(),
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
               "details": {"name": "web", "group": "apps", "kind": "deployments", "uid": web.metadata.uid}})
    );
    assert_eq!(
        send(&server, Method::DELETE, path, &Value::Null).await.error().2,
        "deployments.apps \"web\" not found"
    );
}

#[tokio::test(start_paused = true)]
async fn delete_preconditions_are_checked() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let delete = async |preconditions: Value| {
        let body = json!({"preconditions": preconditions});
        send(&server, Method::DELETE, &format!("{PODS}/cart"), &body).await
    };

    let other = delete(json!({"uid": "another"})).await.error();
    assert_eq!((other.0, other.1.as_str()), (409, "Conflict"));
    assert!(
        other.2.starts_with(
            "Operation cannot be fulfilled on Pod \"cart\": the UID in the precondition (another)"
        )
    );
    assert_eq!(delete(json!({"resourceVersion": "1"})).await.status, 409);
    assert_eq!(delete(json!({"resourceVersion": "2"})).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn object_stays_until_its_last_finalizer_is_removed() {
    let server = TestServer::new();
    server.create(pod("shop", "cart").finalizer("example.com/hold"));
    let mut watch = Watch::open(&server, "/api/v1/pods?watch=true&resourceVersion=2").await;

    let marked = send(&server, Method::DELETE, &format!("{PODS}/cart"), &Value::Null)
        .await
        .json();
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(marked["metadata"]["generation"], 2);
    let again = send(&server, Method::DELETE, &format!("{PODS}/cart"), &Value::Null)
        .await
        .json();
    assert_eq!(again, marked, "a second deletion changes nothing");

    let mut more = marked.clone();
    more["metadata"]["finalizers"] = json!(["example.com/hold", "example.com/more"]);
    assert_eq!(
        send(&server, Method::PUT, &format!("{PODS}/cart"), &more)
            .await
            .status,
        422
    );

    let mut released = marked.clone();
    released["metadata"]["finalizers"] = json!([]);
    assert_eq!(
        send(&server, Method::PUT, &format!("{PODS}/cart"), &released)
            .await
            .status,
        200
    );
    assert_eq!(server.count("pods"), 0);
    assert_eq!(
        watch.ready().await,
        ["MODIFIED shop/cart@3", "DELETED shop/cart@4"]
    );
}

#[tokio::test(start_paused = true)]
async fn collections_are_deleted_by_selector() {
    let server = TestServer::new();
    server.create(pod("shop", "a").label("app", "web"));
    server.create(pod("shop", "b").label("app", "db"));
    server.create(pod("shop", "c").label("app", "web"));
    server.create(pod("other", "d").label("app", "web"));

    let deleted = send(
        &server,
        Method::DELETE,
        &format!("{PODS}?labelSelector=app%3Dweb"),
        &Value::Null,
    )
    .await;

    assert_eq!(deleted.names(), ["shop/a", "shop/c"]);
    assert_eq!(get(&server, "/api/v1/pods").await.names(), ["other/d", "shop/b"]);
    assert_eq!(
        send(&server, Method::DELETE, "/api/v1/namespaces", &Value::Null)
            .await
            .status,
        405
    );
}

#[tokio::test(start_paused = true)]
async fn bound_pods_have_a_grace_period_if_enabled() {
    let server = TestServer::builder().graceful_pods().build();
    server.create(pod("shop", "cart"));
    server.modify::<Pod>("shop", "cart", |pod| {
        pod.spec.as_mut().expect("a spec").node_name = Some("worker-1".to_owned());
    });

    let marked = send(&server, Method::DELETE, &format!("{PODS}/cart"), &Value::Null)
        .await
        .json();
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 30);
    assert_eq!(server.count("pods"), 1);

    let now = json!({"gracePeriodSeconds": 0});
    assert_eq!(
        send(&server, Method::DELETE, &format!("{PODS}/cart"), &now)
            .await
            .status,
        200
    );
    assert_eq!(server.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn pods_are_bound_and_evicted() {
    let server = TestServer::new();
    server.create(pod("shop", "cart"));
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "cart"}, "target": {"name": "worker-1"}});

    assert_eq!(
        send(&server, Method::POST, &format!("{PODS}/cart/binding"), &binding)
            .await
            .status,
        201
    );
    let bound = get(&server, "/api/v1/pods?fieldSelector=spec.nodeName%3Dworker-1").await;
    assert_eq!(bound.names(), ["shop/cart"]);
    assert_eq!(
        send(&server, Method::POST, &format!("{PODS}/cart/binding"), &binding)
            .await
            .status,
        409
    );

    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "cart"}});
    assert_eq!(
        send(&server, Method::POST, &format!("{PODS}/cart/eviction"), &eviction)
            .await
            .status,
        201
    );
    assert_eq!(server.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn string_data_of_secrets_is_stored_encoded() {
    let server = TestServer::new();
    let body = json!({"metadata": {"name": "key"}, "stringData": {"password": "x"}});

    let created = send(&server, Method::POST, "/api/v1/namespaces/shop/secrets", &body)
        .await
        .json();

    assert_eq!(created["data"], json!({"password": "eA=="}));
    assert_eq!(created["type"], "Opaque");
    assert!(created.get("stringData").is_none());
    assert_eq!(
        server.create(secret("shop", "other")).type_.as_deref(),
        Some("Opaque")
    );
}

#[tokio::test(start_paused = true)]
async fn reviews_are_answered_and_not_stored() {
    let server = TestServer::new();
    let body = json!({"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}});

    let review = send(
        &server,
        Method::POST,
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        &body,
    )
    .await;

    assert_eq!(
        (review.status, review.json()["status"]["allowed"].as_bool()),
        (201, Some(true))
    );
    assert_eq!(server.resource_version(), 1);
    assert_eq!(
        get(&server, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
            .await
            .status,
        405
    );
}

#[tokio::test(start_paused = true)]
async fn body_size_and_type_are_checked() {
    let server = TestServer::builder().body_limit(1000).build();
    let mut large = cart();
    large["metadata"]["annotations"] = json!({"a": "x".repeat(2000)});

    let refused = send(&server, Method::POST, PODS, &large).await;
    assert_eq!(
        refused.error(),
        (
            413,
            "RequestEntityTooLarge".to_owned(),
            "Request entity too large: limit is 1000".to_owned()
        )
    );
    let soup = crate::common::send_as(&server, Method::POST, PODS, "text/soup", cart().to_string()).await;
    assert_eq!(soup.error().1, "UnsupportedMediaType");
    let yaml = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: cart\n";
    let created = crate::common::send_as(&server, Method::POST, PODS, "application/yaml", yaml).await;
    assert_eq!(created.status, 201);
}

#[tokio::test(start_paused = true)]
async fn object_is_served_in_several_versions() {
    let server = TestServer::new();
    let body = json!({"metadata": {"name": "web"},
        "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 80, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}});
    let v1 = "/apis/autoscaling/v1/namespaces/shop/horizontalpodautoscalers";
    let v2 = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers";

    let created = send(&server, Method::POST, v1, &body).await.json();
    assert_eq!(created["apiVersion"], "autoscaling/v1");
    assert_eq!(created["spec"]["targetCPUUtilizationPercentage"], 80);

    let newer = get(&server, &format!("{v2}/web")).await.json();
    assert_eq!(newer["apiVersion"], "autoscaling/v2");
    assert_eq!(
        newer["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"],
        80
    );
    assert_eq!(newer["metadata"]["uid"], created["metadata"]["uid"]);
    let mut watch = Watch::open(&server, &format!("{v1}?watch=true")).await;
    let frame = watch.frame().await.expect("whole").expect("a frame");
    assert_eq!(frame["object"]["apiVersion"], "autoscaling/v1");
}

#[tokio::test(start_paused = true)]
async fn yaml_alias_bombs_are_rejected() {
    let server = TestServer::new();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{inner}]\n"));
    }

    let refused = crate::common::send_as(&server, Method::POST, PODS, "application/yaml", bomb).await;

    assert_eq!(refused.error().0, 400);
}
