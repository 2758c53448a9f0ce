//! Checks the event log of an informer against the history. Returns the allowed differences, counted by name, and the
//! violations.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::history::{History, Step};
use crate::line::{Event, Line};

/// A way in which an event log may differ from the full history. Each is documented in `docs/evidence/differential.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// An object that was deleted and recreated while no watch was open is delivered as an update across two uids.
    /// client-go does so; ours delivers a deletion and an addition.
    RecreationAsUpdate,
    /// States between two delivered ones: they passed while no watch was open, and a list followed.
    StateSkipped,
    /// A deletion noticed by a list that lacked the object; its last state may be stale.
    DeletionMissed,
    /// One informer observed a deletion that the other missed: they lost their connections at different times.
    CauseDiffers,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::RecreationAsUpdate => "recreation delivered as update",
            Difference::StateSkipped => "state skipped",
            Difference::DeletionMissed => "deletion missed",
            Difference::CauseDiffers => "cause differs",
        })
    }
}

/// What an informer is allowed to do.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// It may merge two uids into one update.
    pub client_go: bool,
    /// Lists replaced watches: the server lost its history or was restarted, or client-go requested a list on its own.
    pub relists: bool,
}

/// The result of a check.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// The number of delivered events.
    pub events: usize,
    /// The allowed differences, counted.
    pub differences: BTreeMap<Difference, usize>,
    /// Violations: the name of the object and the reason.
    pub offences: Vec<(String, String)>,
}

impl Verdict {
    fn count(&mut self, difference: Difference, times: usize) {
        if times > 0 {
            *self.differences.entry(difference).or_default() += times;
        }
    }
}

/// Checks one event log against the history.
pub fn check(rules: Rules, history: &History, lines: &[Line]) -> Verdict {
    let mut verdict = Verdict::default();
    let synced = lines.iter().filter(|line| line.event == Event::Synced).count();
    if synced != 1 {
        let offence = format!("the end of the initial list was delivered {synced} times");
        verdict.offences.push((String::new(), offence));
    }
    let mut by_name: BTreeMap<&str, Vec<&Line>> = history.names().map(|name| (name, Vec::new())).collect();
    for line in lines
        .iter()
        .filter(|line| !matches!(line.event, Event::Synced | Event::Listing))
    {
        by_name.entry(&line.name).or_default().push(line);
    }
    for (name, lines) in by_name {
        let mut one = OneObject {
            rules,
            history,
            name,
            steps: history.steps(name),
            at: history.start(name),
            current: None,
            verdict: &mut verdict,
        };
        if let Err(offence) = one.follow(&lines) {
            verdict.offences.push((name.to_owned(), offence));
        }
    }
    verdict
}

/// Follows the events of one name through the history.
struct OneObject<'a> {
    rules: Rules,
    history: &'a History,
    name: &'a str,
    steps: &'a [Step],
    /// The first step that has not been delivered.
    at: usize,
    current: Option<(&'a str, u64)>,
    verdict: &'a mut Verdict,
}

