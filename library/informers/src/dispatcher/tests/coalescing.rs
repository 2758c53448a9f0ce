//! Handlers that coalesce by key, as they see it.

use tokio::sync::Semaphore;

use super::*;
use crate::handler::{AsyncEventHandler, filtered};

/// A handler that receives one event per permit.
fn gated(record: &Record, permits: &Arc<Semaphore>) -> impl AsyncEventHandler<Thing> {
    let (record, permits) = (record.clone(), permits.clone());
    move |event: Event<Thing>| {
        let (record, permits) = (record.clone(), permits.clone());
        async move {
            permits.acquire().await.unwrap().forget();
            record.note(&event);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn queued_changes_are_delivered_as_one_from_the_last_delivered_state() {
    let mut stage = Stage::started();
    let (record, permits) = (Record::default(), Arc::new(Semaphore::new(0)));
    let registration = stage.add_with(coalescing(), gated(&record, &permits), no_objects());
    let a: Vec<_> = (0..=9).map(|version| thing("a", version)).collect();
    let b1 = thing("b", 1);

    // The first is in flight when the others come, so they fold among themselves.
    stage.dispatch([added(&a[0])]);
    quiet().await;
    stage.dispatch([updated(&a[0], &a[1]), added(&b1)]);
    stage.dispatch((1..9).map(|n| updated(&a[n], &a[n + 1])));
    stage.dispatch([deleted(&b1)]);
    assert_eq!(registration.pending(), 2);
    permits.add_permits(10);
    quiet().await;

    assert_eq!(record.take(), ["add a0", "update a0 a9"]);
    assert_eq!(registration.pending(), 0);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn changes_during_the_snapshot_are_delivered_once() {
    let mut stage = Stage::started();
    let (record, permits) = (Record::default(), Arc::new(Semaphore::new(0)));
    let objects = ["a", "b", "c", "d", "e"].map(|name| thing(name, 1));
    let snapshot = objects.iter().cloned().collect();
    let registration = stage.add_with(coalescing(), gated(&record, &permits), snapshot);
    quiet().await;

    // `a` is in flight; the others change before their turn.
    let [a, b, c, d, _] = &objects;
    let (a2, b2) = (thing("a", 2), thing("b", 2));
    let d_again = thing_of_uid("d", "another", 2);
    stage.dispatch([
        updated(a, &a2),
        updated(b, &b2),
        deleted(c),
        deleted(d),
        added(&d_again),
    ]);
    permits.add_permits(10);
    registration.synced().await.unwrap();
    quiet().await;

    assert_eq!(
        record.take(),
        ["initial a1", "initial b2", "initial e1", "update a1 a2", "add d2"]
    );
    assert_eq!(registration.pending(), 0);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn snapshot_whose_objects_were_all_deleted_is_synced() {
    let mut stage = Stage::started();
    let (record, permits) = (Record::default(), Arc::new(Semaphore::new(0)));
    let (a1, b1) = (thing("a", 1), thing("b", 1));
    let registration = stage.add_with(coalescing(), gated(&record, &permits), things(&[&a1, &b1]));
    stage.dispatch([deleted(&a1), deleted(&b1)]);

    registration.synced().await.unwrap();

    assert_eq!((registration.pending(), registration.delivered()), (0, 0));
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn resync_follows_earlier_changes_and_skips_objects_with_later_ones() {
    let mut stage = Stage::started();
    let (record, permits) = (Record::default(), Arc::new(Semaphore::new(0)));
    let options = coalescing().resync(Duration::from_secs(10));
    stage.add_with(options, gated(&record, &permits), no_objects());
    let a: Vec<_> = (0..=4).map(|version| thing("a", version)).collect();
    let (b1, c1, c2) = (thing("b", 1), thing("c", 1), thing("c", 2));

    stage.dispatch([added(&b1), added(&c1), added(&a[0])]);
    quiet().await;
    stage.dispatch([updated(&a[0], &a[1])]);
    tokio::time::advance(Duration::from_secs(10)).await;
    stage
        .dispatcher
        .resync_due(Instant::now(), &things(&[&a[1], &b1, &c1]));
    // Behind the resync; the update of `a` must not reach around it.
    stage.dispatch([updated(&a[1], &a[2]), updated(&c1, &c2)]);
    permits.add_permits(4);
    quiet().await;

    assert_eq!(record.take(), ["add b1", "add c1", "add a1", "again b1"]);
    permits.add_permits(10);
    quiet().await;
    assert_eq!(record.take(), ["update a1 a2", "update c1 c2"]);
    stage.stop(false).await;
}

/// A delete that replaced the update by which an object left a filter is still delivered to the filtered handler.
#[tokio::test(start_paused = true)]
async fn filter_passes_a_delete_that_replaced_the_update_out_of_scope() {
    let mut stage = Stage::started();
    let (record, permits) = (Record::default(), Arc::new(Semaphore::new(0)));
    let keep = |thing: &Thing| thing.version.len() == 1;
    stage.add_with(
        coalescing(),
        filtered(keep, gated(&record, &permits)),
        no_objects(),
    );
    let (a1, a10, a11) = (thing("a", 1), thing("a", 10), thing("a", 11));
    let (b10, b1, b2) = (thing("b", 10), thing("b", 1), thing("b", 2));
    let busy = thing("busy", 1);

    stage.dispatch([added(&a1)]);
    permits.add_permits(1);
    quiet().await;
    stage.dispatch([added(&b10), added(&busy)]);
    quiet().await;
    stage.dispatch([updated(&a1, &a10), deleted(&a11)]);
    stage.dispatch([updated(&b10, &b1), deleted(&b2)]);
    permits.add_permits(10);
    quiet().await;

    // `b` came into sight and went unseen.
    assert_eq!(record.take(), ["add a1", "add busy1", "delete a11"]);
    stage.stop(false).await;
}
