//! One run of the scenario: a server, and one runtime per life of the controller.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt;
use kube_testserver::{Controllers, TestServer};
use tokio::time::{Instant, sleep};

use crate::cluster::{Cluster, End};
use crate::end_state::EndState;
use crate::gate::{Interruption, RequestLimits, RunState, STALE};
use crate::panics;
use crate::plan::{PerturbationPlan, Point};
use crate::record::{Record, StepRecord};
use crate::scenario::Scenario;

/// The controller under test.
pub(crate) type Controller =
    dyn Fn(Cluster) -> Pin<Box<dyn Future<Output = Result<(), String>>>> + Send + Sync;

/// A check of the user on the end of a run.
pub(crate) type Check = dyn Fn(&End<'_>) -> Result<(), String> + Send + Sync;

/// What all runs have in common.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) scenario: Scenario,
    pub(crate) controller: Arc<Controller>,
    pub(crate) checks: Vec<Arc<Check>>,
    pub(crate) ignored_resources: Vec<String>,
    pub(crate) ignored_fields: Vec<String>,
    /// The virtual time without a write after which a run has settled.
    pub(crate) settle_time: Duration,
    /// The virtual time within which the cluster must settle.
    pub(crate) time_limit: Duration,
    /// The real time within which a run must end.
    pub(crate) real_time_limit: Duration,
}

/// The shortest time without a write after which the next step follows.
const STEP_REST: Duration = Duration::from_secs(60);

/// The time between a crash and the restart.
const RESTART: Duration = Duration::from_secs(1);

/// A controller that exits more often is not restarted any more.
const MAX_EXITS: usize = 5;

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Settled,
    /// The controller kept writing.
    NeverSettled,
    TooManyRequests,
    /// The controller returned, with its last error.
    ControllerExited(Option<String>),
    /// A step could not be performed: its name and the error.
    StepFailed(String, String),
    /// The controller panicked outside of any task.
    Panicked,
    /// The run did not end in real time.
    Blocked,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) ended: Ended,
    pub(crate) record: Record,
    pub(crate) state: EndState,
    pub(crate) panics: Vec<String>,
    pub(crate) failed_checks: Vec<String>,
}

/// Performs a run on a thread of its own, because a controller that blocks its thread must not block the test.
pub(crate) fn run(setup: &Setup, plan: &PerturbationPlan, limits: RequestLimits) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    let (of_thread, plan) = (setup.clone(), plan.clone());
    let started = kube_informers_core::tasks::spawn_thread("perturb", move || {
        panics::capture();
        let mut outcome = Run::new(&of_thread, plan, limits).perform();
        outcome.panics = panics::release();
        // Nobody waits for a run that was too slow.
        let _ = sender.send(outcome);
    });
    let blocked = || Outcome {
        ended: Ended::Blocked,
        record: Record::default(),
        state: EndState::default(),
        panics: Vec::new(),
        failed_checks: Vec::new(),
    };
    match started {
        Ok(()) => receiver
            .recv_timeout(setup.real_time_limit)
            .unwrap_or_else(|_| blocked()),
        Err(_) => blocked(),
    }
}

/// A run in progress. It outlives the controller's runtimes.
struct Run<'a> {
    setup: &'a Setup,
    plan: PerturbationPlan,
    limits: RequestLimits,
    shared: Option<Arc<RunState>>,
    /// The next step, and whether it was performed already.
    step: usize,
    performed: bool,
    exits: usize,
    /// The virtual time at the end of the last runtime: time never goes back.
    clock: Option<Instant>,
}

/// The end of one life of the controller.
enum Life {
    Over(Ended),
    Crashed,
    /// The controller returned with this error.
    Exited(String),
    /// The controller is stopped, and these steps take place without it.
    Down(usize, usize),
}

