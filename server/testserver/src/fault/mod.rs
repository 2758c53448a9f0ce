//! Fault injection: which requests fail, when, and how often.
//! Returns the effects for each request; other modules carry them out.

mod effect;
mod list;
mod matcher;
mod poison;
mod shape;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

pub(crate) use effect::Answer;
pub use effect::Fault;
pub(crate) use list::ListFault;
pub use matcher::RequestMatcher;
pub use poison::Poison;
pub(crate) use poison::Poisons;
pub(crate) use shape::{Shaper, broken};
pub use watch::Which;
pub(crate) use watch::{BookmarkForm, Edit, WatchFault};

use crate::journal::SeenRequest;

/// The active faults.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Mutex<Vec<Rule>>,
    any: AtomicBool,
    rng: Mutex<fastrand::Rng>,
}

#[derive(Debug)]
struct Rule {
    on: RequestMatcher,
    fault: Fault,
    tally: Arc<Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    seen: AtomicU64,
    struck: AtomicU64,
    cleared: AtomicBool,
}

/// The handle of an active fault: counts its uses and clears it. Dropping the handle keeps the fault active.
#[derive(Clone, Debug)]
pub struct FaultHandle {
    tally: Arc<Tally>,
}

impl FaultHandle {
    /// The number of requests the fault was applied to.
    pub fn struck(&self) -> u64 {
        self.tally.struck.load(Ordering::Acquire)
    }

    /// The number of requests that matched, whether or not the fault was applied.
    pub fn matched(&self) -> u64 {
        self.tally.seen.load(Ordering::Acquire)
    }

    /// Clears the fault. Responses in flight keep it.
    pub fn clear(&self) {
        self.tally.cleared.store(true, Ordering::Release);
    }
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Faults {
        Faults {
            rules: Mutex::new(Vec::new()),
            any: AtomicBool::new(false),
            rng: Mutex::new(fastrand::Rng::with_seed(seed)),
        }
    }

    pub(crate) fn add(&self, on: RequestMatcher, fault: Fault) -> FaultHandle {
        let tally = Arc::new(Tally::default());
        self.rules.lock().push(Rule {
            on,
            fault,
            tally: tally.clone(),
        });
        self.any.store(true, Ordering::Release);
        FaultHandle { tally }
    }

    pub(crate) fn clear(&self) {
        self.rules.lock().clear();
        self.any.store(false, Ordering::Release);
    }

    /// A random number in 0..1 for edits with a probability.
    pub(crate) fn draw(&self) -> f64 {
        self.rng.lock().f64()
    }

    /// All faults that apply to this request, combined. Rules are checked in the order they were added.
    pub(crate) fn strike(&self, request: &SeenRequest) -> Option<Fault> {
        if !self.any.load(Ordering::Acquire) {
            return None;
        }
        let mut joined: Option<Fault> = None;
        let mut rules = self.rules.lock();
        rules.retain(|rule| !rule.tally.cleared.load(Ordering::Acquire));
        for rule in rules.iter().filter(|rule| rule.on.matches(request)) {
            let seen = rule.tally.seen.fetch_add(1, Ordering::AcqRel);
            let struck = rule.tally.struck.load(Ordering::Acquire);
            if rule.on.strikes(seen, struck, || self.draw()) {
                rule.tally.struck.fetch_add(1, Ordering::AcqRel);
                let fault = rule.fault.clone();
                joined = Some(match joined {
                    Some(earlier) => earlier.and(fault),
                    None => fault,
                });
            }
        }
        rules.retain(|rule| !rule.on.is_spent(rule.tally.struck.load(Ordering::Acquire)));
        self.any.store(!rules.is_empty(), Ordering::Release);
        joined
    }
}
