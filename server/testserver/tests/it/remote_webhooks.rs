//! Admission webhooks of stored configurations, over sockets and in real time.

use http::Method;
use kube_testserver::TestServer;
use kube_testserver::builders::service;
use serde_json::{Value, json};

use crate::common::{send, send_as};
use crate::endpoint::{Endpoint, Reply, configuration, patch};

const CONFIG_MAPS: &str = "/api/v1/namespaces/shop/configmaps";

fn settings() -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "a": "1" } })
}

/// The message of the error that a create gets.
async fn refusal(server: &TestServer) -> String {
    let (status, _, message) = send(server, Method::POST, CONFIG_MAPS, &settings()).await.error();
    assert_eq!(status, 500, "{message}");
    message
}

#[tokio::test]
async fn webhook_is_called_over_tls_with_a_complete_review() {
    let endpoint = Endpoint::start(&["127.0.0.1"], |_, request| match request["operation"].as_str() {
        Some("CREATE") => patch(&json!([{ "op": "add", "path": "/data/b", "value": "2" }])),
        _ => Reply::Review(json!({
            "allowed": false, "warnings": ["careful"],
            "status": { "code": 422, "reason": "Invalid", "message": "no", "details": { "name": "settings" } },
        })),
    })
    .await;
    let server = TestServer::new();
    let webhook = endpoint.webhook("one.example.com", json!({ "timeoutSeconds": 7 }));
    server.create(configuration("Mutating", "one", json!([webhook])));

    let path = format!("{CONFIG_MAPS}?fieldManager=me");
    let created = send(&server, Method::POST, &path, &settings()).await;

    assert_eq!(created.status, 201, "{}", created.text);
    assert_eq!(created.json()["data"], json!({ "a": "1", "b": "2" }));
    let (path, content_type, mut review) = endpoint.received.lock().pop().expect("a request");
    assert_eq!(
        (path.as_str(), content_type.as_str()),
        ("/review?timeout=7s", "application/json")
    );
    let request = review["request"].as_object_mut().unwrap();
    assert!(
        request
            .remove("uid")
            .is_some_and(|uid| uid.as_str().unwrap().len() == 36)
    );
    let object = request.remove("object").unwrap();
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("ConfigMap"), &json!("settings"))
    );
    let kind = json!({ "group": "", "version": "v1", "kind": "ConfigMap" });
    let resource = json!({ "group": "", "version": "v1", "resource": "configmaps" });
    assert_eq!(
        review,
        json!({
            "kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1",
            "request": {
                "kind": kind, "resource": resource, "requestKind": kind, "requestResource": resource,
                "name": "settings", "namespace": "shop", "operation": "CREATE", "oldObject": null, "dryRun": false,
                "userInfo": {
                    "username": "kube-testserver:admin", "groups": ["system:masters", "system:authenticated"],
                },
                "options": { "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "me" },
            },
        })
    );

    let path = format!("{CONFIG_MAPS}/settings");
    let refused = send(&server, Method::DELETE, &path, &json!({})).await;
    assert_eq!(
        refused.error(),
        (
            422,
            "Invalid".to_owned(),
            "admission webhook \"one.example.com\" denied the request: no".to_owned()
        )
    );
    assert_eq!(refused.json()["details"]["name"], "settings");
    assert_eq!(refused.headers["warning"], "299 - \"careful\"");
}

#[tokio::test]
async fn configurations_are_honoured_in_the_order_of_their_names_until_they_are_deleted() {
    let append = |path: &str, request: &Value| {
        let letter = path
            .trim_start_matches('/')
            .split('?')
            .next()
            .unwrap_or_default()
            .to_owned();
        let so_far = request["object"]["data"]["order"].as_str().unwrap_or_default();
        patch(&json!([{ "op": "add", "path": "/data/order", "value": format!("{so_far}{letter}") }]))
    };
    let endpoint = Endpoint::start(&["127.0.0.1"], append).await;
    let server = TestServer::builder().conformant().build();
    server.create(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "shop" } }));
    let at = |letter: &str| {
        let url = format!("https://127.0.0.1:{}/{letter}", endpoint.port);
        let client = json!({ "clientConfig": { "url": url, "caBundle": endpoint.authority } });
        endpoint.webhook(&format!("{letter}.hooks.example.com"), client)
    };
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
    let second = configuration("Mutating", "second", json!([at("c")]));
    let first = configuration("Mutating", "first", json!([at("b"), at("a")]));
    for configuration in [second, first] {
        let created = send(&server, Method::POST, path, &configuration).await;
        assert_eq!(created.status, 201, "{}", created.text);
    }
    let order = async |name: &str| {
        let mut object = settings();
        object["metadata"]["name"] = name.into();
        let created = send(&server, Method::POST, CONFIG_MAPS, &object).await;
        created.json()["data"]["order"].clone()
    };

    assert_eq!(order("one").await, "bac");
    send(&server, Method::DELETE, &format!("{path}/first"), &json!({})).await;
    assert_eq!(order("two").await, "c");
}

