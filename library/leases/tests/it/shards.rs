//! Shard groups against the in-process API server, on a paused clock.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube_informers::shard::Shard;
use kube_informers::shard::{ShardField, ShardRange};
use kube_informers::{Informer, Scope};
use kube_leases::{Change, ConfigError, Failure, ShardConfig, ShardGroup, ShardMember};
use kube_testserver::builders::config_map;
use kube_testserver::{Fault, RequestMatcher, TestServer, Verb};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

const LEASE: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(5);
const LEASES: &str = "leases.coordination.k8s.io";

fn group(client: Client, identity: &str) -> ShardGroup {
    ShardGroup::new(client, "shop", "cart", identity).slots(8)
}

fn join(server: &TestServer, identity: &str) -> ShardMember {
    group(server.client(), identity).start().unwrap()
}

async fn pass(duration: Duration) {
    sleep_until(Instant::now() + duration).await;
}

/// The number of slots of a shard, out of eight.
fn size(shard: &Shard) -> usize {
    let slots = ShardRange::ALL.split(8);
    slots
        .iter()
        .filter(|slot| shard.covers_hash(slot.start()))
        .count()
}

/// Processes changes and releases slots until this replica has this number of slots.
async fn wait_for_size(member: &mut ShardMember, slots: usize) {
    timeout(Duration::from_secs(300), async {
        while size(&member.shard()) != slots {
            assert!(member.next().await.is_some(), "the member has left");
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{} slots instead of {slots}", size(&member.shard())));
}

/// Processes the pending changes and releases slots.
async fn read_changes(member: &mut ShardMember) {
    while let Ok(change) = timeout(Duration::from_millis(1), member.next()).await {
        drop(change);
    }
}

fn assert_shared(members: &[&ShardMember]) {
    let mut all = Shard::nothing(ShardField::Uid);
    for member in members {
        assert!(
            all.intersection(&member.shard()).unwrap().is_empty(),
            "a slot has two owners"
        );
        all = all.union(&member.shard()).unwrap();
    }
    assert!(all.is_everything(), "only {all} is owned");
}

#[tokio::test(start_paused = true)]
async fn first_replica_owns_everything_and_a_second_gets_half() {
    let server = TestServer::new();
    let mut first = join(&server, "first");
    wait_for_size(&mut first, 8).await;

    let mut second = join(&server, "second");
    wait_for_size(&mut first, 4).await;
    wait_for_size(&mut second, 4).await;

    assert_shared(&[&first, &second]);
    assert_eq!(first.shard().ranges().len(), 1, "{}", first.shard());
    first.shutdown().await;
    wait_for_size(&mut second, 8).await;
    second.shutdown().await;
    assert_eq!(server.count(LEASES), 1, "only the table remains");
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn shares_of_three_replicas_differ_by_at_most_one_slot() {
    let server = TestServer::new();
    let mut members = vec![join(&server, "a"), join(&server, "b"), join(&server, "c")];
    for _ in 0..20 {
        for member in &mut members {
            while let Ok(change) = timeout(Duration::from_secs(1), member.next()).await {
                drop(change);
            }
        }
    }

    let mut sizes: Vec<usize> = members.iter().map(|member| size(&member.shard())).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [2, 3, 3]);
    assert_shared(&members.iter().collect::<Vec<_>>());
    for member in members {
        member.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slot_moves_only_after_its_guard_and_permits_are_dropped() {
    let server = TestServer::new();
    let mut first = join(&server, "first");
    wait_for_size(&mut first, 8).await;
    let ownership = first.ownership();
    let permits: Vec<_> = ShardRange::ALL
        .split(8)
        .iter()
        .map(|slot| ownership.enter(slot.start()).unwrap())
        .collect();
    let mut second = join(&server, "second");

    let Some(Change::Giving(given, guard)) = first.next().await else {
        panic!("expected a shard to be given up");
    };
    assert_eq!(size(&given), 4);
    assert!(
        ownership.enter(given.ranges()[0].start()).is_none(),
        "no new permit is granted"
    );
    pass(LEASE * 3).await;
    assert_eq!(size(&second.shard()), 0, "the guard is not dropped");
    drop(guard);
    pass(LEASE * 3).await;
    assert_eq!(size(&second.shard()), 0, "permits are in flight");
    assert!(
        permits.iter().all(|permit| permit.is_valid()),
        "permits in flight stay valid"
    );
    drop(permits);
    let dropped = Instant::now();
    wait_for_size(&mut second, 4).await;

    assert!(dropped.elapsed() <= RETRY * 2, "{:?}", dropped.elapsed());
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn slots_of_a_leaving_replica_are_acquired_within_two_retry_periods() {
    let server = TestServer::new();
    let mut first = join(&server, "first");
    wait_for_size(&mut first, 8).await;
    let mut second = join(&server, "second");
    wait_for_size(&mut first, 4).await;
    wait_for_size(&mut second, 4).await;

    first.shutdown().await;
    let left = Instant::now();
    wait_for_size(&mut second, 8).await;

    assert!(left.elapsed() <= RETRY * 2, "{:?}", left.elapsed());
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn disconnected_replica_loses_its_slots_before_others_acquire_them() {
    let server = TestServer::builder().replicas(2).build();
    let mut lost = group(server.replica(1).client(), "lost").start().unwrap();
    wait_for_size(&mut lost, 8).await;
    let mut other = group(server.replica(0).client(), "other").start().unwrap();
    wait_for_size(&mut lost, 4).await;
    wait_for_size(&mut other, 4).await;
    let mine = lost.shard();
    let permit = lost.ownership().enter(mine.ranges()[0].start()).unwrap();

    server.fault(
        RequestMatcher::resource("leases").replica(1).forever(),
        Fault::hang(),
    );
    let cut = Instant::now();
    timeout(LEASE, permit.revoked()).await.unwrap();
    let revoked = cut.elapsed();
    assert!(revoked <= Duration::from_secs(20), "{revoked:?}");
    assert!(
        permit.deadline() > Instant::now() && permit.deadline() - Instant::now() <= Duration::from_secs(5)
    );
    assert_eq!(size(&lost.shard()), 0);
    assert_eq!(size(&other.shard()), 4, "it has no owner meanwhile");
    assert!(matches!(lost.next().await, Some(Change::Revoked(shard)) if shard == mine));
    wait_for_size(&mut other, 8).await;
    let taken = cut.elapsed();
    assert!(taken > LEASE - RETRY && taken < LEASE + RETRY * 3, "{taken:?}");

    // It rejoins as a new member.
    server.clear_faults();
    drop(permit);
    wait_for_size(&mut other, 4).await;
    wait_for_size(&mut lost, 4).await;
    assert_shared(&[&lost, &other]);
    lost.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn short_outage_loses_no_ownership() {
    let server = TestServer::new();
    let mut member = join(&server, "member");
    wait_for_size(&mut member, 8).await;

    server.refuse_connections(true);
    pass(Duration::from_secs(12)).await;
    server.refuse_connections(false);
    pass(LEASE).await;

    assert_eq!(size(&member.shard()), 8);
    assert!(
        timeout(Duration::from_secs(1), member.next()).await.is_err(),
        "no change was reported"
    );
    member.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn lost_responses_to_successful_writes_lose_no_ownership() {
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("leases").every(3), Fault::cut(5));
    let mut first = join(&server, "first");
    wait_for_size(&mut first, 8).await;
    let mut second = join(&server, "second");
    // By chance several renewals in a row may be cut until the renew deadline; then a half has no owner for a while. So
    // both halves must be owned at one time, not from some time on.
    timeout(Duration::from_secs(600), async {
        while (size(&first.shard()), size(&second.shard())) != (4, 4) {
            read_changes(&mut first).await;
            read_changes(&mut second).await;
            pass(RETRY / 5).await;
        }
    })
    .await
    .expect("each owns its half");

    assert_shared(&[&first, &second]);
    server.clear_faults();
    first.shutdown().await;
    second.shutdown().await;
    assert_eq!(server.count(LEASES), 1);
}

#[tokio::test(start_paused = true)]
async fn second_process_with_the_same_name_waits_for_the_first() {
    let server = TestServer::new();
    let mut first = join(&server, "twin");
    wait_for_size(&mut first, 8).await;
    let mut second = join(&server, "twin");

    pass(LEASE * 4).await;
    assert_eq!((size(&first.shard()), size(&second.shard())), (8, 0));
    let error = second.last_error().map(|error| error.failure);
    assert!(matches!(error, None | Some(Failure::Exists)), "{error:?}");
    first.shutdown().await;
    wait_for_size(&mut second, 8).await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn idle_replica_writes_once_and_lists_once_per_retry_period() {
    let server = TestServer::new();
    let mut member = join(&server, "member");
    wait_for_size(&mut member, 8).await;
    pass(RETRY).await;
    server.clear_requests();

    pass(RETRY * 100).await;

    let (updates, lists) = (
        server.count_requests(Verb::Update, "leases"),
        server.count_requests(Verb::List, "leases"),
    );
    assert!(
        updates.abs_diff(100) <= 1 && lists.abs_diff(100) <= 5,
        "{updates} updates, {lists} lists"
    );
    assert_eq!(server.requests().len(), updates + lists);
    member.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn invalid_settings_are_rejected() {
    let server = TestServer::new();
    let refused = |group: ShardGroup| group.start().err();
    assert_eq!(
        refused(group(server.client(), "a").slots(12)),
        Some(ConfigError::Slots(12))
    );
    assert!(matches!(
        refused(group(server.client(), "a_b")),
        Some(ConfigError::Name { what: "identity", .. })
    ));
    let timing = ShardConfig {
        renew_deadline: LEASE,
        ..ShardConfig::default()
    };
    assert!(matches!(
        refused(group(server.client(), "a").config(timing)),
        Some(ConfigError::Timing(_))
    ));
    assert_eq!(server.requests().len(), 0);

    server.fault(RequestMatcher::list("leases").forever(), Fault::status(403));
    let mut forbidden = join(&server, "forbidden");
    let error = error_of(&mut forbidden).await;
    assert!(
        error.contains("cannot list leases.coordination.k8s.io in namespace shop"),
        "{error}"
    );
    server.clear_faults();
    wait_for_size(&mut forbidden, 8).await;

    let mut other = group(server.client(), "other").slots(16).start().unwrap();
    let error = error_of(&mut other).await;
    assert!(
        error.contains("the group has 8 slots and this replica is configured for 16"),
        "{error}"
    );
    other.shutdown().await;
    forbidden.shutdown().await;
}

/// Waits for a permanent error.
async fn error_of(member: &mut ShardMember) -> String {
    for _ in 0..100 {
        pass(Duration::from_millis(500)).await;
        if let Some(error) = member.last_error() {
            return error.to_string();
        }
    }
    panic!("there was no error");
}

#[tokio::test(start_paused = true)]
async fn every_object_is_in_exactly_one_cache() {
    let server = TestServer::builder().sharding().build();
    for number in 0..200 {
        server.create(config_map("shop", &format!("map-{number}")));
    }
    let stop_first = CancellationToken::new();
    let replica = |identity: &str, stop: &CancellationToken| {
        let nothing = Scope::namespace("shop").shard(Shard::nothing(ShardField::Uid));
        let maps = Informer::<ConfigMap>::scoped(server.client(), nothing).start();
        let member = join(&server, identity);
        let (follower, stop) = (maps.clone(), stop.clone());
        let driving = async move {
            member
                .drive(stop, |shard| follower.set_shard(shard.clone()))
                .await
                .unwrap();
        };
        (maps, driving)
    };
    let mut tasks = tokio::task::JoinSet::new();
    let (first, driving) = replica("first", &stop_first);
    tasks.spawn(driving);
    let stop_second = CancellationToken::new();
    let (second, driving) = replica("second", &stop_second);
    tasks.spawn(driving);

    pass(RETRY * 6).await;
    let sizes = (first.store().len(), second.store().len());
    assert_eq!(sizes.0 + sizes.1, 200, "{sizes:?}");
    assert!(sizes.0.abs_diff(sizes.1) < 60, "{sizes:?}");
    stop_first.cancel();
    tasks.join_next().await.unwrap().unwrap();
    assert_eq!(first.store().len(), 0, "released objects have left the cache");
    pass(RETRY * 3).await;
    assert_eq!(second.store().len(), 200);
    stop_second.cancel();
    tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn restored_server_backup_causes_no_two_owners() {
    let server = TestServer::new();
    let mut first = join(&server, "first");
    wait_for_size(&mut first, 8).await;
    let mut second = join(&server, "second");
    pass(RETRY).await;
    // Both are members, and the first still owns everything.
    let before = server.resource_version();
    wait_for_size(&mut first, 4).await;
    read_changes(&mut first).await;
    wait_for_size(&mut second, 4).await;

    server.rewind(before);
    for _ in 0..200 {
        read_changes(&mut first).await;
        read_changes(&mut second).await;
        let both = first.shard().intersection(&second.shard()).unwrap();
        assert!(both.is_empty(), "{both} has two owners");
        pass(Duration::from_secs(1)).await;
    }

    assert_eq!((size(&first.shard()), size(&second.shard())), (4, 4));
    assert_shared(&[&first, &second]);
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn foreign_lease_with_the_group_name_is_reported_and_retried_with_backoff() {
    let server = TestServer::new();
    server.load([serde_json::json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "namespace": "shop", "name": "cart" },
    })]);
    let mut member = join(&server, "member");
    let error = error_of(&mut member).await;
    assert!(
        error.contains(
            "cannot create leases.coordination.k8s.io cart in namespace shop: a lease of this name"
        ),
        "{error}"
    );
    server.clear_requests();
    pass(RETRY * 10).await;

    assert!(
        server.requests().len() < 250,
        "{} requests",
        server.requests().len()
    );
    assert_eq!(size(&member.shard()), 0);
    member.shutdown().await;
}
