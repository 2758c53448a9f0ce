//! Tapes of elections and shard groups.

use fastrand::Rng;

use super::Profile;
use crate::leases::group::LONGEST_DELAY;
use crate::tape::{Kind, Op, Settings, Tape};

/// About ten minutes with faults.
const MINUTES: u32 = 10;

pub(super) fn tape(profile: Profile, rng: &mut Rng) -> Tape {
    use Kind::*;
    let is_group = profile == Profile::Group;
    let settings = Settings {
        subject: if is_group { 2 } else { 1 },
        jitter: rng.u32(0..u32::MAX),
        processes: if is_group { rng.u32(2..6) } else { rng.u32(2..5) },
        clocks: u32::from(rng.u32(0..4) > 0),
        ..Settings::default()
    };
    let faults: &[Kind] = match is_group {
        true => &[
            Pause,
            Kill,
            Retire,
            Lose,
            Delay,
            Deny,
            EditLease,
            DeleteLease,
            StaleRead,
        ],
        false => &[Pause, Kill, Retire, Lose, Delay, Deny, EditLease],
    };
    // A random subset, so that faults do not hide each other. One more `Lose`: the most common fault of a network.
    let mut kinds: Vec<Kind> = (faults.iter().copied()).filter(|_| rng.u32(0..3) > 0).collect();
    kinds.push(Lose);
    let longest = LONGEST_DELAY;
    let mut ops = Vec::new();
    let mut elapsed = 0;
    while elapsed < MINUTES * 60_000 {
        let pause = [500, 3_000, 12_000][rng.usize(0..3)];
        let (advance, process) = (rng.u32(1..pause), rng.u32(0..settings.processes));
        let kind = kinds[rng.usize(0..kinds.len())];
        let b = match kind {
            Pause | Kill => rng.u32(0..longest),
            Delay if rng.bool() => rng.u32(0..longest),
            Delay => rng.u32(0..5_000),
            Lose | Deny => rng.u32(1..5),
            StaleRead => rng.u32(1..20),
            _ => 0,
        };
        let op = |kind, a, b| Op { kind, a, b };
        ops.extend([op(Advance, advance, 0), op(kind, process, b)]);
        elapsed += advance;
    }
    Tape { settings, ops }
}
