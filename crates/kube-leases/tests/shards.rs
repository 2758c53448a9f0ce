//! Shard groups against the in-process API server, on a paused clock.

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube_informers::shard::{ShardField, ShardRange};
use kube_informers::{Informer, Scope, Shard};
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

/// How many of eight slots a shard has.
fn size(shard: &Shard) -> usize {
    let slots = ShardRange::ALL.split(8);
    slots
        .iter()
        .filter(|slot| shard.covers_hash(slot.start()))
        .count()
}

/// Reads changes and lets go of what shall be given up, until this replica has so many slots.
async fn until_size(member: &mut ShardMember, slots: usize) {
    timeout(Duration::from_secs(300), async {
        while size(&member.shard()) != slots {
            assert!(member.next().await.is_some(), "the member has left");
        }
    })
    .await
    .unwrap_or_else(|_| panic!("{} slots instead of {slots}", size(&member.shard())));
}

/// Lets go of what shall be given up so far.
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
            "two own the same"
        );
        all = all.union(&member.shard()).unwrap();
    }
    assert!(all.is_everything(), "{all} is owned, and not everything");
}

#[tokio::test(start_paused = true)]
async fn one_replica_owns_everything_and_a_second_gets_half() {
    let server = TestServer::new();
    let mut first = join(&server, "first");
    until_size(&mut first, 8).await;

    let mut second = join(&server, "second");
    until_size(&mut first, 4).await;
    until_size(&mut second, 4).await;

    assert_shared(&[&first, &second]);
    assert_eq!(first.shard().ranges().len(), 1, "{}", first.shard());
    first.shutdown().await;
    until_size(&mut second, 8).await;
    second.shutdown().await;
    assert_eq!(server.count(LEASES), 1, "only the table is left");
    server.assert_nothing_open();
}

#[tokio::test(start_paused = true)]
async fn three_replicas_differ_by_one_slot_at_most() {
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
async fn a_slot_moves_only_when_its_guard_is_dropped_and_its_last_permit_is_back() {
    let server = TestServer::new();
    let mut first = join(&server, "first");
    until_size(&mut first, 8).await;
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
        "nothing new begins in it"
    );
    pass(LEASE * 3).await;
    assert_eq!(size(&second.shard()), 0, "the guard is not dropped");
    drop(guard);
    pass(LEASE * 3).await;
    assert_eq!(size(&second.shard()), 0, "permits are out");
    assert!(permits.iter().all(|permit| permit.is_valid()), "and still good");
    drop(permits);
    let dropped = Instant::now();
    until_size(&mut second, 4).await;

    assert!(dropped.elapsed() <= RETRY * 2, "{:?}", dropped.elapsed());
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_replica_owned_that_left_is_taken_within_two_retry_periods() {
    let server = TestServer::new();
    let mut first = join(&server, "first");
    until_size(&mut first, 8).await;
    let mut second = join(&server, "second");
    until_size(&mut first, 4).await;
    until_size(&mut second, 4).await;

    first.shutdown().await;
    let left = Instant::now();
    until_size(&mut second, 8).await;

    assert!(left.elapsed() <= RETRY * 2, "{:?}", left.elapsed());
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_replica_cut_off_from_the_server_loses_everything_before_others_take_it() {
    let server = TestServer::builder().replicas(2).build();
    let mut lost = group(server.replica(1).client(), "lost").start().unwrap();
    until_size(&mut lost, 8).await;
    let mut other = group(server.replica(0).client(), "other").start().unwrap();
    until_size(&mut lost, 4).await;
    until_size(&mut other, 4).await;
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
    assert_eq!(size(&other.shard()), 4, "nobody owns it meanwhile");
    assert!(matches!(lost.next().await, Some(Change::Revoked(shard)) if shard == mine));
    until_size(&mut other, 8).await;
    let taken = cut.elapsed();
    assert!(taken > LEASE - RETRY && taken < LEASE + RETRY * 3, "{taken:?}");

    // It comes back as a new member.
    server.clear_faults();
    drop(permit);
    until_size(&mut other, 4).await;
    until_size(&mut lost, 4).await;
    assert_shared(&[&lost, &other]);
    lost.shutdown().await;
    other.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_costs_no_ownership() {
    let server = TestServer::new();
    let mut member = join(&server, "member");
    until_size(&mut member, 8).await;

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
async fn lost_responses_to_successful_writes_cost_no_ownership() {
    let server = TestServer::new();
    server.fault(RequestMatcher::resource("leases").every(3), Fault::cut(5));
    let mut first = join(&server, "first");
    until_size(&mut first, 8).await;
    let mut second = join(&server, "second");
    // Chance may cut one renewal after the other until the renew deadline; then a half is owned by nobody for a while. So both
    // halves must be owned at one time, not from some time on.
    timeout(Duration::from_secs(600), async {
        while (size(&first.shard()), size(&second.shard())) != (4, 4) {
            read_changes(&mut first).await;
            read_changes(&mut second).await;
            pass(RETRY / 5).await;
        }
    })
    .await
    .expect("each has its half");

    assert_shared(&[&first, &second]);
    server.clear_faults();
    first.shutdown().await;
    second.shutdown().await;
    assert_eq!(server.count(LEASES), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_process_of_one_name_waits_until_the_first_is_gone() {
    let server = TestServer::new();
    let mut first = join(&server, "twin");
    until_size(&mut first, 8).await;
    let mut second = join(&server, "twin");

    pass(LEASE * 4).await;
    assert_eq!((size(&first.shard()), size(&second.shard())), (8, 0));
    let error = second.last_error().map(|error| error.failure);
    assert!(matches!(error, None | Some(Failure::Exists)), "{error:?}");
    first.shutdown().await;
    until_size(&mut second, 8).await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_calm_replica_writes_once_and_lists_once_per_retry_period() {
    let server = TestServer::new();
    let mut member = join(&server, "member");
    until_size(&mut member, 8).await;
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
    until_size(&mut forbidden, 8).await;

    let mut other = group(server.client(), "other").slots(16).start().unwrap();
    let error = error_of(&mut other).await;
    assert!(
        error.contains("the group has 8 slots and this replica is configured for 16"),
        "{error}"
    );
    other.shutdown().await;
    forbidden.shutdown().await;
}

/// Waits for an error that stays.
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
async fn informers_follow_and_every_object_is_in_one_cache() {
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
    assert_eq!(first.store().len(), 0, "what was given up has left the cache");
    pass(RETRY * 3).await;
    assert_eq!(second.store().len(), 200);
    stop_second.cancel();
    tasks.join_next().await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_history_is_set_back_is_survived_without_two_owners() {
    let server = TestServer::new();
    let mut first = join(&server, "first");
    until_size(&mut first, 8).await;
    let mut second = join(&server, "second");
    pass(RETRY).await;
    // Both are members, and everything is still the first one's.
    let before = server.resource_version();
    until_size(&mut first, 4).await;
    read_changes(&mut first).await;
    until_size(&mut second, 4).await;

    server.rewind(before);
    for _ in 0..200 {
        read_changes(&mut first).await;
        read_changes(&mut second).await;
        let both = first.shard().intersection(&second.shard()).unwrap();
        assert!(both.is_empty(), "{both} is owned by two");
        pass(Duration::from_secs(1)).await;
    }

    assert_eq!((size(&first.shard()), size(&second.shard())), (4, 4));
    assert_shared(&[&first, &second]);
    first.shutdown().await;
    second.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_foreign_lease_with_the_name_of_the_group_is_reported_and_not_retried_without_pause() {
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
