//! The rules, one by one: client-go's table of acquiring and renewing, and what it has no row for.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

use super::config::ElectionConfig;
use super::machine::{Machine, Next, Request, Response};
use crate::record::{LeaseState, Record};

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn record(holder: &str, lease: Option<u64>) -> Record {
    Record {
        holder: holder.to_owned(),
        lease: lease.map(seconds),
        ..Record::default()
    }
}

fn found(record: Record, version: &str) -> Response {
    Response::Found(LeaseState {
        record,
        version: version.to_owned(),
    })
}

fn written(version: &str) -> Response {
    Response::Written {
        version: version.to_owned(),
    }
}

/// A machine and its clock.
struct Table {
    machine: Machine,
    start: Instant,
    now: Instant,
}

impl Table {
    fn new() -> Table {
        let now = Instant::now();
        let config = ElectionConfig {
            lease_duration: seconds(10),
            renew_deadline: seconds(5),
            retry_period: seconds(2),
            release_on_stop: true,
        };
        Table {
            machine: Machine::new("baz".to_owned(), config, now),
            start: now,
            now,
        }
    }

    fn at(&mut self, seconds: f64) -> &mut Self {
        self.now = self.start + Duration::from_secs_f64(seconds);
        self
    }

    /// What is sent at this moment.
    fn sent(&mut self) -> Request {
        match self.machine.poll(self.now, WALL) {
            Next::Send { request, .. } => request,
            other => panic!("expected a request, got {other:?}"),
        }
    }

    /// When the machine wants to be asked again, in seconds after the start.
    fn waits_until(&mut self) -> f64 {
        match self.machine.poll(self.now, WALL) {
            Next::Wait(until) => (until - self.start).as_secs_f64(),
            other => panic!("expected a pause, got {other:?}"),
        }
    }

    fn responded(&mut self, response: Response) -> &mut Self {
        self.machine.response(self.now, 0.0, response);
        self
    }

    fn leads(&self) -> bool {
        self.machine.leads(self.now)
    }

    /// The holder and the transitions of what is written.
    fn writes(&mut self) -> (String, i64) {
        match self.sent() {
            Request::Create(record) | Request::Update { record, .. } => (record.holder, record.transitions),
            Request::Get => panic!("expected a write"),
        }
    }

    fn leading() -> Table {
        let mut table = Table::new();
        assert_eq!(table.sent(), Request::Get);
        table.responded(Response::Missing);
        assert_eq!(table.writes(), ("baz".to_owned(), 0));
        table.responded(written("1"));
        assert!(table.leads());
        table
    }
}

/// Upstream: TestTryAcquireOrRenewLeases (acquire from no object)
#[test]
fn a_missing_lease_is_created() {
    let mut table = Table::leading();

    assert_eq!(table.machine.holder(), Some("baz"));
    assert_eq!(table.waits_until(), 2.0);
}

/// Upstream: TestTryAcquireOrRenewLeases (acquire from object without annotations, from unled object, from empty led)
#[test]
fn a_lease_of_nobody_is_taken_at_once() {
    for nobody in [Record::default(), record("", Some(60))] {
        let mut table = Table::new();
        table.sent();
        table.responded(found(nobody, "7"));

        assert_eq!(table.writes(), ("baz".to_owned(), 1));
        assert!(table.responded(written("8")).leads());
    }
}

/// Upstream: TestTryAcquireOrRenewLeases (acquire from led object with the lease duration seconds)
#[test]
fn a_lease_is_taken_after_the_duration_it_states_unchanged() {
    let mut table = Table::new();
    table.sent();
    table.responded(found(record("bing", Some(13)), "7"));
    assert_eq!(table.waits_until(), 2.0);

    table.at(12.9).sent();
    table.responded(found(record("bing", Some(13)), "7"));
    assert!(table.waits_until() > 12.9);

    table.at(14.9).sent();
    table.responded(found(record("bing", Some(13)), "7"));
    assert_eq!(table.writes(), ("baz".to_owned(), 1));
}

