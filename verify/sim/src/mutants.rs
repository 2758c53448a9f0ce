//! Planted bugs: each must be found within a number of seeds.

use kube_informers::sim::{Mutant, activate};
use kube_workqueue::sim as queue;

use crate::campaign::{campaign, threads};
use crate::generate::Profile;
use crate::workqueue;

/// How a mutant was found.
#[derive(Debug)]
pub struct Hunt {
    /// The name of the planted bug.
    pub mutant: String,
    /// The seed and the invariant that found it, if any did.
    pub found: Option<(u64, &'static str)>,
}

/// Plants one bug after the other, or the one with this name, and looks for each of them. Only one hunt can run in a process.
pub fn hunt(seeds: u64, only: Option<&str>, mut report: impl FnMut(&Hunt)) -> Vec<Hunt> {
    let mut hunts = Vec::new();
    for mutant in Mutant::ALL {
        if only.is_some_and(|only| only != format!("{mutant:?}")) {
            continue;
        }
        // Bugs that only a shard can have are hunted where shards move.
        let profile = match mutant {
            Mutant::GainedRangeNotFetched | Mutant::GivenUpRangeStays | Mutant::RegainedRangeIsEarly => {
                Some(Profile::Shards)
            }
            _ => None,
        };
        activate(Some(*mutant));
        let result = campaign(0, seeds, profile, threads());
        activate(None);
        let found = result
            .found
            .map(|found| (found.seed, found.failure.violation.invariant));
        hunts.push(Hunt {
            mutant: format!("{mutant:?}"),
            found,
        });
        hunts.last().into_iter().for_each(&mut report);
    }
    for mutant in queue::Mutant::ALL {
        if only.is_some_and(|only| only != format!("{mutant:?}")) {
            continue;
        }
        queue::activate(Some(*mutant));
        let mut runs = (0..seeds).map(|seed| (seed, workqueue::run(seed).1));
        let found =
            runs.find_map(|(seed, failure)| failure.map(|(_, violation)| (seed, violation.invariant)));
        queue::activate(None);
        hunts.push(Hunt {
            mutant: format!("{mutant:?} (work queue)"),
            found,
        });
        hunts.last().into_iter().for_each(&mut report);
    }
    hunts
}
