//! `--where` and `--until`: conditions on objects, as CEL expressions.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

use crate::changes::{Change, What};
use crate::expression::{Expression, Verdict};
use crate::objects::item::Item;
use crate::process::failure::Failure;

/// Objects that are named when an expression cannot be evaluated for them; the others are counted.
const MOST_REPORTED: usize = 10;
/// Objects that are remembered as reported.
const MOST_REMEMBERED: usize = 10_000;
/// Objects that are named when a condition does not hold in time.
const MOST_NAMED: usize = 5;

/// `--where`: which changes are printed.
pub struct Where {
    expression: Expression,
    errors: Errors,
}

impl Where {
    /// Of the objects for which an expression holds.
    pub fn new(expression: Expression) -> Self {
        Self {
            expression,
            errors: Errors::new("--where"),
        }
    }

    /// Whether a change is printed, and what to report.
    ///
    /// # Errors
    ///
    /// The evaluation takes too long.
    pub fn admit(&mut self, change: &Change) -> Result<(bool, Option<String>), Failure> {
        let Some((old, new)) = states(change) else {
            return Ok((true, None));
        };
        Ok(match self.expression.evaluate("--where", old, new)? {
            Verdict::Holds => (true, None),
            Verdict::Fails => (false, None),
            Verdict::Unknown(reason) => (false, self.errors.add(change, &reason)),
        })
    }

    /// The errors that were counted and not reported.
    pub fn unreported(&mut self) -> Option<String> {
        self.errors.unreported()
    }
}

/// `--until`: whether a condition holds for all selected objects.
pub struct Until {
    expression: Expression,
    errors: Errors,
    /// Whether it holds for each object, by kind and name.
    objects: HashMap<(String, String), bool>,
    failing: usize,
    /// Whether it holds when there is no object.
    holds_for_none: bool,
    /// The kinds whose initial list is not complete.
    unsynced: BTreeSet<String>,
}

impl Until {
    /// Of objects of these kinds.
    ///
    /// # Errors
    ///
    /// The evaluation takes too long.
    pub fn new(expression: Expression, kinds: impl Iterator<Item = String>) -> Result<Self, Failure> {
        Ok(Self {
            holds_for_none: expression.evaluate("--until", None, None)? == Verdict::Holds,
            expression,
            errors: Errors::new("--until"),
            objects: HashMap::new(),
            failing: 0,
            unsynced: kinds.collect(),
        })
    }

    /// Observes a change of a selected object. Returns what to report.
    ///
    /// # Errors
    ///
    /// The evaluation takes too long.
    pub fn observe(&mut self, change: &Change) -> Result<Option<String>, Failure> {
        let kind = change.kind.full_name();
        let Some((old, new)) = states(change) else {
            self.unsynced.remove(&kind);
            return Ok(None);
        };
        let key = (kind, change.name().to_owned());
        if new.is_none() {
            self.failing -= usize::from(self.objects.remove(&key) == Some(false));
            return Ok(None);
        }
        let (holds, report) = match self.expression.evaluate("--until", old, new)? {
            Verdict::Holds => (true, None),
            Verdict::Fails => (false, None),
            Verdict::Unknown(reason) => (false, self.errors.add(change, &reason)),
        };
        let before = self.objects.insert(key, holds);
        self.failing -= usize::from(before == Some(false));
        self.failing += usize::from(!holds);
        Ok(report)
    }

    /// A kind may not be listed, and is not needed.
    pub fn leave_out(&mut self, kind: &str) {
        self.unsynced.remove(kind);
    }

    /// Whether the condition holds.
    pub fn holds(&self) -> bool {
        let of_objects = match self.objects.is_empty() {
            true => self.holds_for_none,
            false => self.failing == 0,
        };
        self.unsynced.is_empty() && of_objects
    }

    /// What is reported when it holds.
    pub fn success(&self) -> String {
        match self.objects.len() {
            0 => "the condition holds: there are no objects".to_owned(),
            1 => "the condition holds for 1 object".to_owned(),
            several => format!("the condition holds for {several} objects"),
        }
    }

    /// What is reported when the time is over.
    pub fn timed_out(&self, after: Duration) -> Failure {
        let mut text = timed_out(after);
        if let Some(kind) = self.unsynced.first() {
            let _ = write!(text, ": the list of {kind} is not complete");
        } else if self.objects.is_empty() {
            text.push_str(": there are no objects");
        } else {
            let mut failing: Vec<String> = self
                .objects
                .iter()
                .filter(|(_, holds)| !**holds)
                .map(|((kind, name), _)| format!("{kind} {name}"))
                .collect();
            failing.sort_unstable();
            let (count, all) = (failing.len(), self.objects.len());
            failing.truncate(MOST_NAMED);
            let more = if count > failing.len() { ", …" } else { "" };
            let names = failing.join(", ");
            let _ = write!(
                text,
                ": the condition does not hold for {count} of {all} objects: {names}{more}"
            );
        }
        Failure::timed_out(text)
    }

