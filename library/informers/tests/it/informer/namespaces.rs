//! Namespaces that come and go while an informer runs. `exact` runs the same with random writes and faults.

use k8s_openapi::api::core::v1::{Node, Pod};

use kube_informers::error::{ScopeError, WaitError};
use kube_informers::readiness::{Readiness, ReadinessProblem};
use kube_informers::reflector::ReflectorState;
use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, ShardRange};
use kube_informers::{Informer, InformerBuilder, ObjectKey, Registration, Scope, SharedInformerFactory};
use kube_testserver::builders::pod;
use kube_testserver::{Fault, RequestMatcher, TestServer};

use crate::support::*;

fn server() -> TestServer {
    let server = TestServer::new();
    for namespace in ["a", "b", "c"] {
        server.create(pod(namespace, "x"));
        server.create(pod(namespace, "y"));
    }
    server
}

fn pods(server: &TestServer, namespaces: &[&str]) -> InformerBuilder<Pod> {
    Informer::scoped(server.client(), Scope::namespaces(namespaces.iter().copied()))
}

fn keys(informer: &Informer<Pod>) -> Vec<String> {
    let mut keys: Vec<_> = (informer.store().keys().iter())
        .map(|key| key.as_str().to_owned())
        .collect();
    keys.sort();
    keys
}

/// A handler that has received the initial objects, and the log of what follows.
async fn observe(informer: &Informer<Pod>) -> (Log, Registration) {
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    log.take();
    (log, handler)
}

/// The number of requests for pods of a namespace.
fn requests(server: &TestServer, namespace: &str) -> usize {
    let requests = server.requests();
    (requests.iter())
        .filter(|request| request.namespace.as_deref() == Some(namespace))
        .count()
}

