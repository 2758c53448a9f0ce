//! `ListWatch` against an in-process service with responses set by the test.

mod compressed;
mod connecting;
mod errors;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::client::Body;
use kube::core::{GroupVersionKind, PartialObjectMeta};
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::ObjectKey;
use crate::source::{Encoding, Fetched};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type TestBody = UnsyncBoxBody<Bytes, BoxError>;

/// The requests received by a service, as `GET uri` and selected headers.
#[derive(Clone, Default)]
struct Seen(Arc<Mutex<Vec<Request<()>>>>);

impl Seen {
    fn uris(&self) -> Vec<String> {
        self.0
            .lock()
            .iter()
            .map(|request| request.uri().to_string())
            .collect()
    }

    fn header(&self, name: &str) -> Option<String> {
        let seen = self.0.lock();
        let value = seen.last()?.headers().get(name)?;
        Some(value.to_str().unwrap().to_owned())
    }
}

fn client(answer: impl Fn() -> Response<TestBody> + Send + Sync + 'static) -> (kube::Client, Seen) {
    let seen = Seen::default();
    let log = seen.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        log.0.lock().push(request.map(drop));
        let response = answer();
        async move { Ok::<_, Infallible>(response) }
    });
    (kube::Client::new(service, "default"), seen)
}

fn whole(text: impl Into<Bytes>) -> TestBody {
    Full::new(text.into())
        .map_err(|never| match never {})
        .boxed_unsync()
}

fn chunked(chunks: Vec<Result<Bytes, BoxError>>) -> TestBody {
    StreamBody::new(stream::iter(chunks).map(|chunk| chunk.map(Frame::data))).boxed_unsync()
}

fn ok(text: impl Into<Bytes>) -> Response<TestBody> {
    Response::new(whole(text))
}

fn status(code: u16, headers: &[(&str, &str)], text: &str) -> Response<TestBody> {
    let mut response = Response::builder().status(code);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(whole(text.to_owned())).unwrap()
}

/// An event of a watch.
fn added(name: &str) -> String {
    json!({"type": "ADDED", "object": {"metadata": {"name": name}}}).to_string()
}

fn encoded_as(encoding: Encoding) -> SourceOptions {
    SourceOptions {
        encoding,
        ..Default::default()
    }
}

fn pods_of(client: &kube::Client) -> ListWatch<Pod> {
    ListWatch::new(client.clone(), Scope::namespace("shop"))
}

fn object<K: Object>(object: &Fetched<K>) -> String {
    match object {
        Fetched::New(object) => ObjectKey::of(&**object).to_string(),
        Fetched::Unchanged(object) => format!("{} unchanged", ObjectKey::of(&**object)),
    }
}

async fn list<K: Object>(source: &ListWatch<K>) -> Vec<String> {
    let items = source.list(ListRequest::default(), None);
    let lines = items.map(|item| match item {
        Ok(ListItem::Progress { bytes }) => format!("progress {bytes}"),
        Ok(ListItem::Object(item)) => object(&item),
        Ok(ListItem::Unreadable(item)) => item.to_string(),
        Ok(ListItem::Outside) => "outside".to_owned(),
        Ok(ListItem::End(meta)) => format!("end {}", meta.resource_version.unwrap_or_default()),
        Err(error) => format!("{}: {error}", error.class()),
    });
    lines.collect().await
}

/// A watch that resumes at version 1.
fn resumed() -> WatchRequest {
    WatchRequest {
        resource_version: Some("1".into()),
        bookmarks: true,
        timeout: Duration::from_secs(300),
        initial_events: false,
        shard: None,
    }
}

async fn watch<K: Object>(source: &ListWatch<K>) -> Vec<String> {
    let lines = source.watch(resumed(), None).map(|item| match item {
        Ok(WatchItem::Progress { bytes }) => format!("progress {bytes}"),
        Ok(WatchItem::Added(item)) => format!("added {}", object(&item)),
        Ok(WatchItem::Error(error)) => format!("error {error}"),
        Ok(_) => "other".to_owned(),
        Err(error) => format!("{}: {error}", error.class()),
    });
    lines.collect().await
}

/// The error of a rejected list.
async fn refusal(answer: impl Fn() -> Response<TestBody> + Send + Sync + 'static) -> SourceError {
    let (client, _) = client(answer);
    let mut items = pods_of(&client).list(ListRequest::default(), None);
    let error = match items.next().await {
        Some(Err(error)) => error,
        _ => panic!("the error comes first"),
    };
    assert!(items.next().await.is_none(), "an error ends the stream");
    error
}

