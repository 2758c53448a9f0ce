//! Subscriptions: a mailbox that is read by polling.

use futures_util::{FutureExt, StreamExt};

use super::*;
use crate::registration::HandlerEndedError;

/// What can be taken without waiting.
fn take(subscription: &mut Subscription<Thing>) -> Vec<String> {
    std::iter::from_fn(|| subscription.next().now_or_never().flatten())
        .map(|event| text(&event))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn subscription_yields_snapshot_then_changes_without_a_task() {
    for options in [HandlerOptions::default(), coalescing()] {
        let mut stage = Stage::started();
        let (a1, a2) = (thing("a", 1), thing("a", 2));
        let mut subscription = stage.subscribe(options, things(&[&a1]));
        stage.dispatch([added(&thing("b", 1))]);
        assert_eq!(subscription.pending(), 2);

        assert_eq!(take(&mut subscription), ["initial a1", "add b1"]);
        stage.dispatch([updated(&a1, &a2)]);
        assert_eq!(
            subscription.next().await.map(|event| text(&event)).unwrap(),
            "update a1 a2"
        );

        assert_eq!((subscription.pending(), subscription.delivered()), (0, 3));
        assert_eq!(stage.spawner.running(), 0);
        stage.stop(false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_a_stream_that_ends_when_the_informer_stops() {
    let mut stage = Stage::started();
    let subscription = stage.subscribe(HandlerOptions::default(), things(&[&thing("a", 1)]));
    stage.dispatch([added(&thing("b", 1))]);
    drop(stage.dispatcher.close(true));

    let events: Vec<String> = subscription.map(|event| text(&event)).collect().await;

    assert_eq!(events, ["initial a1", "add b1"]);
    stage.stop(true).await;
}

#[tokio::test(start_paused = true)]
async fn stop_without_drain_drops_a_partly_read_item() {
    let mut stage = Stage::started();
    let mut subscription = stage.subscribe(HandlerOptions::default(), no_objects());
    stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);
    assert_eq!(
        subscription.next().await.map(|event| text(&event)).unwrap(),
        "add a1"
    );

    drop(stage.dispatcher.close(false));

    assert!(subscription.next().await.is_none());
    assert!(subscription.next().await.is_none());
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiting_subscriber_is_woken_by_events_and_by_the_stop() {
    let mut stage = Stage::started();
    let mut subscription = stage.subscribe(HandlerOptions::default(), no_objects());
    let record = Record::default();
    let noted = record.clone();
    stage.spawner.spawn("subscriber", async move {
        while let Some(event) = subscription.next().await {
            noted.note(&event);
        }
    });
    for n in 0..3 {
        quiet().await;
        stage.dispatch([added(&thing("a", n))]);
    }
    quiet().await;

    assert_eq!(record.take(), ["add a0", "add a1", "add a2"]);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn subscription_is_synced_when_all_initial_events_were_read() {
    for options in [HandlerOptions::default(), coalescing()] {
        let mut stage = Stage::started();
        let snapshot = things(&[&thing("a", 1), &thing("b", 1)]);
        let mut subscription = stage.subscribe(options, snapshot);
        stage.dispatch([added(&thing("c", 1))]);

        subscription.next().await.unwrap();
        assert!(!subscription.has_synced());
        let synced = subscription.synced();
        subscription.next().await.unwrap();
        assert!(subscription.has_synced());
        synced.await.unwrap();
        assert_eq!(subscription.pending(), 1);
        stage.stop(false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn sync_after_everything_was_read_takes_effect_at_once() {
    let mut stage = Stage::started();
    let listener =
        stage
            .dispatcher
            .subscribe(&HandlerOptions::default(), Instant::now(), no_objects(), false);
    let mut subscription = Subscription::new(listener);
    stage.dispatch([initial(&thing("a", 1))]);
    subscription.next().await.unwrap();
    assert!(!subscription.has_synced());

    stage.dispatcher.synced();

    assert!(subscription.has_synced());
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_it_unsubscribes_and_frees_its_backlog() {
    let mut stage = Stage::started();
    let object = thing("a", 1);
    let subscription = stage.subscribe(HandlerOptions::default(), no_objects());
    let synced = subscription.synced();
    stage.dispatch([added(&object)]);
    assert_eq!(stage.dispatcher.registrations().len(), 1);

    drop(subscription);

    assert_eq!(stage.dispatcher.registrations().len(), 0);
    assert_eq!(Arc::strong_count(&object), 1);
    synced.await.unwrap();
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_sync_of_a_dropped_subscription_returns_the_reason() {
    let mut stage = Stage::started();
    let subscription = stage.subscribe(HandlerOptions::default().name("audit"), things(&[&thing("a", 1)]));
    let synced = subscription.synced();
    drop(subscription);

    assert_eq!(
        synced.await,
        Err(HandlerEndedError::Removed {
            handler: "audit".into()
        })
    );
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn subscribing_to_a_stopped_informer_returns_an_ended_stream() {
    let mut stage = Stage::started();
    drop(stage.dispatcher.close(false));

    let mut subscription = stage.subscribe(HandlerOptions::default(), things(&[&thing("a", 1)]));

    assert!(subscription.next().await.is_none());
    assert_eq!(stage.dispatcher.registrations().len(), 0);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_subscription_has_resyncs_too() {
    let mut stage = Stage::started();
    let (a1, a2) = (thing("a", 1), thing("a", 2));
    for options in [HandlerOptions::default(), coalescing()] {
        let options = options.resync(Duration::from_secs(5));
        let mut subscription = stage.subscribe(options, things(&[&a1]));
        assert_eq!(take(&mut subscription), ["initial a1"]);

        tokio::time::advance(Duration::from_secs(5)).await;
        stage.dispatcher.resync_due(Instant::now(), &things(&[&a1]));
        assert_eq!(take(&mut subscription), ["again a1"]);

        tokio::time::advance(Duration::from_secs(5)).await;
        stage.dispatcher.resync_due(Instant::now(), &things(&[&a1]));
        stage.dispatch([updated(&a1, &a2)]);
        assert_eq!(take(&mut subscription).last().unwrap(), "update a1 a2");
    }
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_a_subscription_with_nothing_left_though_nobody_reads_it() {
    let mut stage = Stage::started();
    let idle = stage.subscribe(HandlerOptions::default(), no_objects());
    let behind = stage.subscribe(
        HandlerOptions::default().name("behind"),
        things(&[&thing("a", 1)]),
    );
    assert_eq!(stage.dispatcher.registrations().len(), 2);

    drop(stage.dispatcher.close(true));

    let left = stage.dispatcher.registrations();
    assert_eq!(
        left.iter().map(Registration::name).collect::<Vec<_>>(),
        ["behind"]
    );
    drop((idle, behind));
    stage.ended().await;
}
