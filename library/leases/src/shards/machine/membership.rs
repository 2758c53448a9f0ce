//! Rules about the Lease of this member: joining, renewing, losing and leaving.

use tokio::time::Instant;

use super::{InFlight, Lane, Machine, MemberSeen, Membership, Request, Response, Slot};

/// How many renewals of unknown outcome are remembered, so that a long outage does not consume memory.
const MAX_UNSURE: usize = 32;

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
                    // These were conditional on an older version, and can no longer take effect.
                    membership.unsure.clear();
                }
            }
            (Request::Renew { number, .. }, Response::Unknown) => {
                if let Some(membership) = &mut self.membership {
                    if membership.unsure.len() == MAX_UNSURE {
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
            // A Lease with our name exists; the list shows whose it is.
            (Request::Join, Response::Conflict) => self.hurry(),
            _ => {}
        }
    }

    /// A Lease with our name: it is ours if this process created it.
    pub(super) fn adopt(&mut self, seen: MemberSeen, renewed: Option<Instant>) {
        if seen.process != self.process {
            self.lose_membership();
            return;
        }
        match &mut self.membership {
            Some(own) if own.uid == seen.uid => {
                own.version = seen.version;
                own.look = false;
                // A response was lost but the renewal took effect: it counts from when it was sent.
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

    /// Our Lease was deleted or replaced: the slots owned under it are lost.
    pub(super) fn lose_membership(&mut self) {
        self.membership = None;
        self.revoke(|slot| slot != Slot::Idle);
    }

    pub(super) fn membership_request(&mut self) -> Option<Request> {
        let nothing = self.leaving && self.has_nothing();
        let Some(own) = &mut self.membership else {
            // A foreign Lease with our name must be deleted first.
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

    /// Whether no slot is ours, neither in the table nor in memory, and none can become ours by a write in flight.
    pub(super) fn has_nothing(&self) -> bool {
        let Some(own) = &self.membership else { return true };
        let in_table = self
            .table
            .as_ref()
            .is_some_and(|seen| (0..self.slots.len()).any(|slot| seen.table.is_owned_by(slot, &own.uid)));
        let writing = matches!(self.lane(Lane::Table), Some(flight) if matches!(flight.request, Request::WriteTable { .. }));
        !in_table && !writing && self.slots.iter().all(|slot| *slot == Slot::Idle)
    }

    /// Leaving ends when the Lease is deleted, or a renew deadline after the last work ended if the server is unreachable.
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