const TWO_PODS: &str = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[
    {"metadata":{"name":"a","namespace":"shop"}},{"metadata":{"name":"b","namespace":"shop"}}]}"#;

#[tokio::test]
async fn a_list_is_yielded_as_it_arrives() {
    let (first, rest) = TWO_PODS.split_at(140);
    let (client, seen) =
        client(move || Response::new(chunked(vec![Ok(first.into()), Ok(Bytes::new()), Ok(rest.into())])));

    let lines = list(&pods_of(&client)).await;

    assert_eq!(
        lines,
        [
            "progress 0".to_owned(),
            "progress 140".into(),
            "shop/a".into(),
            format!("progress {}", rest.len()),
            "shop/b".into(),
            "end 7".into()
        ]
    );
    assert_eq!(seen.uris(), ["/api/v1/namespaces/shop/pods"]);
    assert_eq!(
        seen.header("accept").as_deref(),
        Some("application/vnd.kubernetes.protobuf,application/json")
    );
}

#[tokio::test]
async fn a_watch_is_yielded_as_it_arrives_and_a_partial_frame_is_discarded() {
    let frame = added("a");
    let half = format!("{frame}\n{}", &frame[..20]);
    let (client, seen) = client(move || ok(half.clone()));

    assert_eq!(
        watch(&pods_of(&client)).await,
        ["progress 0", "progress 72", "added a"]
    );
    assert_eq!(
        seen.uris(),
        [
            "/api/v1/namespaces/shop/pods?watch=true&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=300"
        ]
    );
    assert_eq!(seen.header("accept-encoding").as_deref(), Some("identity"));
}

#[tokio::test]
async fn nothing_is_sent_before_the_stream_is_polled() {
    let (client, seen) = client(|| ok(TWO_PODS));

    let stream = pods_of(&client).list(ListRequest::default(), None);
    assert!(seen.uris().is_empty());
    drop(stream);

    tokio::task::yield_now().await;
    assert!(seen.uris().is_empty());
}

#[tokio::test]
async fn every_sort_of_object_has_its_path_and_its_accept_header() {
    let (client, seen) = client(|| ok(TWO_PODS));
    let all = Scope::all;

    list(&ListWatch::<Deployment>::new(client.clone(), all())).await;
    list(&ListWatch::<Node>::new(client.clone(), all())).await;
    let api = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v2", "Shop"));
    list(&ListWatch::dynamic(client.clone(), &api, Scope::namespace("x"))).await;
    list(&ListWatch::<DynamicObject>::with(client.clone(), &api, all())).await;
    assert_eq!(
        seen.uris(),
        [
            "/apis/apps/v1/deployments",
            "/api/v1/nodes",
            "/apis/example.com/v2/namespaces/x/shops",
            "/apis/example.com/v2/shops"
        ]
    );

    let metadata = ListWatch::<PartialObjectMeta<Pod>>::new(client.clone(), all());
    assert_eq!(list(&metadata).await[2..4], ["shop/a", "shop/b"]);
    let list_accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
                       application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(seen.header("accept").as_deref(), Some(list_accept));
    watch(&metadata).await;
    let watch_accept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                        application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(seen.header("accept").as_deref(), Some(watch_accept));
    assert_eq!(metadata.describe(), "metadata of pods in all namespaces");
}

/// A projection of a pod with one field.
#[derive(serde::Deserialize)]
struct PodNode {
    metadata: Meta,
}

#[derive(serde::Deserialize)]
struct Meta {
    name: String,
}

impl Object for PodNode {
    fn object_name(&self) -> &str {
        &self.metadata.name
    }
    fn object_namespace(&self) -> Option<&str> {
        None
    }
    fn object_uid(&self) -> Option<&str> {
        None
    }
    fn object_version(&self) -> Option<&str> {
        None
    }
}

#[tokio::test]
async fn a_projection_reads_the_resource_it_is_a_view_of() {
    let (client, seen) = client(|| ok(TWO_PODS));
    let source = ListWatch::<PodNode>::projected(client, ResourceType::of::<Pod>(), Scope::all());

    assert_eq!(list(&source).await[2..4], ["a", "b"]);
    assert_eq!(seen.uris(), ["/api/v1/pods"]);
}

