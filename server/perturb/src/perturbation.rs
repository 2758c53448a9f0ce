//! The settings of a perturbation test, and its runs.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, End};
use crate::finding::{Finding, FindingKind, KnownFinding, Report};
use crate::gate::RequestLimits;
use crate::oracle;
use crate::plan::{self, Kinds, PerturbationPlan};
use crate::run::{self, Ended, Outcome, Setup};
use crate::scenario::Scenario;

/// The result of a controller or a check: nothing, or an error that can be displayed.
pub trait Verdict {
    /// The error as text.
    #[doc(hidden)]
    fn into_result(self) -> Result<(), String>;
}

impl Verdict for () {
    fn into_result(self) -> Result<(), String> {
        Ok(())
    }
}

impl<E: fmt::Display> Verdict for Result<(), E> {
    fn into_result(self) -> Result<(), String> {
        self.map_err(|error| error.to_string())
    }
}

/// Tests a controller: runs the scenario once as the reference, then again with one perturbation per run.
///
/// `controller` starts the controller and returns when it ends, which it should not. It is called again after each crash, and must
/// take its clients from the [`Cluster`]. A controller that returns an error is restarted, as a kubelet does.
///
/// See the [crate documentation](crate) for an example.
pub fn perturb<F, Fut>(scenario: Scenario, controller: F) -> Perturbation
where
    F: Fn(Cluster) -> Fut + Send + Sync + 'static,
    Fut: Future + 'static,
    Fut::Output: Verdict,
{
    Perturbation {
        setup: Setup {
            scenario,
            controller: Arc::new(move |cluster| {
                let running = controller(cluster);
                Box::pin(async move { running.await.into_result() })
            }),
            checks: Vec::new(),
            ignored_resources: vec![
                "events".to_owned(),
                "events.events.k8s.io".to_owned(),
                "leases.coordination.k8s.io".to_owned(),
            ],
            ignored_fields: Vec::new(),
            settle_time: Duration::from_secs(300),
            time_limit: Duration::from_secs(3600),
            real_time_limit: Duration::from_secs(60),
        },
        kinds: Kinds::default(),
        budget: 300,
        only: std::env::var("KUBE_PERTURB_PLAN").ok(),
        known: Vec::new(),
    }
}

/// A perturbation test. Choose the perturbations, then [`check`](Self::check) or [`run`](Self::run).
#[derive(Clone)]
#[must_use = "nothing runs before `check` or `run`"]
pub struct Perturbation {
    setup: Setup,
    kinds: Kinds,
    budget: usize,
    only: Option<String>,
    known: Vec<(String, String)>,
}

impl fmt::Debug for Perturbation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Perturbation")
            .field("scenario", &self.setup.scenario)
            .field("kinds", &self.kinds)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

/// The perturbations. Without any of them, all are enabled.
impl Perturbation {
    /// Crashes the controller before and after each write of the reference run, and restarts it.
    pub fn crash_between_writes(mut self) -> Self {
        self.kinds.crashes = true;
        self
    }

    /// Breaks the connection after each write of the reference run was applied, so that the controller cannot know that it was.
    pub fn lost_responses(mut self) -> Self {
        self.kinds.lost_responses = true;
        self
    }

    /// Lets the view of the controller lag: from each write and step on, and after a restart against a server that shows an
    /// earlier state. Only watches and reads from the server's cache (`resourceVersion=0`) are stale, as in a cluster.
    pub fn stale_views(mut self) -> Self {
        self.kinds.stale_views = true;
        self
    }

    /// Hides states from the controller: its watches expire and it only observes the result, or it is down during a step.
    pub fn skipped_states(mut self) -> Self {
        self.kinds.skipped_states = true;
        self
    }
}

/// Settings.
impl Perturbation {
    /// The largest number of plans to run; 300 by default. If there are more, every kind of perturbation gets its share, spread
    /// evenly over the run. The choice does not depend on chance.
    pub fn budget(mut self, plans: usize) -> Self {
        self.budget = plans;
        self
    }

    /// Runs a single plan, named as in a report. The environment variable `KUBE_PERTURB_PLAN` does the same.
    pub fn only(mut self, plan: impl Into<String>) -> Self {
        self.only = Some(plan.into());
        self
    }

    /// Accepts a finding, by its id in a report, for a reason. It no longer fails the test, but is still reported.
    pub fn known(mut self, id: impl Into<String>, reason: impl Into<String>) -> Self {
        self.known.push((id.into(), reason.into()));
        self
    }

    /// Ignores a field when objects are compared: `status.restarts`. The items of a list have the path of the list. Uids, versions,
    /// times and generated names are ignored anyway.
    pub fn ignore_field(mut self, path: impl Into<String>) -> Self {
        self.setup.ignored_fields.push(path.into());
        self
    }

    /// Ignores the objects of a resource, such as `jobs.batch`. Events and Leases are ignored anyway.
    pub fn ignore_resource(mut self, resource: impl Into<String>) -> Self {
        self.setup.ignored_resources.push(resource.into());
        self
    }

    /// The virtual time without a write after which a run has settled; 5 minutes by default. It must be longer than the longest
    /// time after which the controller tries again.
    pub fn settle_time(mut self, time: Duration) -> Self {
        self.setup.settle_time = time;
        self
    }

