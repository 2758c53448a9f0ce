//! Bodies that a client got wrong: what is refused, with which message, and what is only warned about.

use http::Method;
use serde_json::json;

use crate::common::{FullResponse, get, send, send_as};
use crate::conformant::{deployment, server};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn warnings(response: &FullResponse) -> Vec<&str> {
    let warnings = response.headers.get_all("warning").iter();
    warnings.filter_map(|value| value.to_str().ok()).collect()
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_warned_about_also_if_the_write_fails() {
    const UNKNOWN: &str = "299 - \"unknown field \\\"spec.replica\\\"\"";
    let server = server();
    let mut wrong = deployment();
    wrong["spec"]["replica"] = json!(3);
    wrong["spec"]["replicas"] = json!(-1);

    let created = send(&server, Method::POST, DEPLOYMENTS, &wrong).await;
    assert_eq!((created.status, warnings(&created)), (422, vec![UNKNOWN]));

    send(&server, Method::POST, DEPLOYMENTS, &deployment()).await;
    let path = format!("{DEPLOYMENTS}/web");
    let updated = send(&server, Method::PUT, &path, &wrong).await;
    assert_eq!((updated.status, warnings(&updated)), (422, vec![UNKNOWN]));
    let patch = json!({"spec": {"replica": 3, "replicas": -1}}).to_string();
    for content_type in [MERGE, STRATEGIC] {
        let patched = send_as(&server, Method::PATCH, &path, content_type, patch.clone()).await;
        assert_eq!((patched.status, warnings(&patched)), (422, vec![UNKNOWN]));
    }
}

#[tokio::test(start_paused = true)]
async fn strategic_merge_patches_are_refused_with_the_errors_of_the_converter() {
    let server = server();
    send(&server, Method::POST, DEPLOYMENTS, &deployment()).await;
    let patch = async |body: &'static str| {
        let path = format!("{DEPLOYMENTS}/web");
        send_as(&server, Method::PATCH, &path, STRATEGIC, body)
            .await
            .error()
    };

    let (code, reason, message) = patch(r#"{"spec":{"replicas":"3"}}"#).await;
    assert_eq!((code, reason.as_str()), (422, "Invalid"));
    assert_eq!(
        message,
        " \"\" is invalid: patch: Invalid value: \"map[spec:map[replicas:3]]\": unrecognized type: int32"
    );
    assert_eq!(
        patch("[1]").await,
        (
            400,
            "BadRequest".to_owned(),
            "json: cannot unmarshal array into Go value of type map[string]interface {}".to_owned()
        )
    );
}

#[tokio::test(start_paused = true)]
async fn null_is_no_merge_patch() {
    let server = server();
    send(&server, Method::POST, DEPLOYMENTS, &deployment()).await;
    let patch = async |content_type: &str| {
        let path = format!("{DEPLOYMENTS}/web");
        send_as(&server, Method::PATCH, &path, content_type, "null").await
    };
    assert_eq!(patch(MERGE).await.error().2, "Invalid JSON Patch");
    assert_eq!(patch(STRATEGIC).await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_patch_that_is_no_json_is_refused_before_its_object_is_looked_up() {
    let server = server();
    for content_type in [JSON, MERGE, STRATEGIC] {
        for path in ["none", "none/scale"] {
            let path = format!("{DEPLOYMENTS}/{path}");
            let refused = send_as(&server, Method::PATCH, &path, content_type, "{")
                .await
                .error();
            assert_eq!((refused.0, refused.2.as_str()), (400, "invalid JSON patch"));
            let missing = send_as(&server, Method::PATCH, &path, content_type, "{}").await;
            assert_eq!(missing.status, 404);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn every_key_that_an_applied_configuration_has_twice_is_warned_about() {
    let server = server();
    let body = "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\",\n\
                \"data\": {\"a\": \"1\", \"a\": \"2\",\n\"b\": \"1\", \"b\": \"2\"}}";
    let apply = async |query: &str| {
        let path = format!("{CONFIG_MAPS}/twice?fieldManager=test{query}");
        send_as(&server, Method::PATCH, &path, APPLY, body).await
    };
    let refused = apply("&fieldValidation=Strict").await;
    assert_eq!(
        (refused.status, refused.error().2.as_str()),
        (
            400,
            "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal errors:\n  line 2: key \"a\" \
             already set in map\n  line 3: key \"b\" already set in map"
        )
    );
    let applied = apply("").await;
    assert_eq!(applied.json()["data"], json!({"a": "2", "b": "2"}));
    assert_eq!(
        warnings(&applied),
        [
            "299 - \"line 2: key \\\"a\\\" already set in map\"",
            "299 - \"line 3: key \\\"b\\\" already set in map\"",
        ]
    );
    assert!(warnings(&apply("&fieldValidation=Ignore").await).is_empty());

    send(&server, Method::POST, DEPLOYMENTS, &deployment()).await;
    let scale =
        r#"{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 2, "replicas": 3}}"#;
    let path = format!("{DEPLOYMENTS}/web/scale?fieldManager=test&force=true");
    let scaled = send_as(&server, Method::PATCH, &path, APPLY, scale).await;
    assert_eq!(
        (scaled.status, warnings(&scaled)),
        (
            200,
            vec!["299 - \"line 1: key \\\"replicas\\\" already set in map\""]
        )
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_no_unicode_is_replaced() {
    let server = server();
    let body = b"{\"metadata\": {\"name\": \"odd\"}, \"data\": {\"a\": \"\xff\", \"b\": \"\\ud800\"}}";
    let created = send_as(&server, Method::POST, CONFIG_MAPS, "application/json", &body[..]).await;
    assert_eq!(created.status, 201, "{}", created.text);
    let stored = get(&server, &format!("{CONFIG_MAPS}/odd")).await.json();
    assert_eq!(stored["data"], json!({"a": "\u{fffd}", "b": "\u{fffd}"}));
}

#[tokio::test(start_paused = true)]
async fn bodies_that_are_too_deep_have_one_message() {
    let server = server();
    for levels in [110, 200, 5000] {
        let nested = "[".repeat(levels) + &"]".repeat(levels);
        let body = format!("{{\"metadata\": {{\"name\": \"deep\"}}, \"x\": {nested}}}");
        let refused = send_as(&server, Method::POST, CONFIG_MAPS, "application/json", body).await;
        assert_eq!(
            (refused.status, refused.error().2.as_str()),
            (400, "the object is nested deeper than 100 levels"),
            "{levels}"
        );
    }
}
