//! Every request gets a response: no panic, no hang, and every error is a `Status` or one of the known plain texts.

use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, deployment, pod};
use kube_testserver::kinds::Kind;
use proptest::prelude::*;
use serde_json::{Value, json};
use tower_service::Service;

fn segment() -> impl Strategy<Value = String> {
    let known = [
        "api",
        "apis",
        "v1",
        "apps",
        "namespaces",
        "shop",
        "pods",
        "cart",
        "deployments",
        "web",
        "status",
        "scale",
        "watch",
        "example.com",
        "widgets",
        "w",
        "nodes",
        "events",
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "openapi",
        "v3",
        "binding",
        "eviction",
        "finalize",
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "",
        "..",
        "%2e%2e",
        "%ff",
        "%00",
        "a%2Fb",
        "🦀",
    ];
    prop_oneof![8 => proptest::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => "[a-z0-9.%-]{0,12}"]
}

fn path() -> impl Strategy<Value = String> {
    let real = [
        "/api/v1/pods",
        "/api/v1/namespaces/shop/pods",
        "/api/v1/namespaces/shop/pods/cart",
        "/api/v1/namespaces/shop/pods/missing",
        "/api/v1/namespaces/shop/pods/cart/status",
        "/apis/apps/v1/namespaces/shop/deployments/web/scale",
        "/apis/example.com/v1/namespaces/shop/widgets",
        "/apis/example.com/v1/namespaces/shop/widgets/w",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/autoscaling/v1/namespaces/shop/horizontalpodautoscalers",
    ];
    prop_oneof![
        3 => proptest::sample::select(real.to_vec()).prop_map(str::to_owned),
        1 => proptest::collection::vec(segment(), 0..8).prop_map(|parts| format!("/{}", parts.join("/"))),
    ]
}

fn query() -> impl Strategy<Value = String> {
    let key = proptest::sample::select(vec![
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "allowWatchBookmarks",
        "sendInitialEvents",
        "timeoutSeconds",
        "dryRun",
        "fieldManager",
        "force",
        "pretty",
        "propagationPolicy",
        "gracePeriodSeconds",
        "includeObject",
        "odd",
    ]);
    let value = prop_oneof![
        proptest::sample::select(vec![
            "",
            "true",
            "false",
            "0",
            "1",
            "2",
            "-1",
            "9223372036854775807",
            "18446744073709551615",
            "99999999999999999999",
            "abc",
            "Exact",
            "NotOlderThan",
            "All",
            "x=y",
            "a in (b,c)",
            "metadata.name=cart",
            "spec.nodeName!=",
            "\\,\\=",
            "Orphan",
            "Foreground",
            "eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6Miwic3RhcnQiOiJzaG9wL2NhcnRcdTAwMDAifQ",
        ])
        .prop_map(str::to_owned),
        any::<String>(),
    ];
    proptest::collection::vec((key, value), 0..5).prop_map(|pairs| {
        let mut query = String::new();
        for (key, value) in pairs {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02x}")).collect();
            query.push_str(&format!("{key}={encoded}&"));
        }
        query
    })
}

fn json_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        proptest::sample::select(vec![
            "cart",
            "shop",
            "v1",
            "Pod",
            "apps/v1",
            "Deployment",
            "example.com/v1",
            "Widget",
            "",
            "2",
            "add",
            "remove",
            "replace",
            "test",
            "move",
            "copy",
            "/metadata/labels/x",
            "/spec/containers/0",
            "merge",
            "delete",
            "replace",
        ])
        .prop_map(|text| json!(text)),
        any::<String>().prop_map(|text| json!(text)),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        let key = proptest::sample::select(vec![
            "apiVersion",
            "kind",
            "metadata",
            "spec",
            "status",
            "name",
            "namespace",
            "labels",
            "annotations",
            "finalizers",
            "ownerReferences",
            "uid",
            "resourceVersion",
            "generateName",
            "managedFields",
            "containers",
            "$patch",
            "$setElementOrder/containers",
            "$deleteFromPrimitiveList/finalizers",
            "$retainKeys",
            "op",
            "path",
            "value",
            "from",
            "replicas",
            "items",
            "names",
            "versions",
            "group",
            "scope",
            "preconditions",
            "target",
            "x",
        ]);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(key, inner, 0..6).prop_map(|map| {
                Value::Object(
                    map.into_iter()
                        .map(|(key, value)| (key.to_owned(), value))
                        .collect(),
                )
            }),
        ]
    })
}

