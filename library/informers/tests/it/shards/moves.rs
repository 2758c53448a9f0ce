//! Moving a shard: given-up ranges are evicted at once, gained ranges are fetched, and only differences are delivered.

use k8s_openapi::api::core::v1::Pod;

use kube_informers::error::ScopeError;
use kube_informers::reflector::{Jitter, ReflectorState};
use kube_informers::shard::Shard;
use kube_informers::shard::ShardField;
use kube_informers::{Cause, Event, Informer, InformerBuilder, Scope};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use tokio::task::JoinSet;

use super::support::*;
use crate::support::{Log, cached, minutes, pass, secs, settle, stored, synced, wait_for};

fn pods(server: &TestServer, shard: Shard) -> InformerBuilder<Pod> {
    Informer::<Pod>::scoped(server.client(), Scope::all().shard(shard))
        .configure(|config| config.jitter = Jitter::Seeded(7))
}

/// Keys of the pods that are in a shard.
fn keys_in(server: &TestServer, shard: &Shard) -> Vec<String> {
    let lines = stored_in(server, shard).into_iter();
    lines
        .map(|line| line.split('@').next().unwrap_or_default().to_owned())
        .collect()
}

/// One line for each key, sorted.
fn lines(what: &str, keys: Vec<String>, how: &str) -> Vec<String> {
    let mut lines: Vec<_> = keys.iter().map(|key| format!("{what} {key}{how}")).collect();
    lines.sort();
    lines
}

#[tokio::test(start_paused = true)]
async fn giving_up_a_range_takes_effect_at_once_and_makes_no_request() {
    for honours in [true, false] {
        let server = server(honours, 60);
        let informer = synced(pods(&server, eighths(0..6))).await;
        let log = Log::new();
        let handler = informer.add_event_handler(log.handler()).unwrap();
        handler.synced().await.unwrap();
        log.take();
        let before = server.requests().len();
        let version = informer.store().resource_version();

        informer.set_shard(eighths(1..3)).unwrap();

        // No await so far: the objects are evicted, and the events are in the handler's backlog.
        assert_eq!(cached(&informer), stored_in(&server, &eighths(1..3)));
        assert!(informer.has_settled());
        let gone = eighths(0..6).difference(&eighths(1..3)).unwrap();
        assert_eq!(handler.pending(), stored_in(&server, &gone).len());
        wait_for("the handler is idle", || handler.pending() == 0).await;
        let mut events = log.take();
        events.sort();
        assert_eq!(events, lines("deleted", keys_in(&server, &gone), " (left scope)"));
        assert_eq!(informer.store().resource_version(), version);

        // Changes in the given-up range are ignored; others are delivered.
        server.modify::<Pod>("a", "p0", |pod| {
            pod.metadata.labels = Some([("x".into(), "y".into())].into())
        });
        create_in(&server, &eighths(4..5), "given-up");
        let kept = create_in(&server, &eighths(2..3), "kept")
            .metadata
            .resource_version
            .unwrap();
        informer.wait_for_within(&kept, secs(5)).await.unwrap();
        assert_eq!(cached(&informer), stored_in(&server, &eighths(1..3)));
        assert_eq!(server.requests().len(), before, "no request is sent");

        // The next watch requests only the remaining ranges.
        server.close_watches();
        wait_for("the watch reconnects", || server.requests().len() > before).await;
        let last = server.requests().pop().unwrap();
        assert_eq!(
            (last.verb, last.param("shardSelector")),
            (Verb::Watch, eighths(1..3).selector().as_deref())
        );
        assert_eq!(cached(&informer), stored_in(&server, &eighths(1..3)));
    }
}

