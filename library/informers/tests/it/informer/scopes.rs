//! Scopes: selectors, one namespace, several namespaces.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::error::WaitError;
use kube_informers::source::SourceOptions;
use kube_informers::{Informer, Scope};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};

use crate::support::*;

fn on_node(namespace: &str, name: &str, node: &str) -> Pod {
    let mut pod = pod(namespace, name);
    pod.spec.get_or_insert_default().node_name = Some(node.to_owned());
    pod
}

#[tokio::test(start_paused = true)]
async fn field_selector_is_sent_and_objects_enter_and_leave_its_scope() {
    let server = TestServer::new();
    server.create(on_node("ns", "here", "n1"));
    server.create(on_node("ns", "there", "n2"));
    let scope = Scope::all().fields("spec.nodeName=n1").unwrap();
    let informer = synced(Informer::<Pod>::scoped(server.client(), scope)).await;
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    assert_eq!(log.take(), ["added ns/here (initial)"]);
    assert!(
        informer.name().contains("spec.nodeName=n1"),
        "{}",
        informer.name()
    );

    server.create(on_node("ns", "new", "n1"));
    server.create(on_node("ns", "other", "n2"));
    server.delete::<Pod>("ns", "here");
    wait_for("it is delivered", || log.len() == 2).await;
    assert_eq!(log.take(), ["added ns/new", "deleted ns/here"]);
}

#[tokio::test(start_paused = true)]
async fn only_the_selected_namespace_is_requested() {
    let server = TestServer::new();
    server.create(pod("a", "x"));
    server.create(pod("b", "x"));
    let informer = synced(Informer::<Pod>::namespaced(server.client(), "a")).await;
    assert_eq!(informer.name(), "pods in a");
    assert_eq!(informer.store().keys().len(), 1);
    assert!(
        server
            .requests()
            .iter()
            .all(|request| request.namespace.as_deref() == Some("a"))
    );
}

#[tokio::test(start_paused = true)]
async fn several_namespaces_are_one_cache_with_one_version_each() {
    let server = TestServer::new();
    for namespace in ["a", "b", "c"] {
        server.create(pod(namespace, "x"));
    }
    let builder = Informer::<Pod>::scoped(server.client(), Scope::namespaces(["a", "b"]));
    let informer = synced(builder).await;
    assert_eq!(informer.store().len(), 2);
    assert_eq!(informer.stats().members.len(), 2);
    assert_eq!(
        informer.store().resource_version(),
        None,
        "there is no single version"
    );
    assert!(informer.store().resource_versions().iter().all(Option::is_some));
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    log.take();

    // One of the two must relist, and notices a deletion. The other is not affected.
    let other = informer.stats().members[1].reflector.clone();
    server.fault(
        RequestMatcher::plain_watch("pods").namespace("a"),
        Fault::status(410),
    );
    server.break_watches();
    server.delete::<Pod>("a", "x");
    wait_for("it is delivered", || log.len() == 1).await;
    assert_eq!(log.take(), ["deleted a/x (missed)"]);
    assert_eq!(informer.store().namespace("b").len(), 1);
    pass(secs(10)).await;
    let members = informer.stats().members;
    assert_eq!(members[0].reflector.lists, 2);
    assert_eq!((members[1].reflector.lists, other.lists), (1, 1));

    // Reading one's own write requires all members: the other one reaches the version by a bookmark.
    let written = server.create(pod("a", "y")).metadata.resource_version.unwrap();
    let early = informer.wait_for_within(&written, secs(5)).await.unwrap_err();
    assert!(matches!(early, WaitError::Version { .. }), "{early}");
    informer
        .wait_for_within(&written, minutes(3))
        .await
        .expect("a bookmark arrives");
}

#[tokio::test(start_paused = true)]
async fn forbidden_namespace_is_reported_while_the_others_are_cached() {
    let server = TestServer::new();
    server.create(pod("a", "x"));
    server.create(pod("b", "x"));
    let trouble = server.fault(
        RequestMatcher::resource("pods").namespace("b").forever(),
        Fault::status(403),
    );
    let informer = Informer::<Pod>::scoped(server.client(), Scope::namespaces(["a", "b"])).start();

    let error = informer.synced_within(secs(30)).await.unwrap_err();
    assert_eq!(error.last_error().unwrap().api().unwrap().code, 403);
    assert!(error.to_string().contains("403"), "{error}");
    assert_eq!(
        informer.store().namespace("a").len(),
        1,
        "the other namespaces are cached"
    );
    trouble.clear();
    informer
        .synced_within(minutes(2))
        .await
        .expect("then all are synced");
    assert_eq!(informer.store().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn impossible_scope_is_rejected_with_a_message() {
    let server = TestServer::new();
    let informer = Informer::<Pod>::namespaced(server.client(), "Not A Name").start();
    let error = informer.synced_within(secs(5)).await.unwrap_err().to_string();
    assert!(error.contains("cannot be the name of a namespace"), "{error}");
    pass(minutes(10)).await;
    assert_eq!(server.requests().len(), 0);

    let nodes = Informer::<k8s_openapi::api::core::v1::Node>::namespaced(server.client(), "a").start();
    let error = nodes.synced_within(secs(5)).await.unwrap_err().to_string();
    assert!(error.contains("namespace"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_object_needs_only_the_watch_of_its_namespace() {
    let server = TestServer::new();
    let scope = Scope::namespaces(["a", "b"]);
    let informer = synced(Informer::<Pod>::scoped(server.client(), scope)).await;
    let since = tokio::time::Instant::now();

    let written = server.create(pod("a", "x"));
    informer.wait_for_object_within(&written, secs(5)).await.unwrap();
    assert!(since.elapsed() < secs(1), "{:?}", since.elapsed());
    assert!(informer.store().contains(("a", "x")));
    let version = written.metadata.resource_version.clone().unwrap();
    let error = informer.wait_for_within(&version, secs(5)).await.unwrap_err();
    assert!(
        matches!(error, WaitError::Version { .. }),
        "the other watch has seen nothing: {error}"
    );

    // An object that was deleted meanwhile is no reason to wait.
    server.delete::<Pod>("a", "x");
    wait_for("it is deleted", || informer.store().is_empty()).await;
    informer.wait_for_object_within(&written, secs(5)).await.unwrap();

    let foreign = server.create(pod("c", "x"));
    let error = informer
        .wait_for_object_within(&foreign, secs(5))
        .await
        .unwrap_err();
    assert!(matches!(error, WaitError::OutsideScope { .. }), "{error}");
    let error = informer
        .wait_for_object_within(&pod("a", "x"), secs(5))
        .await
        .unwrap_err();
    assert!(matches!(error, WaitError::NotComparable(_)), "{error}");
}

#[tokio::test(start_paused = true)]
async fn managed_fields_are_dropped_on_request() {
    let server = TestServer::new();
    let mut with_fields = pod("a", "x");
    with_fields.metadata.managed_fields = Some(vec![Default::default()]);
    server.create(with_fields);

    let kept = synced(Informer::<Pod>::all(server.client())).await;
    let options = SourceOptions {
        drop_managed_fields: Some(true),
        ..Default::default()
    };
    let dropped = synced(Informer::<Pod>::all(server.client()).source(options).unwrap()).await;

    let fields = |informer: &Informer<Pod>| {
        informer
            .store()
            .get("a/x")
            .unwrap()
            .metadata
            .managed_fields
            .clone()
    };
    assert!(fields(&kept).is_some());
    assert!(fields(&dropped).is_none());
}
