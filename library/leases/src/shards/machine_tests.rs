//! The rules of a group, one by one: each test is an interleaving that would go wrong without its rule.

use std::time::Duration;

use tokio::time::Instant;

use super::machine::{Effect, Lane, Machine, MemberSeen, Request, Response, Rules, Snapshot, TableSeen};
use super::table::{Owner, Table};

const MEMBERSHIP: Lane = Lane::Membership;
const TABLE: Lane = Lane::Table;

/// A machine of four slots, its clock, and its outputs.
struct Bench {
    machine: Machine,
    start: Instant,
    now: Instant,
    effects: Vec<Effect>,
    requests: Vec<(Lane, Request)>,
    version: u64,
    others: Vec<MemberSeen>,
}

fn member(name: &str, uid: &str, version: u64) -> MemberSeen {
    MemberSeen {
        name: name.to_owned(),
        member: name.to_owned(),
        uid: uid.to_owned(),
        version: version.to_string(),
        process: format!("process of {name}"),
        leaving: false,
        renewals: 0,
        lease: Some(Duration::from_secs(30)),
        malformed: None,
    }
}

fn table(version: u64, slots: [&str; 4]) -> TableSeen {
    let owner = |uid: &str| {
        (!uid.is_empty()).then(|| Owner {
            member: uid.replace("uid-", ""),
            uid: uid.to_owned(),
        })
    };
    TableSeen {
        table: Table {
            version,
            slots: slots.into_iter().map(owner).collect(),
        },
        uid: "uid-of-table".to_owned(),
        version: format!("table-{version}"),
    }
}

impl Bench {
    fn new() -> Bench {
        let now = Instant::now();
        let rules = Rules {
            slots: 4,
            lease: Duration::from_secs(30),
            renew: Duration::from_secs(20),
            retry: Duration::from_secs(5),
        };
        let mut bench = Bench {
            machine: Machine::new(rules, "me".to_owned(), "process of me".to_owned(), now),
            start: now,
            now,
            effects: Vec::new(),
            requests: Vec::new(),
            version: 1,
            others: Vec::new(),
        };
        bench.poll();
        bench
    }

    /// A member that owns these slots.
    fn owning(slots: [&str; 4]) -> Bench {
        let mut bench = Bench::new();
        assert_eq!(bench.sent(MEMBERSHIP), Request::Join);
        bench.response(MEMBERSHIP, Response::Member(member("me", "uid-me", 1)));
        // The first list was under way before it joined.
        bench.listed(Some(table(1, slots)));
        bench.listed(Some(table(1, slots)));
        bench.effects.clear();
        bench
    }

    fn at(&mut self, seconds: u64) -> &mut Self {
        self.now = self.start + Duration::from_secs(seconds);
        self.poll();
        self
    }

    fn poll(&mut self) {
        let step = self.machine.poll(self.now, 0.5);
        self.effects.extend(step.effects);
        self.requests.extend(
            step.requests
                .into_iter()
                .map(|(lane, request, _)| (lane, request)),
        );
    }

    fn response(&mut self, lane: Lane, response: Response) -> &mut Self {
        self.machine.response(self.now, lane, response);
        self.poll();
        self
    }

    /// The request that is in a lane and was not looked at yet.
    fn sent(&mut self, lane: Lane) -> Request {
        let place = self.requests.iter().position(|(of, _)| *of == lane);
        let place = place.unwrap_or_else(|| panic!("nothing was sent about {lane:?}"));
        self.requests.remove(place).1
    }

    fn listed(&mut self, table: Option<TableSeen>) -> &mut Self {
        assert_eq!(self.sent(TABLE), Request::List);
        let mut members = self.others.clone();
        members.push(member("me", "uid-me", self.version));
        self.response(TABLE, Response::Snapshot(Snapshot { table, members }))
    }

    fn written(&mut self, version: u64) -> &mut Self {
        let TableSeen { uid, version, .. } = table(version, [""; 4]);
        self.response(TABLE, Response::TableWritten { uid, version })
    }

    fn renewed(&mut self) -> &mut Self {
        assert!(matches!(self.sent(MEMBERSHIP), Request::Renew { .. }));
        self.version += 1;
        let seen = member("me", "uid-me", self.version);
        self.response(MEMBERSHIP, Response::Member(seen))
    }

