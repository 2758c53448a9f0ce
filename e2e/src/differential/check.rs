//! Holds a story against the history. Takes lines and the history, gives differences that are allowed, by name, and
//! offences that are not.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::history::{History, Step};
use super::line::{Event, Line};

/// A way in which a story may differ from the full history. Each is announced, in `DESIGN.md` or `docs/parity.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// An object that was deleted and made again while nobody watched is told as an update across two uids.
    /// client-go does so; ours tells a deletion and an addition.
    RecreationToldAsUpdate,
    /// States between two that were told: they passed while nobody watched, and a list came after.
    StateSkipped,
    /// A deletion known from a list that lacked the object; its last state may be stale.
    DeletionMissed,
    /// One informer saw a deletion that the other one missed: they lost their connections at different moments.
    CauseDiffers,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Difference::RecreationToldAsUpdate => "recreation told as update",
            Difference::StateSkipped => "state skipped",
            Difference::DeletionMissed => "deletion missed",
            Difference::CauseDiffers => "cause differs",
        })
    }
}

/// What an informer is allowed to do.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// It may join two uids in one update.
    pub client_go: bool,
    /// The server forgot its history or was restarted, so that lists took the place of watches.
    pub relists: bool,
}

/// What came of a check.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// How many events were told.
    pub events: usize,
    /// The allowed differences, counted.
    pub differences: BTreeMap<Difference, usize>,
    /// What is not allowed: the name of the object, and what is wrong. Nothing in a good story.
    pub offences: Vec<(String, String)>,
}

impl Verdict {
    fn count(&mut self, difference: Difference, times: usize) {
        if times > 0 {
            *self.differences.entry(difference).or_default() += times;
        }
    }
}

