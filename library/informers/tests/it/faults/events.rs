//! F39 and F42: truncated bodies, and objects that enter and leave the scope.

use k8s_openapi::api::core::v1::Pod;
use kube_informers::{Informer, Scope};
use kube_testserver::builders::{Build, pod};
use kube_testserver::{Fault, RequestMatcher, TestServer};

use crate::support::*;

/// A list or watch-list truncated at any byte is complete or discarded, and so is an event.
#[tokio::test(start_paused = true)]
async fn f39_a_body_truncated_at_any_byte_is_discarded() {
    for build in [pods, paged_pods] {
        for clean in [true, false] {
            for bytes in (0..2400).step_by(37) {
                let server = TestServer::new();
                server.create(pod("ns", "a").annotation("x", "äöü€"));
                server.create(pod("ns", "b"));
                let cut = |bytes| {
                    if clean {
                        Fault::truncate(bytes)
                    } else {
                        Fault::cut(bytes)
                    }
                };
                server.fault(RequestMatcher::resource("pods"), cut(bytes));
                let informer = build(&server).start();
                informer.synced_within(secs(60)).await.expect("it syncs");
                assert_eq!(cached(&informer), stored(&server, "pods"), "{bytes} bytes");

                server.fault(RequestMatcher::plain_watch("pods"), cut(bytes));
                server.break_watches();
                for round in 0..3 {
                    server.modify::<Pod>("ns", "a", |pod| {
                        *pod = pod.clone().label("round", &round.to_string());
                    });
                }
                server.delete::<Pod>("ns", "b");
                wait_for("it has caught up", || {
                    cached(&informer) == stored(&server, "pods")
                })
                .await;
                assert_eq!(informer.stats().members[0].reflector.lists, 1, "{bytes} bytes");
                assert!(informer.quarantine().is_empty(), "{bytes} bytes");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f39_a_body_in_chunks_of_any_size_is_decoded() {
    for build in [pods, paged_pods] {
        for size in [1, 2, 3, 7, 64, 1000] {
            let server = TestServer::new();
            server.fault(
                RequestMatcher::resource("pods").forever(),
                Fault::split(vec![size]),
            );
            server.create(pod("ns", "a").annotation("x", "äöü€"));
            let informer = synced(build(&server)).await;
            server.create(pod("ns", "b").annotation("quote", "\"}]{[\\\"\n"));
            server.modify::<Pod>("ns", "a", |pod| *pod = pod.clone().annotation("x", "ß"));

            wait_for("everything is cached", || {
                cached(&informer) == stored(&server, "pods")
            })
            .await;
            assert!(informer.stats().members[0].reflector.errors.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn f42_objects_that_enter_or_leave_a_selector_are_added_or_deleted() {
    for watch_list in [true, false] {
        let server = TestServer::new();
        server.create(pod("ns", "in").label("app", "x"));
        server.create(pod("ns", "out").label("app", "y"));
        let scope = Scope::all().labels("app=x").unwrap();
        let informer = Informer::<Pod>::scoped(server.client(), scope)
            .configure(|config| config.watch_list = watch_list);
        let informer = synced(informer).await;
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        assert_eq!(log.take(), ["added ns/in (initial)"]);

        let flip = |name: &str, app: &str| {
            server.modify::<Pod>("ns", name, |pod| *pod = pod.clone().label("app", app));
        };
        flip("out", "x");
        flip("in", "y");
        wait_for("it is delivered", || log.len() == 2).await;
        assert_eq!(log.take(), ["added ns/out", "deleted ns/in"]);
        assert_eq!(names(&informer), ["out"]);

        // In a gap that requires a list: one object leaves, one returns.
        server.break_watches();
        flip("out", "y");
        flip("in", "x");
        server.compact();
        wait_for("it is delivered", || log.len() == 2).await;
        assert_eq!(log.take(), ["deleted ns/out (missed)", "added ns/in"]);
        assert_eq!(names(&informer), ["in"]);
    }
}

#[tokio::test(start_paused = true)]
async fn f42_an_object_of_the_same_name_in_two_namespaces_is_two_objects() {
    let server = TestServer::new();
    for namespace in ["a", "b", "c"] {
        server.create(pod(namespace, "same"));
    }
    let informer = synced(Informer::<Pod>::scoped(
        server.client(),
        Scope::namespaces(["a", "b"]),
    ))
    .await;
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    handler.synced().await.unwrap();
    log.take();

    server.delete::<Pod>("a", "same");
    server.delete::<Pod>("c", "same");
    wait_for("it is delivered", || log.len() == 1).await;
    assert_eq!(log.take(), ["deleted a/same"]);
    assert_eq!(informer.store().namespace("b").len(), 1);
    assert_eq!(informer.store().len(), 1);
}
