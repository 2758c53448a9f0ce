//! Reduces the tape of a failure to what is needed for it.

use crate::tape::{Op, Tape};
use crate::world::run;

/// The result of shrinking.
#[derive(Debug)]
pub struct Shrunk {
    /// The shortest tape found that violates the same invariant.
    pub tape: Tape,
    /// The number of tapes that were tried.
    pub tried: u32,
}

/// Deletes and simplifies entries as long as the same invariant is violated. `None` if the tape does not fail.
pub fn shrink(tape: &Tape) -> Option<Shrunk> {
    let failure = run(tape, false).failure?;
    let mut search = Search {
        invariant: failure.violation.invariant,
        tried: 0,
    };
    let mut tape = tape.clone();
    tape.ops.truncate(failure.step + 1);
    loop {
        let before = tape.clone();
        search.delete(&mut tape);
        search.simplify(&mut tape);
        if tape == before {
            break;
        }
    }
    Some(Shrunk {
        tape,
        tried: search.tried,
    })
}

struct Search {
    invariant: &'static str,
    tried: u32,
}

impl Search {
    fn still_fails(&mut self, tape: &Tape) -> bool {
        self.tried += 1;
        let failure = run(tape, false).failure;
        failure.is_some_and(|failure| failure.violation.invariant == self.invariant)
    }

    /// Deletes runs of entries, long ones first.
    fn delete(&mut self, tape: &mut Tape) {
        let mut length = tape.ops.len().next_power_of_two();
        while length > 0 {
            let mut at = 0;
            while at < tape.ops.len() {
                let mut shorter = tape.clone();
                let end = (at + length).min(shorter.ops.len());
                shorter.ops.drain(at..end);
                if self.still_fails(&shorter) {
                    *tape = shorter;
                } else {
                    at += length;
                }
            }
            length /= 2;
        }
    }

    /// Lowers the numbers of entries and settings.
    fn simplify(&mut self, tape: &mut Tape) {
        for at in 0..tape.ops.len() {
            let Op { kind, a, b } = tape.ops[at];
            for (a, b) in [(0, b), (1, b), (a / 2, b), (a, 0), (a, 1)] {
                let simpler = Op { kind, a, b };
                let current = tape.ops[at];
                if (simpler.a, simpler.b) < (current.a, current.b) {
                    let mut candidate = tape.clone();
                    candidate.ops[at] = simpler;
                    if self.still_fails(&candidate) {
                        *tape = candidate;
                    }
                }
            }
        }
        for (name, value) in tape.settings.pairs() {
            for lower in [0, 1, value / 2] {
                let mut candidate = tape.clone();
                if lower < value && candidate.settings.set(name, lower) && self.still_fails(&candidate) {
                    *tape = candidate;
                    break;
                }
            }
        }
    }
}