    /// The owners in the table that is written.
    fn writes(&mut self) -> Vec<String> {
        match self.sent(TABLE) {
            Request::WriteTable { table, .. } => table
                .slots
                .into_iter()
                .map(|owner| owner.map_or(String::new(), |owner| owner.uid))
                .collect(),
            other => panic!("expected a write of the table, got {other:?}"),
        }
    }

    fn owned(&self) -> Vec<usize> {
        (0..4).filter(|slot| self.machine.owns(*slot, self.now)).collect()
    }
}

#[test]
fn a_new_group_gets_a_table_and_its_first_member_everything() {
    let mut bench = Bench::new();
    bench.sent(MEMBERSHIP);
    bench.response(MEMBERSHIP, Response::Member(member("me", "uid-me", 1)));
    bench.listed(None);

    assert_eq!(bench.writes(), ["uid-me"; 4]);
    assert_eq!(
        bench.owned(),
        [] as [usize; 0],
        "not before the write is known to be made"
    );
    bench.response(
        TABLE,
        Response::TableWritten {
            uid: "uid-of-table".to_owned(),
            version: "table-1".to_owned(),
        },
    );
    assert_eq!(bench.effects, [Effect::Gained(vec![0, 1, 2, 3])]);
}

#[test]
fn what_is_ours_by_the_table_is_begun_even_if_the_answer_to_the_claim_was_lost() {
    let bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);

    assert_eq!(bench.owned(), [0, 1, 2, 3]);
}

/// The release of a slot is under way and late. Meanwhile the membership lapses and is renewed. If the slot were begun
/// again because the table still says that it is ours, the release would free it while it is in use.
#[test]
fn a_late_release_never_hits_a_slot_in_use() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.others = vec![member("other", "uid-other", 1)];
    bench.at(5).renewed();
    bench.listed(Some(table(1, ["uid-me"; 4])));
    assert_eq!(bench.effects, [Effect::Giving(vec![3, 2], 1)]);
    bench.machine.drained(3, 1);
    bench.machine.drained(2, 1);
    bench.poll();
    assert_eq!(bench.writes(), ["uid-me", "uid-me", "", ""]);
    bench.effects.clear();

    // Nobody knows what became of it; renewals fail until everything lapses, and then one succeeds.
    bench.at(10).response(TABLE, Response::Unknown);
    bench.at(26).response(MEMBERSHIP, Response::Unknown);
    assert_eq!(bench.effects, [Effect::Revoked(vec![0, 1])]);
    bench.others = vec![];
    bench.requests.retain(|(lane, _)| *lane == TABLE);
    bench.at(32).renewed();
    bench.listed(Some(table(1, ["uid-me"; 4])));

    assert_eq!(
        bench.owned(),
        [0, 1],
        "2 and 3 wait until they were seen to be free"
    );
    assert_eq!(bench.writes()[2..], ["", ""], "and are released again");
}

#[test]
fn an_old_table_revokes_everything_until_a_newer_one_comes() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.at(5).renewed();
    bench.listed(Some(table(7, ["uid-me", "uid-me", "uid-me", "uid-me"])));
    bench.at(10).renewed();
    bench.listed(Some(table(6, ["uid-me", "uid-other", "", ""])));
    assert_eq!(bench.effects, [Effect::Revoked(vec![0, 1, 2, 3])]);
    assert!(bench.requests.is_empty(), "{:?}", bench.requests);

    bench.at(15).renewed();
    bench.listed(Some(table(7, ["uid-me", "uid-me", "uid-me", "uid-me"])));
    assert_eq!(bench.owned(), [0, 1, 2, 3]);
}

#[test]
fn an_old_table_that_stays_for_a_lease_duration_is_the_table() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.at(5).renewed();
    bench.listed(Some(table(7, ["uid-me", "uid-me", "uid-me", "uid-me"])));
    for seconds in [10, 15, 20, 25, 30, 35] {
        bench.at(seconds).renewed();
        bench.listed(Some(table(6, ["uid-me", "uid-me", "", ""])));
        assert_eq!(bench.owned(), [] as [usize; 0]);
    }
    bench.at(40).renewed();
    bench.listed(Some(table(6, ["uid-me", "uid-me", "", ""])));

    assert_eq!(
        bench.owned(),
        [] as [usize; 0],
        "a write has to prove that it is current"
    );
    assert_eq!(bench.writes(), ["", "", "uid-me", "uid-me"]);
    bench.written(7);
    assert_eq!(bench.owned(), [2, 3]);
    assert_eq!(bench.writes(), ["uid-me"; 4]);
}

