//! Which faults occurred in which states of the reflector, compared with what was reached before.

use std::collections::BTreeSet;

use crate::campaign::Coverage;
use crate::tape::Kind;
use crate::world::ReflectorPhase;

/// A pair of state and fault, as in the baseline: `Watching break`.
fn name(state: ReflectorPhase, fault: Kind) -> String {
    format!("{state:?} {}", fault.name())
}

/// The pairs that can be reached: a tape can inject every fault in every state.
fn reachable() -> impl Iterator<Item = (ReflectorPhase, Kind)> {
    let faults = Kind::ALL.iter().copied().filter(|kind| kind.is_fault());
    faults.flat_map(|fault| ReflectorPhase::ALL.into_iter().map(move |state| (state, fault)))
}

/// The baseline of a campaign: one pair per line, sorted.
pub fn baseline(coverage: &Coverage) -> String {
    let names: BTreeSet<String> = coverage
        .keys()
        .map(|(state, fault)| name(*state, *fault))
        .collect();
    names.into_iter().map(|name| name + "\n").collect()
}

/// The pairs of a baseline that a campaign did not reach.
pub fn lost(coverage: &Coverage, baseline: &str) -> Vec<String> {
    let reached: BTreeSet<String> = coverage
        .keys()
        .map(|(state, fault)| name(*state, *fault))
        .collect();
    let lines = baseline.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .filter(|line| !reached.contains(*line))
        .map(str::to_owned)
        .collect()
}

/// A table with a row per fault and a column per state: how many schedules reached each pair.
pub fn table(coverage: &Coverage) -> String {
    let mut text = format!("{:<16}", "fault");
    for state in ReflectorPhase::ALL {
        text.push_str(&format!("{:>16}", format!("{state:?}")));
    }
    text.push('\n');
    for fault in Kind::ALL.iter().filter(|kind| kind.is_fault()) {
        text.push_str(&format!("{:<16}", fault.name()));
        for state in ReflectorPhase::ALL {
            let count = coverage.get(&(state, *fault)).copied().unwrap_or(0);
            text.push_str(&format!("{count:>16}"));
        }
        text.push('\n');
    }
    let all = reachable().count();
    let reached = reachable().filter(|pair| coverage.contains_key(pair)).count();
    let share = 100.0 * reached as f64 / all as f64;
    text.push_str(&format!("{reached} of {all} pairs reached: {share:.1} %\n"));
    text
}