/// A duration shortened by hand must not let a candidate lead beside the holder.
#[test]
fn a_lease_that_states_a_shorter_duration_than_ours_is_taken_after_ours() {
    let mut table = Table::new();
    table.sent();
    table.responded(found(record("bing", Some(1)), "7"));
    table.at(9.9).sent();
    table.responded(found(record("bing", Some(1)), "7"));
    assert!(table.waits_until() > 9.9);

    table.at(12.0).sent();
    table.responded(found(record("bing", Some(1)), "7"));
    assert_eq!(table.writes(), ("baz".to_owned(), 1));
}

/// Upstream: TestTryAcquireOrRenewLeases (acquire from led, unacked object; don't acquire from led, acked object)
#[test]
fn a_lease_that_states_no_duration_is_taken_after_our_own() {
    let mut table = Table::new();
    table.sent();
    table.responded(found(record("bing", None), "7"));
    table.at(9.9).sent();
    table.responded(found(record("bing", None), "7"));
    assert!(!table.leads());
    assert_eq!(table.machine.holder(), Some("bing"));

    table.at(12.0).sent();
    table.responded(found(record("bing", None), "7"));
    assert_eq!(table.writes(), ("baz".to_owned(), 1));
}

/// Upstream: TestTryAcquireOrRenewLeases (renew already acquired object)
#[test]
fn a_leader_renews_without_reading_first() {
    let mut table = Table::leading();
    let Request::Update { record, version } = table.at(2.0).sent() else {
        panic!("expected an update");
    };

    assert_eq!(version, "1");
    assert_eq!((record.transitions, record.acquired), (0, Some(WALL)));
    assert!(
        record.renewed > Some(WALL),
        "a renewal is visible even if the wall clock stands still"
    );
    assert!(table.responded(written("2")).at(6.9).leads());
    assert!(!table.at(7.0).leads());
}

#[test]
fn a_change_seen_restarts_the_wait() {
    let mut table = Table::new();
    table.sent();
    table.responded(found(record("bing", Some(10)), "7"));
    table.at(9.0).sent();
    let mut renewed = record("bing", Some(10));
    renewed.renewed = Some(WALL);
    table.responded(found(renewed.clone(), "8"));

    table.at(18.9).sent();
    table.responded(found(renewed.clone(), "8"));
    assert!(table.waits_until() > 18.9);
    table.at(21.0).sent();
    table.responded(found(renewed, "8"));
    assert_eq!(table.writes().0, "baz");
}

#[test]
fn a_record_with_our_name_that_we_did_not_write_is_somebody_elses() {
    let mut table = Table::new();
    table.sent();
    table.responded(found(record("baz", Some(10)), "7"));

    assert!(!table.leads());
    assert_eq!(table.waits_until(), 2.0);
}

#[test]
fn leadership_ends_at_the_renew_deadline_counted_from_sending() {
    let mut table = Table::leading();
    table.at(2.0).sent();
    table.at(3.5).responded(written("2"));

    assert!(table.at(6.9).leads());
    assert!(!table.at(7.0).leads());
}

#[test]
fn a_request_of_a_leader_is_cut_off_when_its_time_ends() {
    let mut table = Table::leading();
    table.at(2.0).sent();
    table.at(4.4).responded(Response::Unknown);
    let now = table.now;
    let Next::Wait(until) = table.machine.poll(now, WALL) else {
        panic!("expected a pause");
    };
    assert_eq!(
        until,
        table.start + seconds(5),
        "the end of leadership is a moment to be asked"
    );
}

#[test]
fn a_lost_answer_does_not_lose_the_lease() {
    let mut table = Table::leading();
    let Request::Update { record, .. } = table.at(2.0).sent() else {
        panic!("expected an update");
    };
    table.at(3.0).responded(Response::Unknown);
    assert_eq!(table.at(5.0).sent(), Request::Get);
    // The time of leading has run out meanwhile, so the machine reads first, and finds what it wrote.
    table.at(5.1).responded(found(record, "2"));

    assert!(
        table.leads(),
        "the write was made, so the time counts from when it was sent"
    );
    assert!(table.at(6.9).leads() && !table.at(7.0).leads());
    let Request::Update { version, .. } = table.at(5.1).sent() else {
        panic!("expected an update");
    };
    assert_eq!(version, "2");
}