#[tokio::test]
async fn failed_calls_are_reported_in_the_words_of_a_real_server() {
    let endpoint = Endpoint::start(&["127.0.0.1"], |path, _| match path.split('?').next() {
        Some("/500") => Reply::Text(500, "boom"),
        Some("/404") => Reply::Text(404, "gone"),
        Some("/text") => Reply::Text(200, "no JSON"),
        Some("/uid") => Reply::Review(json!({ "uid": "other", "allowed": true })),
        _ => Reply::Never,
    })
    .await;
    let other = Endpoint::start(&["127.0.0.1"], |_, _| Reply::Never).await;
    let port = endpoint.port;
    let url = |path: &str| format!("https://127.0.0.1:{port}/{path}");
    let bundle = endpoint.authority.as_str();
    let cases = [
        (
            url("500"),
            bundle,
            "an error on the server (\"boom\") has prevented the request from succeeding".to_owned(),
        ),
        (
            // Go trusts it, too.
            url("500"),
            endpoint.certificate.as_str(),
            "an error on the server (\"boom\") has prevented the request from succeeding".to_owned(),
        ),
        (
            url("404"),
            bundle,
            "the server could not find the requested resource".to_owned(),
        ),
        (
            url("text"),
            bundle,
            "couldn't get version/kind; json parse error: expected ident at line 1 column 2".to_owned(),
        ),
        (
            url("hang"),
            bundle,
            format!("Post \"{}?timeout=1s\": context deadline exceeded", url("hang")),
        ),
        (
            url("hang"),
            other.authority.as_str(),
            format!(
                "Post \"{}?timeout=1s\": tls: failed to verify certificate: x509: certificate signed by unknown authority",
                url("hang")
            ),
        ),
        (
            "https://127.0.0.1:1".to_owned(),
            bundle,
            "Post \"https://127.0.0.1:1/?timeout=1s\": dial tcp 127.0.0.1:1: connect: connection refused"
                .to_owned(),
        ),
    ];
    for (url, bundle, why) in cases {
        let server = TestServer::new();
        let change = json!({ "clientConfig": { "url": url, "caBundle": bundle }, "timeoutSeconds": 1 });
        let webhook = endpoint.webhook("bad.example.com", change.clone());
        server.create(configuration("Validating", "bad", json!([webhook])));
        assert_eq!(
            refusal(&server).await,
            format!(
                "Internal error occurred: failed calling webhook \"bad.example.com\": failed to call webhook: {why}"
            )
        );
    }

    let server = TestServer::new();
    let change =
        json!({ "clientConfig": { "url": url("uid"), "caBundle": bundle }, "failurePolicy": "Ignore" });
    let webhook = endpoint.webhook("ignored.example.com", change);
    server.create(configuration("Validating", "ignored", json!([webhook])));
    assert_eq!(
        send(&server, Method::POST, CONFIG_MAPS, &settings()).await.status,
        201
    );
}

