//! From a seed to a tape: swarm profiles with small constants.

mod leases;

use fastrand::Rng;

use crate::tape::{Kind, Op, Settings, Tape};

/// A family of tapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// A random subset of all faults.
    Swarm,
    /// No faults: only writes, handlers and scheduling.
    Calm,
    /// Broken, silent and rejected connections.
    Network,
    /// Lagging replicas, compaction, restored backups.
    History,
    /// Lists in pages and watch-lists that go wrong.
    Lists,
    /// Handlers that join, leave, are slow or panic.
    Handlers,
    /// Shards that move.
    Shards,
    /// An election.
    Election,
    /// A shard group.
    Group,
}

impl Profile {
    /// All profiles of informers.
    pub const ALL: [Self; 7] = [
        Self::Swarm,
        Self::Calm,
        Self::Network,
        Self::History,
        Self::Lists,
        Self::Handlers,
        Self::Shards,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Swarm => "swarm",
            Self::Calm => "calm",
            Self::Network => "network",
            Self::History => "history",
            Self::Lists => "lists",
            Self::Handlers => "handlers",
            Self::Shards => "shards",
            Self::Election => "election",
            Self::Group => "group",
        }
    }

    /// The profile with this name.
    pub fn named(name: &str) -> Option<Self> {
        let all = Self::ALL.into_iter().chain([Self::Election, Self::Group]);
        all.into_iter().find(|profile| profile.name() == name)
    }

    /// Whether a kind of fault may occur at all.
    fn allows(self, kind: Kind, rng: &mut Rng) -> bool {
        use Kind::*;
        match self {
            Self::Swarm => rng.bool(),
            Self::Calm => false,
            Self::Network => matches!(
                kind,
                Break
                    | Close
                    | Silence
                    | Flap
                    | Refuse
                    | Hang
                    | CutAfter
                    | EndAfter
                    | Status
                    | Throttle
                    | ErrorEvent
            ),
            Self::History => matches!(
                kind,
                Freeze | Compact | Restore | Break | OldBookmark | Replay | StaleList | ErrorEvent | Poison
            ),
            Self::Lists => matches!(
                kind,
                CutAfter
                    | EndAfter
                    | NoEndMarker
                    | PagesDiffer
                    | RepeatToken
                    | ExpireToken
                    | StaleList
                    | ListStatus
                    | WatchStatus
                    | Compact
                    | Break
                    | Poison
            ),
            Self::Election | Self::Group => false,
            Self::Handlers => matches!(kind, Panic | Requeue | Poison | Break | Compact),
            Self::Shards => {
                let one = matches!(
                    kind,
                    Break | Close | Compact | Poison | Freeze | ListStatus | CutAfter | Requeue | Throttle
                );
                one && rng.bool()
            }
        }
    }
}

/// The tape of a seed: a pure function of both.
pub fn tape(seed: u64, profile: Profile) -> Tape {
    let mut rng = Rng::with_seed(seed ^ 0x5eed_0000 ^ ((profile as u64) << 40));
    if matches!(profile, Profile::Election | Profile::Group) {
        return leases::tape(profile, &mut rng);
    }
    let mut settings = settings(&mut rng);
    settings.sharding = match profile {
        Profile::Shards => rng.u32(1..3),
        // A third of the swarms has a shard.
        Profile::Swarm => rng.u32(0..6).saturating_sub(3),
        _ => 0,
    };
    let kinds = weights(profile, &settings, &mut rng);
    let total: u32 = kinds.iter().map(|(_, weight)| weight).sum();
    let steps = rng.usize(30..220);
    let mut ops = vec![op(Kind::Join, &mut rng)];
    for _ in 0..steps {
        let mut at = rng.u32(0..total.max(1));
        let kind = kinds.iter().find(|(_, weight)| {
            let found = at < *weight;
            at = at.saturating_sub(*weight);
            found
        });
        if let Some((kind, _)) = kind {
            ops.push(op(*kind, &mut rng));
        }
    }
    if rng.u32(0..5) == 0 {
        ops.push(op(Kind::Stop, &mut rng));
    }
    Tape { settings, ops }
}