    /// The errors that were counted and not reported.
    pub fn unreported(&mut self) -> Option<String> {
        self.errors.unreported()
    }
}

/// `timed out after 30s`.
pub fn timed_out(after: Duration) -> String {
    format!("timed out after {after:?}")
}

/// The states before and after a change of an object.
fn states(change: &Change) -> Option<(Option<&Item>, Option<&Item>)> {
    let object = change.object.as_deref();
    match change.event {
        What::Added { .. } => Some((None, object)),
        What::Updated { .. } => Some((change.old.as_deref(), object)),
        What::Deleted { .. } => Some((object, None)),
        What::Synced { .. } => None,
    }
}

/// Objects for which an expression could not be evaluated. Each is reported once, the first few by name.
struct Errors {
    option: &'static str,
    objects: HashSet<(String, String)>,
    unreported: usize,
}

impl Errors {
    fn new(option: &'static str) -> Self {
        Self {
            option,
            objects: HashSet::new(),
            unreported: 0,
        }
    }

    fn add(&mut self, change: &Change, reason: &str) -> Option<String> {
        let kind = change.kind.label();
        let object = (kind.clone(), change.name().to_owned());
        if self.objects.contains(&object) {
            return None;
        }
        let name = change.name();
        if self.objects.len() < MOST_REMEMBERED {
            self.objects.insert(object);
        }
        if self.objects.len() > MOST_REPORTED {
            self.unreported += 1;
            return None;
        }
        Some(format!(
            "{} cannot be evaluated for {kind} {name}: {reason}",
            self.option
        ))
    }

    fn unreported(&mut self) -> Option<String> {
        match std::mem::take(&mut self.unreported) {
            0 => None,
            count => Some(format!(
                "{} cannot be evaluated for {count} more objects",
                self.option
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::board::fixtures::{added, deleted, initial, updated};

    fn synced(like: &Change) -> Change {
        Change::synced(&like.kind, 0, None)
    }

    fn until(source: &str, change: &Change) -> Until {
        Until::new(source.parse().unwrap(), [change.kind.full_name()].into_iter()).unwrap()
    }

    #[test]
    fn it_holds_when_every_object_does_after_the_list() {
        let cart = initial("pods", "shop", "cart");
        let mut condition = until("new.metadata.name == 'cart'", &cart);
        condition.observe(&cart).unwrap();
        assert!(!condition.holds(), "the list is not complete");
        condition.observe(&synced(&cart)).unwrap();
        assert!(condition.holds());

        condition.observe(&added("pods", "shop", "web")).unwrap();
        assert!(!condition.holds());
        let failure = condition.timed_out(Duration::from_secs(3));
        assert_eq!(failure.code(), 124);
        assert!(failure.text().contains("timed out after 3s"), "{failure}");
        assert!(
            failure.text().contains("1 of 2 objects: pods shop/web"),
            "{failure}"
        );
        condition.observe(&deleted("pods", "shop", "web")).unwrap();
        assert!(condition.holds());
    }

    #[test]
    fn without_objects_new_is_null() {
        let cart = initial("pods", "shop", "cart");
        let mut exists = until("new != null", &cart);
        let mut gone = until("new == null", &cart);
        for condition in [&mut exists, &mut gone] {
            condition.observe(&synced(&cart)).unwrap();
        }
        assert!(!exists.holds());
        assert!(gone.holds());
        gone.observe(&cart).unwrap();
        assert!(!gone.holds());
        gone.observe(&deleted("pods", "shop", "cart")).unwrap();
        assert!(gone.holds());
    }

    #[test]
    fn an_object_is_reported_once_and_the_rest_is_counted() {
        let mut only = Where::new("new.status.phase == 'Running'".parse().unwrap());
        let mut reports = Vec::new();
        for number in 0..2 * MOST_REPORTED {
            for change in [
                initial("pods", "shop", &format!("cart-{number}")),
                updated("pods", "shop", &format!("cart-{number}"), &["/spec/a"]),
            ] {
                let (admitted, report) = only.admit(&change).unwrap();
                assert!(!admitted);
                reports.extend(report);
            }
        }
        assert_eq!(reports.len(), MOST_REPORTED);
        assert!(
            reports[0].contains("shop/cart-0: it has no field"),
            "{}",
            reports[0]
        );
        assert_eq!(
            only.unreported().as_deref(),
            Some("--where cannot be evaluated for 10 more objects")
        );
        assert_eq!(only.unreported(), None);
    }
}
