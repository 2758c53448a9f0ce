use k8s_openapi::api::core::v1::ConfigMap;
use kube_testserver::TestServer;
use kube_testserver::builders::config_map;
use proptest::prelude::*;

use super::*;

/// Hashes with many at the edges, where mistakes are.
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

/// Every place where an answer can change, and what is beside it.
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

fn is_tidy(shard: &Shard) -> bool {
    shard
        .ranges()
        .windows(2)
        .all(|pair| pair[0].end() < u128::from(pair[1].start()))
}

proptest! {
    #[test]
    fn a_split_covers_everything_once(ranges in ranges(), parts in 0_u32..70) {
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
    fn sets_of_hashes_obey_the_laws_of_sets(one in shard(), other in shard()) {
        let union = one.union(&other).unwrap();
        let difference = one.difference(&other).unwrap();
        let intersection = one.intersection(&other).unwrap();
        for set in [&one, &other, &union, &difference, &intersection] {
            prop_assert!(is_tidy(set), "{}", set);
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
    fn merging_keeps_what_is_covered(ranges in ranges()) {
        let shard = Shard::new(ShardField::Namespace, ranges.clone());
        prop_assert!(is_tidy(&shard));
        for hash in probes(&[&shard]) {
            prop_assert_eq!(shard.covers_hash(hash), ranges.iter().any(|range| range.contains(hash)));
        }
    }

    #[test]
    fn a_range_is_read_as_it_is_written(ranges in ranges()) {
        for range in ranges {
            prop_assert_eq!(range.to_string().parse::<ShardRange>(), Ok(range));
        }
    }

    #[test]
    fn no_text_makes_a_range_panic(text in ".{0,60}|0x[0-9a-f]{0,20}-0x[0-9a-f]{0,20}") {
        if let Ok(range) = text.parse::<ShardRange>() {
            prop_assert!(u128::from(range.start()) < range.end());
        }
    }
}

#[test]
fn the_hash_is_the_well_known_one() {
    assert_eq!(shard_hash(""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(shard_hash("a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(shard_hash("foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn everything_and_nothing_need_no_selector() {
    let nothing = Shard::nothing(ShardField::Uid);
    let everything = Shard::new(ShardField::Namespace, ShardRange::ALL.split(7));

    assert!(nothing.is_empty() && !nothing.is_everything() && !nothing.covers_hash(0));
    assert!(everything.is_everything() && everything.covers_hash(u64::MAX));
    assert_eq!((nothing.selector(), everything.selector()), (None, None));
    assert_eq!(nothing.to_string(), "no uid");
    assert_eq!(everything.to_string(), "every namespace");
}

#[test]
fn bad_ranges_say_what_is_wrong() {
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
fn shards_over_different_fields_do_not_mix() {
    let uid = Shard::everything(ShardField::Uid);
    let namespace = Shard::everything(ShardField::Namespace);

    let error = uid.union(&namespace).unwrap_err();
    assert_eq!(
        error.to_string(),
        "one shard is over the uid and the other over the namespace: use the same field for both"
    );
    assert!(uid.difference(&namespace).is_err());
}

/// The text is what the server reads, and both put each object on the same side.
#[tokio::test(start_paused = true)]
async fn the_server_reads_the_selector_and_selects_the_same() {
    let server = TestServer::builder().sharding().build();
    for number in 0..200 {
        server.create(config_map(
            &format!("space-{}", number % 17),
            &format!("map-{number}"),
        ));
    }
    let all = list(&server, None).await;
    assert_eq!(all.len(), 200);
    let pieces = ShardRange::ALL.split(16);
    for field in [ShardField::Uid, ShardField::Namespace] {
        for chosen in [vec![0], vec![15], vec![3, 4, 9], (1..16).collect()] {
            let shard = Shard::new(field, chosen.iter().map(|piece| pieces[*piece]));
            let selector = shard.selector().unwrap();
            let mut expected = all.clone();
            expected.retain(|map| shard.contains(map));

            assert_eq!(list(&server, Some(&selector)).await, expected, "{shard}");
        }
    }
}

async fn list(server: &TestServer, selector: Option<&str>) -> Vec<ConfigMap> {
    let selector = selector.map_or_else(String::new, |selector| {
        let encoded: String = form_urlencoded::byte_serialize(selector.as_bytes()).collect();
        format!("?shardSelector={encoded}")
    });
    let request = http::Request::get(format!("/api/v1/configmaps{selector}"))
        .body(Vec::new())
        .unwrap();
    let list: kube::core::ObjectList<ConfigMap> = server.client().request(request).await.unwrap();
    list.items
}