#[tokio::test]
async fn an_object_of_20_mb_is_read_and_one_over_the_limit_is_not() {
    let large = "x".repeat(20_000_000);
    let item = json!({"metadata": {"name": "large"}, "status": {"message": large}});
    let body = Bytes::from(json!({"items": [item, {"metadata": {"name": "small"}}]}).to_string());
    let (client, _) = client(move || {
        let chunks = body.chunks(16 << 10).map(|chunk| Ok(body.slice_ref(chunk)));
        Response::new(chunked(chunks.collect()))
    });
    let objects = |lines: Vec<String>| -> Vec<String> {
        lines
            .into_iter()
            .filter(|line| !line.starts_with("progress"))
            .collect()
    };

    let read = objects(list(&pods_of(&client)).await);
    let refused = objects(
        list(&pods_of(&client).options(SourceOptions {
            max_object_size: 16 << 20,
            ..Default::default()
        }))
        .await,
    );

    assert_eq!(read, ["large", "small", "end "]);
    assert_eq!(
        refused,
        [
            "object large is larger than the limit of 16777216 bytes (20000053 bytes)",
            "small",
            "end "
        ]
    );
}

#[tokio::test]
async fn dropping_the_stream_ends_the_exchange() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let (client, _) = client(move || {
        let guard = Guard(count.clone());
        let silent = stream::pending::<Result<Frame<Bytes>, BoxError>>().map(move |frame| {
            let _ = &guard;
            frame
        });
        Response::new(StreamBody::new(silent).boxed_unsync())
    });

    let mut stream = pods_of(&client).watch(WatchRequest::default(), None);
    assert!(matches!(
        stream.next().await,
        Some(Ok(WatchItem::Progress { bytes: 0 }))
    ));
    assert!(futures_util::poll!(stream.next()).is_pending());
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
    drop(stream);

    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_hook_sees_every_request_and_cannot_break_ours() {
    let (client, seen) = client(|| ok(TWO_PODS));
    let hooked = |hook: fn(&mut Query)| {
        pods_of(&client).options(SourceOptions {
            request_hook: Some(Arc::new(hook)),
            ..Default::default()
        })
    };
    let source = hooked(|query| {
        let value = if query.is_watch() { "w" } else { "l" };
        query.set("shardSelector", value);
    });
    list(&source).await;
    watch(&source).await;
    let uris = seen.uris();
    assert!(uris[0].ends_with("pods?shardSelector=l"), "{uris:?}");
    assert!(
        uris[1].ends_with("&timeoutSeconds=300&shardSelector=w"),
        "{uris:?}"
    );

    let thief = hooked(|query| query.set("resourceVersion", "0"));
    assert_eq!(
        list(&thief).await,
        ["request: the request hook must not set \"resourceVersion\": it belongs to the informer"]
    );
    let panicking = hooked(|_| panic!("on purpose"));
    assert_eq!(list(&panicking).await, ["request: the request hook panicked"]);
    assert_eq!(seen.uris().len(), 2, "neither was sent");
}

#[tokio::test]
async fn a_scope_that_does_not_fit_is_an_error_and_no_request() {
    let (client, seen) = client(|| ok(TWO_PODS));
    let nodes = ListWatch::<Node>::new(client, Scope::namespace("shop"));

    let sentence = "nodes do not live in namespaces, but the scope is namespace shop: use `Scope::all()`";
    assert_eq!(nodes.check().unwrap_err().to_string(), sentence);
    assert_eq!(list(&nodes).await, [format!("request: {sentence}")]);
    assert!(seen.uris().is_empty());
}

