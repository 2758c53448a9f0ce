//! What a run recorded: the steps, the writes of the controller with the versions around them, failed requests.

use std::time::Duration;

use crate::plan::{Point, WriteId};

/// One write of the controller, or one attempt.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    /// The method and the path, with the name of a created object.
    pub(crate) signature: String,
    pub(crate) occurrence: usize,
    /// The versions of the storage before and after it; equal if the write changed nothing.
    pub(crate) before: u64,
    pub(crate) after: u64,
    /// The status of the response; `None` for a response that the controller did not receive.
    pub(crate) status: Option<u16>,
    /// The step during which it happened.
    pub(crate) step: usize,
    /// The time since the start of the run.
    pub(crate) at: Duration,
    /// Whether the perturbation had begun.
    pub(crate) perturbed: bool,
}

impl Write {
    pub(crate) fn is_effective(&self) -> bool {
        self.after != self.before
    }

    pub(crate) fn id(&self, number: usize) -> WriteId {
        WriteId {
            number,
            signature: self.signature.clone(),
            occurrence: self.occurrence,
        }
    }
}

/// A request that the server refused.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) request: String,
    pub(crate) status: u16,
    pub(crate) at: Duration,
}

/// A performed step of the scenario.
#[derive(Clone, Debug)]
pub(crate) struct StepRecord {
    /// The version of the storage before it.
    pub(crate) before: u64,
}

/// The record of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Record {
    pub(crate) steps: Vec<StepRecord>,
    pub(crate) writes: Vec<Write>,
    pub(crate) failures: Vec<Failure>,
    pub(crate) requests: usize,
    pub(crate) starts: usize,
    /// Whether the moment of the plan was reached.
    pub(crate) struck: bool,
    /// The end of the run.
    pub(crate) ended_at: Duration,
}

impl Record {
    /// The writes that changed something.
    pub(crate) fn effective_writes(&self) -> impl Iterator<Item = &Write> {
        self.writes.iter().filter(|write| write.is_effective())
    }

    /// The version of the storage just before a moment of this run.
    pub(crate) fn version_before(&self, point: &Point) -> Option<u64> {
        match point {
            Point::Step(step) => self.steps.get(*step).map(|step| step.before),
            Point::Write(id) => {
                let same =
                    |write: &&Write| write.signature == id.signature && write.occurrence == id.occurrence;
                self.writes.iter().find(same).map(|write| write.before)
            }
        }
    }
}