impl<'a> OneObject<'a> {
    fn follow(&mut self, lines: &[&'a Line]) -> Result<(), String> {
        self.first(lines)?;
        let mut stored = None;
        for line in lines {
            let at_line = |why: String| format!("{line}: {why}");
            match line.event {
                Event::Added => self.added(line).map_err(at_line)?,
                Event::Updated => self.updated(line).map_err(at_line)?,
                Event::Deleted => self.deleted(line).map_err(at_line)?,
                Event::Stored if stored.is_some() => {
                    return Err(at_line("the object is stored twice".into()));
                }
                Event::Stored => stored = Some((line.uid.as_str(), line.version())),
                Event::Synced | Event::Listing => {}
            }
            if line.event != Event::Stored {
                self.verdict.events += 1;
            }
        }
        // Steps after the last line were skipped, too.
        self.move_to(self.steps.len())
            .map_err(|why| format!("after the last line: {why}"))?;
        let end = self.history.now(self.name);
        if self.current != end {
            return Err(format!(
                "the log ends with {:?}, the history with {end:?}",
                self.current
            ));
        }
        if stored != end {
            return Err(format!(
                "the store holds {stored:?}, the history ends with {end:?}"
            ));
        }
        Ok(())
    }

    /// Objects that existed when the informers started are delivered first and marked as initial.
    fn first(&self, lines: &[&Line]) -> Result<(), String> {
        let first = lines
            .first()
            .filter(|line| line.event == Event::Added && line.initial);
        let delivered = first.map(|line| (line.uid.as_str(), line.version()));
        if delivered != self.history.initial(self.name) {
            return Err(format!(
                "the initial list had {:?}, delivered as initial was {delivered:?}",
                self.history.initial(self.name)
            ));
        }
        match lines.iter().skip(1).find(|line| line.initial) {
            Some(line) => Err(format!("{line}: not part of the initial list")),
            None => Ok(()),
        }
    }

    fn added(&mut self, line: &'a Line) -> Result<(), String> {
        if self.current.is_some() {
            return Err("it already existed".into());
        }
        self.reached(line)
    }

    fn updated(&mut self, line: &'a Line) -> Result<(), String> {
        let Some((uid, version)) = self.current else {
            return Err("it did not exist".into());
        };
        if line.old_resource_version != version.to_string() {
            return Err(format!("the previously delivered version is {version}"));
        }
        if (line.uid.as_str(), line.version()) == (uid, version) {
            return Err("nothing changed since the last delivered event".into());
        }
        if line.uid != uid {
            if !self.rules.client_go {
                return Err("it merges two objects, which only client-go does".into());
            }
            self.verdict.count(Difference::RecreationAsUpdate, 1);
        }
        self.reached(line)
    }

    /// Moves to the step with this state.
    fn reached(&mut self, line: &'a Line) -> Result<(), String> {
        let found = self.find(|step| {
            matches!(step, Step::Shown { uid, version } if *uid == line.uid && *version == line.version())
        });
        let Some(found) = found else {
            return Err("this state never existed, or was delivered before".into());
        };
        self.move_to(found)?;
        self.current = Some((&line.uid, line.version()));
        Ok(())
    }

    fn deleted(&mut self, line: &Line) -> Result<(), String> {
        let Some((current_uid, current)) = self.current else {
            return Err("it did not exist".into());
        };
        if line.uid != current_uid {
            return Err(format!("the existing object has the uid {current_uid}"));
        }
        let missed = match line.cause.as_str() {
            "observed" => false,
            "missed" => true,
            other => return Err(format!("unknown cause {other:?}")),
        };
        let found = self.find(|step| match step {
            Step::Gone { uid, version } if *uid == line.uid => {
                missed || version.is_none_or(|version| version == line.version())
            }
            _ => false,
        });
        let Some(found) = found else {
            return Err("it was not deleted".into());
        };
        if missed {
            if line.version() != current {
                return Err(format!("its last known version is {current}"));
            }
            self.verdict.count(Difference::DeletionMissed, 1);
        } else {
            let next = self.steps.iter().skip(found).find_map(|step| match step {
                Step::Shown { version, .. } => Some(*version),
                Step::Gone { .. } => None,
            });
            if line.version() <= current || next.is_some_and(|next| line.version() >= next) {
                return Err(format!("its deletion is between {current} and {next:?}"));
            }
        }
        if missed && !self.rules.relists {
            return Err("no history was lost, so no delete can be missed".into());
        }
        self.move_to(found)?;
        self.current = None;
        Ok(())
    }

    fn find(&self, wanted: impl Fn(&Step) -> bool) -> Option<usize> {
        self.steps
            .iter()
            .enumerate()
            .skip(self.at)
            .find(|(_, step)| wanted(step))
            .map(|(index, _)| index)
    }

    /// Skips all steps before `found`.
    fn move_to(&mut self, found: usize) -> Result<(), String> {
        let skipped = found - self.at;
        self.at = found + 1;
        if skipped == 0 {
            return Ok(());
        }
        if !self.rules.relists {
            return Err(format!(
                "{skipped} steps were not delivered, and no history was lost"
            ));
        }
        self.verdict.count(Difference::StateSkipped, skipped);
        Ok(())
    }
}

/// Compares how two informers learned of each deletion. They may differ only if lists replaced watches.
pub fn compare_causes(relists: bool, one: &[Line], other: &[Line], verdict: &mut Verdict) {
    let causes = |lines: &[Line]| -> BTreeSet<(String, String, String)> {
        let deleted = lines.iter().filter(|line| line.event == Event::Deleted);
        deleted
            .map(|line| (line.name.clone(), line.uid.clone(), line.cause.clone()))
            .collect()
    };
    let (one, other) = (causes(one), causes(other));
    let uids: BTreeSet<&String> = other.iter().map(|(_, uid, _)| uid).collect();
    for deletion in one.difference(&other).filter(|(_, uid, _)| uids.contains(uid)) {
        if relists {
            verdict.count(Difference::CauseDiffers, 1);
        } else {
            let offence = format!("the other informer has another cause for the deletion: {deletion:?}");
            verdict.offences.push((deletion.0.clone(), offence));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: Rules = Rules {
        client_go: false,
        relists: false,
    };
    const THEIRS: Rules = Rules {
        client_go: true,
        relists: true,
    };

    /// `a`: exists at the start, updated twice, deleted, recreated. `b`: created later, leaves the selection, returns.
    fn history() -> History {
        let mut history = History::default();
        history.wrote("a", "u1", 1, true);
        history.begin();
        history.wrote("a", "u1", 2, true);
        history.wrote("b", "u2", 3, true);
        history.wrote("a", "u1", 4, true);
        history.wrote("b", "u2", 5, false);
        history.removed("a", "u1");
        history.wrote("a", "u3", 8, true);
        history.wrote("b", "u2", 9, true);
        history
    }

    fn lines(text: &str) -> Vec<Line> {
        let number = |text: &str| text.trim_start_matches('@').to_owned();
        text.lines()
            .map(|line| {
                let mut words = line.split_whitespace();
                let mut next = || words.next().unwrap_or_default().to_owned();
                let event = match next().as_str() {
                    "added" => Event::Added,
                    "updated" => Event::Updated,
                    "deleted" => Event::Deleted,
                    "stored" => Event::Stored,
                    _ => Event::Synced,
                };
                let (name, uid, version, rest) = (next(), next(), number(&next()), next());
                Line {
                    event,
                    initial: rest == "initial",
                    cause: if event == Event::Deleted {
                        rest.clone()
                    } else {
                        String::new()
                    },
                    namespace: String::new(),
                    name,
                    uid,
                    resource_version: version,
                    old_resource_version: if event == Event::Updated {
                        number(&rest)
                    } else {
                        String::new()
                    },
                }
            })
            .collect()
    }

    const GOOD: &str = "added a u1 @1 initial
synced
updated a u1 @2 @1
added b u2 @3
updated a u1 @4 @2
deleted b u2 @5 observed
deleted a u1 @6 observed
added a u3 @8
added b u2 @9
stored a u3 @8
stored b u2 @9";

    fn offence(rules: Rules, from: &str, to: &str) -> String {
        assert!(GOOD.contains(from), "{from}");
        let modified = GOOD.replace(&format!("{from}\n"), to);
        let verdict = check(rules, &history(), &lines(&modified));
        let offences: Vec<String> = verdict.offences.into_iter().map(|(_, offence)| offence).collect();
        offences.join("; ")
    }

    #[test]
    fn complete_log_is_valid_for_both_informers() {
        for rules in [OURS, THEIRS] {
            let verdict = check(rules, &history(), &lines(GOOD));
            assert_eq!(verdict.offences, []);
            assert_eq!(verdict.events, 8);
            assert!(verdict.differences.is_empty());
        }
    }

    #[test]
    fn lost_delete_is_a_violation() {
        let lost = offence(THEIRS, "deleted a u1 @6 observed", "");
        assert!(lost.contains("it already existed"), "{lost}");
        let lost = offence(THEIRS, "deleted b u2 @5 observed", "");
        assert!(lost.contains("it already existed"), "{lost}");
    }

    #[test]
    fn wrong_order_is_a_violation() {
        let wrong = offence(
            THEIRS,
            "updated a u1 @2 @1",
            "updated a u1 @4 @1\nupdated a u1 @2 @4\n",
        );
        assert!(
            wrong.contains("never existed, or was delivered before"),
            "{wrong}"
        );
    }

    #[test]
    fn wrong_final_state_in_log_or_store_is_a_violation() {
        let end = offence(THEIRS, "added b u2 @9", "");
        assert!(end.contains("the log ends with None"), "{end}");
        let missing = offence(OURS, "added b u2 @9", "");
        assert!(missing.contains("1 steps were not delivered"), "{missing}");
        let store = offence(THEIRS, "stored a u3 @8", "stored a u1 @4\n");
        assert!(store.contains("the store holds"), "{store}");
        let store = offence(THEIRS, "stored a u3 @8", "");
        assert!(store.contains("the store holds None"), "{store}");
    }

    #[test]
    fn missing_or_wrong_initial_flag_is_a_violation() {
        let missing = offence(OURS, "added a u1 @1 initial", "added a u1 @1\n");
        assert!(missing.contains("delivered as initial was None"), "{missing}");
        let wrong = offence(OURS, "added b u2 @3", "added b u2 @3 initial\n");
        assert!(wrong.contains("the initial list had None"), "{wrong}");
        let never = offence(OURS, "synced", "");
        assert!(never.contains("delivered 0 times"), "{never}");
    }

    #[test]
    fn skipped_state_is_allowed_only_if_lists_replaced_watches() {
        let from = "updated a u1 @2 @1\nadded b u2 @3\nupdated a u1 @4 @2";
        let to = "added b u2 @3\nupdated a u1 @4 @1\n";
        assert!(offence(OURS, from, to).contains("1 steps were not delivered"));
        let verdict = check(
            THEIRS,
            &history(),
            &lines(&GOOD.replace(&format!("{from}\n"), to)),
        );
        assert_eq!(verdict.offences, []);
        assert_eq!(
            verdict.differences,
            BTreeMap::from([(Difference::StateSkipped, 1)])
        );
    }

    #[test]
    fn recreation_delivered_as_update_is_allowed_for_client_go_only() {
        let from = "deleted a u1 @6 observed\nadded a u3 @8";
        let to = "updated a u3 @8 @4\n";
        let ours = Rules {
            client_go: false,
            relists: true,
        };
        assert!(offence(ours, from, to).contains("only client-go"));
        let verdict = check(
            THEIRS,
            &history(),
            &lines(&GOOD.replace(&format!("{from}\n"), to)),
        );
        assert_eq!(verdict.offences, []);
        assert_eq!(verdict.differences[&Difference::RecreationAsUpdate], 1);
    }

    #[test]
    fn update_without_a_change_is_a_violation() {
        let again = offence(
            THEIRS,
            "updated a u1 @2 @1",
            "updated a u1 @2 @1\nupdated a u1 @2 @2\n",
        );
        assert!(again.contains("nothing changed"), "{again}");
    }

    #[test]
    fn missed_delete_carries_the_last_known_state_and_requires_lost_history() {
        let from = "deleted a u1 @6 observed";
        assert!(offence(OURS, from, "deleted a u1 @4 missed\n").contains("no delete can be missed"));
        assert_eq!(offence(THEIRS, from, "deleted a u1 @4 missed\n"), "");
        assert!(offence(THEIRS, from, "deleted a u1 @6 missed\n").contains("last known version is 4"));
        assert!(offence(THEIRS, from, "deleted a u1 @8 observed\n").contains("its deletion is between"));
        assert!(offence(THEIRS, from, "deleted a u9 @6 observed\n").contains("the uid u1"));
    }

    #[test]
    fn causes_agree_unless_history_was_lost() {
        let good = lines(GOOD);
        let other = lines(&GOOD.replace("deleted a u1 @6 observed", "deleted a u1 @4 missed"));

        let mut verdict = Verdict::default();
        compare_causes(false, &good, &good, &mut verdict);
        assert_eq!(verdict.offences, []);
        compare_causes(true, &good, &other, &mut verdict);
        assert_eq!(verdict.differences[&Difference::CauseDiffers], 1);
        compare_causes(false, &good, &other, &mut verdict);
        assert_eq!(verdict.offences.len(), 1);
    }
}
