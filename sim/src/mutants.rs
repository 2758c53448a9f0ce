//! Planted bugs: each must be found within a number of seeds.

use kube_informers::sim::{Mutant, activate};

use crate::campaign::{Found, campaign, threads};

/// How a mutant was found.
#[derive(Debug)]
pub struct Hunt {
    /// The planted bug.
    pub mutant: Mutant,
    /// The first failure, if any.
    pub found: Option<Found>,
    /// The number of schedules.
    pub schedules: u64,
}

/// Plants one bug after the other and looks for each of them. Only one hunt can run in a process.
pub fn hunt(seeds: u64, mut report: impl FnMut(&Hunt)) -> Vec<Hunt> {
    let hunts = Mutant::ALL.iter().map(|mutant| {
        activate(Some(*mutant));
        let result = campaign(0, seeds, None, threads());
        activate(None);
        let hunt = Hunt {
            mutant: *mutant,
            found: result.found,
            schedules: result.schedules,
        };
        report(&hunt);
        hunt
    });
    hunts.collect()
}
