//! Status conditions: the rules of `meta.SetStatusCondition`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;

/// A condition with the current time as its transition time. The status is `true`, `false`, or `None` for `Unknown`.
///
/// The reason is one CamelCase word, for programs; the API server rejects conditions without one. The message is for
/// humans.
pub fn condition(
    type_: impl Into<String>,
    status: impl Into<Option<bool>>,
    reason: impl Into<String>,
    message: impl Into<String>,
) -> Condition {
    let status = match status.into() {
        Some(true) => "True",
        Some(false) => "False",
        None => "Unknown",
    };
    Condition {
        type_: type_.into(),
        status: status.to_owned(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: None,
        last_transition_time: Time(Timestamp::now()),
    }
}

/// Adds a condition, or replaces the one of its type. Returns whether anything changed, so that a status is written only then.
///
/// `lastTransitionTime` changes only if the status does; a new reason, message or observed generation keeps the old time.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
/// use kube_controller::{condition, is_condition_true, set_condition};
///
/// let mut conditions: Vec<Condition> = Vec::new();
/// let generation = Some(7);
///
/// let ready = Condition {
///     observed_generation: generation,
///     ..condition("Ready", true, "AllReplicasUp", "3 of 3 replicas are up")
/// };
/// assert!(set_condition(&mut conditions, ready.clone()));
/// assert!(!set_condition(&mut conditions, ready), "nothing to write");
/// assert!(is_condition_true(&conditions, "Ready"));
/// ```
#[doc(alias = "SetStatusCondition")]
pub fn set_condition(conditions: &mut Vec<Condition>, new: Condition) -> bool {
    let Some(present) = conditions.iter_mut().find(|present| present.type_ == new.type_) else {
        conditions.push(new);
        return true;
    };
    let last_transition_time = match present.status == new.status {
        true => present.last_transition_time.clone(),
        false => new.last_transition_time,
    };
    let new = Condition {
        last_transition_time,
        ..new
    };
    let changed = *present != new;
    *present = new;
    changed
}

/// Removes the condition of a type. Returns whether there was one.
#[doc(alias = "RemoveStatusCondition")]
pub fn remove_condition(conditions: &mut Vec<Condition>, type_: &str) -> bool {
    let before = conditions.len();
    conditions.retain(|present| present.type_ != type_);
    conditions.len() != before
}

/// The condition of a type.
#[doc(alias = "FindStatusCondition")]
pub fn find_condition<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|present| present.type_ == type_)
}

/// Whether there is a condition of this type and its status is `True`.
#[doc(alias = "IsStatusConditionTrue")]
#[doc(alias = "IsStatusConditionPresentAndEqual")]
pub fn is_condition_true(conditions: &[Condition], type_: &str) -> bool {
    find_condition(conditions, type_).is_some_and(|present| present.status == "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time(Timestamp::from_second(seconds).unwrap())
    }

    fn ready(status: bool, reason: &str, time: i64) -> Condition {
        Condition {
            last_transition_time: at(time),
            ..condition("Ready", status, reason, "")
        }
    }

    /// Upstream: TestSetStatusCondition
    #[test]
    fn transition_time_changes_with_the_status_only() {
        let mut conditions = vec![condition("Other", None, "Unset", "")];
        assert!(set_condition(&mut conditions, ready(true, "Up", 10)));

        assert!(!set_condition(&mut conditions, ready(true, "Up", 20)));
        assert!(set_condition(&mut conditions, ready(true, "StillUp", 30)));
        let present = find_condition(&conditions, "Ready").unwrap();
        assert_eq!(
            (&*present.reason, &present.last_transition_time),
            ("StillUp", &at(10))
        );

        assert!(set_condition(&mut conditions, ready(false, "Down", 40)));
        let present = find_condition(&conditions, "Ready").unwrap();
        assert_eq!(
            (&*present.status, &present.last_transition_time),
            ("False", &at(40))
        );
        assert_eq!(conditions.len(), 2);
        assert_eq!(conditions[0].status, "Unknown");
    }

    #[test]
    fn an_observed_generation_is_a_change_without_a_transition() {
        let mut conditions = vec![ready(true, "Up", 10)];
        let seen = Condition {
            observed_generation: Some(2),
            ..ready(true, "Up", 20)
        };

        assert!(set_condition(&mut conditions, seen));

        assert_eq!(conditions[0].observed_generation, Some(2));
        assert_eq!(conditions[0].last_transition_time, at(10));
    }

    /// Upstream: TestRemoveStatusCondition
    #[test]
    fn a_removed_condition_is_neither_true_nor_found() {
        let mut conditions = vec![ready(true, "Up", 10), condition("Other", false, "Unset", "")];
        assert!(is_condition_true(&conditions, "Ready") && !is_condition_true(&conditions, "Other"));

        assert!(remove_condition(&mut conditions, "Ready"));
        assert!(!remove_condition(&mut conditions, "Ready"));

        assert!(find_condition(&conditions, "Ready").is_none() && !is_condition_true(&conditions, "Ready"));
        assert_eq!(conditions.len(), 1);
    }
}
