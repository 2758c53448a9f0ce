//! Leases with arbitrary content. At most one candidate leads, no slot has two owners, and errors name the problem.

use std::time::Duration;

use fastrand::Rng;
use kube_informers::shard::Shard;
use kube_leases::{
    Candidate, Election, ElectionConfig, Failure, LeaseName, ShardConfig, ShardGroup, ShardMember,
};
use kube_testserver::TestServer;
use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep_until, timeout};

const LEASES: &str = "leases.coordination.k8s.io";

async fn pass(duration: Duration) {
    sleep_until(Instant::now() + duration).await;
}

/// Any JSON value, nested up to `depth` levels.
fn arbitrary(rng: &mut Rng, depth: u8) -> Value {
    match rng.u8(0..if depth == 0 { 8 } else { 10 }) {
        0 => Value::Null,
        1 => json!(rng.bool()),
        2 => json!(i64::MAX),
        3 => json!(u64::MAX),
        4 => json!(rng.i64(-3..20)),
        5 => json!(rng.f64() * 1e300),
        6 => json!(""),
        7 => json!("first \u{202e}\u{0}\u{2028}"),
        8 => (0..rng.usize(0..3)).map(|_| arbitrary(rng, depth - 1)).collect(),
        _ => json!({ "holderIdentity": arbitrary(rng, depth - 1) }),
    }
}

/// A spec that is not an object, or in which each field may be missing, well-formed, extreme or of the wrong type.
fn arbitrary_spec(rng: &mut Rng) -> Value {
    if rng.u8(0..4) == 0 {
        return arbitrary(rng, 2);
    }
    let fields = [
        (
            "holderIdentity",
            vec![json!("first"), json!("third"), json!(""), json!(7)],
        ),
        (
            "leaseDurationSeconds",
            vec![
                json!(-1),
                json!(0),
                json!(1),
                json!(15),
                json!(i32::MAX),
                json!(i64::from(i32::MAX) + 1),
                json!(1.5),
                json!("15"),
            ],
        ),
        (
            "renewTime",
            vec![
                json!("2023-11-14T22:13:20.000001Z"),
                json!("9999-12-31T23:59:59.999999Z"),
                json!("-009999-01-02T00:00:00Z"),
                json!("yesterday"),
                json!(0),
            ],
        ),
        (
            "acquireTime",
            vec![json!("2023-11-14T22:13:20Z"), json!("later"), json!(-1)],
        ),
        (
            "leaseTransitions",
            vec![json!(0), json!(-1), json!(i32::MAX), json!(i64::MAX), json!("1")],
        ),
    ];
    let mut spec = Map::new();
    for (field, values) in fields {
        match rng.u8(0..8) {
            0 => {}
            1 => {
                spec.insert(field.to_owned(), arbitrary(rng, 1));
            }
            _ => {
                spec.insert(field.to_owned(), values[rng.usize(0..values.len())].clone());
            }
        }
    }
    Value::Object(spec)
}

/// Whether a spec has no holder. Writing one by hand is a release, and the Lease is free at once.
fn is_release(spec: &Value) -> bool {
    match spec {
        Value::Null => true,
        Value::Object(fields) => match fields.get("holderIdentity") {
            None | Some(Value::Null) => true,
            holder => holder == Some(&json!("")),
        },
        _ => false,
    }
}

fn write(server: &TestServer, name: &str, spec: Value, annotations: Option<Value>) {
    let mut lease = server.object(LEASES, &format!("shop/{name}")).unwrap_or_else(|| {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": { "namespace": "shop", "name": name },
        })
    });
    lease["spec"] = spec;
    if let Some(annotations) = annotations {
        lease["metadata"]["annotations"] = annotations;
    }
    server.put(lease);
}

fn candidate(server: &TestServer, identity: &str) -> Candidate {
    Election::new(server.client(), LeaseName::new("shop", "cart"), identity)
        .start()
        .unwrap()
}

/// Advances the clock and checks that at most one candidate leads.
async fn watch_leaders(seed: u64, candidates: [&Candidate; 2], duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        pass(Duration::from_millis(100)).await;
        let [first, second] = candidates.map(Candidate::is_leader);
        assert!(!(first && second), "seed {seed}: two leaders");
    }
}

