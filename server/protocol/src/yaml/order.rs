//! The order of the keys of a map.

/// Sorts by key: numbers in keys by their value, letters behind everything else.
///
/// The relation of [`is_less`] has cycles, such as `a1` < `a01` < `a0x` < `a1`, for which the sorts of the standard library may panic.
/// A merge sort that only asks whether the right item comes first ends with every relation.
pub(super) fn sorted<V>(items: impl IntoIterator<Item = (String, V)>) -> Vec<(String, V)> {
    let runs = items
        .into_iter()
        .map(|(key, value)| vec![(key.chars().collect(), (key, value))]);
    let mut runs: Vec<Vec<Keyed<V>>> = runs.collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut rest = runs.into_iter();
        while let Some(left) = rest.next() {
            merged.push(match rest.next() {
                Some(right) => merge(left, right),
                None => left,
            });
        }
        runs = merged;
    }
    let sorted = runs.pop().unwrap_or_default();
    sorted.into_iter().map(|(_, item)| item).collect()
}

/// An item behind the characters of its key.
type Keyed<V> = (Vec<char>, (String, V));

fn merge<V>(left: Vec<Keyed<V>>, right: Vec<Keyed<V>>) -> Vec<Keyed<V>> {
    let mut merged = Vec::with_capacity(left.len() + right.len());
    let mut right = right.into_iter().peekable();
    for item in left {
        while let Some(earlier) = right.next_if(|(key, _)| is_less(key, &item.0)) {
            merged.push(earlier);
        }
        merged.push(item);
    }
    merged.extend(right);
    merged
}

/// Whether a key comes before another one.
#[doc(alias = "keyList")]
fn is_less(one: &[char], other: &[char]) -> bool {
    let Some((at, (x, y))) = one.iter().zip(other).enumerate().find(|(_, (x, y))| x != y) else {
        return one.len() < other.len();
    };
    match (x.is_alphabetic(), y.is_alphabetic()) {
        (true, true) => return x < y,
        (false, false) => {}
        (_, letter) => return letter,
    }
    // Digits before the difference make a zero count.
    let counts = (*x == '0' || *y == '0')
        && one
            .iter()
            .take(at)
            .rev()
            .take_while(|c| c.is_ascii_digit())
            .any(|c| *c != '0');
    let number = |key: &[char]| {
        let digits = key.iter().skip(at).map_while(|c| c.to_digit(10));
        // Go's numbers wrap, too.
        digits.fold((i64::from(counts), 0), |(value, length): (i64, usize), digit| {
            (value.wrapping_mul(10).wrapping_add(i64::from(digit)), length + 1)
        })
    };
    (number(one), x) < (number(other), y)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sort(keys: &[impl AsRef<str>]) -> Vec<String> {
        let sorted = sorted(keys.iter().map(|key| (key.as_ref().to_owned(), ())));
        sorted.into_iter().map(|(key, ())| key).collect()
    }

    #[test]
    fn keys_are_in_natural_order() {
        assert_eq!(
            sort(&["a10", "a2", "a02", "B", "b", "a-b", "ab", "a"]),
            ["B", "a", "a-b", "a2", "a02", "a10", "ab", "b"]
        );
        assert_eq!(
            sort(&["v100", "v11", "v101", "v1"]),
            ["v1", "v11", "v100", "v101"]
        );
    }

    proptest! {
        #[test]
        fn keys_without_a_total_order_are_sorted_without_a_panic(
            keys in prop::collection::btree_set("[a019x-]{1,4}", 21..200),
        ) {
            let keys: Vec<String> = keys.into_iter().collect();
            let mut sorted = sort(&keys);
            sorted.sort();
            prop_assert_eq!(sorted, keys);
        }

        #[test]
        fn keys_with_a_total_order_are_sorted_by_it(keys in prop::collection::btree_set("[a-c-]{1,4}", 21..60)) {
            let keys: Vec<String> = keys.into_iter().collect();
            let sorted = sort(&keys);
            let characters = |key: &str| key.chars().collect::<Vec<_>>();
            prop_assert!(sorted.is_sorted_by(|one, other| is_less(&characters(one), &characters(other))));
        }
    }
}