/// Holds one story against the history.
pub fn check(rules: Rules, history: &History, lines: &[Line]) -> Verdict {
    let mut verdict = Verdict::default();
    let synced = lines.iter().filter(|line| line.event == Event::Synced).count();
    if synced != 1 {
        let offence = format!("the end of the first list was told {synced} times");
        verdict.offences.push((String::new(), offence));
    }
    let mut by_name: BTreeMap<&str, Vec<&Line>> = history.names().map(|name| (name, Vec::new())).collect();
    for line in lines.iter().filter(|line| line.event != Event::Synced) {
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

/// The story of one name, followed through the history.
struct OneObject<'a> {
    rules: Rules,
    history: &'a History,
    name: &'a str,
    steps: &'a [Step],
    /// The first step that has not been told.
    at: usize,
    current: Option<(&'a str, u64)>,
    verdict: &'a mut Verdict,
}

impl<'a> OneObject<'a> {
    fn follow(&mut self, lines: &[&'a Line]) -> Result<(), String> {
        self.first(lines)?;
        let mut stored = None;
        for line in lines {
            let told = |why: String| format!("{line}: {why}");
            match line.event {
                Event::Added => self.added(line).map_err(told)?,
                Event::Updated => self.updated(line).map_err(told)?,
                Event::Deleted => self.deleted(line).map_err(told)?,
                Event::Stored if stored.is_some() => return Err(told("it is stored twice".into())),
                Event::Stored => stored = Some((line.uid.as_str(), line.version())),
                Event::Synced => {}
            }
            if line.event != Event::Stored {
                self.verdict.events += 1;
            }
        }
        // What came and went again after the last line was passed over, too.
        self.move_to(self.steps.len())
            .map_err(|why| format!("after the last line: {why}"))?;
        let end = self.history.now(self.name);
        if self.current != end {
            return Err(format!(
                "the story ends with {:?}, the history with {end:?}",
                self.current
            ));
        }
        if stored != end {
            return Err(format!("the store holds {stored:?}, the history is {end:?}"));
        }
        Ok(())
    }

    /// What was there when the informers started is told first, and says so.
    fn first(&self, lines: &[&Line]) -> Result<(), String> {
        let first = lines
            .first()
            .filter(|line| line.event == Event::Added && line.initial);
        let told = first.map(|line| (line.uid.as_str(), line.version()));
        if told != self.history.initial(self.name) {
            return Err(format!(
                "the first list had {:?}, told as initial was {told:?}",
                self.history.initial(self.name)
            ));
        }
        match lines.iter().skip(1).find(|line| line.initial) {
            Some(line) => Err(format!("{line}: it is not part of the first list")),
            None => Ok(()),
        }
    }

    fn added(&mut self, line: &'a Line) -> Result<(), String> {
        if self.current.is_some() {
            return Err("it was there already".into());
        }
        self.shown(line)
    }

    fn updated(&mut self, line: &'a Line) -> Result<(), String> {
        let Some((uid, version)) = self.current else {
            return Err("it was not there".into());
        };
        if line.old_resource_version != version.to_string() {
            return Err(format!("what was told before is version {version}"));
        }
        if (line.uid.as_str(), line.version()) == (uid, version) {
            return Err("nothing has changed since it was last told".into());
        }
        if line.uid != uid {
            if !self.rules.client_go {
                return Err("it joins two objects, which is client-go's way and not ours".into());
            }
            self.verdict.count(Difference::RecreationToldAsUpdate, 1);
        }
        self.shown(line)
    }

    /// Moves on to the step that shows this state.
    fn shown(&mut self, line: &'a Line) -> Result<(), String> {
        let found = self.find(|step| {
            matches!(step, Step::Shown { uid, version } if *uid == line.uid && *version == line.version())
        });
        let Some(found) = found else {
            return Err("this state never was, or was told before".into());
        };
        self.move_to(found)?;
        self.current = Some((&line.uid, line.version()));
        Ok(())
    }

    fn deleted(&mut self, line: &Line) -> Result<(), String> {
        let Some((current_uid, current)) = self.current else {
            return Err("it was not there".into());
        };
        if line.uid != current_uid {
            return Err(format!("what was there has the uid {current_uid}"));
        }
        let missed = match line.cause.as_str() {
            "observed" => false,
            "missed" => true,
            other => return Err(format!("{other:?} is no cause that can be")),
        };
        let found = self.find(|step| match step {
            Step::Gone { uid, version } if *uid == line.uid => {
                missed || version.is_none_or(|version| version == line.version())
            }
            _ => false,
        });
        let Some(found) = found else {
            return Err("it is not gone".into());
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
                return Err(format!("its end lies between {current} and {next:?}"));
            }
        }
        if missed && !self.rules.relists {
            return Err("nothing was forgotten, so nothing can be missed".into());
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

    /// Everything before `found` was passed over.
    fn move_to(&mut self, found: usize) -> Result<(), String> {
        let skipped = found - self.at;
        self.at = found + 1;
        if skipped == 0 {
            return Ok(());
        }
        if !self.rules.relists {
            return Err(format!(
                "{skipped} steps were not told, and nothing was forgotten"
            ));
        }
        self.verdict.count(Difference::StateSkipped, skipped);
        Ok(())
    }
}

/// Compares how two informers came to know of each deletion. They may differ only where lists took the place of watches.
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
            let offence = format!("the other informer knows of its end in another way: {deletion:?}");
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

    /// `a`: there at the start, updated twice, deleted, made again. `b`: made later, leaves the selection, comes back.
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
        let doctored = GOOD.replace(&format!("{from}\n"), to);
        let verdict = check(rules, &history(), &lines(&doctored));
        let offences: Vec<String> = verdict.offences.into_iter().map(|(_, offence)| offence).collect();
        offences.join("; ")
    }

    #[test]
    fn the_full_story_is_good_for_both() {
        for rules in [OURS, THEIRS] {
            let verdict = check(rules, &history(), &lines(GOOD));
            assert_eq!(verdict.offences, []);
            assert_eq!(verdict.events, 8);
            assert!(verdict.differences.is_empty());
        }
    }

    #[test]
    fn a_lost_delete_is_found() {
        let lost = offence(THEIRS, "deleted a u1 @6 observed", "");
        assert!(lost.contains("it was there already"), "{lost}");
        let lost = offence(THEIRS, "deleted b u2 @5 observed", "");
        assert!(lost.contains("it was there already"), "{lost}");
    }

    #[test]
    fn a_wrong_order_is_found() {
        let wrong = offence(
            THEIRS,
            "updated a u1 @2 @1",
            "updated a u1 @4 @1\nupdated a u1 @2 @4\n",
        );
        assert!(wrong.contains("never was, or was told before"), "{wrong}");
    }

    #[test]
    fn a_wrong_end_is_found_in_the_story_and_in_the_store() {
        let end = offence(THEIRS, "added b u2 @9", "");
        assert!(end.contains("the story ends with None"), "{end}");
        let untold = offence(OURS, "added b u2 @9", "");
        assert!(untold.contains("1 steps were not told"), "{untold}");
        let store = offence(THEIRS, "stored a u3 @8", "stored a u1 @4\n");
        assert!(store.contains("the store holds"), "{store}");
        let store = offence(THEIRS, "stored a u3 @8", "");
        assert!(store.contains("the store holds None"), "{store}");
    }

    #[test]
    fn a_missing_or_false_initial_flag_is_found() {
        let missing = offence(OURS, "added a u1 @1 initial", "added a u1 @1\n");
        assert!(missing.contains("told as initial was None"), "{missing}");
        let wrong = offence(OURS, "added b u2 @3", "added b u2 @3 initial\n");
        assert!(wrong.contains("the first list had None"), "{wrong}");
        let never = offence(OURS, "synced", "");
        assert!(never.contains("told 0 times"), "{never}");
    }

    #[test]
    fn a_skipped_state_is_a_difference_only_where_lists_took_the_place_of_watches() {
        let from = "updated a u1 @2 @1\nadded b u2 @3\nupdated a u1 @4 @2";
        let to = "added b u2 @3\nupdated a u1 @4 @1\n";
        assert!(offence(OURS, from, to).contains("1 steps were not told"));
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
    fn a_recreation_told_as_an_update_is_client_gos_way_only() {
        let from = "deleted a u1 @6 observed\nadded a u3 @8";
        let to = "updated a u3 @8 @4\n";
        let ours = Rules {
            client_go: false,
            relists: true,
        };
        assert!(offence(ours, from, to).contains("not ours"));
        let verdict = check(
            THEIRS,
            &history(),
            &lines(&GOOD.replace(&format!("{from}\n"), to)),
        );
        assert_eq!(verdict.offences, []);
        assert_eq!(verdict.differences[&Difference::RecreationToldAsUpdate], 1);
    }

    #[test]
    fn an_update_without_a_change_is_found() {
        let again = offence(
            THEIRS,
            "updated a u1 @2 @1",
            "updated a u1 @2 @1\nupdated a u1 @2 @2\n",
        );
        assert!(again.contains("nothing has changed"), "{again}");
    }

    #[test]
    fn a_missed_deletion_carries_the_last_known_state_and_needs_a_reason() {
        let from = "deleted a u1 @6 observed";
        assert!(offence(OURS, from, "deleted a u1 @4 missed\n").contains("nothing can be missed"));
        assert_eq!(offence(THEIRS, from, "deleted a u1 @4 missed\n"), "");
        assert!(offence(THEIRS, from, "deleted a u1 @6 missed\n").contains("last known version is 4"));
        assert!(offence(THEIRS, from, "deleted a u1 @8 observed\n").contains("its end lies between"));
        assert!(offence(THEIRS, from, "deleted a u9 @6 observed\n").contains("the uid u1"));
    }

    #[test]
    fn two_stories_agree_on_causes_unless_history_was_forgotten() {
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
