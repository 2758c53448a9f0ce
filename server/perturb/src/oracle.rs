//! Judges a run: what must hold at its end, and what differs from the reference run.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::end_state::Difference;
use crate::finding::{Finding, FindingKind};
use crate::plan::{PerturbationPlan, Point};
use crate::record::Write;
use crate::run::{Ended, Outcome, Setup};

/// No-op writes in the last settle time that are no loop, beyond those of the reference run.
const NO_OP_WRITES: usize = 100;

/// The findings of a run; `reference` is `None` for the reference run itself.
pub(crate) fn judge(
    setup: &Setup,
    plan: &PerturbationPlan,
    run: &Outcome,
    reference: Option<&Outcome>,
) -> Vec<Finding> {
    let mut judge = Judge {
        setup,
        plan,
        run,
        reference,
        findings: Vec::new(),
    };
    judge.ends();
    for panic in &run.panics {
        judge.add(FindingKind::Panic, panic, vec![format!("it panicked: {panic}")]);
    }
    if !matches!(run.ended, Ended::Blocked | Ended::StepFailed(..)) {
        judge.finalizers();
        judge.failures();
        judge.no_op_writes();
        judge.objects();
    }
    for check in &run.failed_checks {
        judge.add(
            FindingKind::CheckFailed,
            check,
            vec![format!("a check failed: {check}")],
        );
    }
    judge.findings
}

