//! Which perturbation takes place, and when. Plans are derived from the reference run and are plain data.

use std::collections::BTreeSet;
use std::fmt;

use crate::record::Record;

/// A write of the reference run. In a perturbed run it is recognised by what it does, because its number may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteId {
    /// From 1, as in reports.
    pub(crate) number: usize,
    pub(crate) signature: String,
    /// Of the writes with the same signature, from 0.
    pub(crate) occurrence: usize,
}

/// A moment of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Write(WriteId),
    /// A step of the scenario, from 0.
    Step(usize),
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Point::Write(write) => write!(f, "write-{}", write.number),
            Point::Step(step) => write!(f, "step-{}", step + 1),
        }
    }
}

/// One perturbation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PerturbationPlan {
    /// Nothing is perturbed.
    Reference,
    /// The controller crashes when it sends a write, which is lost.
    CrashBefore(WriteId),
    /// The controller crashes when a write was applied, and never receives the response.
    CrashAfter(WriteId),
    /// A write is applied, but the connection breaks before the response.
    LostResponse(WriteId),
    /// The controller crashes after a write, or at the end of a step, and is restarted against a server that lags.
    StaleRestart { at: Point, view: Point },
    /// From just before a write or step, reads from caches and watches see nothing new for a while.
    Lag(Point),
    /// Like a lag, but what happened meanwhile was compacted: watches expire, and only the result is observed.
    Skip(Point),
    /// The controller is not running while steps take place.
    Down { first: usize, last: usize },
}

/// The replay name of a plan.
impl fmt::Display for PerturbationPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PerturbationPlan::Reference => f.write_str("reference"),
            PerturbationPlan::CrashBefore(write) => write!(f, "crash-before-write-{}", write.number),
            PerturbationPlan::CrashAfter(write) => write!(f, "crash-after-write-{}", write.number),
            PerturbationPlan::LostResponse(write) => write!(f, "lost-response-write-{}", write.number),
            PerturbationPlan::StaleRestart { at, view } => write!(f, "stale-restart-{at}-view-{view}"),
            PerturbationPlan::Lag(at) => write!(f, "lag-{at}"),
            PerturbationPlan::Skip(at) => write!(f, "skip-{at}"),
            PerturbationPlan::Down { first, last } if first == last => write!(f, "down-step-{}", first + 1),
            PerturbationPlan::Down { first, last } => write!(f, "down-steps-{}-{}", first + 1, last + 1),
        }
    }
}

/// The enabled perturbations.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Kinds {
    pub(crate) crashes: bool,
    pub(crate) lost_responses: bool,
    pub(crate) stale_views: bool,
    pub(crate) skipped_states: bool,
}

impl Kinds {
    pub(crate) fn is_none(self) -> bool {
        !(self.crashes || self.lost_responses || self.stale_views || self.skipped_states)
    }
}

/// All plans for a reference run, grouped by kind.
pub(crate) fn derive(kinds: Kinds, reference: &Record) -> Vec<Vec<PerturbationPlan>> {
    let mut groups = Vec::new();
    let writes: Vec<(WriteId, usize)> = reference
        .effective_writes()
        .enumerate()
        .map(|(index, write)| (write.id(index + 1), write.step))
        .collect();
    let ids = || writes.iter().map(|(id, _)| id.clone());
    let steps = reference.steps.len();
    if kinds.crashes {
        groups.push(ids().map(PerturbationPlan::CrashBefore).collect());
        groups.push(ids().map(PerturbationPlan::CrashAfter).collect());
    }
    if kinds.lost_responses {
        groups.push(ids().map(PerturbationPlan::LostResponse).collect());
    }
    if kinds.stale_views {
        let points = (0..steps).map(Point::Step).chain(ids().map(Point::Write));
        groups.push(points.map(PerturbationPlan::Lag).collect());
        groups.push(stale_restarts(&writes, steps));
    }
    if kinds.skipped_states {
        let points = (0..steps).map(Point::Step).chain(ids().map(Point::Write));
        groups.push(points.map(PerturbationPlan::Skip).collect());
        let single = (0..steps).map(|step| PerturbationPlan::Down {
            first: step,
            last: step,
        });
        let double = (1..steps).map(|step| PerturbationPlan::Down {
            first: step - 1,
            last: step,
        });
        groups.push(single.chain(double).collect());
    }
    groups
}

/// Restarts at the end of each step and after each write, with the views before the last writes and before each step.
fn stale_restarts(writes: &[(WriteId, usize)], steps: usize) -> Vec<PerturbationPlan> {
    let mut plans = Vec::new();
    let mut add = |at: &Point, last_write: usize, last_step: usize| {
        let recent = writes.get(last_write.saturating_sub(3)..last_write);
        let recent = recent.into_iter().flatten();
        let views = recent
            .map(|(id, _)| Point::Write(id.clone()))
            .chain((0..=last_step).map(Point::Step));
        plans.extend(views.map(|view| PerturbationPlan::StaleRestart { at: at.clone(), view }));
    };
    for step in 0..steps {
        let written = writes.iter().filter(|(_, of)| *of <= step).count();
        add(&Point::Step(step), written, step);
    }
    for (index, (id, step)) in writes.iter().enumerate() {
        add(&Point::Write(id.clone()), index + 1, *step);
    }
    plans
}

/// At most `budget` plans: every kind gets its share, spread evenly over the run. The same plans for the same input.
pub(crate) fn within(budget: usize, groups: Vec<Vec<PerturbationPlan>>) -> Vec<PerturbationPlan> {
    let mut remaining = budget;
    // The smallest groups first, so that what they leave over goes to the others.
    let mut order: Vec<usize> = (0..groups.len()).collect();
    order.sort_by_key(|group| groups.get(*group).map_or(0, Vec::len));
    let mut shares = vec![0; groups.len()];
    for (done, group) in order.iter().enumerate() {
        let size = groups.get(*group).map_or(0, Vec::len);
        let share = size.min(remaining / (groups.len() - done));
        if let Some(slot) = shares.get_mut(*group) {
            *slot = share;
        }
        remaining -= share;
    }
    let mut plans = Vec::new();
    for (group, share) in groups.into_iter().zip(shares) {
        let size = group.len();
        let chosen: BTreeSet<usize> = (0..share).map(|index| index * size / share.max(1)).collect();
        let kept = group.into_iter().enumerate();
        plans.extend(
            kept.filter(|(index, _)| chosen.contains(index))
                .map(|(_, plan)| plan),
        );
    }
    plans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(count: usize) -> Vec<PerturbationPlan> {
        (0..count)
            .map(|step| PerturbationPlan::Lag(Point::Step(step)))
            .collect()
    }

    #[test]
    fn budget_is_shared_among_the_kinds_and_spread_over_the_run() {
        let chosen = within(10, vec![steps(100), steps(2), steps(100)]);

        assert_eq!(chosen.len(), 10);
        let names: Vec<String> = chosen.iter().map(PerturbationPlan::to_string).collect();
        assert_eq!(
            names[..4],
            ["lag-step-1", "lag-step-26", "lag-step-51", "lag-step-76"]
        );
        assert_eq!(names[4..6], ["lag-step-1", "lag-step-2"]);
    }

    #[test]
    fn budget_above_the_number_of_plans_keeps_all() {
        assert_eq!(within(500, vec![steps(7), steps(90)]).len(), 97);
    }
}
