//! What separates a loop from progress: the changes of one field, judged without a clock.
//!
//! A rollout changes the status of a Deployment as often as a loop does, and `unavailableReplicas` even goes back and
//! forth. But somewhere a number advances. In a loop none does: values return, or only times change.

use std::collections::BTreeSet;

use k8s_openapi::jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::FindingKind;

/// A change of a field.
pub(super) struct Change {
    pub at: Instant,
    /// The number of the update of its object.
    pub update: u64,
    /// The hash of the new value.
    pub value: u64,
    pub form: Form,
    /// Whether the update changed more than times.
    pub effective: bool,
    pub manager: Option<String>,
}

/// What a value says about progress. Values themselves are not kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    Number(f64),
    Absent,
    Time,
    Other,
}

impl Form {
    pub fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Absent,
            Value::Number(number) => number.as_f64().map_or(Self::Other, Self::Number),
            Value::String(text) if text.parse::<Timestamp>().is_ok() => Self::Time,
            _ => Self::Other,
        }
    }

    /// A number; zero is often left out.
    fn number(self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(number),
            Self::Absent => Some(0.0),
            Self::Time | Self::Other => None,
        }
    }
}

/// Whether a field reports progress. Everything else is what somebody wants, which does not change by itself.
pub(super) fn is_status(path: &str) -> bool {
    path == "status" || path.starts_with("status.")
}

/// Whether a number goes on from its earlier values to one that it did not have.
pub(super) fn advances(earlier: &[Change], value: u64, form: Form) -> bool {
    let (Form::Number(number), Some(values)) = (form, numbers(earlier)) else {
        return false;
    };
    let Some(last) = values.last() else {
        return true;
    };
    let step = number - last;
    let before = values.windows(2).next_back().map(|pair| pair[1] - pair[0]);
    let is_new = earlier.iter().all(|change| change.value != value);
    is_new && step != 0.0 && before.is_none_or(|before| before * step > 0.0)
}

/// What the changes of a field within the window are, if they are a finding. `progressed` is the last update in which
/// a number of the status advanced.
pub(super) fn judge(path: &str, changes: &[Change], progressed: u64, limit: usize) -> Option<FindingKind> {
    if changes.len() < limit {
        return None;
    }
    let returns = (1..changes.len()).any(|index| is_known(changes, index));
    let managers: BTreeSet<&String> = changes
        .iter()
        .filter_map(|change| change.manager.as_ref())
        .collect();
    let fight = managers.len() > 1 && returns;
    // Managers that take turns fight, whatever else advances.
    let turns = changes
        .windows(2)
        .filter(|pair| pair[0].manager != pair[1].manager)
        .count();
    if fight && 2 * turns >= changes.len() {
        return Some(FindingKind::Fight);
    }
    let reports = is_status(path);
    let since = changes.partition_point(|change| reports && change.update <= progressed);
    let since = &changes[since..];
    if since.len() < limit || 2 * repeats(since, reports) < since.len() {
        return None;
    }
    Some(match fight {
        true => FindingKind::Fight,
        false => FindingKind::Loop,
    })
}

/// The number of changes that lead nowhere.
fn repeats(changes: &[Change], reports: bool) -> usize {
    match numbers(changes) {
        // Up and down again once is no loop: a rollout that was undone.
        Some(values) if reports => {
            let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] - pair[0]).collect();
            steps.windows(2).filter(|pair| pair[0] * pair[1] < 0.0).count()
        }
        Some(_) => (0..changes.len())
            .filter(|index| is_known(changes, *index))
            .count(),
        None => (0..changes.len())
            .filter(|index| !reports || !changes[*index].effective || is_known(changes, *index))
            .count(),
    }
}

/// Whether a value had been there before.
fn is_known(changes: &[Change], index: usize) -> bool {
    let (earlier, rest) = changes.split_at(index);
    rest.first()
        .is_some_and(|change| earlier.iter().any(|one| one.value == change.value))
}