#[tokio::test(start_paused = true)]
async fn at_most_one_candidate_leads_with_an_arbitrary_lease() {
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let server = TestServer::new();
        if rng.bool() {
            write(&server, "cart", arbitrary_spec(&mut rng), None);
        }
        let first = candidate(&server, "first");
        let second = candidate(&server, "second");
        for _ in 0..8 {
            let pause = Duration::from_millis(rng.u64(100..25_000));
            watch_leaders(seed, [&first, &second], pause).await;
            let spec = arbitrary_spec(&mut rng);
            let led = first.is_leader() || second.is_leader();
            if !(led && is_release(&spec)) {
                write(&server, "cart", spec, None);
            }
        }

        write(&server, "cart", json!("no object"), None);
        watch_leaders(seed, [&first, &second], Duration::from_secs(40)).await;
        assert!(
            first.is_leader() || second.is_leader(),
            "seed {seed}: nobody leads; {:?}",
            first.last_error()
        );
        first.shutdown().await;
        second.shutdown().await;
    }
}

#[tokio::test(start_paused = true)]
async fn malformed_lease_is_reported_and_repaired_after_the_lease_duration() {
    for (spec, field) in [
        (json!("text"), "spec"),
        (json!({ "holderIdentity": 7 }), "spec.holderIdentity"),
        (
            json!({ "holderIdentity": "x", "leaseDurationSeconds": i64::MAX }),
            "spec.leaseDurationSeconds",
        ),
        (
            json!({ "holderIdentity": "x", "leaseDurationSeconds": 1.5 }),
            "spec.leaseDurationSeconds",
        ),
        (
            json!({ "holderIdentity": "x", "renewTime": "soon" }),
            "spec.renewTime",
        ),
    ] {
        let server = TestServer::new();
        write(&server, "cart", spec, None);
        let started = Instant::now();
        let candidate = candidate(&server, "first");
        pass(Duration::from_secs(1)).await;

        let error = candidate.last_error().expect("an error is reported");
        assert!(matches!(error.failure, Failure::Malformed(_)), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains(&format!("{field} ")) && text.contains("lease duration"),
            "{text}"
        );
        candidate.leading().await.unwrap();
        assert!(started.elapsed() >= ElectionConfig::default().lease_duration);
        assert!(candidate.last_error().is_none());
        let lease = server.object(LEASES, "shop/cart").unwrap();
        assert_eq!(lease["spec"]["holderIdentity"], "first");
        assert_eq!(lease["spec"]["leaseDurationSeconds"], 15);
        candidate.shutdown().await;
    }
}

/// A holder whose records cannot be parsed still renews: every change restarts the wait.
#[tokio::test(start_paused = true)]
async fn malformed_lease_that_keeps_changing_is_never_taken_over() {
    let server = TestServer::new();
    let candidate = candidate(&server, "first");
    for renewal in 0..60 {
        write(
            &server,
            "cart",
            json!({ "holderIdentity": "x", "renewTime": renewal }),
            None,
        );
        pass(Duration::from_secs(2)).await;
        assert!(!candidate.is_leader());
    }
    candidate.shutdown().await;
}

fn member(server: &TestServer, identity: &str) -> ShardMember {
    ShardGroup::new(server.client(), "shop", "cart", identity)
        .slots(8)
        .start()
        .unwrap()
}

/// Advances the clock, processes all changes, and checks that no slot has two owners.
async fn watch_owners(seed: u64, members: &mut [ShardMember; 2], duration: Duration) {
    let end = Instant::now() + duration;
    while Instant::now() < end {
        for member in members.iter_mut() {
            while let Ok(change) = timeout(Duration::from_millis(100), member.next()).await {
                assert!(change.is_some(), "seed {seed}: the member stopped");
            }
        }
        let [first, second] = &*members;
        let both: Shard = first.shard().intersection(&second.shard()).unwrap();
        assert!(both.is_empty(), "seed {seed}: {both} has two owners");
    }
}

