//! Findings and the report of all runs.

use std::fmt;
use std::time::Duration;

use crate::plan::PerturbationPlan;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingKind {
    /// An object exists that does not exist in the reference run, or whose owners are gone.
    LeakedObject,
    /// An object of the reference run does not exist.
    MissingObject,
    /// An object ends in another state than in the reference run.
    DifferentObject,
    /// An object in deletion keeps its finalizers.
    StuckFinalizer,
    /// The controller never stops changing objects.
    NeverSettles,
    /// The controller keeps writing without effect, more often than in the reference run.
    WriteLoop,
    /// A request fails until the end.
    KeepsFailing,
    /// The controller panicked, in any task.
    Panic,
    /// The controller blocked its thread, or never waited.
    Blocked,
    /// The controller returned, or kept exiting with an error.
    ControllerExited,
    /// A step of the scenario could not be performed.
    StepFailed,
    /// A check of the test failed.
    CheckFailed,
    /// Two runs without any perturbation ended differently.
    Unstable,
}

impl FindingKind {
    fn name(self) -> &'static str {
        match self {
            FindingKind::LeakedObject => "leaked-object",
            FindingKind::MissingObject => "missing-object",
            FindingKind::DifferentObject => "different-object",
            FindingKind::StuckFinalizer => "stuck-finalizer",
            FindingKind::NeverSettles => "never-settles",
            FindingKind::WriteLoop => "write-loop",
            FindingKind::KeepsFailing => "keeps-failing",
            FindingKind::Panic => "panic",
            FindingKind::Blocked => "blocked",
            FindingKind::ControllerExited => "controller-exited",
            FindingKind::StepFailed => "step-failed",
            FindingKind::CheckFailed => "check-failed",
            FindingKind::Unstable => "unstable",
        }
    }
}

/// One problem, and the perturbation that shows it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Finding {
    /// Identifies the problem regardless of the plan: `leaked-object configmaps shop/web-*`. See
    /// [`Perturbation::known`](crate::Perturbation::known).
    pub id: String,
    /// What is wrong.
    pub kind: FindingKind,
    /// The plan that showed it first: `crash-after-write-2`, or `reference`.
    pub plan: String,
    /// Further plans that showed it.
    pub other_plans: Vec<String>,
    /// What happened, line by line.
    pub story: Vec<String>,
}

impl Finding {
    pub(crate) fn new(
        kind: FindingKind,
        subject: &str,
        plan: &PerturbationPlan,
        story: Vec<String>,
    ) -> Finding {
        let id = format!("{} {subject}", kind.name());
        Finding {
            id: id.trim_end().to_owned(),
            kind,
            plan: plan.to_string(),
            other_plans: Vec::new(),
            story,
        }
    }
}

/// A finding that was accepted with [`Perturbation::known`](crate::Perturbation::known).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct KnownFinding {
    /// The accepted id.
    pub id: String,
    /// Why it is accepted.
    pub reason: String,
    /// The plans that showed it; none if it did not occur.
    pub plans: Vec<String>,
}

/// The result of all runs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The problems, each once.
    pub findings: Vec<Finding>,
    /// The accepted problems.
    pub known: Vec<KnownFinding>,
    /// The number of writes of the reference run that changed something.
    pub writes: usize,
    /// The number of plans that were derived from the reference run.
    pub plans_derived: usize,
    /// The number of plans that were run.
    pub plans_run: usize,
    /// The number of plans among them whose moment did not come, because the controller behaved differently from the reference
    /// run. They perturbed nothing.
    pub plans_missed: usize,
    /// The real time of all runs.
    pub duration: Duration,
    /// The name of the test, for the line that replays a plan.
    pub(crate) test: Option<String>,
    /// The writes of a single replayed plan.
    pub(crate) timeline: Vec<String>,
}

impl Report {
    /// Fails the test if there is a finding.
    ///
    /// # Panics
    ///
    /// If there is a finding; the message tells what happened, and how to replay it.
    #[track_caller]
    pub fn assert_clean(&self) {
        assert!(self.findings.is_empty(), "{self}");
    }

    fn replay(&self, finding: &Finding) -> String {
        match (&self.test, finding.plan.as_str()) {
            (_, "reference") => "it happens without any perturbation".to_owned(),
            (Some(test), plan) => format!("KUBE_PERTURB_PLAN={plan} cargo test {test} -- --exact"),
            (None, plan) => format!("KUBE_PERTURB_PLAN={plan}, or .only({plan:?})"),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} plans from {} writes in {:.1} s: ",
            self.plans_run,
            self.plans_derived,
            self.writes,
            self.duration.as_secs_f64()
        )?;
        match self.findings.len() {
            0 => write!(f, "no findings")?,
            1 => write!(f, "1 finding")?,
            count => write!(f, "{count} findings")?,
        }
        if self.plans_missed > 0 {
            write!(
                f,
                "; the moment of {} plans did not come, because the controller does not always write the same",
                self.plans_missed
            )?;
        }
        for (index, finding) in self.findings.iter().enumerate() {
            write!(f, "\n\n{}. {}", index + 1, finding.id)?;
            for line in &finding.story {
                write!(f, "\n   {line}")?;
            }
            write!(f, "\n   replay: {}", self.replay(finding))?;
            if let Some((first, rest)) = finding.other_plans.split_first() {
                write!(f, "\n   also found by {first}")?;
                if !rest.is_empty() {
                    write!(f, " and {} other plans", rest.len())?;
                }
            }
        }
        for known in &self.known {
            match known.plans.len() {
                0 => write!(f, "\nknown, but not found: {} ({})", known.id, known.reason)?,
                count => write!(f, "\nknown: {} ({}), by {count} plans", known.id, known.reason)?,
            }
        }
        if !self.timeline.is_empty() {
            write!(f, "\n\nall writes of the plan:")?;
            for line in &self.timeline {
                write!(f, "\n{line}")?;
            }
        }
        Ok(())
    }
}
