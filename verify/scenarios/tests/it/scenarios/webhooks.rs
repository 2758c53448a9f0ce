//! Admission webhooks: what they receive, in which order, and what clients are refused with.

use http::Method;
use kube::Client;
use kube_informers_e2e::Server;
use serde_json::{Value, json};

use crate::scenarios::endpoint::{Endpoint, Reply, configuration, patch};
use crate::scenarios::support::{Outcome, namespace, scenarios, send, wait_for};

scenarios! {
    webhooks_are_called_alike: Setup::own();
    refusals_of_webhooks_are_alike: Setup::own();
}

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

fn settings(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

/// Stores a configuration with one webhook for each path, and waits until it takes effect.
async fn install(
    client: &Client,
    endpoint: &Endpoint,
    kind: &str,
    paths: &[&str],
    probe: &str,
) -> Result<(), kube::Error> {
    let webhooks: Vec<Value> = paths
        .iter()
        .map(|path| {
            let url = format!("https://127.0.0.1:{}/{path}", endpoint.port);
            let mut change = json!({ "clientConfig": { "url": url, "caBundle": endpoint.authority } });
            change["timeoutSeconds"] = 2.into();
            if kind == "Mutating" && *path == "first" {
                change["reinvocationPolicy"] = "IfNeeded".into();
            }
            endpoint.webhook(&format!("{path}.hooks.example.com"), change)
        })
        .collect();
    let path = format!("{GROUP}/{}webhookconfigurations", kind.to_lowercase());
    let name = format!("hooks-{}", kind.to_lowercase());
    let created = send(
        client,
        Method::POST,
        &path,
        &configuration(kind, &name, json!(webhooks)),
    )
    .await?;
    assert_eq!(created.code, 201, "{}", created.text);
    let path = format!("{probe}?dryRun=All");
    wait_for("the webhooks are called", || async {
        let called = send(client, Method::POST, &path, &settings("probe")).await;
        let last = format!("/{}?timeout=2s", paths.last()?);
        called.ok()?;
        let mut received = endpoint.received.lock();
        let seen = received.iter().any(|(path, ..)| *path == last);
        received.clear();
        seen.then_some(())
    })
    .await;
    Ok(())
}

/// Path, operation and name of each request, and clears them.
fn take(endpoint: &Endpoint) -> Vec<(String, Value)> {
    let received = std::mem::take(&mut *endpoint.received.lock());
    let short = |path: String| path.split('?').next().unwrap_or_default().to_owned();
    received
        .into_iter()
        .map(|(path, _, mut review)| (short(path), review["request"].take()))
        .collect()
}

fn lines(requests: &[(String, Value)]) -> Vec<String> {
    let line = |(path, request): &(String, Value)| {
        let text = |field: &str| request[field].as_str().unwrap_or("-").to_owned();
        format!("{path} {} {}", text("operation"), text("name"))
    };
    requests.iter().map(line).collect()
}

async fn webhooks_are_called_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
    let endpoint = Endpoint::start(&["127.0.0.1"], |path, request| {
        let labelled = request.pointer("/object/metadata/labels/second").is_some();
        match path.split('?').next() {
            Some("/second") if !labelled && request["operation"] == "CREATE" => {
                patch(&json!([{ "op": "add", "path": "/metadata/labels", "value": { "second": "yes" } }]))
            }
            _ => Reply::Review(json!({ "allowed": true, "warnings": ["seen"] })),
        }
    })
    .await;
    install(&client, &endpoint, "Mutating", &["first", "second"], &maps).await?;
    install(&client, &endpoint, "Validating", &["last"], &maps).await?;

    // The first webhook is called again, because the second one has changed the object.
    let mut generated = settings("");
    generated["metadata"] = json!({ "generateName": "map-" });
    let created = send(&client, Method::POST, &maps, &generated).await?;
    assert_eq!(created.code, 201, "{}", created.text);
    let name = created.text_at("/metadata/name").to_owned();
    let requests = take(&endpoint);
    assert_eq!(
        lines(&requests),
        [
            "/first CREATE -".to_owned(),
            "/second CREATE -".to_owned(),
            "/first CREATE -".to_owned(),
            format!("/last CREATE {name}"),
        ]
    );
    let [first, _, _, (_, last)] = requests.as_slice() else {
        panic!("four requests")
    };
    let object = &first.1["object"];
    assert_eq!(object.pointer("/metadata/uid"), None);
    assert_eq!(object["kind"], "ConfigMap");
    assert!(object.pointer("/metadata/managedFields/0/manager").is_some());
    assert_eq!(
        last.pointer("/object/metadata/uid").and_then(Value::as_str),
        Some(created.text_at("/metadata/uid"))
    );
    assert_eq!(
        (&last["oldObject"], &last["dryRun"]),
        (&Value::Null, &json!(false))
    );
    assert_eq!(last["options"]["kind"], "CreateOptions");
    assert_eq!(created.text_at("/metadata/labels/second"), "yes");
    let owned = created
        .json
        .pointer("/metadata/managedFields/0/fieldsV1/f:metadata/f:labels");
    assert_eq!(owned, None, "what a webhook adds has no manager");

    let mut changed = settings(&name);
    changed["data"]["b"] = "2".into();
    let path = format!("{maps}/{name}");
    let updated = send(&client, Method::PUT, &path, &changed).await?;
    assert_eq!(updated.code, 200, "{}", updated.text);
    let requests = take(&endpoint);
    assert_eq!(
        lines(&requests),
        [
            format!("/first UPDATE {name}"),
            format!("/second UPDATE {name}"),
            format!("/last UPDATE {name}"),
        ]
    );
    assert_eq!(requests[0].1["options"]["kind"], "UpdateOptions");
    assert_eq!(
        requests[0].1.pointer("/oldObject/metadata/labels/second"),
        Some(&json!("yes"))
    );

    let deleted = send(
        &client,
        Method::DELETE,
        &format!("{path}?dryRun=All"),
        &Value::Null,
    )
    .await?;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    let requests = take(&endpoint);
    assert_eq!(
        lines(&requests),
        [
            format!("/first DELETE {name}"),
            format!("/second DELETE {name}"),
            format!("/last DELETE {name}"),
        ]
    );
    assert_eq!(
        (&requests[2].1["object"], &requests[2].1["dryRun"]),
        (&Value::Null, &json!(true))
    );
    assert_eq!(
        requests[2]
            .1
            .pointer("/oldObject/metadata/name")
            .and_then(Value::as_str),
        Some(name.as_str())
    );
    assert_eq!(requests[2].1["options"]["kind"], "DeleteOptions");
    let deleted = send(&client, Method::DELETE, &maps, &Value::Null).await?;
    assert_eq!(deleted.code, 200, "{}", deleted.text);
    assert_eq!(
        lines(&take(&endpoint)),
        ["/first DELETE -", "/second DELETE -", "/last DELETE -"]
    );
    Ok(())
}

