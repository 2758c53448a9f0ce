//! Elections against the in-process API server, on a paused clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use k8s_openapi::api::coordination::v1::Lease;
use kube_leases::{Candidate, ConfigError, Election, ElectionConfig, Ended, Failure, LeaseName};
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

const LEASE: Duration = Duration::from_secs(15);
const RENEW: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_secs(2);

fn election(server: &TestServer, identity: &str) -> Election {
    Election::new(
        server.client(),
        LeaseName::new("shop", "cart-controller"),
        identity,
    )
}

fn start(server: &TestServer, identity: &str) -> Candidate {
    election(server, identity).start().unwrap()
}

fn lease(server: &TestServer) -> Value {
    server
        .object("leases.coordination.k8s.io", "shop/cart-controller")
        .unwrap()
}

fn holder(server: &TestServer) -> String {
    lease(server)["spec"]["holderIdentity"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Advances the clock and lets all tasks do what is due.
async fn pass(duration: Duration) {
    sleep_until(Instant::now() + duration).await;
}

#[tokio::test(start_paused = true)]
async fn first_candidate_leads_and_the_second_observes_it() {
    let server = TestServer::new();
    let first = start(&server, "first");
    first.leading().await.unwrap();
    let mut second = start(&server, "second");

    second.changed().await.unwrap();

    assert_eq!(second.leader().as_deref(), Some("first"));
    assert_eq!(first.leader().as_deref(), Some("first"));
    assert!(first.is_leader() && !second.is_leader());
    let spec = &lease(&server)["spec"];
    assert_eq!(
        (&spec["leaseDurationSeconds"], &spec["leaseTransitions"]),
        (&json!(15), &json!(0))
    );
    first.shutdown().await;
    second.shutdown().await;
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn released_lease_is_acquired_within_a_jittered_retry_period() {
    let server = TestServer::new();
    let first = start(&server, "first");
    first.leading().await.unwrap();
    let second = start(&server, "second");
    pass(LEASE * 2).await;
    assert!(first.is_leader(), "the lease is renewed");

    first.shutdown().await;
    assert_eq!(holder(&server), "");
    let released = Instant::now();
    second.leading().await.unwrap();

    assert!(
        released.elapsed() <= RETRY.mul_f64(2.2) + Duration::from_millis(5),
        "{:?}",
        released.elapsed()
    );
    assert_eq!(lease(&server)["spec"]["leaseTransitions"], 1);
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn crashed_leader_is_replaced_only_after_the_lease_duration() {
    let server = TestServer::new();
    let config = ElectionConfig {
        release_on_stop: false,
        ..ElectionConfig::default()
    };
    let first = election(&server, "first").config(config).start().unwrap();
    first.leading().await.unwrap();
    let second = start(&server, "second");
    pass(RETRY * 3).await;

    first.shutdown().await;
    assert_eq!(holder(&server), "first", "nothing was released");
    let vanished = Instant::now();
    second.leading().await.unwrap();

    // The last renewal was at most a retry period before the end.
    assert!(vanished.elapsed() > LEASE - RETRY, "{:?}", vanished.elapsed());
    assert!(vanished.elapsed() < LEASE + RETRY * 5, "{:?}", vanished.elapsed());
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn leader_without_a_server_steps_down_at_the_renew_deadline() {
    let server = TestServer::new();
    let leader = start(&server, "leader");
    let leadership = leader.leading().await.unwrap();
    let elected = Instant::now();

    server.fault(RequestMatcher::resource("leases").forever(), Fault::hang());
    timeout(LEASE, leadership.lost()).await.unwrap();

    let after = elected.elapsed();
    assert!(
        after <= RENEW + Duration::from_millis(5) && after > RENEW - RETRY,
        "{after:?}"
    );
    assert!(!leader.is_leader() && !leadership.is_held());
    let left = leadership.deadline() - Instant::now();
    assert!(
        left <= (LEASE - RENEW) / 2 && left > Duration::from_secs(2),
        "{left:?}"
    );
    server.clear_faults();
    leader.leading().await.unwrap();
    assert_eq!(
        lease(&server)["spec"]["leaseTransitions"],
        0,
        "no other candidate held it"
    );
    leader.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn one_hanging_request_does_not_lose_the_leadership() {
    let server = TestServer::new();
    let leader = start(&server, "leader");
    let leadership = leader.leading().await.unwrap();

    let hang = server.fault(RequestMatcher::update("leases").times(1), Fault::hang());
    server.wait_for("a renewal hung", |_| hang.struck() == 1).await;
    pass(LEASE).await;

    assert!(leadership.is_held());
    leader.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn lost_response_to_a_successful_write_does_not_lose_the_leadership() {
    let server = TestServer::new();
    let leader = start(&server, "leader");
    let leadership = leader.leading().await.unwrap();

    let cut = server.fault(RequestMatcher::update("leases").times(2), Fault::cut(10));
    server
        .wait_for("two responses were cut", |_| cut.struck() == 2)
        .await;
    pass(LEASE).await;

    assert!(leadership.is_held());
    assert_eq!(lease(&server)["spec"]["leaseTransitions"], 0);
    leader.shutdown().await;
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn conflicts_are_retried_and_foreign_fields_are_kept() {
    let server = TestServer::new();
    let leader = election(&server, "leader").label("team", "shop").start().unwrap();
    let leadership = leader.leading().await.unwrap();

    for round in 0..3 {
        server.modify::<Lease>("shop", "cart-controller", |lease| {
            let annotations = lease.metadata.annotations.get_or_insert_default();
            annotations.insert("note".to_owned(), round.to_string());
            lease.spec.get_or_insert_default().strategy = Some("OldestEmulationVersion".to_owned());
        });
        pass(RETRY * 2).await;
    }

    assert!(leadership.is_held());
    let lease = lease(&server);
    assert_eq!(lease["metadata"]["annotations"]["note"], "2");
    assert_eq!(lease["metadata"]["labels"]["team"], "shop");
    assert_eq!(lease["spec"]["strategy"], "OldestEmulationVersion");
    leader.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn clock_skew_does_not_elect_two_leaders() {
    let server = TestServer::new();
    let hours = |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + hours * 3600);
    let first = election(&server, "first")
        .wall_clock(move || hours(0))
        .start()
        .unwrap();
    let led = first.leading().await.unwrap();
    let ahead = election(&server, "ahead")
        .wall_clock(move || hours(100))
        .start()
        .unwrap();

    for _ in 0..100 {
        pass(Duration::from_secs(1)).await;
        assert!(first.is_leader() && !ahead.is_leader());
    }

    assert!(led.is_held());
    first.shutdown().await;
    ahead.leading().await.unwrap();
    ahead.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn only_one_of_two_processes_with_the_same_identity_leads() {
    let server = TestServer::new();
    let first = start(&server, "twin");
    first.leading().await.unwrap();
    let second = start(&server, "twin");

    for _ in 0..60 {
        pass(Duration::from_secs(1)).await;
        assert!(first.is_leader() && !second.is_leader());
    }
    first.shutdown().await;
    second.leading().await.unwrap();
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn forbidden_request_names_the_verb_and_the_resource() {
    let server = TestServer::new();
    server.fault(RequestMatcher::get("leases").forever(), Fault::status(403));
    let mut candidate = start(&server, "candidate");

    candidate.changed().await.unwrap();
    let error = candidate.last_error().unwrap();

    assert_eq!(error.verb, "get");
    assert!(matches!(error.failure, Failure::Forbidden(_)));
    let text = error.to_string();
    for part in [
        "cannot get leases.coordination.k8s.io cart-controller in namespace shop",
        "grant the account this verb",
    ] {
        assert!(text.contains(part), "{text}");
    }
    server.clear_faults();
    candidate.leading().await.unwrap();
    assert!(candidate.last_error().is_none());
    candidate.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_are_rejected_before_any_request() {
    let server = TestServer::new();
    let name = |namespace: &str, name: &str, identity: &str| {
        Election::new(server.client(), LeaseName::new(namespace, name), identity)
            .start()
            .err()
    };

    assert!(matches!(
        name("shop", "a/b", "me"),
        Some(ConfigError::Name {
            what: "lease name",
            ..
        })
    ));
    assert!(matches!(
        name("", "a", "me"),
        Some(ConfigError::Name {
            what: "namespace",
            ..
        })
    ));
    assert!(matches!(
        name("shop", "a", ""),
        Some(ConfigError::Name { what: "identity", .. })
    ));
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn leader_writes_once_per_retry_period_and_never_reads() {
    let server = TestServer::new();
    let leader = start(&server, "leader");
    leader.leading().await.unwrap();
    server.clear_requests();

    pass(Duration::from_secs(100)).await;

    assert_eq!(server.count_requests(Verb::Get, "leases"), 0);
    let updates = server.count_requests(Verb::Update, "leases");
    assert!((48..=50).contains(&updates), "{updates}");
    leader.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn finished_work_releases_the_lease() {
    let server = TestServer::new();
    let seen = server.clone();

    let ended = election(&server, "worker")
        .run_while_leading(async |leadership| {
            assert!(leadership.is_held());
            pass(LEASE).await;
            (holder(&seen), leadership.is_held())
        })
        .await
        .unwrap();

    assert_eq!(ended, Ended::Finished(("worker".to_owned(), true)));
    assert_eq!(holder(&server), "");
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn shutdown_lets_the_work_end_before_the_lease_is_released() {
    let server = TestServer::new();
    let stop = CancellationToken::new();
    let asked = stop.clone();
    let seen = server.clone();

    let ended = election(&server, "worker")
        .stop_on(stop)
        .run_while_leading(async |leadership| {
            asked.cancel();
            leadership.lost().await;
            pass(LEASE * 3).await;
            (holder(&seen), leadership.is_held())
        })
        .await
        .unwrap();

    assert_eq!(
        ended,
        Ended::Finished(("worker".to_owned(), true)),
        "renewed until the work ended"
    );
    assert_eq!(holder(&server), "");
}

#[tokio::test(start_paused = true)]
async fn shutdown_before_election_runs_no_work() {
    let server = TestServer::new();
    let first = start(&server, "first");
    first.leading().await.unwrap();
    let stop = CancellationToken::new();
    let second = election(&server, "second").stop_on(stop.clone());

    let mut waiting = std::pin::pin!(second.run_while_leading(async |_| ()));
    assert!(timeout(LEASE * 2, &mut waiting).await.is_err());
    stop.cancel();

    assert_eq!(waiting.await.unwrap(), Ended::NeverLed);
    assert_eq!(holder(&server), "first");
    first.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn work_is_dropped_after_a_loss_before_another_can_lead() {
    let server = TestServer::new();
    let refused = server.clone();
    let began = Instant::now();

    let ended = election(&server, "worker")
        .run_while_leading(async |_| {
            refused.refuse_connections(true);
            std::future::pending::<()>().await;
        })
        .await
        .unwrap();

    assert_eq!(ended, Ended::Lost(None));
    // The loss, half of the rest, and the release attempts: at most another renew deadline.
    assert!(
        began.elapsed() < RENEW + (LEASE - RENEW) / 2 + RENEW + RETRY,
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn panicking_work_releases_the_lease() {
    let server = TestServer::new();
    let running = Arc::new(AtomicUsize::new(0));
    struct Running(Arc<AtomicUsize>);
    impl Drop for Running {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    let election = election(&server, "worker");
    let inside = running.clone();

    let mut set = tokio::task::JoinSet::new();
    set.spawn(election.run_while_leading(move |_| {
        inside.fetch_add(1, Ordering::SeqCst);
        let running = Running(inside);
        async move {
            let _running = running;
            panic!("on purpose");
        }
    }));
    assert!(set.join_next().await.unwrap().is_err());

    assert_eq!(running.load(Ordering::SeqCst), 0);
    server
        .wait_for("the lease is released", |server| {
            server
                .object("leases.coordination.k8s.io", "shop/cart-controller")
                .unwrap()["spec"]["holderIdentity"]
                == ""
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn dropped_candidate_releases_the_lease() {
    let server = TestServer::new();
    let first = start(&server, "first");
    let leadership = first.leading().await.unwrap();
    drop(first);

    leadership.lost().await;
    server
        .wait_for("the lease is released", |server| {
            server
                .object("leases.coordination.k8s.io", "shop/cart-controller")
                .unwrap()["spec"]["holderIdentity"]
                == ""
        })
        .await;
}
