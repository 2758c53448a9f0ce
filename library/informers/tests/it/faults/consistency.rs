//! F01 to F14: consistency of the cache while replicas of the server disagree.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Informer;
use kube_informers::reflector::Jitter;
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, Poison, RequestMatcher, TestServer, Verb, Which};

use crate::support::*;

/// A process that restarts against a lagging replica does not observe an older state.
#[tokio::test(start_paused = true)]
async fn f01_a_restart_against_a_stale_replica_does_not_go_back_in_time() {
    for watch_list in [true, false] {
        let server = TestServer::builder().replicas(2).build();
        server.create(pod("ns", "a"));
        server.replica(1).freeze();
        server.create(pod("ns", "b"));
        server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("state", "new"));
        let build = |client| {
            Informer::<Pod>::all(client).configure(|config| {
                config.watch_list = watch_list;
                config.jitter = Jitter::Seeded(1);
            })
        };
        let first = synced(build(server.replica(0).client())).await;
        assert_eq!(cached(&first), stored(&server, "pods"));
        first.shutdown().await;

        let second = build(server.replica(1).client()).start();
        second.synced_within(minutes(3)).await.expect("it syncs");
        assert_eq!(
            cached(&second),
            stored(&server, "pods"),
            "watch-list: {watch_list}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn f02_a_lagging_replica_does_not_revert_the_cache() {
    for build in [pods, paged_pods] {
        for compacted in [false, true] {
            let server = TestServer::builder().replicas(2).build();
            server.create(pod("ns", "a"));
            server.replica(1).freeze();
            let informer = synced(build(&server)).await;
            let log = Log::new();
            informer.add_event_handler(log.handler()).unwrap();
            server.create(pod("ns", "b"));
            server.delete::<Pod>("ns", "a");
            wait_for("both changes are cached", || names(&informer) == ["b"]).await;
            let version = informer.store().resource_version().unwrap();
            log.take();

            // The next connection reaches the replica without these changes.
            server.switch_to_replica(1);
            if compacted {
                server.compact();
            }
            server.break_watches();
            for _ in 0..10 {
                pass(secs(30)).await;
                assert_eq!(names(&informer), ["b"]);
                assert_eq!(log.all(), [""; 0]);
            }
            assert_gentle(&server);
            let after: u64 = informer.store().resource_version().unwrap().parse().unwrap();
            assert!(after >= version.parse().unwrap());

            server.replica(1).catch_up();
            server.create(pod("ns", "c"));
            wait_for("the watch continues", || names(&informer) == ["b", "c"]).await;
            assert_eq!(log.take(), ["added ns/c"]);
        }
    }
}

/// An object created and deleted in the gap before a relist leaves no trace.
#[tokio::test(start_paused = true)]
async fn f05_a_delete_is_not_lost_in_the_race_with_a_relist() {
    for turns in 0..60 {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        let informer = synced_pods(&server).await;
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        log.take();

        server.create(pod("ns", "k"));
        // The creation may have reached the queue, the cache or the handler.
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        server.delete::<Pod>("ns", "k");
        server.compact();
        server.break_watches();
        wait_for("it has relisted", || {
            informer.stats().members[0].reflector.lists >= 2
        })
        .await;
        settle().await;

        assert_eq!(names(&informer), ["a"]);
        let events = log.all();
        assert!(
            events.is_empty()
                || events == ["added ns/k", "deleted ns/k"]
                || events == ["added ns/k", "deleted ns/k (missed)"],
            "{events:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn f06_the_same_name_with_a_new_uid_is_a_delete_and_an_add() {
    // In a gap that ends with a relist.
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    server.create(pod("ns", "b"));
    let informer = synced_pods(&server).await;
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    log.take();
    server.break_watches();
    server.recreate("pods", "ns/a");
    server.compact();
    wait_for("it is delivered", || log.len() == 2).await;
    assert_eq!(log.take(), ["deleted ns/a (missed)", "added ns/a"]);

    // In a gap after which the watch resumes, and on a live watch.
    server.break_watches();
    server.recreate("pods", "ns/a");
    wait_for("it is delivered", || log.len() == 2).await;
    assert_eq!(log.take(), ["deleted ns/a", "added ns/a"]);
    server.recreate("pods", "ns/b");
    wait_for("it is delivered", || log.len() == 2).await;
    assert_eq!(log.take(), ["deleted ns/b", "added ns/b"]);
    assert_eq!(cached(&informer), stored(&server, "pods"));
}

/// The objects of a watch-list arrive in any order, so a version before the end marker is not a version to resume from.
#[tokio::test(start_paused = true)]
async fn f09_a_connection_lost_during_the_initial_events_starts_over() {
    let server = TestServer::new();
    for name in ["c", "a", "b"] {
        server.create(pod("ns", name));
    }
    server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("x", "y"));
    server.fault(RequestMatcher::watch_list("pods"), Fault::break_after_events(2));
    let informer = synced_pods(&server).await;

    let watches: Vec<_> = server
        .requests()
        .into_iter()
        .filter(|request| request.verb == Verb::Watch)
        .collect();
    assert!(watches.len() >= 2);
    for watch in &watches {
        assert_eq!(watch.param("sendInitialEvents"), Some("true"), "{watch}");
        assert_eq!(
            watch.param("resourceVersion").filter(|v| !v.is_empty()),
            None,
            "{watch}"
        );
    }
    assert_eq!(cached(&informer), stored(&server, "pods"));
}

#[tokio::test(start_paused = true)]
async fn f10_bookmarks_that_go_back_or_have_no_version_are_ignored() {
    for fault in [Fault::bookmark_version(-5), Fault::bookmark_without_metadata()] {
        let server = TestServer::new();
        for number in 0..10 {
            server.create(pod("ns", &format!("p{number}")));
        }
        server.fault(RequestMatcher::plain_watch("pods").forever(), fault);
        let informer = synced(paged_pods(&server)).await;
        let version = informer.store().resource_version();

        pass(minutes(4)).await;
        let stats = informer.stats().members[0].reflector.clone();
        assert!(stats.ignored_bookmarks >= 2, "{stats:?}");
        assert_eq!(informer.store().resource_version(), version);
        server.break_watches();
        server.create(pod("ns", "new"));
        wait_for("it resumes", || informer.store().len() == 11).await;
        let resumed = server.requests().pop().unwrap();
        assert_eq!(resumed.param("resourceVersion"), version.as_deref(), "{resumed}");
        assert_eq!(informer.stats().members[0].reflector.lists, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn f10_an_object_with_a_non_numeric_version_does_not_change_the_version() {
    for poison in [Poison::BadVersion, Poison::MissingVersion] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        let informer = synced(paged_pods(&server)).await;
        let version = informer.store().resource_version();
        server.poison("pods", "ns/odd", poison);
        server.create(pod("ns", "odd"));
        wait_for("it is cached", || informer.store().len() == 2).await;
        assert_eq!(informer.store().resource_version(), version);

        server.break_watches();
        server.create(pod("ns", "b"));
        wait_for("it resumes", || informer.store().len() == 3).await;
        let watches: Vec<_> = server
            .requests()
            .into_iter()
            .filter(|r| r.verb == Verb::Watch)
            .collect();
        assert_eq!(watches[1].param("resourceVersion"), version.as_deref());
        assert_eq!(server.count_requests(Verb::List, "pods"), 1);
    }
}

/// Bookmarks of another kind do not change the version, do not end a watch-list, and are counted.
#[tokio::test(start_paused = true)]
async fn f10_a_bookmark_of_another_kind_is_ignored() {
    let server = TestServer::new();
    server.fault(
        RequestMatcher::watch("pods").forever(),
        Fault::bookmark_of_another_kind(),
    );
    let informer = synced_pods(&server).await;
    pass(minutes(4)).await;
    assert_eq!(
        server.count_requests(Verb::List, "pods"),
        1,
        "it falls back to a list"
    );

    server.create(pod("ns", "a"));
    wait_for("the watch continues", || informer.store().len() == 1).await;
    assert!(informer.quarantine().is_empty());
    let stats = informer.stats().members[0].reflector.clone();
    assert!(stats.unreadable > 2 && stats.lists == 1, "{stats:?}");
}

#[tokio::test(start_paused = true)]
async fn f11_repeated_and_replayed_events_are_delivered_once() {
    for fault in [
        Fault::duplicate_events(Which::All),
        Fault::replay_events(Which::All, 4),
    ] {
        let server = TestServer::new();
        let informer = synced_pods(&server).await;
        let log = Log::new();
        informer.add_event_handler(log.handler()).unwrap();
        server.fault(RequestMatcher::plain_watch("pods").forever(), fault);
        server.break_watches();
        pass(secs(3)).await;

        server.create(pod("ns", "a"));
        server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("x", "1"));
        server.create(pod("ns", "b"));
        server.delete::<Pod>("ns", "a");
        server.recreate("pods", "ns/b");
        pass(secs(3)).await;

        assert_eq!(
            log.all(),
            [
                "added ns/a",
                "updated ns/a",
                "added ns/b",
                "deleted ns/a",
                "deleted ns/b",
                "added ns/b"
            ]
        );
        let totals = informer.stats().totals;
        assert!(totals.duplicates + totals.stale >= 4, "{totals:?}");
        assert_eq!(cached(&informer), stored(&server, "pods"));
    }
}

#[tokio::test(start_paused = true)]
async fn f13_one_undecodable_object_of_a_list_does_not_affect_the_others() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        for number in 0..1000 {
            server.create(pod("ns", &format!("p{number}")));
        }
        server.poison("pods", "ns/p500", Poison::WrongType);
        let informer = synced(build(&server)).await;

        assert_eq!(informer.store().len(), 999);
        let quarantine = informer.quarantine();
        assert_eq!(quarantine.len(), 1);
        let bad = &quarantine[0].object;
        assert_eq!(bad.key.as_ref().unwrap().as_str(), "ns/p500");
        assert!(bad.uid.is_some() && bad.resource_version.is_some() && bad.size > 0);
        assert!(bad.to_string().contains("spec"), "{bad}");
        // It does not lead to another list.
        pass(minutes(30)).await;
        assert_eq!(informer.stats().members[0].reflector.lists, 1);

        server.cure("pods", "ns/p500");
        server.modify::<Pod>("ns", "p500", |pod| *pod = pod.clone().label("x", "y"));
        wait_for("it has recovered", || informer.store().len() == 1000).await;
        assert!(informer.quarantine().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn f14_an_undecodable_object_on_a_watch_keeps_its_last_good_version_and_is_reported() {
    let server = TestServer::new();
    for name in ["a", "b"] {
        server.create(pod("ns", name));
    }
    let informer = synced_pods(&server).await;
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    log.take();
    let good = informer.store().get(("ns", "a")).unwrap();

    server.poison("pods", "ns/a", Poison::WrongType);
    server.poison("pods", "ns/b", Poison::WrongType);
    server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().label("x", "y"));
    server.create(pod("ns", "c"));
    wait_for("the watch goes on", || informer.store().len() == 3).await;
    assert!(informer.store().is_stale("ns/a"));
    assert!(std::sync::Arc::ptr_eq(
        &informer.store().get("ns/a").unwrap(),
        &good
    ));
    assert_eq!(informer.quarantine().len(), 1);

    // A deletion whose object cannot be decoded deletes by its key.
    server.delete::<Pod>("ns", "b");
    server.delete::<Pod>("ns", "a");
    wait_for("both are deleted", || names(&informer) == ["c"]).await;
    assert!(informer.quarantine().is_empty());
    assert_eq!(log.take(), ["added ns/c", "deleted ns/b", "deleted ns/a"]);
    assert_eq!(informer.stats().members[0].reflector.lists, 1);
}