/// Two stale reads, a lease duration apart and with nothing in between, look like a server that was restored.
#[test]
fn a_slot_that_was_given_up_is_not_resumed_by_stale_reads() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.at(5).renewed();
    bench.others = vec![member("other", "uid-other", 1)];
    bench.listed(Some(table(8, ["uid-me", "uid-me", "uid-other", "uid-other"])));
    bench.at(10).renewed();
    bench.listed(Some(table(6, ["uid-me", "uid-me", "uid-me", "uid-me"])));
    // Every list in between is lost.
    for seconds in [15, 20, 25, 30, 35] {
        bench.at(seconds).renewed();
    }
    bench.others = vec![member("other", "uid-other", 2)];
    bench.at(41).renewed();
    bench.listed(Some(table(7, ["uid-me", "uid-me", "uid-me", ""])));

    assert_eq!(bench.owned(), [] as [usize; 0]);
    bench.writes();
    bench.response(TABLE, Response::Conflict);
    bench.at(46).renewed();
    bench.listed(Some(table(9, ["uid-me", "uid-me", "uid-other", "uid-other"])));
    assert_eq!(
        bench.writes(),
        ["", "", "uid-other", "uid-other"],
        "a late release may still hit 0 and 1"
    );
}

/// The owner joined after the list was made.
#[test]
fn a_lease_that_an_old_list_lacks_is_not_absent() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.at(5).renewed();
    bench.others = vec![member("other", "uid-other", 1)];
    bench.listed(Some(table(8, ["uid-me", "uid-me", "uid-other", "uid-other"])));
    bench.others.clear();
    bench.at(10).renewed();
    bench.listed(Some(table(6, ["uid-me", "uid-me", "uid-me", "uid-me"])));
    for seconds in [15, 20, 25, 30, 35] {
        bench.at(seconds).renewed();
    }
    bench.at(41).renewed();
    bench.listed(Some(table(8, ["uid-me", "uid-me", "uid-other", "uid-other"])));

    assert_eq!(bench.sent(TABLE), Request::List, "nothing is freed");
}

#[test]
fn ownership_ends_at_the_renew_deadline_counted_from_sending() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.at(5);
    bench.now = bench.start + Duration::from_secs(9);
    bench.renewed();

    assert_eq!(bench.at(24).owned().len(), 4);
    bench.at(25);
    assert_eq!(bench.effects, [Effect::Revoked(vec![0, 1, 2, 3])]);
}

#[test]
fn a_renewal_whose_answer_was_lost_counts_from_when_it_was_sent() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    let Request::Renew { number, .. } = bench.at(5).sent(MEMBERSHIP) else {
        panic!("expected a renewal");
    };
    bench.now = bench.start + Duration::from_secs(9);
    bench.response(MEMBERSHIP, Response::Unknown);
    bench.at(14).sent(MEMBERSHIP);
    bench.response(MEMBERSHIP, Response::Conflict);
    assert_eq!(bench.sent(MEMBERSHIP), Request::LookAtSelf);
    let mut seen = member("me", "uid-me", 2);
    seen.renewals = number;
    bench.response(MEMBERSHIP, Response::Member(seen));

    assert_eq!(bench.at(24).owned().len(), 4);
    assert_eq!(bench.at(25).owned().len(), 0);
}

#[test]
fn a_change_by_another_hand_is_no_renewal() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.at(5).sent(MEMBERSHIP);
    bench.response(MEMBERSHIP, Response::Unknown);
    bench.at(10).sent(MEMBERSHIP);
    bench.response(MEMBERSHIP, Response::Conflict).sent(MEMBERSHIP);
    bench.response(MEMBERSHIP, Response::Member(member("me", "uid-me", 2)));

    assert_eq!(bench.at(19).owned().len(), 4);
    assert_eq!(bench.at(20).owned().len(), 0);
}

#[test]
fn a_member_is_evicted_only_in_the_version_that_was_watched_for_its_lease_duration() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-other", "uid-other"]);
    bench.others = vec![member("other", "uid-other", 5)];
    for seconds in [5, 10, 15, 20, 25, 30] {
        bench.at(seconds).renewed();
        bench.listed(Some(table(1, ["uid-me", "uid-me", "uid-other", "uid-other"])));
    }
    bench.at(35).renewed();
    bench.listed(Some(table(1, ["uid-me", "uid-me", "uid-other", "uid-other"])));

    let Request::Evict { uid, version, .. } = bench.sent(TABLE) else {
        panic!("expected an eviction");
    };
    assert_eq!((uid.as_str(), version.as_str()), ("uid-other", "5"));
    bench.response(TABLE, Response::Deleted);
    assert_eq!(bench.writes(), ["uid-me"; 4], "freed and claimed in one write");
}

