//! The transform runs once per version, before the object is cached; it may change, drop or reject it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::quarantine::Problem;
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod};

use crate::support::*;

fn label(server: &TestServer, name: &str, value: &str) {
    server.modify::<Pod>("ns", name, |pod| *pod = pod.clone().label("x", value));
}

#[tokio::test(start_paused = true)]
async fn transform_runs_once_per_version_also_across_a_relist() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        for name in ["a", "b"] {
            server.create(pod("ns", name));
        }
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let builder = build(&server).transform(move |pod| {
            let n = count.fetch_add(1, Ordering::SeqCst);
            pod.metadata
                .annotations
                .get_or_insert_default()
                .insert("n".to_owned(), n.to_string());
            pod.spec = None;
        });
        let informer = synced(builder).await;
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        log.take();
        assert!(informer.store().list().iter().all(|pod| pod.spec.is_none()));

        label(&server, "a", "1");
        wait_for("it is delivered", || log.len() == 1).await;
        assert_eq!(calls.load(Ordering::SeqCst), 3);

        force_relist(&server);
        wait_for("it has relisted", || {
            informer.stats().members[0].reflector.lists == 2
        })
        .await;
        settle().await;
        assert_eq!(
            calls.load(Ordering::SeqCst),
            3,
            "known versions are not transformed again"
        );
        assert_eq!(log.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_object_leaves_the_cache_and_can_return() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        server.create(pod("ns", "hidden").label("x", "hide"));
        let builder = build(&server).try_transform(|pod| {
            let hide = pod
                .metadata
                .labels
                .as_ref()
                .is_some_and(|labels| labels["x"] == "hide");
            Ok((!hide).then_some(pod))
        });
        let informer = synced(builder).await;
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        assert_eq!(log.take(), ["added ns/a (initial)"]);

        label(&server, "a", "hide");
        wait_for("it is delivered", || log.len() == 1).await;
        assert_eq!(log.take(), ["deleted ns/a (left scope)"]);
        assert!(informer.store().is_empty() && informer.quarantine().is_empty());
        label(&server, "a", "hide");
        label(&server, "hidden", "show");
        label(&server, "a", "show");
        wait_for("it is delivered", || log.len() == 2).await;
        assert_eq!(log.take(), ["added ns/hidden", "added ns/a"]);

        // Dropped, then deleted at the server: delivered once.
        label(&server, "a", "hide");
        server.delete::<Pod>("ns", "a");
        server.delete::<Pod>("ns", "hidden");
        wait_for("it is delivered", || log.len() == 2).await;
        assert_eq!(log.take(), ["deleted ns/a (left scope)", "deleted ns/hidden"]);
        assert_eq!(informer.stats().members[0].reflector.lists, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_object_is_quarantined_and_recovers() {
    for build in [pods, paged_pods] {
        let server = TestServer::new();
        server.create(pod("ns", "a"));
        server.create(pod("ns", "b").label("x", "bad"));
        let builder = build(&server).try_transform(|pod| {
            let bad = pod
                .metadata
                .labels
                .as_ref()
                .is_some_and(|labels| labels["x"] == "bad");
            if bad {
                Err("no such colour".into())
            } else {
                Ok(Some(pod))
            }
        });
        let informer = synced(builder).await;
        assert_eq!(names(&informer), ["a"]);
        label(&server, "a", "bad");
        wait_for("both are quarantined", || informer.quarantine().len() == 2).await;
        for bad in informer.quarantine() {
            assert_eq!(
                bad.object.problem,
                Problem::Transform("no such colour".to_owned())
            );
        }
        assert_eq!(names(&informer), ["a"], "its last good version stays");
        assert!(informer.store().is_stale("ns/a"));

        label(&server, "a", "good");
        label(&server, "b", "good");
        wait_for("both are cached", || cached(&informer) == stored(&server, "pods")).await;
        assert!(informer.quarantine().is_empty());
        assert!(!informer.store().is_stale("ns/a"));
    }
}