impl<'a> Run<'a> {
    fn new(setup: &'a Setup, plan: PerturbationPlan, limits: RequestLimits) -> Run<'a> {
        Run {
            setup,
            plan,
            limits,
            shared: None,
            step: 0,
            performed: false,
            exits: 0,
            clock: None,
        }
    }

    fn perform(mut self) -> Outcome {
        let mut ended = loop {
            match self.in_runtime(async |run: &mut Self| run.live().await) {
                None => break Ended::Panicked,
                Some(Life::Over(ended)) => break ended,
                Some(Life::Crashed) => {}
                Some(Life::Exited(_)) if self.exits < MAX_EXITS => self.exits += 1,
                Some(Life::Exited(error)) => break Ended::ControllerExited(Some(error)),
                Some(Life::Down(first, last)) => {
                    let steps =
                        self.in_runtime(async |run: &mut Self| run.without_controller(first, last).await);
                    match steps {
                        Some(Ok(())) => {}
                        Some(Err(ended)) => break ended,
                        None => break Ended::Panicked,
                    }
                }
            }
        };
        let Some(shared) = self.shared else {
            return Outcome {
                ended,
                record: Record::default(),
                state: EndState::default(),
                panics: Vec::new(),
                failed_checks: Vec::new(),
            };
        };
        if self.exits > 0 && self.plan == PerturbationPlan::Reference && ended == Ended::Settled {
            ended = Ended::ControllerExited(None);
        }
        let mut failed_checks = Vec::new();
        for check in &self.setup.checks {
            let end = End::new(&shared.server);
            match std::panic::catch_unwind(AssertUnwindSafe(|| check(&end))) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => failed_checks.push(why),
                // The message is among the panics, but it is the check that failed.
                Err(_) => failed_checks.extend(panics::release().pop()),
            }
        }
        let record = shared.record(|record| record.clone());
        Outcome {
            ended,
            record,
            state: EndState::read(
                &shared.server,
                &self.setup.ignored_resources,
                &self.setup.ignored_fields,
            ),
            panics: Vec::new(),
            failed_checks,
        }
    }