struct Judge<'a> {
    setup: &'a Setup,
    plan: &'a PerturbationPlan,
    run: &'a Outcome,
    reference: Option<&'a Outcome>,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn add(&mut self, kind: FindingKind, subject: &str, observed: Vec<String>) {
        let mut story = Vec::new();
        story.extend(self.perturbation());
        story.extend(self.reaction());
        story.extend(observed);
        self.findings.push(Finding::new(kind, subject, self.plan, story));
    }

    /// How the run ended.
    fn ends(&mut self) {
        let minutes = self.setup.time_limit.as_secs() / 60;
        match &self.run.ended {
            Ended::Settled => {}
            Ended::NeverSettled => {
                let mut lines = vec![format!(
                    "it was still writing after {minutes} minutes of virtual time; its last writes:"
                )];
                lines.extend(last_writes(&self.run.record.writes, 4));
                let subject = self.run.record.writes.last().map_or("", |write| &write.signature);
                self.add(FindingKind::NeverSettles, subject, lines);
            }
            Ended::TooManyRequests => {
                let mut lines = vec![format!(
                    "it sent {} requests without end; its last writes:",
                    self.run.record.requests
                )];
                lines.extend(last_writes(&self.run.record.writes, 4));
                self.add(FindingKind::NeverSettles, "requests without end", lines);
            }
            Ended::ControllerExited(error) => {
                let line = match error {
                    Some(error) => format!("it exits again and again, the last time with: {error}"),
                    None => "it returned before the end of the run".to_owned(),
                };
                self.add(FindingKind::ControllerExited, "", vec![line]);
            }
            Ended::StepFailed(step, error) => {
                let line = format!("the step {step:?} of the scenario could not be performed: {error}");
                self.add(FindingKind::StepFailed, step, vec![line]);
            }
            Ended::Panicked => {
                if self.run.panics.is_empty() {
                    self.add(FindingKind::Panic, "", vec!["it panicked".to_owned()]);
                }
            }
            Ended::Blocked => {
                let seconds = self.setup.real_time_limit.as_secs();
                let line = format!(
                    "the run did not end within {seconds} s of real time: the controller blocks its thread, or loops without \
                     waiting"
                );
                self.add(FindingKind::Blocked, "", vec![line]);
            }
        }
    }

    fn finalizers(&mut self) {
        for (identity, finalizers) in self.run.state.terminating() {
            let also = self
                .reference
                .is_some_and(|reference| reference.state.terminating().any(|(other, _)| other == identity));
            if !also {
                let line = format!(
                    "{identity} is still being deleted; it waits for {}",
                    finalizers.join(", ")
                );
                self.add(FindingKind::StuckFinalizer, identity, vec![line]);
            }
        }
        for identity in self.run.state.ownerless() {
            let also = self
                .reference
                .is_some_and(|reference| reference.state.ownerless().any(|other| other == identity));
            if !also {
                let line = format!("{identity} still exists, but all its owners are gone");
                self.add(FindingKind::LeakedObject, identity, vec![line]);
            }
        }
    }

    /// Requests that fail until the end.
    fn failures(&mut self) {
        let failing = lasting_failures(self.run, self.setup.settle_time);
        let known = self
            .reference
            .map(|reference| lasting_failures(reference, self.setup.settle_time))
            .unwrap_or_default();
        for ((request, status), count) in failing {
            if count < 2 || known.contains_key(&(request, status)) {
                continue;
            }
            let line = format!(
                "it keeps failing: {request} was answered with {status} {count} times in the last {} s",
                self.setup.settle_time.as_secs()
            );
            self.add(
                FindingKind::KeepsFailing,
                &format!("{request} {status}"),
                vec![line],
            );
        }
    }

    /// Writes without effect that do not stop.
    fn no_op_writes(&mut self) {
        let count = late_writes(self.run, self.setup.settle_time);
        let usual = self
            .reference
            .map_or(0, |reference| late_writes(reference, self.setup.settle_time));
        if self.run.ended == Ended::Settled && count > usual.saturating_mul(3) + NO_OP_WRITES {
            let mut lines = vec![format!(
                "it wrote {count} times without effect in the last {} s, {usual} times in the reference run; for example:",
                self.setup.settle_time.as_secs()
            )];
            lines.extend(last_writes(&self.run.record.writes, 2));
            let subject = self.run.record.writes.last().map_or("", |write| &write.signature);
            self.add(FindingKind::WriteLoop, subject, lines);
        }
    }

    fn objects(&mut self) {
        let Some(reference) = self.reference else { return };
        if matches!(self.run.ended, Ended::Panicked | Ended::TooManyRequests) {
            // The state in the middle of a run says nothing more.
            return;
        }
        for difference in self.run.state.differences(&reference.state) {
            match difference {
                Difference::Surplus {
                    identity,
                    count,
                    reference,
                } => {
                    let waits = self.run.state.terminating().any(|(other, _)| other == identity);
                    let ownerless = self.run.state.ownerless().any(|other| other == identity);
                    if waits || ownerless {
                        // Reported as such.
                        continue;
                    }
                    let line = match reference {
                        0 => format!("{identity} exists at the end, but not at the end of the reference run"),
                        _ => {
                            format!("{identity} exists {count} times, in the reference run {reference} times")
                        }
                    };
                    self.add(FindingKind::LeakedObject, &identity, vec![line]);
                }
                Difference::Missing {
                    identity,
                    count,
                    reference,
                } => {
                    let line = match count {
                        0 => format!("{identity} is missing at the end"),
                        _ => {
                            format!("{identity} exists {count} times, in the reference run {reference} times")
                        }
                    };
                    self.add(FindingKind::MissingObject, &identity, vec![line]);
                }
                Difference::Changed { identity, fields } => {
                    let mut lines = vec![format!("{identity} differs:")];
                    let more = fields.len().saturating_sub(5);
                    lines.extend(fields.into_iter().take(5).map(|field| format!("  {field}")));
                    if more > 0 {
                        lines.push(format!("  and {more} more fields"));
                    }
                    self.add(FindingKind::DifferentObject, &identity, lines);
                }
            }
        }
    }

    /// What the plan did to the controller.
    fn perturbation(&self) -> Option<String> {
        let step = |step: &usize| {
            let name = self
                .setup
                .scenario
                .steps
                .get(*step)
                .map(|step| step.name.as_str());
            format!("step {} ({})", step + 1, name.unwrap_or_default())
        };
        let point = |point: &Point| match point {
            Point::Write(id) => format!("write {} ({})", id.number, id.signature),
            Point::Step(number) => step(number),
        };
        Some(match self.plan {
            PerturbationPlan::Reference => return None,
            PerturbationPlan::CrashBefore(id) => format!(
                "the controller crashed just before write {} ({}), which was never sent, and was restarted",
                id.number, id.signature
            ),
            PerturbationPlan::CrashAfter(id) => format!(
                "the controller crashed after write {} ({}) was applied, before it received the response, and was restarted",
                id.number, id.signature
            ),
            PerturbationPlan::LostResponse(id) => format!(
                "write {} ({}) was applied, but the connection broke before the response",
                id.number, id.signature
            ),
            PerturbationPlan::StaleRestart { at, view } => {
                let when = match at {
                    Point::Write(_) => "after",
                    Point::Step(_) => "when it had finished",
                };
                format!(
                    "the controller crashed {when} {}, and was restarted against a server that lags: cached reads and watches \
                     showed the cluster as it was before {}, for 30 s",
                    point(at),
                    point(view)
                )
            }
            PerturbationPlan::Lag(at) => format!(
                "for 30 s from {} on, watches delivered nothing and cached reads stayed as they were before it",
                point(at)
            ),
            PerturbationPlan::Skip(at) => format!(
                "for 30 s from {} on, watches delivered nothing; then they expired, and only the latest state was observed",
                point(at)
            ),
            PerturbationPlan::Down { first, last } if first == last => {
                format!("the controller was down during {}", step(first))
            }
            PerturbationPlan::Down { first, last } => {
                format!(
                    "the controller was down during {} and {}",
                    step(first),
                    step(last)
                )
            }
        })
    }

    /// What the controller wrote after the perturbation.
    fn reaction(&self) -> Vec<String> {
        if *self.plan == PerturbationPlan::Reference {
            return Vec::new();
        }
        let after: Vec<&Write> = self
            .run
            .record
            .writes
            .iter()
            .filter(|write| write.perturbed)
            .collect();
        if after.is_empty() {
            return vec!["after that it wrote nothing".to_owned()];
        }
        let mut lines = vec!["after that it wrote:".to_owned()];
        lines.extend(after.iter().take(6).map(|write| line_of(write)));
        if after.len() > 6 {
            lines.push(format!("  and {} more", after.len() - 6));
        }
        lines
    }
}

fn last_writes(writes: &[Write], count: usize) -> Vec<String> {
    let skipped = writes.len().saturating_sub(count);
    writes.iter().skip(skipped).map(line_of).collect()
}

pub(crate) fn line_of(write: &Write) -> String {
    let status = match write.status {
        Some(status) if write.is_effective() => status.to_string(),
        Some(status) if status < 400 => format!("{status}, without effect"),
        Some(status) => status.to_string(),
        None => "no response".to_owned(),
    };
    let seconds = write.at.as_secs_f64();
    format!("  {seconds:8.1} s  {} -> {status}", write.signature)
}

/// Requests that failed within the last time of a run, with their number.
fn lasting_failures(run: &Outcome, time: Duration) -> BTreeMap<(&str, u16), usize> {
    let since = run.record.ended_at.saturating_sub(time);
    let mut counts = BTreeMap::new();
    for failure in run.record.failures.iter().filter(|failure| failure.at >= since) {
        *counts
            .entry((failure.request.as_str(), failure.status))
            .or_default() += 1;
    }
    counts
}

fn late_writes(run: &Outcome, time: Duration) -> usize {
    let since = run.record.ended_at.saturating_sub(time);
    let late = |write: &&Write| write.at >= since && !write.is_effective();
    run.record.writes.iter().filter(late).count()
}