#[tokio::test(start_paused = true)]
async fn no_slot_has_two_owners_with_arbitrary_leases() {
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let server = TestServer::new();
        let mut members = [member(&server, "first"), member(&server, "second")];
        for _ in 0..10 {
            let pause = Duration::from_millis(rng.u64(100..50_000));
            watch_owners(seed, &mut members, pause).await;
            match rng.u8(0..3) {
                0 => damage_table(&server, &mut rng),
                _ => {
                    let name = ["cart.first", "cart.second"][rng.usize(0..2)];
                    damage_member(&server, name, &mut rng);
                }
            }
        }

        // The documented fix: stop every replica, delete the Leases of the group, start the replicas again.
        for member in members {
            member.shutdown().await;
        }
        for lease in server.objects(LEASES) {
            let name = lease["metadata"]["name"].as_str().unwrap();
            server.delete_key(LEASES, &format!("shop/{name}"));
        }
        let mut members = [member(&server, "first"), member(&server, "second")];
        watch_owners(seed, &mut members, ShardConfig::default().lease_duration * 4).await;
        let [first, second] = &members;
        let all = first.shard().union(&second.shard()).unwrap();
        assert!(all.is_everything(), "seed {seed}: only {all} is owned");
        for member in members {
            member.shutdown().await;
        }
    }
}

/// Replaces the spec of a member's Lease, and sometimes the number of its renewals.
fn damage_member(server: &TestServer, name: &str, rng: &mut Rng) {
    let Some(lease) = server.object(LEASES, &format!("shop/{name}")) else {
        return;
    };
    let mut annotations = lease["metadata"]["annotations"].clone();
    match rng.u8(0..6) {
        0 => annotations["kube-leases/renewals"] = json!(u64::MAX.to_string()),
        1 => annotations["kube-leases/renewals"] = json!("-1"),
        2 => annotations = Value::Null,
        _ => {}
    }
    write(server, name, arbitrary_spec(rng), Some(annotations));
}

/// Makes the table unreadable, or sets its version to the maximum.
fn damage_table(server: &TestServer, rng: &mut Rng) {
    const TABLE: &str = "kube-leases/slots";
    let Some(lease) = server.object(LEASES, "shop/cart") else {
        return;
    };
    let mut annotations = lease["metadata"]["annotations"].clone();
    let text = annotations[TABLE].as_str().unwrap_or_default().to_owned();
    annotations[TABLE] = match rng.u8(0..4) {
        0 => json!(arbitrary(rng, 2).to_string()),
        1 => json!("{\"version\":1,\"owners\":[],\"slots\":[0,0,0,0,0,0,0,0]}"),
        _ => match serde_json::from_str::<Value>(&text) {
            Ok(mut table) if table.is_object() => {
                table["version"] = json!(u64::MAX);
                json!(table.to_string())
            }
            _ => json!(text),
        },
    };
    if rng.u8(0..4) == 0 {
        annotations = Value::Null;
    }
    write(server, "cart", arbitrary_spec(rng), Some(annotations));
}

#[tokio::test(start_paused = true)]
async fn settings_with_extreme_durations_are_rejected_without_a_panic() {
    let server = TestServer::new();
    let extremes = [
        Duration::ZERO,
        Duration::from_nanos(1),
        Duration::from_secs(i32::MAX as u64),
        Duration::from_secs(i32::MAX as u64 + 1),
        Duration::from_secs(u64::MAX),
        Duration::MAX,
    ];
    for lease_duration in extremes {
        for renew_deadline in extremes {
            for retry_period in extremes {
                let election = ElectionConfig {
                    lease_duration,
                    renew_deadline,
                    retry_period,
                    ..ElectionConfig::default()
                };
                let name = LeaseName::new("shop", "extreme");
                let candidate = Election::new(server.client(), name, "me")
                    .config(election)
                    .start();
                let shards = ShardConfig {
                    lease_duration,
                    renew_deadline,
                    retry_period,
                };
                let member = ShardGroup::new(server.client(), "shop", "extreme", "me")
                    .config(shards)
                    .start();
                assert_eq!(candidate.is_ok(), member.is_ok());
            }
        }
    }
}
