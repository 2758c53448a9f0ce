//! controller_test.go: the controller over a `DeltaFifo`, and tombstones.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};

use futures_util::{FutureExt, StreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube_informers::source::{Fetched, ListAnswer, ListItem, ListRequest, ListerWatcher, Script};
use kube_informers::store::StoreWriter;
use kube_informers::{Cause, Event, Object, ObjectKey};
use kube_informers_classic::{Controller, Delta, DeltaFifo, Tombstone};
use tokio_util::sync::CancellationToken;

use crate::support::{Recorded, list_first, pod, pod_at, seconds, text_of, within};

/// The names in a source, by key.
async fn collection(script: &Script<Pod>) -> Vec<String> {
    let items: Vec<_> = script.list(ListRequest::default(), None).collect().await;
    let pods = items.into_iter().filter_map(|item| match item {
        Ok(ListItem::Object(Fetched::New(pod))) => Some(text_of(&pod)),
        _ => None,
    });
    let mut pods: Vec<String> = pods.collect();
    pods.sort();
    pods
}

/// Upstream: TestPanicPropagated
#[tokio::test(start_paused = true)]
async fn panic_of_the_process_function_propagates_from_run() {
    let source = Recorded::new();
    source.on_list(ListAnswer::page([pod_at("pod", "1")], "1"));
    let queue = Arc::new(DeltaFifo::new());
    let controller = Controller::new(source.clone(), queue.clone(), |_, _| {
        std::panic::panic_any("just a test")
    })
    .reflector(|reflector| reflector.config(list_first()));

    let run = AssertUnwindSafe(controller.run(CancellationToken::new()));
    let panic = within(seconds(60), run.catch_unwind()).await.unwrap_err();

    assert_eq!(panic.downcast_ref::<&str>(), Some(&"just a test"));
    assert_eq!(source.script().open_watches(), 0);
    assert_eq!(queue.keys().len(), 1, "the batch in flight is requeued");
}

fn tombstone(pod: Option<&Pod>) -> Delta<Pod> {
    Delta::Vanished(Tombstone {
        key: ObjectKey::namespaced("shop", "cart"),
        last: pod.cloned().map(Arc::new),
    })
}

/// Differs from client-go: a key is a separate type and never parsed from text, and a delivered deletion always carries
/// the last known state.
///
/// Upstream: TestDeletionHandlingObjectToName, TestDeletedObjectGetObjectName, TestDeletedObjectGetKey
#[test]
fn a_missed_deletion_has_the_key_of_its_object_with_or_without_it() {
    let mut cart = pod_at("cart", "1");
    cart.metadata.namespace = Some("shop".to_owned());
    let key = ObjectKey::of(&cart);
    assert_eq!(key.to_string(), "shop/cart");

    let deltas = [
        Delta::Deleted(Arc::new(cart.clone())),
        tombstone(Some(&cart)),
        tombstone(None),
    ];
    for delta in deltas {
        let deleted = delta.key().unwrap();
        assert_eq!(deleted, key);
        assert_eq!((deleted.namespace(), deleted.name()), (Some("shop"), "cart"));
    }
    for cause in [Cause::Observed, Cause::Missed] {
        let object = Arc::new(cart.clone());
        assert_eq!(Event::Deleted { object, cause }.key(), key);
    }
    // An object without metadata has an empty name, and no panic.
    assert_eq!(ObjectKey::of(&Pod::default()).to_string(), "");
}

/// The example program of controller_test.go: deletes every object it sees.
#[tokio::test(start_paused = true)]
async fn a_controller_that_deletes_what_it_sees() {
    let script = Script::new();
    for name in ["a-hello", "b-controller", "c-framework"] {
        script.add(pod(name));
    }
    let stop = CancellationToken::new();
    let (source, stopping) = (script.clone(), stop.clone());
    let deleted = Arc::new(Mutex::new(Vec::new()));
    let log = deleted.clone();
    let mut indexer = StoreWriter::new();
    let queue = Arc::new(DeltaFifo::new().known(indexer.store()));
    let controller = Controller::new(script.clone(), queue, move |deltas, info| {
        for delta in deltas {
            match delta {
                Delta::Replaced(pod) => {
                    assert!(info.initial);
                    indexer.insert(pod.clone())?;
                    source.delete((**pod).clone());
                }
                Delta::Deleted(pod) => log.lock().unwrap().push(pod.object_name().to_owned()),
                _ => {}
            }
        }
        if log.lock().unwrap().len() == 3 {
            stopping.cancel();
        }
        Ok(())
    });

    within(seconds(60), controller.run(stop)).await;

    assert_eq!(
        *deleted.lock().unwrap(),
        ["a-hello", "b-controller", "c-framework"]
    );
    assert!(collection(&script).await.is_empty());
}