async fn refusals_of_webhooks_are_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = format!("/api/v1/namespaces/{}/configmaps", namespace.name);
    let endpoint = Endpoint::start(&["127.0.0.1"], |_, request| {
        let name = request["name"].as_str().unwrap_or_default();
        match name {
            "deny" => Reply::Review(json!({ "allowed": false })),
            "reason" => Reply::Review(json!({ "allowed": false, "status": { "reason": "Invalid", "code": 422 } })),
            "message" => Reply::Review(json!({
                "allowed": false, "status": { "message": "no", "code": 200, "details": { "name": "x" } },
            })),
            "uid" => Reply::Review(json!({ "uid": "other", "allowed": true })),
            "untyped" => Reply::Review(json!({ "allowed": true, "patch": "W10=" })),
            "undecodable" => Reply::Review(json!({ "allowed": true, "patch": "e30=", "patchType": "JSONPatch" })),
            // [{"op":"add","path":"/x","value":1}]
            "merge" => Reply::Review(json!({
                "allowed": true, "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL3giLCJ2YWx1ZSI6MX1d", "patchType": "Merge",
            })),
            "status" => Reply::Text(500, "boom"),
            "missing" => Reply::Text(404, "gone"),
            "hang" => Reply::Never,
            "invalid" => patch(&json!([{ "op": "add", "path": "/metadata/labels", "value": { "a b": "c" } }])),
            _ => Reply::Review(json!({ "allowed": true })),
        }
    })
    .await;
    install(&client, &endpoint, "Mutating", &["only"], &maps).await?;
    let webhook = "webhook \"only.hooks.example.com\"";
    let failed = format!("Internal error occurred: failed calling {webhook}: ");
    let cases = [
        (
            "deny",
            400,
            "",
            format!("admission {webhook} denied the request without explanation"),
        ),
        (
            "reason",
            422,
            "Invalid",
            format!("admission {webhook} denied the request: Invalid"),
        ),
        (
            "message",
            400,
            "",
            format!("admission {webhook} denied the request: no"),
        ),
        (
            "untyped",
            500,
            "InternalError",
            format!(
                "{failed}received invalid webhook response: webhook returned response.patch but not response.patchType"
            ),
        ),
        (
            "merge",
            500,
            "InternalError",
            format!("{failed}unsupported patch type \"Merge\""),
        ),
        (
            "status",
            500,
            "InternalError",
            format!(
                "{failed}failed to call webhook: an error on the server (\"boom\") has prevented the request from succeeding"
            ),
        ),
        (
            "missing",
            500,
            "InternalError",
            format!("{failed}failed to call webhook: the server could not find the requested resource"),
        ),
    ];
    for (name, code, reason, message) in cases {
        let refused = send(&client, Method::POST, &maps, &settings(name)).await?;
        assert_eq!(refused.status(), (code, reason, message.as_str()), "{name}");
    }
    let hanging = send(&client, Method::POST, &maps, &settings("hang")).await?;
    let url = format!("https://127.0.0.1:{}/only?timeout=2s", endpoint.port);
    let message = format!("{failed}failed to call webhook: Post \"{url}\": context deadline exceeded");
    assert_eq!(hanging.status(), (500, "InternalError", message.as_str()));
    for (name, start) in [
        ("uid", "received invalid webhook response: expected response.uid="),
        ("undecodable", "received undecodable patch in webhook response: "),
    ] {
        let refused = send(&client, Method::POST, &maps, &settings(name)).await?;
        let message = refused.text_at("/message");
        assert!(
            message.starts_with(&format!("{failed}{start}")),
            "{name}: {message}"
        );
    }
    let invalid = send(&client, Method::POST, &maps, &settings("invalid")).await?;
    assert_eq!(
        (invalid.code, invalid.text_at("/reason")),
        (422, "Invalid"),
        "{}",
        invalid.text
    );
    Ok(())
}
