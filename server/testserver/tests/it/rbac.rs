//! Roles decide what clients may do.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube_testserver::TestServer;
use kube_testserver::builders::{pod, service_account};
use serde_json::{Value, json};

use crate::common::{call, send};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

fn cluster() -> TestServer {
    let server = TestServer::builder()
        .rbac()
        .token("root")
        .user("of-jane", "jane", &["dev"])
        .user("of-joe", "joe", &[])
        .build();
    server.create(pod("shop", "cart"));
    server
}

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    json!({ "apiVersion": RBAC, "kind": kind, "metadata": { "namespace": namespace, "name": name }, "rules": rules })
}

fn binding(kind: &str, namespace: &str, role: (&str, &str), subject: Value) -> Value {
    json!({
        "apiVersion": RBAC, "kind": kind, "metadata": { "namespace": namespace, "name": "binding" },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role.0, "name": role.1 }, "subjects": [subject],
    })
}

fn jane() -> Value {
    json!({ "kind": "User", "name": "jane" })
}

fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({ "apiGroups": ["", "apps"], "resources": resources, "verbs": verbs })
}

/// Status code, and the message of an error.
async fn ask(server: &TestServer, method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::new())).expect("a request");
    let response = call(&server.service(), request).await.expect("a response");
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    (status, body["message"].as_str().unwrap_or_default().to_owned())
}

async fn as_jane(server: &TestServer, method: &str, path: &str) -> (u16, String) {
    ask(server, method, path, &[("authorization", "Bearer of-jane")]).await
}

const PODS: &str = "/api/v1/namespaces/shop/pods";

#[tokio::test(start_paused = true)]
async fn user_may_do_what_a_role_in_the_namespace_allows() {
    let server = cluster();
    let refusal = "pods is forbidden: User \"jane\" cannot list resource \"pods\" in API group \"\" in the namespace \"shop\"";
    assert_eq!(as_jane(&server, "GET", PODS).await, (403, refusal.to_owned()));

    server.create(role(
        "Role",
        "shop",
        "reader",
        json!([rule(&["get", "list"], &["pods", "pods/log"])]),
    ));
    server.create(binding("RoleBinding", "shop", ("Role", "reader"), jane()));

    assert_eq!(as_jane(&server, "GET", PODS).await.0, 200);
    assert_eq!(as_jane(&server, "GET", &format!("{PODS}/cart")).await.0, 200);
    let (status, message) = as_jane(&server, "GET", "/api/v1/pods").await;
    assert_eq!(status, 403);
    assert!(message.ends_with("at the cluster scope"), "{message}");
    let (status, message) = as_jane(&server, "DELETE", &format!("{PODS}/cart")).await;
    assert_eq!(status, 403);
    assert!(
        message.starts_with("pods \"cart\" is forbidden: User \"jane\" cannot delete resource \"pods\""),
        "{message}"
    );
    let (status, _) = as_jane(&server, "PATCH", &format!("{PODS}/cart/status")).await;
    assert_eq!(status, 403, "a subresource needs its own rule");
    assert_eq!(
        ask(&server, "GET", PODS, &[("authorization", "Bearer of-joe")])
            .await
            .0,
        403
    );
    assert_eq!(
        ask(&server, "GET", PODS, &[("authorization", "Bearer root")])
            .await
            .0,
        200
    );
    assert_eq!(
        ask(&server, "GET", PODS, &[("authorization", "Bearer guessed")])
            .await
            .0,
        401
    );
    assert_eq!(ask(&server, "GET", PODS, &[]).await.0, 401, "a token is required");
}

