use proptest::prelude::*;

use super::*;

/// Bounds that are often at the edges of the hash space.
fn bound() -> impl Strategy<Value = u128> {
    prop_oneof![
        Just(0_u128),
        Just(1),
        Just(1 << 63),
        Just((1 << 64) - 1),
        Just(1 << 64),
        0_u128..24,
        any::<u64>().prop_map(u128::from),
    ]
}

fn ranges() -> impl Strategy<Value = Vec<ShardRange>> {
    let range = (bound(), bound()).prop_filter_map("not empty", |(one, other)| {
        let start = u64::try_from(one.min(other)).ok()?;
        ShardRange::between(start, one.max(other)).ok()
    });
    prop::collection::vec(range, 0..6)
}

fn shard() -> impl Strategy<Value = Shard> {
    ranges().prop_map(|ranges| Shard::new(ShardField::Uid, ranges))
}

/// The bounds of all ranges and their neighbours.
fn probes(shards: &[&Shard]) -> Vec<u64> {
    let edges = shards.iter().flat_map(|shard| shard.ranges()).flat_map(|range| {
        [
            range.start(),
            range.start().wrapping_sub(1),
            range.end() as u64,
            (range.end() - 1) as u64,
        ]
    });
    edges.chain([0, 1, 12, u64::MAX, 1 << 63]).collect()
}

fn is_normalized(shard: &Shard) -> bool {
    shard
        .ranges()
        .windows(2)
        .all(|pair| pair[0].end() < u128::from(pair[1].start()))
}

proptest! {
    #[test]
    fn a_split_covers_each_hash_exactly_once(ranges in ranges(), parts in 0_u32..70) {
        for range in ranges.into_iter().chain([ShardRange::ALL]) {
            let pieces = range.split(parts);
            prop_assert_eq!(pieces[0].start(), range.start());
            prop_assert_eq!(pieces[pieces.len() - 1].end(), range.end());
            for pair in pieces.windows(2) {
                prop_assert_eq!(pair[0].end(), u128::from(pair[1].start()));
            }
            let size = |piece: &ShardRange| piece.end() - u128::from(piece.start());
            let smallest = pieces.iter().map(size).min().unwrap();
            let largest = pieces.iter().map(size).max().unwrap();
            prop_assert!(largest - smallest <= 1);
            let fitting = u128::from(parts.max(1)).min(range.end() - u128::from(range.start()));
            prop_assert_eq!(pieces.len() as u128, fitting);
        }
    }

    #[test]
    fn union_difference_and_intersection_obey_set_laws(one in shard(), other in shard()) {
        let union = one.union(&other).unwrap();
        let difference = one.difference(&other).unwrap();
        let intersection = one.intersection(&other).unwrap();
        for set in [&one, &other, &union, &difference, &intersection] {
            prop_assert!(is_normalized(set), "{}", set);
        }
        for hash in probes(&[&one, &other]) {
            let (in_one, in_other) = (one.covers_hash(hash), other.covers_hash(hash));
            prop_assert_eq!(in_one, one.ranges().iter().any(|range| range.contains(hash)));
            prop_assert_eq!(union.covers_hash(hash), in_one || in_other);
            prop_assert_eq!(difference.covers_hash(hash), in_one && !in_other);
            prop_assert_eq!(intersection.covers_hash(hash), in_one && in_other);
        }
        prop_assert_eq!(difference.union(&intersection).unwrap(), one.clone());
        prop_assert_eq!(one.union(&other).unwrap(), other.union(&one).unwrap());
        prop_assert!(one.difference(&one).unwrap().is_empty());
    }

    #[test]
    fn merging_ranges_preserves_coverage(ranges in ranges()) {
        let shard = Shard::new(ShardField::Namespace, ranges.clone());
        prop_assert!(is_normalized(&shard));
        for hash in probes(&[&shard]) {
            prop_assert_eq!(shard.covers_hash(hash), ranges.iter().any(|range| range.contains(hash)));
        }
    }

    #[test]
    fn a_displayed_range_parses_to_itself(ranges in ranges()) {
        for range in ranges {
            prop_assert_eq!(range.to_string().parse::<ShardRange>(), Ok(range));
        }
    }

    #[test]
    fn parsing_arbitrary_text_never_panics(text in ".{0,60}|0x[0-9a-f]{0,20}-0x[0-9a-f]{0,20}") {
        if let Ok(range) = text.parse::<ShardRange>() {
            prop_assert!(u128::from(range.start()) < range.end());
        }
    }
}

#[test]
fn the_hash_is_fnv_1a() {
    assert_eq!(shard_hash(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(shard_hash("a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(shard_hash("foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn everything_and_nothing_have_no_selector() {
    let nothing = Shard::nothing(ShardField::Uid);
    let everything = Shard::new(ShardField::Namespace, ShardRange::ALL.split(7));

    assert!(nothing.is_empty() && !nothing.is_everything() && !nothing.covers_hash(0));
    assert!(everything.is_everything() && everything.covers_hash(u64::MAX));
    assert_eq!((nothing.selector(), everything.selector()), (None, None));
    assert_eq!(nothing.to_string(), "no uid");
    assert_eq!(everything.to_string(), "every namespace");
}

#[test]
fn invalid_ranges_are_rejected_with_a_reason() {
    let backwards = ShardRange::between(8, 8).unwrap_err();
    assert_eq!(
        backwards.to_string(),
        "0x0000000000000008-0x0000000000000008 is not a range of hashes: the end must be above the start and at \
         most 2^64"
    );
    assert!(ShardRange::between(0, (1 << 64) + 1).is_err());
    assert!(ShardRange::between(0, 0).is_err());
    for text in [
        "",
        "0x0",
        "0-8",
        "0x0-0x",
        "0x+1-0x+2",
        "0x1-0x0",
        "0x0-0x10000000000000001",
    ] {
        let error = text.parse::<ShardRange>().unwrap_err();
        assert!(error.to_string().contains("is not a range of hashes"), "{error}");
    }
}

#[test]
fn shards_by_different_fields_cannot_be_combined() {
    let uid = Shard::everything(ShardField::Uid);
    let namespace = Shard::everything(ShardField::Namespace);

    let error = uid.union(&namespace).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot combine a shard by uid with a shard by namespace: use the same field for both"
    );
    assert!(uid.difference(&namespace).is_err());
}

#[test]
fn membership_is_decided_by_the_field_of_the_shard() {
    let halves = ShardRange::ALL.split(2);
    let half_of = |text: &str| {
        halves
            .iter()
            .copied()
            .find(|half| half.contains(shard_hash(text)))
    };
    let by_uid = Shard::new(ShardField::Uid, half_of("a"));
    let complement = Shard::everything(ShardField::Uid).difference(&by_uid).unwrap();
    assert_eq!(by_uid.membership(Some("a"), None), Membership::Inside);
    assert_eq!(complement.membership(Some("a"), None), Membership::Outside);
    assert_eq!(by_uid.membership(None, Some("shop")), Membership::Unknown);
    assert_eq!(by_uid.membership(Some(""), Some("shop")), Membership::Unknown);

    let by_namespace = Shard::new(ShardField::Namespace, half_of(""));
    assert_eq!(by_namespace.membership(Some("a"), Some("")), Membership::Inside);
    assert_eq!(by_namespace.membership(Some("a"), None), Membership::Unknown);

    let everything = Shard::everything(ShardField::Uid);
    assert_eq!(everything.membership(None, None), Membership::Inside);
}
