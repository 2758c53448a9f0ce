//! What a panic in user code costs: one event of one handler.

use super::*;
use crate::handler::{OnPanic, blocking, filtered};
use crate::registration::HandlerEndedError;

fn panics_on(name: &'static str, record: &Record) -> impl FnMut(Event<Thing>) + Send + 'static {
    let record = record.clone();
    move |event: Event<Thing>| {
        assert!(event.object().name != name, "on purpose");
        record.note(&event);
    }
}

fn panics(_: Event<Thing>) {
    panic!("on purpose");
}

#[tokio::test(start_paused = true)]
async fn f27_a_panic_skips_that_event_of_that_handler() {
    let mut stage = Stage::started();
    let records: [Record; 4] = Default::default();
    let [other, inline, awaited, blocked] = records.clone();
    let objects = ["a", "b", "c"].map(|name| thing(name, 1));
    let snapshot = || objects.iter().cloned().collect();
    let options = HandlerOptions::default;

    stage.add_with(options(), other.handler(), snapshot());
    let panicking = [
        stage.add_with(options(), panics_on("b", &inline), snapshot()),
        stage.add_with(
            options(),
            move |event: Event<Thing>| {
                let record = awaited.clone();
                async move {
                    tokio::task::yield_now().await;
                    assert!(event.object().name != "b", "on purpose");
                    record.note(&event);
                }
            },
            snapshot(),
        ),
        stage.add_with(options(), blocking(panics_on("b", &blocked)), snapshot()),
    ];
    for registration in &panicking {
        registration.synced().await.unwrap();
        assert_eq!((registration.panics(), registration.delivered()), (1, 3));
        assert_eq!(registration.pending(), 0);
    }
    stage.dispatch([added(&thing("d", 1))]);
    quiet().await;

    let [other, panicking @ ..] = records;
    assert_eq!(other.take(), ["initial a1", "initial b1", "initial c1", "add d1"]);
    for record in panicking {
        assert_eq!(record.take(), ["initial a1", "initial c1", "add d1"]);
    }
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn f27_a_panic_before_the_future_is_returned_is_caught() {
    let mut stage = Stage::started();
    let record = Record::default();
    let noted = record.clone();
    let registration = stage.add(move |event: Event<Thing>| {
        assert!(event.object().name != "a", "on purpose");
        noted.note(&event);
        std::future::ready(())
    });

    stage.dispatch([added(&thing("a", 1)), added(&thing("b", 1))]);
    quiet().await;

    assert_eq!(record.take(), ["add b1"]);
    assert_eq!(registration.panics(), 1);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn f27_a_panic_of_a_filter_skips_the_event_and_is_counted() {
    let mut stage = Stage::started();
    let record = Record::default();
    let keep = |thing: &Thing| {
        assert!(thing.name != "b", "on purpose");
        true
    };
    let registration = stage.add(filtered(keep, record.handler()));

    stage.dispatch(["a", "b", "c"].map(|name| added(&thing(name, 1))));
    quiet().await;

    assert_eq!(record.take(), ["add a1", "add c1"]);
    assert_eq!((registration.panics(), registration.delivered()), (1, 3));
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn f27_a_handler_may_choose_to_end_by_a_panic() {
    for kind in ["inline", "asynchronous", "blocking"] {
        let mut stage = Stage::started();
        let (record, other) = (Record::default(), Record::default());
        let options = HandlerOptions::default().name("fragile").on_panic(OnPanic::End);
        let mut handler = panics_on("b", &record);
        let snapshot: Snapshot<Thing> = ["a", "b", "c"].map(|name| thing(name, 1)).into_iter().collect();
        stage.add_with(HandlerOptions::default(), other.handler(), snapshot.clone());
        let registration = match kind {
            "inline" => stage.add_with(options, handler, snapshot),
            "blocking" => stage.add_with(options, blocking(handler), snapshot),
            _ => stage.add_with(
                options,
                move |event: Event<Thing>| {
                    handler(event);
                    std::future::ready(())
                },
                snapshot,
            ),
        };

        let ended = registration.synced().await.unwrap_err();
        assert_eq!(
            ended,
            HandlerEndedError::Panicked {
                handler: "fragile".into()
            },
            "{kind}"
        );
        assert_eq!(registration.ended(), Some(ended));
        assert!(!registration.has_synced() && !registration.is_removed());
        assert_eq!(registration.pending(), 0);
        assert_eq!(stage.dispatcher.registrations().len(), 1);
        stage.dispatch([added(&thing("d", 1))]);
        quiet().await;

        assert_eq!(record.take(), ["initial a1"], "{kind}");
        assert_eq!(other.take(), ["initial a1", "initial b1", "initial c1", "add d1"]);
        stage.stop(false).await;
    }
}

/// The simple case of upstream leaves the handle unsynced for ever; the many case waits a second after each panic.
/// Here a panicked event counts as delivered, and there is no pause.
///
/// Upstream: TestEventPanics
#[tokio::test(start_paused = true)]
async fn panics_are_counted_per_handler_and_cause_no_pause() {
    let mut stage = Stage::started();
    let pods: Snapshot<Thing> = (0..5).map(|n| thing(&format!("pod{n}-"), 1)).collect();
    let start = Instant::now();
    let registrations = ["one", "other"].map(|name| {
        let options = HandlerOptions::default().name(name);
        stage.add_with(options, panics, pods.clone())
    });

    for registration in &registrations {
        registration.synced().await.unwrap();
        assert_eq!((registration.panics(), registration.delivered()), (5, 5));
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn handler_that_panics_on_drop_affects_nothing_else() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    for blocks in [false, true] {
        let mut stage = Stage::started();
        let bomb = Bomb;
        let handler = move |_: Event<Thing>| {
            let _held = &bomb;
        };
        let registration = if blocks {
            stage.add(blocking(handler))
        } else {
            stage.add(handler)
        };
        quiet().await;

        registration.remove().await;

        assert_eq!(registration.panics(), 1);
        let spawner = stage.spawner.clone();
        stage.stop(false).await;
        assert!(
            tokio::time::timeout(Duration::from_secs(1), spawner.died())
                .await
                .is_err()
        );
    }
}
