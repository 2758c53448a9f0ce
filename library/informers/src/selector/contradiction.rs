//! Whether a selector can match anything.

use std::collections::BTreeSet;

use super::{Requirement, Test};

/// Whether no labels can meet all of these requirements, which are sorted by key.
pub(super) fn is_contradiction(requirements: &[Requirement]) -> bool {
    requirements
        .chunk_by(|left, right| left.key == right.key)
        .any(|of_one_key| !is_possible(of_one_key))
}

/// Whether some value of a label, or its absence, meets all requirements of its key.
fn is_possible(requirements: &[Requirement]) -> bool {
    let tests = || requirements.iter().map(|requirement| &requirement.test);
    if tests().all(|test| test.passes(None)) {
        return true;
    }
    // An `in` requirement lists the candidates.
    let named = tests().filter_map(|test| match test {
        Test::In(values) => Some(values),
        _ => None,
    });
    if let Some(candidates) = named.min_by_key(|values| values.len()) {
        return candidates
            .iter()
            .any(|value| tests().all(|test| test.passes(Some(value))));
    }
    if tests().any(|test| matches!(test, Test::Absent)) {
        return false;
    }
    let above = tests().filter_map(|test| match test {
        Test::Above(bound) => Some(*bound),
        _ => None,
    });
    let below = tests().filter_map(|test| match test {
        Test::Below(bound) => Some(*bound),
        _ => None,
    });
    let (above, below) = (above.max(), below.min());
    if above.is_none() && below.is_none() {
        // Only `key` and `notin` remain, and they exclude finitely many values.
        return true;
    }
    let first = above.map_or(Some(i64::MIN), |bound| bound.checked_add(1));
    let last = below.map_or(Some(i64::MAX), |bound| bound.checked_sub(1));
    let (Some(first), Some(last)) = (first, last) else {
        return false;
    };
    // A number has several notations (`7`, `07`), so `notin` never excludes a number entirely.
    first <= last
}

/// Requirements that nothing meets, in the syntax of a selector.
pub(super) fn nothing() -> Vec<Requirement> {
    let key = "nothing".to_owned();
    let requirements: BTreeSet<Requirement> = [Test::Present, Test::Absent]
        .into_iter()
        .map(|test| Requirement {
            key: key.clone(),
            test,
        })
        .collect();
    requirements.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use crate::selector::Selector;

    #[test]
    fn a_contradictory_selector_matches_nothing() {
        for selector in [
            "a,!a",
            "a=1,!a",
            "a=1,a=2",
            "a in (1,2),a notin (1,2,3)",
            "a=x,a>1",
            "a>5,a<6",
            "a>9223372036854775807",
            "b=1,a<2,a>7,c",
            "a in (1,9),a>2,a<8",
        ] {
            assert!(selector.parse::<Selector>().unwrap().is_nothing(), "{selector:?}");
        }
        for selector in [
            "",
            "a,b",
            "!a",
            "!a,a!=1",
            "a in (1,2),a in (2,3)",
            "a>5,a<7",
            "a,a notin (x,y)",
            "a>5,a!=6,a<7",
        ] {
            assert!(
                !selector.parse::<Selector>().unwrap().is_nothing(),
                "{selector:?}"
            );
        }
    }

    #[test]
    fn the_empty_selection_can_be_printed_and_parsed() {
        let nothing = Selector::nothing();

        assert!(nothing.is_nothing());
        assert_eq!(nothing.to_string().parse::<Selector>(), Ok(nothing.clone()));
        assert!(!nothing.matches_labels(|_| None));
        assert!(!nothing.matches_labels(|_| Some("x")));
    }
}
