//! Resyncs: exact, per handler, and never piled up.

use super::*;

/// Runs the resyncs up to `until`, as the process loop of an informer does.
async fn run_until(stage: &mut Stage, until: Instant, snapshot: &Snapshot<Thing>) {
    while let Some(due) = stage.dispatcher.next_resync().filter(|due| *due <= until) {
        tokio::time::sleep_until(due).await;
        stage.dispatcher.resync_due(Instant::now(), snapshot);
    }
    tokio::time::sleep_until(until).await;
}

/// Upstream: TestListenerResyncPeriods
#[tokio::test(start_paused = true)]
async fn each_handler_resyncs_at_its_own_period() {
    let mut stage = Stage::new();
    let start = Instant::now();
    let records: [Record; 3] = Default::default();
    for (record, seconds) in records.iter().zip([0, 2, 3]) {
        let options = HandlerOptions::default().resync(Duration::from_secs(seconds));
        stage.add_with(options, record.handler(), no_objects());
    }
    assert_eq!(stage.dispatcher.next_resync(), None);
    stage.start();
    let (pod1, pod2) = (thing("pod", 1), thing("pud", 2));
    let snapshot = things(&[&pod1, &pod2]);
    stage.dispatch([initial(&pod1), initial(&pod2)]);
    stage.dispatcher.synced();
    quiet().await;
    for record in &records {
        assert_eq!(record.take(), ["initial pod1", "initial pud2"]);
    }

    let [never, two, three] = &records;
    run_until(&mut stage, start + Duration::from_millis(2001), &snapshot).await;
    assert_eq!(two.take(), ["again pod1", "again pud2"]);
    assert!(never.take().is_empty() && three.take().is_empty());

    run_until(&mut stage, start + Duration::from_millis(3001), &snapshot).await;
    assert_eq!(three.take(), ["again pod1", "again pud2"]);
    assert!(never.take().is_empty() && two.take().is_empty());
    stage.stop(false).await;
}

/// Periods count from the start, not from the time the handler was added.
///
/// Upstream: TestListenerResyncPeriodsDelayed
#[tokio::test(start_paused = true)]
async fn late_start_delays_resyncs_without_a_deadlock() {
    let mut stage = Stage::new();
    let record = Record::default();
    let options = HandlerOptions::default().resync(Duration::from_secs(2));
    stage.add_with(options, record.handler(), no_objects());
    tokio::time::advance(Duration::from_secs(1)).await;

    stage.start();

    assert_eq!(
        stage.dispatcher.next_resync(),
        Some(Instant::now() + Duration::from_secs(2))
    );
    stage.stop(false).await;
}

/// Upstream rounds periods up to a common check period, which it lowers before the start only. Here every handler
/// has exactly the period it asked for, from one second up.
///
/// Upstream: TestResyncCheckPeriod
#[tokio::test(start_paused = true)]
async fn periods_are_exact_and_independent() {
    let mut stage = Stage::started();
    let start = Instant::now();
    let due = |stage: &Stage| stage.dispatcher.next_resync().map(|due| due - start);
    let add = |stage: &mut Stage, period| {
        stage.add_with(
            HandlerOptions::default().resync(period),
            |_: Event<Thing>| (),
            no_objects(),
        )
    };

    add(&mut stage, Duration::ZERO);
    assert_eq!(due(&stage), None);
    add(&mut stage, Duration::from_secs(12 * 3600));
    assert_eq!(due(&stage), Some(Duration::from_secs(12 * 3600)));
    add(&mut stage, Duration::from_secs(60));
    assert_eq!(due(&stage), Some(Duration::from_secs(60)));
    let exact = add(&mut stage, Duration::from_millis(55_001));
    assert_eq!(due(&stage), Some(Duration::from_millis(55_001)));
    let short = add(&mut stage, Duration::from_millis(5));
    assert_eq!(due(&stage), Some(Duration::from_secs(1)));

    // Who is gone is not waited for.
    short.remove().await;
    assert_eq!(due(&stage), Some(Duration::from_millis(55_001)));
    exact.remove().await;
    assert_eq!(due(&stage), Some(Duration::from_secs(60)));
    add(&mut stage, Duration::MAX);
    assert_eq!(due(&stage), Some(Duration::from_secs(60)));
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn late_check_keeps_the_schedule_and_skips_missed_periods() {
    let mut stage = Stage::started();
    let start = Instant::now();
    let record = Record::default();
    let options = HandlerOptions::default().resync(Duration::from_secs(10));
    stage.add_with(options, record.handler(), no_objects());
    let snapshot = things(&[&thing("a", 1)]);

    tokio::time::advance(Duration::from_secs(37)).await;
    stage.dispatcher.resync_due(Instant::now(), &snapshot);
    stage.dispatcher.resync_due(Instant::now(), &snapshot);
    quiet().await;

    assert_eq!(record.take(), ["again a1"]);
    assert_eq!(
        stage.dispatcher.next_resync(),
        Some(start + Duration::from_secs(40))
    );
    stage.stop(false).await;
}

#[tokio::test(start_paused = true)]
async fn f35_a_resync_is_not_queued_behind_an_undelivered_one() {
    for options in [HandlerOptions::default(), coalescing()] {
        let mut stage = Stage::started();
        let permits = Arc::new(tokio::sync::Semaphore::new(0));
        let gate = permits.clone();
        let handler = move |_: Event<Thing>| {
            let gate = gate.clone();
            async move { gate.acquire().await.unwrap().forget() }
        };
        let snapshot = things(&[&thing("a", 1), &thing("b", 1)]);
        let options = options.resync(Duration::from_secs(1));
        let registration = stage.add_with(options, handler, snapshot.clone());
        let start = Instant::now();

        // The replay is not over.
        run_until(&mut stage, start + Duration::from_secs(10), &snapshot).await;
        assert_eq!(registration.pending(), 2);
        permits.add_permits(2);
        registration.synced().await.unwrap();

        // Nor is the first resync.
        run_until(&mut stage, start + Duration::from_secs(20), &snapshot).await;
        assert_eq!(registration.pending(), 2);
        permits.add_permits(1);
        run_until(&mut stage, start + Duration::from_secs(30), &snapshot).await;
        assert_eq!(registration.pending(), 1);

        permits.add_permits(1);
        quiet().await;
        assert_eq!(registration.pending(), 0);
        run_until(&mut stage, start + Duration::from_secs(32), &snapshot).await;
        assert_eq!(registration.pending(), 2);
        stage.stop(false).await;
    }
}

#[tokio::test(start_paused = true)]
async fn resync_costs_a_pointer_until_it_is_delivered() {
    let mut stage = Stage::started();
    let options = HandlerOptions::default().resync(Duration::from_secs(1));
    stage.add_with(options, |_: Event<Thing>| std::future::pending(), no_objects());
    let object = thing("a", 1);
    stage.dispatch([added(&object)]);
    quiet().await;
    let snapshot = things(&[&object]);
    let before = Arc::strong_count(&object);

    tokio::time::advance(Duration::from_secs(2)).await;
    stage.dispatcher.resync_due(Instant::now(), &snapshot);

    assert_eq!(Arc::strong_count(&object), before);
    stage.stop(false).await;
}