/// The values of a field that is a number.
fn numbers(changes: &[Change]) -> Option<Vec<f64>> {
    let any = changes.is_empty()
        || changes
            .iter()
            .any(|change| matches!(change.form, Form::Number(_)));
    let values: Option<Vec<f64>> = changes.iter().map(|change| change.form.number()).collect();
    values.filter(|_| any)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(values: &[Value]) -> Vec<Change> {
        let hash = |value: &Value| value.to_string().bytes().map(u64::from).sum();
        let numbered = (1u64..).zip(values);
        numbered
            .map(|(update, value)| Change {
                at: Instant::now(),
                update,
                value: hash(value),
                form: Form::of(value),
                effective: Form::of(value) != Form::Time,
                manager: Some("operator".to_owned()),
            })
            .collect()
    }

    fn judged(path: &str, values: &[Value]) -> Option<FindingKind> {
        judge(path, &changes(values), 0, values.len())
    }

    #[test]
    fn numbers_that_advance_are_progress_and_those_that_return_a_loop() {
        let up: Vec<Value> = (1..7).map(|number| json!(number)).collect();
        let flips = [json!(3), json!(5), json!(3), json!(5), json!(3), json!(5)];
        let absent = [
            json!(1),
            json!(null),
            json!(1),
            json!(null),
            json!(1),
            json!(null),
        ];
        for path in ["spec.replicas", "status.replicas"] {
            assert_eq!(judged(path, &up), None, "{path}");
            assert_eq!(judged(path, &flips), Some(FindingKind::Loop), "{path}");
            assert_eq!(judged(path, &absent), Some(FindingKind::Loop), "{path}");
        }
        let around = [json!(3), json!(5), json!(7), json!(3), json!(5), json!(7)];
        assert_eq!(judged("spec.replicas", &around), Some(FindingKind::Loop));
        let up_and_down = [json!(1), json!(2), json!(3), json!(2), json!(1), json!(0)];
        assert_eq!(judged("status.replicas", &up_and_down), None);
    }

    #[test]
    fn text_that_is_rewritten_is_a_loop_unless_it_reports_something_new() {
        let new: Vec<Value> = (0..6).map(|number| json!(format!("step {number}"))).collect();
        assert_eq!(judged("status.message", &new), None);
        assert_eq!(judged("metadata.labels.round", &new), Some(FindingKind::Loop));
        let flips = [
            json!("a"),
            json!("b"),
            json!("a"),
            json!("b"),
            json!("a"),
            json!("b"),
        ];
        assert_eq!(judged("status.message", &flips), Some(FindingKind::Loop));
        let times: Vec<Value> = (0..6)
            .map(|number| json!(format!("2026-01-01T00:00:0{number}Z")))
            .collect();
        assert_eq!(
            judged("status.checkedAt", &times),
            Some(FindingKind::Loop),
            "nothing else"
        );
        let mut beside = changes(&times);
        beside.iter_mut().for_each(|change| change.effective = true);
        assert_eq!(judge("status.checkedAt", &beside, 0, 6), None);
    }

    #[test]
    fn progress_starts_the_count_anew_in_the_status_only() {
        let flips: Vec<Value> = (0..12).map(|number| json!(number % 2)).collect();
        let flips = changes(&flips);
        assert_eq!(judge("status.ready", &flips, 0, 6), Some(FindingKind::Loop));
        assert_eq!(judge("status.ready", &flips, 7, 6), None, "five changes since");
        assert_eq!(judge("spec.ready", &flips, 7, 6), Some(FindingKind::Loop));
    }

    #[test]
    fn a_number_advances_in_one_direction() {
        let earlier = changes(&[json!(1), json!(2)]);
        let advances = |number: u64| {
            let value = &changes(&[json!(number)])[0];
            advances(&earlier, value.value, value.form)
        };
        assert!(advances(3));
        assert!(!advances(0), "it turned around");
        assert!(!advances(1) && !advances(2), "it had been there");
        assert!(!super::advances(&changes(&[json!("a")]), 0, Form::Number(1.0)));
    }
}