#[tokio::test(start_paused = true)]
async fn cluster_role_applies_everywhere_or_in_the_namespace_of_its_binding() {
    let server = cluster();
    server.create(role(
        "ClusterRole",
        "",
        "reader",
        json!([rule(&["list"], &["*"])]),
    ));
    server.create(binding(
        "RoleBinding",
        "shop",
        ("ClusterRole", "reader"),
        json!({ "kind": "Group", "name": "dev" }),
    ));
    assert_eq!(as_jane(&server, "GET", PODS).await.0, 200);
    assert_eq!(as_jane(&server, "GET", "/api/v1/pods").await.0, 403);

    server.create(binding(
        "ClusterRoleBinding",
        "",
        ("ClusterRole", "reader"),
        jane(),
    ));
    assert_eq!(as_jane(&server, "GET", "/api/v1/pods").await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn rules_can_name_objects_and_subresources() {
    let server = cluster();
    server.create(pod("shop", "other"));
    let rules = json!([
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["cart"] },
        { "apiGroups": ["apps"], "resources": ["*/scale"], "verbs": ["*"] },
    ]);
    server.create(role("Role", "shop", "reader", rules));
    server.create(binding("RoleBinding", "shop", ("Role", "reader"), jane()));

    assert_eq!(as_jane(&server, "GET", &format!("{PODS}/cart")).await.0, 200);
    assert_eq!(as_jane(&server, "GET", &format!("{PODS}/other")).await.0, 403);
    assert_eq!(as_jane(&server, "GET", PODS).await.0, 403);
    let scale = "/apis/apps/v1/namespaces/shop/deployments/web/scale";
    assert_eq!(
        as_jane(&server, "GET", scale).await.0,
        404,
        "allowed, but there is none"
    );
}

#[tokio::test(start_paused = true)]
async fn aggregated_role_has_the_rules_of_the_roles_it_selects() {
    let server = cluster();
    let mut all = role("ClusterRole", "", "all", json!([]));
    all["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "to": "all" } }] });
    server.create(all);
    server.create(binding("ClusterRoleBinding", "", ("ClusterRole", "all"), jane()));
    assert_eq!(as_jane(&server, "GET", PODS).await.0, 403);

    let mut part = role("ClusterRole", "", "part", json!([rule(&["list"], &["pods"])]));
    part["metadata"]["labels"] = json!({ "to": "all" });
    server.create(part);
    assert_eq!(as_jane(&server, "GET", PODS).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn binding_to_a_missing_role_is_named_in_the_refusal() {
    let server = cluster();
    server.create(binding(
        "ClusterRoleBinding",
        "",
        ("ClusterRole", "missing"),
        jane(),
    ));

    let (_, message) = as_jane(&server, "GET", PODS).await;
    let reason =
        "in the namespace \"shop\": rbac: RBAC: clusterrole.rbac.authorization.k8s.io \"missing\" not found";
    assert!(message.ends_with(reason), "{message}");
}

#[tokio::test(start_paused = true)]
async fn discovery_is_open_and_other_paths_need_a_rule() {
    let server = cluster();
    for path in ["/api", "/apis/apps/v1", "/version", "/livez"] {
        assert_eq!(as_jane(&server, "GET", path).await.0, 200, "{path}");
    }
    let refused = (
        403,
        "forbidden: User \"jane\" cannot get path \"/metrics\"".to_owned(),
    );
    assert_eq!(as_jane(&server, "GET", "/metrics").await, refused);

    let rules = json!([{ "nonResourceURLs": ["/met*"], "verbs": ["get"] }]);
    server.create(role("ClusterRole", "", "metrics", rules));
    server.create(binding(
        "ClusterRoleBinding",
        "",
        ("ClusterRole", "metrics"),
        jane(),
    ));
    assert_eq!(as_jane(&server, "GET", "/metrics").await.0, 200);

    let open = TestServer::builder().rbac().build();
    assert_eq!(ask(&open, "GET", "/version", &[]).await.0, 200);
    let (status, message) = ask(&open, "GET", PODS, &[]).await;
    assert_eq!(status, 403);
    assert!(message.contains("User \"system:anonymous\""), "{message}");
}

#[tokio::test(start_paused = true)]
async fn impersonation_needs_permission_and_takes_the_rights_of_the_other_user() {
    let server = cluster();
    server.create(role(
        "Role",
        "shop",
        "reader",
        json!([rule(&["list"], &["pods"])]),
    ));
    server.create(binding(
        "RoleBinding",
        "shop",
        ("Role", "reader"),
        json!({ "kind": "Group", "name": "dev" }),
    ));
    let joe = ("authorization", "Bearer of-joe");
    let other = ("impersonate-user", "eve");
    let (status, message) = ask(&server, "GET", PODS, &[joe, other]).await;
    let refusal = "pods is forbidden: User \"joe\" cannot impersonate-on:user-info:list resource \"pods\" in API group \"\" \
                   in the namespace \"shop\"";
    assert_eq!((status, message.as_str()), (403, refusal));

    let rules = json!([{ "apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"] }]);
    server.create(role("ClusterRole", "", "impersonator", rules));
    let joes = json!({ "kind": "User", "name": "joe" });
    server.create(binding(
        "ClusterRoleBinding",
        "",
        ("ClusterRole", "impersonator"),
        joes,
    ));
    let (_, message) = ask(&server, "GET", PODS, &[joe, other]).await;
    assert!(message.contains("User \"eve\" cannot list"), "{message}");
    let group = ("impersonate-group", "dev");
    let (_, message) = ask(&server, "GET", PODS, &[joe, other, group]).await;
    let refusal = "groups \"dev\" is forbidden: User \"joe\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope";
    assert_eq!(message, refusal);

    let root = ("authorization", "Bearer root");
    let (status, message) = ask(&server, "GET", PODS, &[root, other]).await;
    assert_eq!(status, 403);
    assert!(message.contains("User \"eve\" cannot list"), "{message}");
    assert_eq!(ask(&server, "GET", PODS, &[root, other, group]).await.0, 200);
}

#[tokio::test(start_paused = true)]
async fn service_account_uses_the_token_that_the_server_issued() {
    let server = cluster();
    server.create(service_account("shop", "operator"));
    server.create(role(
        "Role",
        "shop",
        "reader",
        json!([rule(&["list"], &["pods"])]),
    ));
    let subject = json!({ "kind": "ServiceAccount", "name": "operator" });
    server.create(binding("RoleBinding", "shop", ("Role", "reader"), subject));
    let path = "/api/v1/namespaces/shop/serviceaccounts/operator/token";
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("authorization", "Bearer root")
        .body(Full::new(Bytes::from_static(
            b"{\"spec\":{\"expirationSeconds\":600}}",
        )))
        .expect("a request");
    let response = call(&server.service(), request).await.expect("a response");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let issued: Value = serde_json::from_slice(&body).expect("JSON");
    let token = format!("Bearer {}", issued["status"]["token"].as_str().expect("a token"));

    assert_eq!(
        ask(&server, "GET", PODS, &[("authorization", &token)]).await.0,
        200
    );
    assert_eq!(
        ask(&server, "DELETE", PODS, &[("authorization", &token)]).await.0,
        403
    );
    tokio::time::sleep(std::time::Duration::from_secs(601)).await;
    assert_eq!(
        ask(&server, "GET", PODS, &[("authorization", &token)]).await.0,
        401,
        "it has expired"
    );
}

async fn review(server: &TestServer, resource: &str, token: &str, spec: Value) -> Value {
    let path = format!("/apis/authorization.k8s.io/v1/{resource}");
    let request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("authorization", format!("Bearer {token}"))
        .body(Full::new(Bytes::from(json!({ "spec": spec }).to_string())))
        .expect("a request");
    let response = call(&server.service(), request).await.expect("a response");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice::<Value>(&body).expect("JSON")["status"].clone()
}

#[tokio::test(start_paused = true)]
async fn reviews_are_answered_by_the_same_rules() {
    let server = cluster();
    server.create(role(
        "Role",
        "shop",
        "reader",
        json!([rule(&["list"], &["pods"])]),
    ));
    server.create(binding("RoleBinding", "shop", ("Role", "reader"), jane()));
    let list = json!({ "namespace": "shop", "verb": "list", "resource": "pods" });
    let delete = json!({ "namespace": "shop", "verb": "delete", "resource": "pods" });

    let allowed = review(
        &server,
        "selfsubjectaccessreviews",
        "of-jane",
        json!({ "resourceAttributes": list }),
    )
    .await;
    let reason = "RBAC: allowed by RoleBinding \"binding/shop\" of Role \"reader\" to User \"jane\"";
    assert_eq!(allowed, json!({ "allowed": true, "reason": reason }));
    let denied = review(
        &server,
        "selfsubjectaccessreviews",
        "of-jane",
        json!({ "resourceAttributes": delete }),
    )
    .await;
    assert_eq!(denied, json!({ "allowed": false }));
    let other = json!({ "user": "jane", "resourceAttributes": list });
    assert_eq!(
        review(&server, "subjectaccessreviews", "root", other.clone()).await["allowed"],
        true
    );
    assert_eq!(
        review(&server, "subjectaccessreviews", "of-joe", other).await,
        "Failure",
        "joe may not review others"
    );
    let rules = review(
        &server,
        "selfsubjectrulesreviews",
        "of-jane",
        json!({ "namespace": "shop" }),
    )
    .await;
    let rules = rules["resourceRules"].as_array().expect("rules").clone();
    assert!(rules.contains(&rule(&["list"], &["pods"])), "{rules:?}");
    assert!(
        rules
            .iter()
            .any(|rule| rule["resources"][0] == "selfsubjectaccessreviews")
    );
}

#[tokio::test(start_paused = true)]
async fn without_rbac_every_user_may_do_everything() {
    let server = TestServer::builder().user("of-jane", "jane", &[]).build();
    assert_eq!(as_jane(&server, "GET", PODS).await.0, 200);
    assert_eq!(send(&server, Method::GET, PODS, &Value::Null).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn health_checks_need_no_credentials() {
    let server = TestServer::builder().token("secret").build();

    for path in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(ask(&server, "GET", path, &[]).await.0, 200, "{path}");
    }
    assert_eq!(ask(&server, "GET", "/api", &[]).await.0, 401);
    let wrong = [("authorization", "Bearer wrong")];
    assert_eq!(ask(&server, "GET", "/healthz", &wrong).await.0, 401);
}

/// Lets jane write roles and bindings, and read pods.
fn role_writer(server: &TestServer) {
    let rules = json!([
        {
            "apiGroups": ["rbac.authorization.k8s.io"], "verbs": ["create", "update", "patch"],
            "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        },
        { "apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"] },
    ]);
    server.create(role("ClusterRole", "", "writer", rules));
    server.create(binding(
        "ClusterRoleBinding",
        "",
        ("ClusterRole", "writer"),
        jane(),
    ));
}

const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings";

/// Status and message of a write by jane.
async fn write_as_jane(server: &TestServer, method: Method, path: &str, body: &Value) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("authorization", "Bearer of-jane")
        .header("content-type", "application/json")
        .body(Full::new(Bytes::from(body.to_string())))
        .expect("a request");
    let response = crate::common::finish(call(&server.service(), request).await.expect("a response")).await;
    let message = response.json()["message"].as_str().unwrap_or_default().to_owned();
    (response.status, message)
}

fn pods(verbs: &[&str]) -> Value {
    json!([{ "apiGroups": [""], "resources": ["pods"], "verbs": verbs }])
}

/// The recording `escalation` compares many more with a real server.
#[tokio::test(start_paused = true)]
async fn user_cannot_grant_more_than_it_has() {
    let server = cluster();
    role_writer(&server);

    let own = role("Role", "shop", "own", pods(&["get"]));
    assert_eq!(write_as_jane(&server, Method::POST, ROLES, &own).await.0, 201);
    let more = role("Role", "shop", "more", pods(&["get", "delete", "watch"]));
    let refusal = "roles.rbac.authorization.k8s.io \"more\" is forbidden: user \"jane\" (groups=[\"dev\" \
                   \"system:authenticated\"]) is attempting to grant RBAC permissions not currently held:\n\
                   {APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\" \"watch\"]}";
    assert_eq!(
        write_as_jane(&server, Method::POST, ROLES, &more).await,
        (403, refusal.to_owned())
    );
    let raised = role("Role", "shop", "own", pods(&["get", "delete", "watch"]));
    let (status, message) = write_as_jane(&server, Method::PUT, &format!("{ROLES}/own"), &raised).await;
    assert_eq!((status, message), (403, refusal.replace("more", "own")));

    server.create(role("Role", "shop", "strong", pods(&["*"])));
    let mut bound = binding("RoleBinding", "shop", ("Role", "strong"), jane());
    let (status, message) = write_as_jane(&server, Method::POST, BINDINGS, &bound).await;
    assert_eq!(status, 403);
    assert!(message.ends_with("Verbs:[\"*\"]}"), "{message}");
    bound["roleRef"]["name"] = json!("own");
    assert_eq!(
        write_as_jane(&server, Method::POST, BINDINGS, &bound).await.0,
        201
    );
    bound["roleRef"]["name"] = json!("missing");
    let missing = "rolebindings.rbac.authorization.k8s.io \"missing\" not found";
    assert_eq!(
        write_as_jane(&server, Method::POST, BINDINGS, &bound).await,
        (404, missing.to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn verbs_escalate_and_bind_allow_more() {
    let server = cluster();
    role_writer(&server);
    server.create(role("Role", "shop", "strong", pods(&["*"])));
    let verbs = json!([
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["bind"], "resourceNames": ["strong"] },
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["escalate"] },
    ]);
    server.create(role("Role", "shop", "special", verbs));
    let mut special = binding("RoleBinding", "shop", ("Role", "special"), jane());
    special["metadata"]["name"] = json!("special");
    server.create(special);

    let bound = binding("RoleBinding", "shop", ("Role", "strong"), jane());
    assert_eq!(
        write_as_jane(&server, Method::POST, BINDINGS, &bound).await.0,
        201
    );
    let more = role("Role", "shop", "more", json!([rule(&["get"], &["secrets"])]));
    assert_eq!(write_as_jane(&server, Method::POST, ROLES, &more).await.0, 201);
    let everywhere = role("ClusterRole", "", "more", json!([rule(&["get"], &["secrets"])]));
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    assert_eq!(
        write_as_jane(&server, Method::POST, path, &everywhere).await.0,
        403
    );
}

#[tokio::test(start_paused = true)]
async fn rules_of_aggregated_roles_are_stored() {
    let server = cluster();
    let mut all = role("ClusterRole", "", "all", json!([]));
    all["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "to": "all" } }] });
    server.create(all);
    let mut part = role("ClusterRole", "", "part", pods(&["list"]));
    part["metadata"]["labels"] = json!({ "to": "all" });
    server.create(part);
    let mut more = role("ClusterRole", "", "more", pods(&["get"]));
    more["metadata"]["labels"] = json!({ "to": "all" });
    server.create(more);

    let stored = server
        .object("clusterroles.rbac.authorization.k8s.io", "all")
        .unwrap();
    let (get, list) = (pods(&["get"])[0].clone(), pods(&["list"])[0].clone());
    assert_eq!(stored["rules"], json!([get, list]));
    assert_eq!(
        stored["metadata"]["managedFields"][0]["manager"],
        "clusterrole-aggregation-controller"
    );

    server.delete_key("clusterroles.rbac.authorization.k8s.io", "part");
    let stored = server
        .object("clusterroles.rbac.authorization.k8s.io", "all")
        .unwrap();
    assert_eq!(stored["rules"], json!([get]));
}

#[tokio::test(start_paused = true)]
async fn roles_that_aggregate_each_other_are_left_in_the_end() {
    let server = cluster();
    for (name, other) in [("a", "b"), ("b", "a")] {
        let mut one = role("ClusterRole", "", name, pods(&[name]));
        one["metadata"]["labels"] = json!({ "name": name });
        one["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "name": other } }] });
        server.create(one);
    }
    let rules = |name: &str| {
        let role = server.object("clusterroles.rbac.authorization.k8s.io", name);
        role.unwrap()["rules"].clone()
    };
    assert_eq!(rules("a"), rules("b"));
}

#[tokio::test(start_paused = true)]
async fn only_administrators_aggregate() {
    let server = cluster();
    role_writer(&server);
    let mut all = role("ClusterRole", "", "all", json!([]));
    all["aggregationRule"] = json!({ "clusterRoleSelectors": [{ "matchLabels": { "to": "all" } }] });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let refusal = "clusterroles.rbac.authorization.k8s.io \"all\" is forbidden: must have cluster-admin privileges to use the \
                   aggregationRule";
    assert_eq!(
        write_as_jane(&server, Method::POST, path, &all).await,
        (403, refusal.to_owned())
    );
}