fn settings(rng: &mut Rng) -> Settings {
    Settings {
        subject: 0,
        processes: 0,
        clocks: 0,
        jitter: rng.u32(0..1000),
        keys: rng.u32(1..9),
        replicas: rng.u32(1..4),
        watch_list: rng.u32(0..2),
        page: rng.u32(0..4),
        capacity: rng.u32(1..9),
        selector: u32::from(rng.u32(0..3) == 0),
        any_cached: u32::from(rng.u32(0..4) == 0),
        expired_in_band: rng.u32(0..2),
        start_after: if rng.bool() { rng.u32(0..20) } else { 0 },
        bookmark_interval: rng.u32(10..61) * 1000,
        sharding: 0,
        shard_by_namespace: u32::from(rng.u32(0..5) == 0),
        shard: pieces(rng),
    }
}

/// Some pieces of the hash space: none, all, or a range.
fn pieces(rng: &mut Rng) -> u32 {
    match rng.u32(0..8) {
        0 => 0,
        1 => 0xff,
        _ => {
            let range = (1 << rng.u32(1..8)) - 1;
            let shift = rng.u32(0..8);
            (range << shift | range >> (8 - shift)) & 0xff
        }
    }
}

/// How likely each kind is. Of the faults only some occur in one tape, so that they do not hide each other.
fn weights(profile: Profile, settings: &Settings, rng: &mut Rng) -> Vec<(Kind, u32)> {
    use Kind::*;
    let mut weights = Vec::new();
    let kinds = Kind::ALL.iter().copied();
    for kind in kinds.filter(|kind| *kind != Stop && !kind.is_of_leases()) {
        let weight = match kind {
            Create | Update => 10,
            Delete => 6,
            Recreate => 3,
            Elsewhere => 2,
            Pump => 20,
            Advance => 12,
            Process => 10,
            Pop | Apply => 6,
            Receive => 14,
            Join | Leave => 2,
            CatchUp | Route | Bookmark => 3,
            Resync => 3,
            AddIndex => 1,
            MoveShard if settings.sharding == 0 => 0,
            MoveShard if profile == Profile::Shards => 8,
            MoveShard => 3,
            fault if profile.allows(fault, rng) => 2,
            _ => 0,
        };
        weights.push((kind, weight));
    }
    weights
}

fn op(kind: Kind, rng: &mut Rng) -> Op {
    use Kind::*;
    let codes: &[u32] = match kind {
        ErrorEvent => &[410, 410, 429, 500, 504, 400],
        ListStatus => &[410, 500, 503, 404, 403, 504, 400],
        WatchStatus => &[410, 500, 503, 404, 403, 400, 422, 504],
        _ => &[500, 503, 403, 404, 502],
    };
    let (a, b) = match kind {
        ErrorEvent | ListStatus | WatchStatus | Status => (codes[rng.usize(0..codes.len())], rng.u32(1..4)),
        Throttle => (rng.u32(1..6), rng.u32(1..3)),
        Pump => (if rng.u32(0..3) == 0 { 100 } else { rng.u32(1..6) }, 0),
        Advance => {
            let scale = [50, 500, 5_000, 40_000, 200_000];
            let longest = scale[rng.usize(0..scale.len())];
            (rng.u32(1..longest), 0)
        }
        MoveShard => (pieces(rng), 0),
        Pop => (rng.u32(1..5), 0),
        Join => (rng.u32(0..4), rng.u32(0..2)),
        Receive => (rng.u32(0..8), rng.u32(1..6)),
        Compact | Restore => (rng.u32(0..8), rng.u32(0..2)),
        _ => (rng.u32(0..8), rng.u32(0..4)),
    };
    Op { kind, a, b }
}
