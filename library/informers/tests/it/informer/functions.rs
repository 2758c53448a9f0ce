//! A source from two functions, and waiting for several things at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube_informers::source::{ListMeta, SourceError, WatchItem};
use kube_informers::{
    Event, Informer, ListWatch, Object, ObjectKey, SharedInformerFactory, wait_for_sync, wait_for_sync_within,
};
use kube_testserver::builders::pod as pod_in;
use kube_testserver::{Fault, RequestMatcher, TestServer};
use tokio::sync::broadcast;

use crate::support::*;

/// A table outside Kubernetes, without versions.
struct Row {
    id: String,
}

impl Object for Row {
    fn object_name(&self) -> &str {
        &self.id
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

fn row(id: &str) -> Row {
    Row { id: id.to_owned() }
}

#[tokio::test(start_paused = true)]
async fn two_functions_are_a_source() {
    let (changes, _) = broadcast::channel::<(bool, String)>(16);
    let rows = Arc::new(Mutex::new(BTreeMap::from([
        ("a".to_owned(), ()),
        ("b".to_owned(), ()),
    ])));
    let (listed, watched) = (rows.clone(), changes.clone());
    let failures = Arc::new(Mutex::new(1));
    let source = ListWatch::<Row>::from_fns(
        move |_| {
            let (rows, failures) = (listed.clone(), failures.clone());
            async move {
                if std::mem::take(&mut *failures.lock().unwrap()) > 0 {
                    return Err(SourceError::Request("the database is not ready".to_owned()));
                }
                let rows = rows.lock().unwrap().keys().map(|id| row(id)).collect();
                Ok((rows, ListMeta::default()))
            }
        },
        move |_| {
            let changes = watched.subscribe();
            futures_util::stream::unfold(changes, async |mut changes| {
                let (deleted, id) = changes.recv().await.ok()?;
                let item = match deleted {
                    true => WatchItem::Deleted(row(&id).into()),
                    false => WatchItem::Added(row(&id).into()),
                };
                Some((Ok(item), changes))
            })
            .boxed()
        },
    );

    let informer = Informer::from_source(source.named("rows")).start();
    let log = Arc::new(Mutex::new(Vec::new()));
    let seen = log.clone();
    informer
        .add_event_handler(move |event: Event<Row>| seen.lock().unwrap().push(event.to_string()))
        .unwrap();
    informer.synced_within(secs(60)).await.expect("it retries");
    assert_eq!((informer.name(), informer.store().len()), ("rows", 2));

    pass(secs(1)).await;
    changes.send((false, "c".to_owned())).unwrap();
    changes.send((true, "a".to_owned())).unwrap();
    wait_for("it is cached", || {
        informer.store().get("c").is_some() && informer.store().get("a").is_none()
    })
    .await;
    wait_for("it is delivered", || log.lock().unwrap().len() == 4).await;
    assert_eq!(log.lock().unwrap()[2..], ["added c", "deleted a"]);
}

#[tokio::test(start_paused = true)]
async fn several_informers_and_a_factory_are_waited_for_together() {
    let server = TestServer::new();
    let factory = SharedInformerFactory::new(server.client());
    let pods = factory.informer::<Pod>();
    let maps = Informer::<ConfigMap>::all(server.client()).start();
    let handler = maps.add_event_handler(|_: Event<ConfigMap>| {}).unwrap();

    let error = wait_for_sync_within((&pods, &maps, &factory), secs(5))
        .await
        .unwrap_err();
    assert_eq!(error.missing().len(), 2, "{error}");
    assert!(error.to_string().contains("not started"), "{error}");

    factory.start();
    wait_for_sync_within((&pods, &maps, &factory, &handler), secs(5))
        .await
        .unwrap();
    handler.synced_within(secs(5)).await.unwrap();

    let down = TestServer::new();
    down.fault(RequestMatcher::any().forever(), Fault::status(403));
    let denied = Informer::<Pod>::all(down.client()).start();
    let since = tokio::time::Instant::now();
    let error = wait_for_sync_within((&pods, &denied, &denied), secs(5))
        .await
        .unwrap_err();
    assert_eq!(since.elapsed(), secs(5), "they share the timeout");
    assert!(error.to_string().contains("grant the verbs"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn condition_on_the_cache_is_waited_for() {
    let server = TestServer::new();
    let informer = Informer::<Pod>::all(server.client()).start();
    let waiting = informer.wait_until_within(|pods| pods.len() == 2, secs(60));
    let creating = async {
        for name in ["a", "b"] {
            pass(secs(1)).await;
            server.create(pod_in("ns", name));
        }
    };
    let (waited, ()) = tokio::join!(waiting, creating);
    waited.unwrap();

    let error = informer
        .wait_until_within(|pods| pods.is_empty(), secs(3))
        .await
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "the condition on the cache of pods in all namespaces does not hold after 3s; the informer is watching"
    );
    informer.shutdown().await;
    let error = informer.wait_until_within(|_| false, secs(3)).await.unwrap_err();
    assert!(error.to_string().contains("has stopped"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn waits_without_a_limit_end_with_the_change_or_the_stop() {
    let server = TestServer::new();
    let informer = Informer::<Pod>::all(server.client()).start();
    wait_for_sync(&informer).await.unwrap();

    let late = async {
        pass(minutes(24 * 60)).await;
        server.create(pod_in("ns", "a"))
    };
    let (held, created) = tokio::join!(informer.wait_until(|pods| pods.len() == 1), late);
    held.unwrap();
    informer.wait_for_object(&created).await.unwrap();
    let version = created.object_version().unwrap();
    informer.wait_for(version).await.unwrap();
    informer
        .wait_for_key(&ObjectKey::of(&created), version)
        .await
        .unwrap();

    let never = informer.wait_for("999999");
    let stop = async {
        pass(minutes(24 * 60)).await;
        informer.shutdown().await
    };
    let (never, _) = tokio::join!(never, stop);
    assert!(never.unwrap_err().is_stopped());

    let down = TestServer::new();
    down.refuse_connections(true);
    let informer = Informer::<Pod>::all(down.client()).start();
    let handler = informer.add_event_handler(|_: Event<Pod>| {}).unwrap();
    let stop = async {
        pass(minutes(5)).await;
        informer.shutdown().await
    };
    let waiting = (&informer, &handler);
    let (unsynced, _) = tokio::join!(wait_for_sync(waiting), stop);
    let unsynced = unsynced.unwrap_err();
    assert_eq!(unsynced.missing().len(), 2);
    for error in unsynced.missing().iter().chain([&unsynced]) {
        assert!((minutes(5)..minutes(6)).contains(&error.after()), "{error}");
    }
}