fn body() -> impl Strategy<Value = Bytes> {
    let object = json_value().prop_map(|spec| {
        json!({"metadata": {"name": "cart", "namespace": "shop"}, "spec": spec})
            .to_string()
            .into()
    });
    let typed = (json_value(), json_value()).prop_map(|(metadata, spec)| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
            .to_string()
            .into()
    });
    prop_oneof![
        2 => typed,
        3 => json_value().prop_map(|value| Bytes::from(value.to_string())),
        2 => object,
        1 => proptest::collection::vec(any::<u8>(), 0..64).prop_map(Bytes::from),
        1 => proptest::collection::vec(any::<u8>(), 0..64).prop_map(|rest| [b"k8s\0", rest.as_slice()].concat().into()),
    ]
}

fn request() -> impl Strategy<Value = Request<Full<Bytes>>> {
    let method = proptest::sample::select(vec![
        Method::GET,
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::PATCH,
        Method::PATCH,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
    ]);
    let content_type = proptest::sample::select(vec![
        "application/json",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
    ]);
    let accept = proptest::sample::select(vec![
        "",
        "application/json",
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
        ";;,q=",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
    ]);
    (method, path(), query(), content_type, accept, body()).prop_filter_map(
        "a URI",
        |(method, path, query, content_type, accept, body)| {
            Request::builder()
                .method(method)
                .uri(format!("{path}?{query}"))
                .header("content-type", content_type)
                .header("accept", accept)
                .body(Full::new(body))
                .ok()
        },
    )
}

fn cluster() -> TestServer {
    let server = TestServer::builder()
        .kind(
            Kind::new("example.com", "v1", "Widget")
                .with_status()
                .with_scale(),
        )
        .garbage_collection()
        .build();
    server.create(
        pod("shop", "cart")
            .label("app", "cart")
            .finalizer("example.com/hold"),
    );
    server.create(deployment("shop", "web"));
    server.create(json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w", "namespace": "shop"}}));
    server
}

async fn check_response(server: &TestServer, request: Request<Full<Bytes>>) {
    let head = request.method() == Method::HEAD;
    let shown = format!("{} {}", request.method(), request.uri());
    // Longer than any response takes: the wait for a future version is three seconds.
    let response = tokio::time::timeout(Duration::from_secs(60), server.service().call(request)).await;
    let response = response
        .unwrap_or_else(|_| panic!("no response to {shown}"))
        .expect("no fault is set");
    let (parts, mut body) = response.into_parts();
    let mut bytes = Vec::new();
    while bytes.len() < 1 << 20 {
        match tokio::time::timeout(Duration::from_secs(5), body.frame()).await {
            Ok(Some(frame)) => {
                bytes.extend_from_slice(&frame.expect("no fault is set").into_data().unwrap_or_default())
            }
            Ok(None) | Err(_) => break,
        }
    }
    if !head && parts.status.as_u16() >= 400 && parts.headers["content-type"] == "application/json" {
        let status: Value = serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert_eq!(
            (&status["kind"], &status["code"]),
            (&json!("Status"), &json!(parts.status.as_u16())),
            "{shown}"
        );
        assert_ne!(
            (status["code"].as_u64(), status["reason"].as_str()),
            (Some(500), Some("InternalError")),
            "{shown}: {status}"
        );
    }
}

proptest! {
    #[test]
    fn arbitrary_requests_get_a_response(requests in proptest::collection::vec(request(), 1..8)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let server = cluster();
            for request in requests {
                check_response(&server, request).await;
            }
            // After any requests the server still works, and its objects can be read.
            let list = crate::common::get(&server, "/api/v1/pods").await;
            assert_eq!(list.status, 200);
            assert!(list.json()["items"].is_array());
            server.assert_nothing_open();
        });
    }

    #[test]
    fn arbitrary_continue_tokens_are_accepted_or_rejected(token in "[A-Za-z0-9_-]{0,80}", limit in 0..5u8) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
        runtime.block_on(async {
            let answer = crate::common::get(&cluster(), &format!("/api/v1/pods?limit={limit}&continue={token}")).await;
            assert!(matches!(answer.status, 200 | 400 | 410 | 504), "{}", answer.text);
        });
    }
}