#[tokio::test(start_paused = true)]
async fn a_removed_namespace_leaves_at_once_and_a_kept_one_sees_nothing() {
    let server = server();
    let informer = synced(pods(&server, &["a", "b"])).await;
    let (log, handler) = observe(&informer).await;
    let kept = informer.store().get("a/x").unwrap();
    let before = server.requests().len();

    informer.set_namespaces(["a"]).unwrap();

    // No await so far.
    assert_eq!(keys(&informer), ["a/x", "a/y"]);
    assert_eq!(informer.namespaces(), Some(vec!["a".to_owned()]));
    assert_eq!(handler.pending(), 2);
    assert!(informer.has_settled() && informer.has_synced());
    assert!(
        informer.store().resource_version().is_some(),
        "one watch is left, so there is one version"
    );
    wait_for("the handler is idle", || handler.pending() == 0).await;
    let mut events = log.take();
    events.sort();
    assert_eq!(events, ["deleted b/x (left scope)", "deleted b/y (left scope)"]);
    assert!(std::sync::Arc::ptr_eq(
        &kept,
        &informer.store().get("a/x").unwrap()
    ));

    server.create(pod("b", "ignored"));
    server.create(pod("a", "new"));
    wait_for("it is delivered", || log.len() == 1).await;
    assert_eq!(log.take(), ["added a/new"]);
    assert_eq!(server.requests().len(), before, "no request is made");
    pass(minutes(10)).await;
    assert_eq!(requests(&server, "b"), 1, "its watch has ended");
    informer.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn an_added_namespace_is_delivered_like_an_initial_list() {
    let server = server();
    let informer = synced(pods(&server, &["b"])).await;
    let (log, handler) = observe(&informer).await;

    informer.set_namespaces(["a", "b", "c"]).unwrap();

    assert!(informer.has_synced(), "it never reverts");
    assert!(!informer.has_settled());
    assert_eq!(informer.freshness(), None);
    informer.settled().await.unwrap();
    assert!(informer.freshness().is_some());
    wait_for("the handler is idle", || handler.pending() == 0).await;
    let mut events = log.take();
    events.sort();
    assert_eq!(
        events,
        [
            "added a/x (initial)",
            "added a/y (initial)",
            "added c/x (initial)",
            "added c/y (initial)"
        ]
    );
    server.delete::<Pod>("c", "x");
    wait_for("it is delivered", || log.len() == 1).await;
    assert_eq!(log.take(), ["deleted c/x"]);
    let namespaces = informer.stats().members.into_iter();
    let namespaces: Vec<_> = namespaces.filter_map(|member| member.namespace).collect();
    assert_eq!(namespaces, ["a", "b", "c"]);
    assert_eq!(informer.store().resource_versions().len(), 3);
    assert_eq!(
        requests(&server, "b"),
        1,
        "the kept namespace is not listed again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_returns_is_listed_again() {
    let server = server();
    let informer = synced(pods(&server, &["a", "b"])).await;
    let (log, handler) = observe(&informer).await;

    // Without an await between the two.
    informer.set_namespaces(["a"]).unwrap();
    server.delete::<Pod>("b", "x");
    informer.set_namespaces(["a", "b"]).unwrap();
    informer.settled().await.unwrap();

    wait_for("the handler is idle", || handler.pending() == 0).await;
    let mut events = log.take();
    events.sort();
    assert_eq!(
        events,
        [
            "added b/y (initial)",
            "deleted b/x (left scope)",
            "deleted b/y (left scope)"
        ]
    );
    assert_eq!(keys(&informer), ["a/x", "a/y", "b/y"]);
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_namespace_does_not_stop_the_others() {
    let server = server();
    let forbidden = server.fault(
        RequestMatcher::resource("pods").namespace("b").forever(),
        Fault::status(403),
    );
    let informer = synced(pods(&server, &["a"])).await;
    let readiness = Readiness::new();
    readiness.add(&informer);

    informer.set_namespaces(["a", "b", "c", "not-created"]).unwrap();

    wait_for("the others are listed", || informer.store().len() == 4).await;
    server.create(pod("not-created", "first"));
    server.create(pod("a", "new"));
    wait_for("the others go on", || informer.store().len() == 6).await;
    assert!(informer.has_synced() && !informer.has_settled());
    let error = readiness.check().unwrap_err();
    assert!(
        matches!(error.problems.as_slice(), [ReadinessProblem::Stale(_)]),
        "{error}"
    );
    assert!(
        error
            .to_string()
            .contains("a part of pods in a is not in the cache yet"),
        "{error}"
    );
    let stats = informer.stats();
    let broken: Vec<_> = (stats.members.iter())
        .filter(|member| matches!(member.state, ReflectorState::BackingOff { .. }))
        .map(|member| member.namespace.as_deref())
        .collect();
    assert_eq!(broken, [Some("b")]);

    // A late handler is not held up, and the namespace is picked up when it is allowed.
    let late = informer.add_event_handler(|_| {}).unwrap();
    tokio::time::timeout(secs(1), late.synced())
        .await
        .unwrap()
        .unwrap();
    forbidden.clear();
    informer.settled().await.unwrap();
    assert_eq!(informer.store().len(), 8);
    readiness.check().unwrap();
}

#[tokio::test(start_paused = true)]
async fn removing_the_namespace_it_waits_for_makes_the_informer_synced() {
    let server = server();
    server.fault(
        RequestMatcher::resource("pods").namespace("b").forever(),
        Fault::status(403),
    );
    let informer = pods(&server, &["a", "b"]).start();
    let handler = informer.add_event_handler(|_| {}).unwrap();
    pass(minutes(5)).await;
    assert!(!informer.has_synced() && !handler.has_synced());

    informer.set_namespaces(["a"]).unwrap();

    informer.synced_within(secs(1)).await.unwrap();
    tokio::time::timeout(secs(1), handler.synced())
        .await
        .unwrap()
        .unwrap();
    let before = requests(&server, "b");
    pass(minutes(5)).await;
    assert_eq!(requests(&server, "b"), before, "it is no longer requested");
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_namespaces_waits_for_some() {
    let server = server();
    let informer = pods(&server, &[]).start();
    informer.synced_within(secs(1)).await.unwrap();
    pass(minutes(5)).await;
    assert!(!informer.is_stopped() && server.requests().is_empty());
    assert!(matches!(informer.state(), ReflectorState::Resting));
    assert_eq!(informer.namespaces(), Some(Vec::new()));

    informer.set_namespaces(["c"]).unwrap();
    informer.settled().await.unwrap();
    assert_eq!(keys(&informer), ["c/x", "c/y"]);

    informer.set_namespaces([""; 0]).unwrap();
    assert!(informer.store().is_empty() && informer.has_settled());
    settle().await;
    server.assert_nothing_open();
    let report = informer.drain().await;
    assert!(report.is_clean() && informer.is_stopped());
}

#[tokio::test(start_paused = true)]
async fn namespaces_set_before_the_start_are_those_it_starts_with() {
    let server = server();
    let (informer, task) = pods(&server, &["a"]).build();
    informer.set_namespaces(["b", "c"]).unwrap();
    informer.set_namespaces(["c"]).unwrap();
    assert!(!informer.has_synced());

    let (ran, ()) = tokio::join!(task.run(), async {
        informer.synced().await.unwrap();
        assert_eq!(keys(&informer), ["c/x", "c/y"]);
        informer.shutdown().await;
    });

    ran.unwrap();
    assert_eq!(requests(&server, "a") + requests(&server, "b"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_shard_holds_for_namespaces_that_are_added_later() {
    let server = server();
    let informer = synced(pods(&server, &[])).await;
    let halves = ShardRange::ALL.split(2);
    let low = Shard::new(ShardField::Uid, [halves[0]]);
    informer.set_shard(low.clone()).unwrap();
    let error = informer.set_shard(Shard::everything(ShardField::Namespace));
    assert!(error.is_err(), "also without a watch");

    informer.set_namespaces(["a", "b", "c"]).unwrap();
    informer.settled().await.unwrap();

    assert_eq!(informer.shard(), Some(low.clone()));
    let high = Shard::new(ShardField::Uid, [halves[1]]);
    let in_low = informer.store().len();
    informer.set_shard(high).unwrap();
    informer.settled().await.unwrap();
    assert_eq!(in_low + informer.store().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_an_object_of_a_removed_namespace_ends_with_an_error() {
    let server = server();
    let informer = synced(pods(&server, &["a", "b"])).await;
    let key = ObjectKey::namespaced("b", "x");
    let wait = informer.wait_for_key_within(&key, "999999", minutes(5));
    let (waited, ()) = tokio::join!(wait, async {
        settle().await;
        informer.set_namespaces(["a"]).unwrap();
    });
    assert!(
        matches!(waited, Err(WaitError::OutsideScope { .. })),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_changed_is_rejected_with_the_remedy() {
    let server = server();
    let informer = synced(pods(&server, &["a"])).await;
    let error = informer.set_namespaces(["b", "Not A Name"]).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("namespace \"Not A Name\" cannot be watched"),
        "{error}"
    );
    assert_eq!(keys(&informer), ["a/x", "a/y"], "nothing has changed");

    let all = Informer::<Pod>::all(server.client()).start();
    assert_eq!(all.namespaces(), None);
    let error = all.set_namespaces(["a"]).unwrap_err();
    assert!(error.to_string().contains("Scope::namespaces"), "{error}");

    let nodes = Informer::<Node>::scoped(server.client(), Scope::namespaces([""; 0])).start();
    let error = nodes.set_namespaces(["a"]).unwrap_err();
    assert!(matches!(error, ScopeError::Invalid { .. }), "{error}");

    let factory = SharedInformerFactory::builder(server.client())
        .namespace("a")
        .build();
    let shared = factory.informer::<Pod>();
    let error = shared.set_namespaces(["b"]).unwrap_err();
    assert!(error.to_string().contains("shared through a factory"), "{error}");

    informer.shutdown().await;
    let error = informer.set_namespaces(["b"]).unwrap_err();
    assert!(matches!(error, ScopeError::Stopped(_)), "{error}");
}

/// Ids of ended watches are used again, and nothing of the old watch is left.
#[tokio::test(start_paused = true)]
async fn thousands_of_changes_leave_nothing_behind() {
    let server = server();
    let informer = synced(pods(&server, &["a"])).await;
    for _ in 0..1000 {
        informer.set_namespaces(["a", "b"]).unwrap();
        informer.settled().await.unwrap();
        informer.set_namespaces(["a"]).unwrap();
        settle().await;
    }
    let alive = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    assert!(alive <= 3, "{alive} tasks");
    assert_eq!(informer.store().resource_versions().len(), 1);
    assert_eq!(informer.stats().members.len(), 1);
    informer.shutdown().await;
    server.assert_nothing_open();
}

/// The last of concurrent calls wins, and no object of another namespace is visible after a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_changes_end_with_the_last_set() {
    let server = server();
    let informer = synced(pods(&server, &["a"])).await;
    let writer = server.clone();
    let writes = std::thread::Builder::new()
        .spawn(move || {
            for number in 0..200 {
                let namespace = ["a", "b", "c"][number % 3];
                writer.create(pod(namespace, &format!("w{number}")));
                if number % 40 == 39 {
                    writer.break_watches();
                }
            }
        })
        .unwrap();
    let sets: [&[&str]; 4] = [&["a", "b"], &["b", "c"], &["c"], &["a", "b", "c"]];
    let other = informer.clone();
    let others = std::thread::Builder::new()
        .spawn(move || {
            for number in 0..100 {
                other.set_namespaces(sets[number % 4].iter().copied()).unwrap();
            }
        })
        .unwrap();
    for number in 0..100 {
        informer
            .set_namespaces(sets[(number + 2) % 4].iter().copied())
            .unwrap();
        tokio::task::yield_now().await;
    }
    writes.join().unwrap();
    others.join().unwrap();
    informer.set_namespaces(["b", "c"]).unwrap();
    for _ in 0..20 {
        assert!(informer.store().namespace("a").is_empty());
        tokio::task::yield_now().await;
    }

    informer.settled().await.unwrap();

    let mut wanted = stored(&server, "pods");
    wanted.retain(|line| !line.starts_with("a/"));
    wait_for("the cache is complete", || cached(&informer) == wanted).await;
    informer.shutdown().await;
}

/// An index function runs after a batch was read and before it is applied: the worst moment for a removal.
#[tokio::test(start_paused = true)]
async fn what_was_read_before_a_removal_does_not_return() {
    let server = server();
    let informer = synced(pods(&server, &["a", "b"])).await;
    let (log, _handler) = observe(&informer).await;
    let handle = informer.clone();
    let remove = move |pod: &Pod| {
        if pod.metadata.name.as_deref() == Some("trigger") {
            handle.set_namespaces(["a"]).unwrap();
        }
        None::<String>
    };
    informer.add_index("trigger", remove).unwrap();

    server.create(pod("b", "trigger"));
    wait_for("the namespace is removed", || log.len() == 2).await;
    settle().await;

    assert_eq!(keys(&informer), ["a/x", "a/y"]);
    let mut events = log.take();
    events.sort();
    assert_eq!(events, ["deleted b/x (left scope)", "deleted b/y (left scope)"]);
    assert_eq!(informer.store().resource_versions().len(), 1);
    informer.shutdown().await;
}
