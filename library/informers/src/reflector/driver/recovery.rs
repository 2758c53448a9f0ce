//! The reflector's part in its group: announcing that the server is reachable again, and taking turns to load.

use std::time::Duration;

use tokio::time::Instant;

use super::Driver;
use crate::object::Object;
use crate::reflector::backoff::{Failure, FailureClass};
use crate::reflector::machine::Input;
use crate::wire::SourceError;

impl<K: Object> Driver<K> {
    /// A response was received. If the server was unreachable before, the other reflectors of the group learn that it
    /// is back.
    pub(super) fn answered(&mut self, error: Option<&SourceError>) {
        let unreachable = error.is_some_and(|error| Failure::of(error).class == FailureClass::Unreachable);
        if std::mem::replace(&mut self.unreachable, unreachable) && !unreachable {
            self.group.announce();
        }
    }

    /// The delay before the next watch, if this input ends a productive one.
    pub(super) fn resume_delay(&self, input: &Input<'_>, now: Instant) -> Duration {
        match input {
            Input::Ended | Input::Failed(_) | Input::DeadlinePassed if self.machine.is_productive(now) => {
                self.group.resume_delay(now)
            }
            _ => Duration::ZERO,
        }
    }

    /// Waits for a turn to load the collection, unless this reflector has one. Returns the time of the request.
    pub(super) async fn take_turn(&mut self) -> Instant {
        if self.turn.is_none() {
            self.turn = self.group.try_turn();
        }
        if self.turn.is_none() {
            self.status.listing(Instant::now());
            self.turn = Some(self.group.turn().await);
            self.actions(Input::RequestSent);
        }
        Instant::now()
    }
}