#[tokio::test]
async fn service_is_called_where_the_test_says_it_is() {
    let allow = |_: &str, _: &Value| Reply::Review(json!({ "allowed": true }));
    let secure = Endpoint::start(&["operator.shop.svc"], allow).await;
    let plain = Endpoint::start(&[], allow).await;
    let server = TestServer::new();
    let client = json!({
        "service": { "namespace": "shop", "name": "operator", "path": "/validate" }, "caBundle": secure.authority,
    });
    let webhook = secure.webhook("s.example.com", json!({ "clientConfig": client }));
    server.create(configuration("Validating", "s", json!([webhook])));
    let failed = "Internal error occurred: failed calling webhook \"s.example.com\": failed to call webhook: \
                  Post \"https://operator.shop.svc:443/validate?timeout=10s\"";

    assert_eq!(
        refusal(&server).await,
        format!("{failed}: service \"operator\" not found")
    );
    server.create(service("shop", "operator"));
    let message = refusal(&server).await;
    assert!(
        message.contains("TestServer::webhook_service(\"shop/operator\", ..)"),
        "{message}"
    );

    server.webhook_service("shop/operator", format!("https://127.0.0.1:{}", secure.port));
    assert_eq!(
        send(&server, Method::POST, CONFIG_MAPS, &settings()).await.status,
        201
    );
    server.webhook_service("shop/operator", format!("http://127.0.0.1:{}", plain.port));
    let path = format!("{CONFIG_MAPS}/settings");
    let patched = send_as(
        &server,
        Method::PATCH,
        &path,
        "application/merge-patch+json",
        "{}",
    )
    .await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    let paths = |endpoint: &Endpoint| {
        endpoint
            .received
            .lock()
            .iter()
            .map(|(path, ..)| path.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(&secure), ["/validate?timeout=10s"]);
    assert_eq!(paths(&plain), ["/validate?timeout=10s"]);
}

#[tokio::test]
async fn store_is_not_locked_while_a_webhook_is_called() {
    let endpoint = Endpoint::start(&["127.0.0.1"], |_, _| Reply::Never).await;
    let server = TestServer::new();
    let webhook = endpoint.webhook("hang.example.com", json!({ "timeoutSeconds": 30 }));
    server.create(configuration("Validating", "hang", json!([webhook])));

    let object = settings();
    let hanging = send(&server, Method::POST, CONFIG_MAPS, &object);
    let others = async {
        endpoint.called.notified().await;
        let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } });
        send(&server, Method::POST, "/api/v1/namespaces/shop/secrets", &secret)
            .await
            .status
    };
    tokio::select! {
        created = hanging => panic!("the webhook has not responded: {}", created.text),
        status = others => assert_eq!(status, 201),
    }
}

#[tokio::test]
async fn a_webhook_is_called_only_if_its_match_conditions_hold() {
    let deny = |_: &str, _: &Value| Reply::Review(json!({ "allowed": false, "status": { "message": "no" } }));
    let endpoint = Endpoint::start(&["127.0.0.1"], deny).await;
    let server = TestServer::new();
    let conditions = |expression: &str| {
        json!({ "matchConditions": [
            { "name": "by-users", "expression": "!request.userInfo.username.startsWith('system:node:')" },
            { "name": "wanted", "expression": expression },
        ] })
    };
    for (name, expression) in [
        ("holds", "object.data.a == '1' && request.operation == 'CREATE'"),
        ("does-not", "has(object.data.b)"),
        ("update", "oldObject != null"),
    ] {
        let webhook = endpoint.webhook("one.example.com", conditions(expression));
        server.create(configuration("Validating", name, json!([webhook])));

        let answer = send(&server, Method::POST, CONFIG_MAPS, &settings()).await;

        let denied = answer.status == 403 || answer.status == 400;
        assert_eq!(denied, name == "holds", "{name}: {}", answer.text);
        server.delete_key(
            "validatingwebhookconfigurations.admissionregistration.k8s.io",
            name,
        );
        if !denied {
            server.delete_key("configmaps", "shop/settings");
        }
    }
}

#[tokio::test]
async fn a_match_condition_that_fails_refuses_the_request_unless_failures_are_ignored() {
    let allow = |_: &str, _: &Value| Reply::Review(json!({ "allowed": true }));
    let endpoint = Endpoint::start(&["127.0.0.1"], allow).await;
    let server = TestServer::new();
    let broken = |policy: &str| {
        json!({
            "failurePolicy": policy,
            "matchConditions": [{ "name": "broken", "expression": "object.data.missing == 'x'" }],
        })
    };
    server.create(configuration(
        "Validating",
        "strict",
        json!([endpoint.webhook("one.example.com", broken("Fail"))]),
    ));

    let refused = send(&server, Method::POST, CONFIG_MAPS, &settings()).await;

    let (status, reason, message) = refused.error();
    assert_eq!((status, reason.as_str()), (403, "Forbidden"));
    assert!(
        message.contains("expression 'object.data.missing == 'x'' resulted in error: no such key: missing"),
        "{message}"
    );
    assert!(endpoint.received.lock().is_empty());

    server.delete_key(
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
        "strict",
    );
    server.create(configuration(
        "Validating",
        "lenient",
        json!([endpoint.webhook("one.example.com", broken("Ignore"))]),
    ));
    let created = send(&server, Method::POST, CONFIG_MAPS, &settings()).await;
    assert_eq!(created.status, 201, "{}", created.text);
    assert!(endpoint.received.lock().is_empty());
}