#[tokio::test]
async fn a_list_in_one_chunk_lets_others_have_their_turn() {
    let items: Vec<_> = (0..2000)
        .map(|i| json!({"metadata": {"name": format!("p{i}")}}))
        .collect();
    let body = Bytes::from(json!({"items": items}).to_string());
    let (client, _) = client(move || ok(body.clone()));
    let source = pods_of(&client);
    let turns = AtomicUsize::new(0);

    let others = async {
        loop {
            turns.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    };
    let lines = tokio::select! {
        lines = list(&source) => lines,
        () = others => unreachable!("never ends"),
    };

    assert_eq!(lines.len(), 2003);
    assert!(turns.load(Ordering::Relaxed) > 10, "{turns:?}");
}

#[tokio::test]
async fn a_source_describes_itself() {
    let (client, _) = client(|| ok(TWO_PODS));
    let scope = Scope::namespace("shop")
        .labels("app=web")
        .unwrap()
        .fields("spec.nodeName=n1")
        .unwrap();

    let pods = ListWatch::<Pod>::new(client.clone(), scope);
    assert_eq!(
        pods.describe(),
        "pods in shop, labels app=web, fields spec.nodeName=n1"
    );
    assert_eq!(
        format!("{:?}", ListWatch::<Node>::new(client, Scope::all())),
        "ListWatch(\"nodes\")"
    );
}

#[tokio::test]
async fn protobuf_is_requested_for_kinds_with_a_schema() {
    const PROTOBUF: &str = "application/vnd.kubernetes.protobuf,application/json";
    const JSON: &str = "application/json";
    async fn accept<K: Object>(source: &ListWatch<K>, seen: &Seen) -> String {
        list(source).await;
        let of_list = seen.header("accept").unwrap();
        watch(source).await;
        assert_eq!(seen.header("accept").as_ref(), Some(&of_list));
        of_list
    }
    let (client, seen) = client(|| ok(TWO_PODS));
    let dynamic = |group: &str, kind: &str| {
        let api = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", kind));
        ListWatch::dynamic(client.clone(), &api, Scope::all())
    };

    assert_eq!(accept(&pods_of(&client), &seen).await, PROTOBUF);
    let deployments = ListWatch::<Deployment>::new(client.clone(), Scope::all());
    assert_eq!(accept(&deployments, &seen).await, PROTOBUF);
    let json = pods_of(&client).options(encoded_as(Encoding::Json));
    let without_fields = |encoding| {
        pods_of(&client).options(SourceOptions {
            drop_managed_fields: Some(true),
            ..encoded_as(encoding)
        })
    };
    assert_eq!(accept(&json, &seen).await, JSON);
    assert_eq!(
        accept(&without_fields(Encoding::Json), &seen).await,
        "application/json;drop=metadata.managedFields,application/json"
    );
    assert_eq!(
        accept(&without_fields(Encoding::Auto), &seen).await,
        "application/vnd.kubernetes.protobuf;drop=metadata.managedFields,\
         application/json;drop=metadata.managedFields,application/json"
    );
    // Protobuf would lose fields that are newer than the schema.
    assert_eq!(accept(&dynamic("", "Pod"), &seen).await, JSON);
    let chosen = dynamic("", "Pod").options(encoded_as(Encoding::Protobuf));
    assert_eq!(accept(&chosen, &seen).await, PROTOBUF);
    assert_eq!(accept(&dynamic("example.com", "Shop"), &seen).await, JSON);
}

#[tokio::test]
async fn protobuf_of_a_kind_without_a_schema_is_an_error() {
    let (client, seen) = client(|| ok(TWO_PODS));
    let api = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Shop"));
    let shops = || ListWatch::dynamic(client.clone(), &api, Scope::all());
    let message = "example.com/v1/Shop has no protobuf schema: request JSON or `Encoding::Auto`";

    let chosen = shops().options(encoded_as(Encoding::Protobuf));
    assert_eq!(chosen.check().unwrap_err().to_string(), message);
    assert_eq!(list(&chosen).await, [format!("request: {message}")]);
    let builder = crate::Informer::from_list_watch(shops());
    let error = builder.source(encoded_as(Encoding::Protobuf)).unwrap_err();
    assert_eq!(error.to_string(), message);
    assert_eq!(seen.uris(), [""; 0]);
    // Their metadata has one.
    let resource = ResourceType::from(&api).metadata_only();
    let metadata =
        ListWatch::<PartialObjectMeta<DynamicObject>>::projected(client.clone(), resource, Scope::all());
    assert!(metadata.options(encoded_as(Encoding::Protobuf)).check().is_ok());
}

#[tokio::test]
async fn the_content_type_decides_how_a_response_is_read() {
    let pod = kube_protobuf::ser::to_body(&json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "shop"}}))
    .unwrap();
    let frame = kube_protobuf::envelope::to_watch_frame("ADDED", &pod);
    let (client, _) = client(move || {
        Response::builder()
            .header("content-type", "application/vnd.kubernetes.protobuf;stream=watch")
            .body(whole(frame.clone()))
            .unwrap()
    });

    let lines = watch(&pods_of(&client)).await;
    assert_eq!(
        (lines[0].as_str(), lines[2].as_str()),
        ("progress 0", "added shop/a")
    );
    let json_was_requested = pods_of(&client).options(encoded_as(Encoding::Json));
    assert_eq!(watch(&json_was_requested).await, lines);
}

#[tokio::test]
async fn a_protobuf_status_is_an_error_response() {
    let status =
        kube_protobuf::ser::to_body(&json!({"apiVersion": "v1", "kind": "Status", "reason": "Expired",
        "message": "too old", "details": {"retryAfterSeconds": 2}, "code": 410}))
        .unwrap();
    let error = refusal(move || {
        Response::builder()
            .status(410)
            .header("content-type", "application/vnd.kubernetes.protobuf")
            .body(whole(status.clone()))
            .unwrap()
    })
    .await;

    assert_eq!(error.to_string(), "the server returned 410 Expired: too old");
    assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
}