#[test]
fn a_member_that_turns_out_to_live_is_let_be() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-other", "uid-other"]);
    bench.others = vec![member("other", "uid-other", 5)];
    bench.at(5).renewed();
    bench.listed(Some(table(1, ["uid-me", "uid-me", "uid-other", "uid-other"])));
    bench.at(10).renewed();
    bench.at(15).renewed();
    bench
        .at(36)
        .listed(Some(table(1, ["uid-me", "uid-me", "uid-other", "uid-other"])));
    assert!(matches!(bench.sent(TABLE), Request::Evict { .. }));
    bench.response(TABLE, Response::Conflict);
    bench.others = vec![member("other", "uid-other", 6)];
    bench.listed(Some(table(1, ["uid-me", "uid-me", "uid-other", "uid-other"])));

    let about_table = bench.requests.iter().filter(|(lane, _)| *lane == TABLE);
    assert_eq!(about_table.count(), 0, "{:?}", bench.requests);
}

/// A Lease deleted by hand: its member continues until it notices, so its slots stay blocked.
#[test]
fn slots_of_a_member_without_a_lease_wait_for_a_lease_duration() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-gone", "uid-gone"]);
    bench.at(5).renewed();
    bench.listed(Some(table(1, ["uid-me", "uid-me", "uid-gone", "uid-gone"])));
    assert!(bench.requests.is_empty(), "{:?}", bench.requests);

    for seconds in [10, 15, 20, 25, 30] {
        bench.at(seconds).renewed();
        bench.listed(Some(table(1, ["uid-me", "uid-me", "uid-gone", "uid-gone"])));
    }
    assert_eq!(bench.writes(), ["uid-me"; 4]);
}

#[test]
fn a_member_whose_lease_is_gone_owns_nothing_and_joins_anew() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.at(5);
    bench.sent(MEMBERSHIP);
    bench.response(MEMBERSHIP, Response::Missing);

    assert_eq!(bench.effects, [Effect::Revoked(vec![0, 1, 2, 3])]);
    bench.at(10);
    assert_eq!(bench.sent(MEMBERSHIP), Request::Join);
}

#[test]
fn a_table_that_was_replaced_by_hand_owns_nothing() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    let mut other = table(1, ["", "", "", ""]);
    other.uid = "uid-of-another-table".to_owned();
    bench.at(5).listed(Some(other));

    assert_eq!(bench.effects, [Effect::Revoked(vec![0, 1, 2, 3])]);
}

#[test]
fn one_who_leaves_ends_its_work_then_frees_its_slots_then_deletes_its_lease() {
    let mut bench = Bench::owning(["uid-me", "uid-me", "uid-me", "uid-me"]);
    bench.listed_before_leaving();
    bench.machine.leave();
    bench.poll();
    assert_eq!(bench.effects, [Effect::Giving(vec![0, 1, 2, 3], 1)]);
    assert!(matches!(
        bench.sent(MEMBERSHIP),
        Request::Renew { leaving: true, .. }
    ));
    bench.version += 1;
    bench.response(
        MEMBERSHIP,
        Response::Member(member("me", "uid-me", bench.version)),
    );
    bench.listed(Some(table(1, ["uid-me"; 4])));
    assert!(bench.requests.is_empty(), "work still runs: {:?}", bench.requests);

    for slot in 0..4 {
        bench.machine.drained(slot, 1);
    }
    bench.poll();
    assert_eq!(bench.writes(), [""; 4]);
    bench.response(
        TABLE,
        Response::TableWritten {
            uid: "uid-of-table".to_owned(),
            version: "table-2".to_owned(),
        },
    );
    assert!(matches!(bench.sent(MEMBERSHIP), Request::Leave { .. }));
    bench.response(MEMBERSHIP, Response::Deleted);
    assert_eq!(bench.machine.poll(bench.now, 0.5).wake, None);
}

impl Bench {
    /// Lets the lanes come to rest.
    fn listed_before_leaving(&mut self) {
        self.at(5).renewed();
        self.listed(Some(table(1, ["uid-me"; 4])));
    }
}