    /// The virtual time within which the cluster must settle after a step; an hour by default.
    pub fn time_limit(mut self, time: Duration) -> Self {
        self.setup.time_limit = time;
        self
    }

    /// The real time within which a run must end, so that a controller that blocks its thread is found; 60 s by default.
    pub fn real_time_limit(mut self, time: Duration) -> Self {
        self.setup.real_time_limit = time;
        self
    }

    /// Adds a check of the end of each run, the reference run included. It fails by an error or by a panic, so assertions work.
    pub fn also_check<V: Verdict>(mut self, check: impl Fn(&End<'_>) -> V + Send + Sync + 'static) -> Self {
        self.setup
            .checks
            .push(Arc::new(move |end| check(end).into_result()));
        self
    }
}

/// Runs.
impl Perturbation {
    /// Runs all plans with a check of the end of each run, and fails the test if there is a finding.
    ///
    /// # Panics
    ///
    /// If there is a finding; the message tells what happened, and how to replay it.
    #[track_caller]
    pub fn check<V: Verdict>(self, check: impl Fn(&End<'_>) -> V + Send + Sync + 'static) -> Report {
        let report = self.also_check(check).run();
        report.assert_clean();
        report
    }

    /// Runs all plans.
    #[allow(
        clippy::disallowed_methods,
        reason = "the report tells the real time of the runs"
    )]
    pub fn run(self) -> Report {
        let started = Instant::now();
        let thread = std::thread::current();
        let mut report = Report {
            findings: Vec::new(),
            known: self
                .known
                .iter()
                .map(|(id, reason)| KnownFinding {
                    id: id.clone(),
                    reason: reason.clone(),
                    plans: Vec::new(),
                })
                .collect(),
            writes: 0,
            plans_derived: 0,
            plans_run: 0,
            plans_missed: 0,
            duration: Duration::ZERO,
            test: thread.name().filter(|name| *name != "main").map(str::to_owned),
            timeline: Vec::new(),
        };
        let reference = run::run(
            &self.setup,
            &PerturbationPlan::Reference,
            RequestLimits::REFERENCE,
        );
        for finding in oracle::judge(&self.setup, &PerturbationPlan::Reference, &reference, None) {
            report.add(finding);
        }
        report.writes = reference.record.effective_writes().count();
        if reference.ended == Ended::Settled && report.is_stable(&self.setup, &reference) {
            self.run_plans(&reference, &mut report);
        }
        report.duration = started.elapsed();
        report
    }

    fn run_plans(&self, reference: &Outcome, report: &mut Report) {
        let kinds = if self.kinds.is_none() {
            Kinds {
                crashes: true,
                lost_responses: true,
                stale_views: true,
                skipped_states: true,
            }
        } else {
            self.kinds
        };
        let groups = plan::derive(kinds, &reference.record);
        report.plans_derived = groups.iter().map(Vec::len).sum();
        let plans = match &self.only {
            Some(only) => {
                let all = groups.into_iter().flatten();
                let chosen: Vec<PerturbationPlan> = all.filter(|plan| plan.to_string() == *only).collect();
                if chosen.is_empty() {
                    let text =
                        format!("no plan is named {only:?}: the scenario or the controller has changed");
                    report.add(Finding::new(
                        FindingKind::Unstable,
                        "",
                        &PerturbationPlan::Reference,
                        vec![text],
                    ));
                }
                chosen
            }
            None => plan::within(self.budget, groups),
        };
        let limits = RequestLimits::from_reference(&reference.record);
        for plan in &plans {
            let outcome = run::run(&self.setup, plan, limits);
            report.plans_run += 1;
            report.plans_missed += usize::from(!outcome.record.struck && outcome.ended != Ended::Blocked);
            for finding in oracle::judge(&self.setup, plan, &outcome, Some(reference)) {
                report.add(finding);
            }
            if self.only.is_some() {
                report.timeline = outcome.record.writes.iter().map(oracle::line_of).collect();
            }
        }
    }
}

impl Report {
    /// Whether a second reference run ends like the first. If not, no difference would mean anything.
    fn is_stable(&mut self, setup: &Setup, reference: &Outcome) -> bool {
        let again = run::run(setup, &PerturbationPlan::Reference, RequestLimits::REFERENCE);
        let differences = again.state.differences(&reference.state);
        if differences.is_empty() {
            return true;
        }
        let mut story = vec![
            "two runs without any perturbation end differently; ignore what changes by chance with `ignore_field` or \
             `ignore_resource`:"
                .to_owned(),
        ];
        story.extend(
            differences
                .iter()
                .take(5)
                .map(|difference| format!("  {difference}")),
        );
        self.add(Finding::new(
            FindingKind::Unstable,
            "",
            &PerturbationPlan::Reference,
            story,
        ));
        false
    }

    fn add(&mut self, finding: Finding) {
        if let Some(known) = self.known.iter_mut().find(|known| known.id == finding.id) {
            known.plans.push(finding.plan);
        } else if let Some(same) = self.findings.iter_mut().find(|same| same.id == finding.id) {
            same.other_plans.push(finding.plan);
        } else {
            self.findings.push(finding);
        }
    }
}