    /// Runs a part of the run in a new runtime, which is destroyed with all its tasks; `None` if it panicked.
    fn in_runtime<T>(&mut self, part: impl AsyncFnOnce(&mut Self) -> T) -> Option<T> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .ok()?;
        let result = runtime.block_on(async {
            if let Some(last) = self.clock {
                let behind = last.saturating_duration_since(Instant::now());
                tokio::time::advance(behind).await;
            }
            let result = AssertUnwindSafe(part(self)).catch_unwind().await;
            self.clock = Some(Instant::now());
            result
        });
        // Does not wait for threads that block.
        runtime.shutdown_background();
        result.ok()
    }

    /// One life of the controller.
    async fn live(&mut self) -> Life {
        let shared = match &self.shared {
            Some(shared) => {
                let backoff = u32::try_from(self.exits).unwrap_or(u32::MAX);
                sleep(RESTART + Duration::from_secs(10) * backoff).await;
                shared.clone()
            }
            None => match self.create() {
                Ok(shared) => shared,
                Err(ended) => return Life::Over(ended),
            },
        };
        shared.start();
        let controller = (self.setup.controller)(Cluster::new(shared.clone()));
        tokio::select! {
            biased;
            why = shared.interrupted() => match why {
                Interruption::Crash => Life::Crashed,
                Interruption::TooManyRequests => Life::Over(Ended::TooManyRequests),
            },
            life = self.drive(&shared) => {
                shared.record(|record| record.ended_at = shared.elapsed());
                life
            }
            result = controller => match result {
                Ok(()) => Life::Over(Ended::ControllerExited(None)),
                Err(error) => Life::Exited(error),
            },
        }
    }

    /// Creates the server, inside the first runtime, whose clock it uses.
    fn create(&mut self) -> Result<Arc<RunState>, Ended> {
        let mut builder = TestServer::builder()
            .seed(1)
            .controllers(Controllers::none().garbage_collection().namespace_deletion());
        for kind in &self.setup.scenario.kinds {
            builder = builder.kind(kind.clone());
        }
        let server = builder.build();
        for given in &self.setup.scenario.given {
            if let Err(error) = given.apply(&server) {
                return Err(Ended::StepFailed(given.name.clone(), error));
            }
        }
        let ignored = self.setup.ignored_resources.clone();
        let shared = Arc::new(RunState::new(server, self.plan.clone(), ignored, self.limits));
        self.shared = Some(shared.clone());
        Ok(shared)
    }

    /// Performs the steps, and waits until the cluster has settled.
    async fn drive(&mut self, shared: &RunState) -> Life {
        let steps = self.setup.scenario.steps.len();
        // The controller starts in the given state, and may react to it.
        if self.step == 0 && !self.performed && !self.rest(shared, STEP_REST).await {
            return Life::Over(Ended::NeverSettled);
        }
        while self.step < steps {
            let step = self.step;
            if !self.performed {
                match self.plan {
                    PerturbationPlan::Down { first, last } if shared.strike_if(step == first) => {
                        return Life::Down(first, last);
                    }
                    PerturbationPlan::Lag(Point::Step(at)) if shared.strike_if(step == at) => {
                        shared.freeze(shared.server.resource_version(), false);
                    }
                    PerturbationPlan::Skip(Point::Step(at)) if shared.strike_if(step == at) => {
                        shared.freeze(shared.server.resource_version(), true);
                    }
                    _ => {}
                }
                let mut result = self.perform_step(shared);
                if result.is_err() && self.plan != PerturbationPlan::Reference {
                    // The step needs something that the controller has not done yet. A user would try again.
                    if !self.rest(shared, STEP_REST).await {
                        return Life::Over(Ended::NeverSettled);
                    }
                    result = self.perform_step(shared);
                }
                if let Err(ended) = result {
                    return Life::Over(ended);
                }
            }
            if self.plan == PerturbationPlan::Skip(Point::Step(step)) && step + 1 < steps {
                // The next step follows before the view catches up.
                sleep(Duration::from_secs(5)).await;
            } else if !self.rest(shared, STEP_REST).await {
                return Life::Over(Ended::NeverSettled);
            }
            (self.step, self.performed) = (step + 1, false);
            if let PerturbationPlan::StaleRestart {
                at: Point::Step(at), ..
            } = self.plan
                && shared.strike_if(at == step)
            {
                shared.freeze_for_restart();
                return Life::Crashed;
            }
        }
        if self.rest(shared, self.setup.settle_time).await {
            Life::Over(Ended::Settled)
        } else {
            Life::Over(Ended::NeverSettled)
        }
    }

    fn perform_step(&mut self, shared: &RunState) -> Result<(), Ended> {
        let Some(step) = self.setup.scenario.steps.get(self.step) else {
            return Ok(());
        };
        let before = shared.server.resource_version();
        shared.begin_step(self.step);
        step.apply(&shared.server)
            .map_err(|error| Ended::StepFailed(step.name.clone(), error))?;
        shared.record(|record| record.steps.push(StepRecord { before }));
        self.performed = true;
        Ok(())
    }

    /// Performs steps while the controller is down.
    async fn without_controller(&mut self, first: usize, last: usize) -> Result<(), Ended> {
        let Some(shared) = self.shared.clone() else {
            return Ok(());
        };
        for step in first..=last {
            (self.step, self.performed) = (step, false);
            match self.perform_step(&shared) {
                // Performed when the controller is up again.
                Err(_) if step > first => return Ok(()),
                result => result?,
            }
            // Enough for the controllers of the cluster.
            sleep(STALE).await;
        }
        Ok(())
    }

    /// Waits until nothing has been written for a while; `false` if that does not happen.
    async fn rest(&self, shared: &RunState, time: Duration) -> bool {
        let deadline = Instant::now() + self.setup.time_limit;
        shared.touch();
        while shared.at_rest_for() < time {
            if Instant::now() >= deadline {
                return false;
            }
            sleep(Duration::from_secs(1)).await;
            shared.thaw_if_due();
            if !shared.server.controllers_are_idle() {
                shared.touch();
            }
        }
        true
    }
}
