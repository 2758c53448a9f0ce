//! The part of the rules that is about the own Lease: joining, renewing, losing and leaving.

use tokio::time::Instant;

use super::{InFlight, Lane, Machine, MemberSeen, Membership, Request, Response, Slot};

/// How many renewals of unknown fate are remembered, so that a server that fails for days costs no memory.
const MOST_UNSURE: usize = 32;

impl Machine {
    pub(super) fn on_membership_response(&mut self, now: Instant, flight: InFlight, response: Response) {
        self.due[Lane::Membership as usize] = now + self.rules.retry;
        match (flight.request, response) {
            // Creating it counts as a renewal; reading it does not.
            (Request::Join, Response::Member(seen)) => {
                self.adopt(seen, Some(flight.sent));
                self.hurry();
            }
            (Request::LookAtSelf, Response::Member(seen)) => {
                self.adopt(seen, None);
                self.due[Lane::Membership as usize] = now;
            }
            (Request::Renew { .. }, Response::Member(seen)) => {
                if let Some(membership) = self.membership.as_mut().filter(|own| own.uid == seen.uid) {
                    membership.version = seen.version;
                    membership.renewed = Some(flight.sent);
                    membership.look = false;
                    // Those had an older version as their condition, and can never be made any more.
                    membership.unsure.clear();
                }
            }
            (Request::Renew { number, .. }, Response::Unknown) => {
                if let Some(membership) = &mut self.membership {
                    if membership.unsure.len() == MOST_UNSURE {
                        membership.unsure.remove(0);
                    }
                    membership.unsure.push((number, flight.sent));
                }
            }
            (Request::Renew { .. } | Request::Leave { .. }, Response::Conflict) => {
                if let Some(membership) = &mut self.membership {
                    membership.look = true;
                }
                self.due[Lane::Membership as usize] = now;
            }
            (Request::Leave { .. }, Response::Deleted | Response::Missing) => {
                self.membership = None;
                self.over = true;
            }
            (Request::Renew { .. } | Request::LookAtSelf, Response::Missing) => self.lose_membership(),
            // A Lease of our name is there; the list shows whose.
            (Request::Join, Response::Conflict) => self.hurry(),
            _ => {}
        }
    }

    /// A Lease with our name: ours if this process made it.
    pub(super) fn adopt(&mut self, seen: MemberSeen, renewed: Option<Instant>) {
        if seen.process != self.process {
            self.lose_membership();
            return;
        }
        match &mut self.membership {
            Some(own) if own.uid == seen.uid => {
                own.version = seen.version;
                own.look = false;
                // An response was lost, but the renewal was made: it counts from when it was sent.
                if let Some((_, sent)) = own.unsure.iter().find(|(number, _)| *number == seen.renewals) {
                    own.renewed = own.renewed.max(Some(*sent));
                    own.unsure.clear();
                }
            }
            _ => {
                self.lose_membership();
                self.membership = Some(Membership {
                    uid: seen.uid,
                    version: seen.version,
                    renewed,
                    look: false,
                    renewals: seen.renewals,
                    unsure: Vec::new(),
                });
            }
        }
    }

    /// The own Lease is gone or another's: what was owned under it is not ours any more.
    pub(super) fn lose_membership(&mut self) {
        self.membership = None;
        self.revoke(|slot| slot != Slot::Idle);
    }

    pub(super) fn membership_request(&mut self) -> Option<Request> {
        let nothing = self.leaving && self.has_nothing();
        let Some(own) = &mut self.membership else {
            // A Lease of our name that is not ours must be gone first.
            let taken = self
                .observed
                .values()
                .any(|other| other.seen.member == self.member);
            return (!taken && !self.leaving).then_some(Request::Join);
        };
        if own.look {
            return Some(Request::LookAtSelf);
        }
        if nothing {
            return Some(Request::Leave {
                uid: own.uid.clone(),
                version: own.version.clone(),
            });
        }
        // A number read back from an edited Lease may be any.
        own.renewals = own.renewals.wrapping_add(1);
        Some(Request::Renew {
            version: own.version.clone(),
            leaving: self.leaving,
            number: own.renewals,
        })
    }

    /// Whether no slot is ours, in the table or in our hands, nor can become so by a write under way.
    pub(super) fn has_nothing(&self) -> bool {
        let Some(own) = &self.membership else { return true };
        let in_table = self
            .table
            .as_ref()
            .is_some_and(|seen| (0..self.slots.len()).any(|slot| seen.table.is_owned_by(slot, &own.uid)));
        let writing = matches!(self.lane(Lane::Table), Some(flight) if matches!(flight.request, Request::WriteTable { .. }));
        !in_table && !writing && self.slots.iter().all(|slot| *slot == Slot::Idle)
    }

    /// Leaving ends when the Lease is deleted; or, when nothing runs any more and the server cannot be reached, after
    /// a renew deadline.
    pub(super) fn check_leave(&mut self, now: Instant) {
        if !self.leaving {
            return;
        }
        let running = self
            .slots
            .iter()
            .any(|slot| matches!(slot, Slot::Owned | Slot::Giving(_)));
        if running {
            return;
        }
        let idle = self.membership.is_none() && self.lane(Lane::Membership).is_none();
        let leave_by = *self.leave_by.get_or_insert(now + self.rules.renew);
        self.over |= idle || now >= leave_by;
    }
}