#[tokio::test(start_paused = true)]
async fn gaining_a_range_delivers_only_new_objects() {
    for honours in [true, false] {
        for watch_list in [true, false] {
            let server = server(honours, 60);
            let builder = pods(&server, eighths(0..2)).configure(|config| config.watch_list = watch_list);
            let informer = synced(builder).await;
            let log = Log::new();
            let handler = informer.add_event_handler(log.handler()).unwrap();
            handler.synced().await.unwrap();
            log.take();
            let first = informer.store().list();

            informer.set_shard(eighths(1..5)).unwrap();
            informer.settled().await.unwrap();
            wait_for("the handler is idle", || handler.pending() == 0).await;

            assert_eq!(cached(&informer), stored_in(&server, &eighths(1..5)));
            let mut expected = lines("deleted", keys_in(&server, &eighths(0..1)), " (left scope)");
            expected.extend(lines("added", keys_in(&server, &eighths(2..5)), ""));
            let mut events = log.take();
            events.sort();
            expected.sort();
            assert_eq!(events, expected);
            // Objects that stayed are the same allocation.
            for pod in first.iter().filter(|pod| contains(&eighths(1..2), &***pod)) {
                let key = kube_informers::ObjectKey::of(&**pod);
                assert!(std::sync::Arc::ptr_eq(pod, &informer.store().get(&key).unwrap()));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_range_given_up_and_regained_returns_in_its_current_state() {
    let server = server(false, 30);
    let builder = pods(&server, eighths(0..4)).configure(|config| config.queue_capacity = 4);
    let informer = synced(builder).await;
    for round in 0..5 {
        informer.set_shard(eighths(0..2)).unwrap();
        server.modify::<Pod>("a", "p0", |pod| {
            pod.metadata.annotations = Some([("round".to_owned(), round.to_string())].into());
        });
        create_in(&server, &eighths(3..4), &format!("new-{round}"));
        // Without an await, so that the reflector sees both moves as one.
        informer.set_shard(eighths(0..4)).unwrap();
        informer.settled().await.unwrap();
        let wanted = stored_in(&server, &eighths(0..4));
        wait_for("the cache is complete", || cached(&informer) == wanted).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_empty_shard_makes_no_request() {
    let server = server(true, 30);
    let informer = pods(&server, Shard::nothing(ShardField::Uid)).start();
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    informer
        .synced_within(secs(1))
        .await
        .expect("an empty shard is complete");
    handler.synced().await.unwrap();
    informer.settled().await.unwrap();
    assert!(
        matches!(informer.state(), ReflectorState::Resting),
        "{}",
        informer.state()
    );
    informer
        .wait_for_within("999999", secs(1))
        .await
        .expect("an empty shard is synced");
    pass(minutes(30)).await;
    assert_eq!(server.requests().len(), 0);

    informer.set_shard(eighths(0..3)).unwrap();
    informer.settled().await.unwrap();
    assert_eq!(cached(&informer), stored_in(&server, &eighths(0..3)));
    wait_for("the handler is idle", || log.len() == informer.store().len()).await;

    informer.set_shard(Shard::nothing(ShardField::Uid)).unwrap();
    assert!(informer.store().is_empty());
    settle().await;
    assert!(
        matches!(informer.state(), ReflectorState::Resting),
        "{}",
        informer.state()
    );
    server.assert_nothing_open();
    let requests = server.requests().len();
    pass(minutes(30)).await;
    assert_eq!(server.requests().len(), requests);
    informer.set_shard(Shard::everything(ShardField::Uid)).unwrap();
    informer.settled().await.unwrap();
    assert_eq!(cached(&informer), stored(&server, "pods"));
    informer.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_a_shard_can_be_restricted_to_one() {
    let server = server(true, 30);
    let informer = synced(Informer::<Pod>::all(server.client())).await;
    assert_eq!(informer.shard(), None);
    let requests = server.requests().len();

    informer.set_shard(eighths(0..4)).unwrap();

    assert_eq!(informer.shard(), Some(eighths(0..4)));
    assert!(informer.has_settled());
    assert_eq!(cached(&informer), stored_in(&server, &eighths(0..4)));
    settle().await;
    assert_eq!(server.requests().len(), requests);
}

#[tokio::test(start_paused = true)]
async fn a_shard_moved_before_the_initial_list_is_listed_in_its_new_place() {
    let server = server(true, 30);
    let trouble = server.fault(RequestMatcher::resource("pods").forever(), Fault::hang());
    let informer = pods(&server, eighths(0..2)).start();
    let log = Log::new();
    informer.add_event_handler(log.handler()).unwrap();
    settle().await;
    informer.set_shard(eighths(1..4)).unwrap();
    settle().await;
    assert!(!informer.has_settled() && !informer.has_synced());
    trouble.clear();

    informer.synced_within(minutes(3)).await.unwrap();
    informer.settled().await.unwrap();

    assert_eq!(cached(&informer), stored_in(&server, &eighths(1..4)));
    wait_for("the handler is idle", || log.len() == informer.store().len()).await;
    assert!(log.take().iter().all(|line| line.ends_with("(initial)")));
}

#[tokio::test(start_paused = true)]
async fn a_move_while_the_server_is_down_evicts_now_and_fetches_later() {
    let server = server(true, 40);
    let informer = synced(pods(&server, eighths(0..4))).await;
    let trouble = server.fault(RequestMatcher::resource("pods").forever(), Fault::status(503));
    server.break_watches();
    settle().await;

    informer.set_shard(eighths(2..6)).unwrap();
    assert_eq!(cached(&informer), stored_in(&server, &eighths(2..4)));
    pass(minutes(2)).await;
    assert!(!informer.has_settled());
    assert!(
        matches!(informer.state(), ReflectorState::BackingOff { .. }),
        "{}",
        informer.state()
    );
    assert_eq!(cached(&informer), stored_in(&server, &eighths(2..4)));
    // Moves do not reset the back-off.
    let requests = server.requests().len();
    for round in 0..50 {
        informer.set_shard(eighths(2..6 + round % 2)).unwrap();
        settle().await;
    }
    assert!(
        server.requests().len() <= requests + 2,
        "{} requests",
        server.requests().len() - requests
    );
    informer.set_shard(eighths(2..6)).unwrap();
    trouble.clear();
    informer.settled().await.unwrap();
    assert_eq!(cached(&informer), stored_in(&server, &eighths(2..6)));
}

#[tokio::test(start_paused = true)]
async fn the_last_of_several_moves_wins() {
    let server = server(true, 60);
    let informer = synced(pods(&server, eighths(0..1))).await;
    let waiter = informer.clone();
    informer.set_shard(eighths(0..8)).unwrap();
    let waits = waiter.settled();
    informer.set_shard(eighths(3..4)).unwrap();
    informer.set_shard(eighths(2..5)).unwrap();

    waits.await.unwrap();

    assert_eq!(informer.shard(), Some(eighths(2..5)));
    assert_eq!(cached(&informer), stored_in(&server, &eighths(2..5)));
}

#[tokio::test(start_paused = true)]
async fn a_stopped_informer_cannot_be_moved() {
    let server = server(true, 10);
    let informer = synced(pods(&server, eighths(0..4))).await;
    let trouble = server.fault(RequestMatcher::resource("pods").forever(), Fault::hang());
    informer.set_shard(eighths(0..8)).unwrap();
    settle().await;
    let error = informer.settled_within(secs(5)).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let text = error.to_string();
    assert!(
        text.starts_with("not everything in the scope of pods") && text.contains("is cached after 5s"),
        "{text}"
    );
    let waiting = informer.clone();
    let (settled, _) = tokio::join!(waiting.settled(), informer.shutdown());
    assert!(settled.is_err(), "the move never completed");
    trouble.clear();

    let error = informer.set_shard(eighths(0..1)).unwrap_err();
    assert!(matches!(error, ScopeError::Stopped(_)), "{error}");
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn a_move_to_a_shard_by_another_field_is_rejected() {
    let server = server(true, 10);
    let informer = synced(pods(&server, eighths(0..4))).await;
    let error = informer
        .set_shard(Shard::everything(ShardField::Namespace))
        .unwrap_err();
    assert!(error.to_string().contains("use the same field"), "{error}");
    assert_eq!(informer.shard(), Some(eighths(0..4)));
}

#[tokio::test(start_paused = true)]
async fn a_late_handler_receives_the_current_shard() {
    let server = server(false, 40);
    let informer = synced(pods(&server, eighths(0..8))).await;
    informer.set_shard(eighths(0..2)).unwrap();
    let mut events = informer.subscribe();
    for _ in 0..informer.store().len() {
        let event = events.next().await.unwrap();
        assert!(
            event.is_initial() && contains(&eighths(0..2), &**event.object()),
            "{event}"
        );
    }
    informer.set_shard(eighths(1..2)).unwrap();
    for _ in 0..keys_in(&server, &eighths(0..1)).len() {
        match events.next().await.unwrap() {
            Event::Deleted { object, cause } => {
                assert_eq!(cause, Cause::LeftScope);
                assert!(contains(&eighths(0..1), &*object));
            }
            other => panic!("{other}"),
        }
    }
}

/// A recreated object may belong to another shard: the old one is deleted, and the new one is ignored.
#[tokio::test(start_paused = true)]
async fn an_object_recreated_outside_the_shard_is_a_deletion() {
    for honours in [true, false] {
        let server = server(honours, 0);
        let informer = synced(pods(&server, eighths(0..4))).await;
        let log = Log::new();
        informer.add_event_handler(log.handler()).unwrap();
        create_in(&server, &eighths(0..4), "cart");
        wait_for("it is delivered", || log.len() == 1).await;
        server.delete::<Pod>("a", "cart");
        create_in(&server, &eighths(4..8), "cart");
        wait_for("it is evicted", || informer.store().is_empty()).await;

        // Recreated inside the shard, while the watch is broken.
        create_in_place(&server, &eighths(0..4));
        wait_for("it is cached again", || informer.store().len() == 1).await;
        log.take();
        server.skip_versions(5);
        server.delete::<Pod>("a", "cart");
        create_in(&server, &eighths(4..8), "cart");
        crate::support::force_relist(&server);
        wait_for("it is evicted again", || informer.store().is_empty()).await;
    }
}

fn create_in_place(server: &TestServer, shard: &Shard) {
    server.delete::<Pod>("a", "cart");
    create_in(server, shard, "cart");
}

/// Concurrent moves, writes and broken watches: the cache ends in the right state, and no object outside the shard is
/// visible after a move.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_moves_end_with_the_last_shard() {
    // At the same time: requests are limited to 24 a minute, on a real clock.
    let mut runs = JoinSet::new();
    for honours in [true, false] {
        runs.spawn(move_concurrently(honours));
    }
    runs.join_all().await;
}

async fn move_concurrently(honours: bool) {
    let server = server(honours, 60);
    let builder = pods(&server, eighths(0..2)).configure(|config| config.queue_capacity = 8);
    let informer = synced(builder).await;
    let log = Log::new();
    let handler = informer.add_event_handler(log.handler()).unwrap();
    let writer = server.clone();
    let writes = std::thread::Builder::new()
        .spawn(move || {
            for number in 0..300 {
                let name = format!("w{}", number % 40);
                if writer.get::<Pod>("a", &name).is_some() {
                    writer.delete::<Pod>("a", &name);
                } else {
                    writer.create(kube_testserver::builders::pod("a", &name));
                }
                if number % 50 == 49 {
                    writer.break_watches();
                }
            }
        })
        .unwrap();
    for number in 0..60 {
        let shard = eighths(number % 5..number % 5 + number % 3 + 1);
        informer.set_shard(shard.clone()).unwrap();
        // No other thread moves the shard, so evicted objects cannot return.
        for _ in 0..20 {
            let snapshot = informer.store().list();
            assert!(
                snapshot.iter().all(|pod| contains(&shard, &**pod)),
                "something outside {shard}"
            );
            tokio::task::yield_now().await;
        }
        if number % 7 == 0 {
            informer.settled().await.unwrap();
        }
    }
    writes.join().unwrap();
    informer.settled().await.unwrap();
    let shard = informer.shard().unwrap();
    wait_for("the cache is the shard", || {
        cached(&informer) == stored_in(&server, &shard)
    })
    .await;
    // Readers see a change before its events are queued. This waits for the lock that is held for both.
    informer.stats();
    wait_for("the handler is idle", || handler.pending() == 0).await;
    // Additions and deletions of each key alternate.
    let mut there = std::collections::BTreeSet::new();
    for line in log.take() {
        let mut words = line.split(' ');
        let (what, key) = (words.next().unwrap(), words.next().unwrap().to_owned());
        match what {
            "added" => assert!(there.insert(key), "{line}: twice"),
            "deleted" => assert!(there.remove(&key), "{line}: it did not exist"),
            _ => assert!(there.contains(&key), "{line}: it did not exist"),
        }
    }
    let mut keys = keys_in(&server, &shard);
    keys.sort();
    assert_eq!(there.into_iter().collect::<Vec<_>>(), keys);
    informer.shutdown().await;
}