#[test]
fn a_leader_that_finds_another_has_lost() {
    let mut table = Table::leading();
    table.at(2.0).sent();
    table.responded(Response::Conflict);
    assert_eq!(table.sent(), Request::Get);
    table.responded(found(record("bing", Some(10)), "9"));

    assert!(!table.leads());
    assert_eq!(table.machine.holder(), Some("bing"));
}

#[test]
fn a_label_changed_by_hand_costs_a_leader_nothing() {
    let mut table = Table::leading();
    let mine = match table.at(2.0).sent() {
        Request::Update { record, .. } => record,
        other => panic!("expected an update, got {other:?}"),
    };
    table.responded(written("2")).at(4.0).sent();
    table.responded(Response::Conflict).sent();
    table.responded(found(mine, "5"));

    let Request::Update { version, .. } = table.sent() else {
        panic!("expected an update");
    };
    assert_eq!(version, "5");
    assert!(table.responded(written("6")).at(8.9).leads());
}

/// Upstream: TestReleaseLeaseLeases
#[test]
fn a_release_leaves_an_empty_holder_and_a_lease_of_one_second() {
    let mut table = Table::leading();
    let now = table.now;
    table.machine.stop(now);
    assert!(!table.leads());

    let Request::Update { record, version } = table.sent() else {
        panic!("expected an update");
    };
    assert_eq!(
        (record.holder.as_str(), record.lease, record.transitions),
        ("", Some(seconds(1)), 0)
    );
    assert_eq!(version, "1");
    table.responded(written("2"));
    assert_eq!(table.machine.poll(table.now, WALL), Next::Done);
}

#[test]
fn a_release_is_tried_again_after_a_conflict_within_the_renew_deadline() {
    let mut table = Table::leading();
    let Request::Update { record: mine, .. } = table.at(2.0).sent() else {
        panic!("expected an update");
    };
    table.responded(written("2"));
    let now = table.now;
    table.machine.stop(now);
    table.sent();
    table.responded(Response::Conflict);
    assert_eq!(table.sent(), Request::Get);
    table.responded(found(mine, "3"));
    assert!(matches!(table.sent(), Request::Update { version, .. } if version == "3"));
    table.responded(Response::Unknown);

    let end = table.start + seconds(7);
    assert_eq!(table.machine.poll(end, WALL), Next::Done);
}

/// Upstream: TestReleaseOnCancellation_Leases
#[test]
fn a_stop_during_a_renewal_finds_out_whether_it_was_made_and_releases() {
    let mut table = Table::leading();
    let Request::Update { record, .. } = table.at(2.0).sent() else {
        panic!("expected an update");
    };
    table.responded(Response::Unknown);
    let now = table.now;
    table.machine.stop(now);
    assert_eq!(table.sent(), Request::Get);
    table.responded(found(record, "2"));

    let Request::Update { record, version } = table.sent() else {
        panic!("expected an update");
    };
    assert_eq!((record.holder.as_str(), version.as_str()), ("", "2"));
}

#[test]
fn one_who_never_led_ends_without_a_word() {
    let mut table = Table::new();
    table.sent();
    table.responded(found(record("bing", Some(10)), "7"));
    let now = table.now;
    table.machine.stop(now);

    assert_eq!(table.machine.poll(table.now, WALL), Next::Done);
}

#[test]
fn jitter_of_any_value_stays_within_its_range() {
    for jitter in [
        f64::NAN,
        f64::NEG_INFINITY,
        -1.0,
        -0.0,
        0.5,
        2.0,
        f64::MAX,
        f64::INFINITY,
    ] {
        let mut table = Table::new();
        assert_eq!(table.sent(), Request::Get);
        let response = found(record("other", Some(10)), "1");
        table.machine.response(table.now, jitter, response);

        let rest = table.waits_until();
        assert!((2.0..=4.4).contains(&rest), "{jitter}: {rest}");
    }
}
