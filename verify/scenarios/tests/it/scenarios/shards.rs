//! Sharded lists and watches, which a server supports only if configured.

use kube::api::PostParams;
use kube_informers_e2e::Server;
use serde_json::json;

use crate::scenarios::support::{Outcome, config_map, frames, get, get_as, merge, namespace, scenarios};

scenarios! {
    shards_partition_a_collection_by_uid_hash: Setup::sharding();
    invalid_shard_selectors_are_rejected_alike: Setup::sharding();
    server_without_shard_support_ignores_the_selector: Setup::shared();
}

const HALF: &str = "0x8000000000000000";
const END: &str = "0x10000000000000000";

fn encoded(selector: &str) -> String {
    selector
        .bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

fn range(field: &str, from: &str, to: &str) -> String {
    format!("shardRange(object.metadata.{field}, '{from}', '{to}')")
}

/// 64-bit FNV-1a, by which servers assign objects to shards.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

async fn shards_partition_a_collection_by_uid_hash(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    let (mut low, mut high) = (Vec::new(), Vec::new());
    for i in 0..40 {
        let map = maps
            .create(&PostParams::default(), &config_map(&format!("map-{i:02}"), 0))
            .await?;
        let uid = map.metadata.uid.unwrap_or_default();
        if hash(&uid) < 1 << 63 {
            low.push(format!("map-{i:02}"))
        } else {
            high.push(format!("map-{i:02}"))
        }
    }
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?labelSelector=even",
        namespace.name
    );
    let lower = range("uid", "0x0000000000000000", HALF);
    let upper = range("uid", HALF, END);

    for (selector, names) in [(&lower, &low), (&upper, &high)] {
        let sharded = format!("{path}&shardSelector={}", encoded(selector));
        let list = get(&client, &sharded).await?;
        assert_eq!(list.code, 200, "{}", list.text);
        assert_eq!(&list.names(), names);
        assert_eq!(
            list.text_at("/metadata/shardInfo/selector"),
            selector,
            "the repeated selector proves that the server applied it"
        );
        let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
        let metadata = get_as(&client, &sharded, metadata).await?;
        assert_eq!(&metadata.names(), names);
        assert_eq!(
            metadata.json.pointer("/metadata/shardInfo"),
            None,
            "metadata-only lists do not repeat the selector"
        );

        let watched = frames(&client, &format!("{sharded}&watch=1&timeoutSeconds=1")).await?;
        let names_seen: Vec<&str> = watched
            .iter()
            .filter_map(|frame| frame["object"]["metadata"]["name"].as_str())
            .collect();
        assert_eq!(&names_seen, names);
    }
    // A watch delivers the changes of its half only.
    let version = get(&client, &path)
        .await?
        .text_at("/metadata/resourceVersion")
        .to_owned();
    for name in low.iter().take(2).chain(high.iter().take(3)) {
        merge(&maps, name, json!({ "data": { "value": "1" } })).await?;
    }
    let query = format!(
        "{path}&watch=1&timeoutSeconds=1&resourceVersion={version}&shardSelector={}",
        encoded(&lower)
    );
    let names_seen: Vec<String> = frames(&client, &query)
        .await?
        .iter()
        .filter_map(|frame| frame["object"]["metadata"]["name"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(names_seen, low.iter().take(2).cloned().collect::<Vec<_>>());

    // The selector is normalized.
    let other = format!("( {} )", lower.replace('\'', "\"").replace(", ", ","));
    let list = get(&client, &format!("{path}&shardSelector={}", encoded(&other))).await?;
    assert_eq!(list.text_at("/metadata/shardInfo/selector"), lower);

    // Pages, and both halves together.
    let page = get(
        &client,
        &format!("{path}&limit=3&shardSelector={}", encoded(&upper)),
    )
    .await?;
    assert_eq!(
        page.names(),
        high.iter().take(3).map(String::as_str).collect::<Vec<_>>()
    );
    let both = get(
        &client,
        &format!("{path}&shardSelector={}", encoded(&format!("{lower} || {upper}"))),
    )
    .await?;
    assert_eq!(both.names().len(), 40);
    Ok(())
}

async fn invalid_shard_selectors_are_rejected_alike(server: &Server) -> Outcome {
    let client = server.client()?;
    let zero = "0x0000000000000000";
    let bad = [
        (
            range("name", zero, HALF),
            "unsupported field path \"object.metadata.name\"; supported: object.metadata.uid, object.metadata.namespace",
        ),
        (
            range("uid", "0x0", HALF),
            "hexStart must be a 0x-prefixed 16-digit hex value, got \"0x0\" (did you mean \"0x0000000000000000\"?)",
        ),
        (
            range("uid", zero, "8000000000000000"),
            "hexEnd must have '0x' prefix, got \"8000000000000000\"",
        ),
        (
            range("uid", zero, "0xF000000000000000"),
            "hexEnd: invalid hex character \"F\" in \"0xF000000000000000\"",
        ),
        (
            range("uid", HALF, zero),
            "shard range start 0x8000000000000000 must be less than end 0x0000000000000000",
        ),
        (
            format!(
                "{} || {}",
                range("uid", zero, HALF),
                range("namespace", HALF, END)
            ),
            "all shard ranges must use the same field, got \"object.metadata.uid\" and \"object.metadata.namespace\"",
        ),
        (
            "object.metadata.uid == 'x'".to_owned(),
            "unsupported function \"_==_\"; only shardRange() and || are allowed",
        ),
    ];
    for (selector, why) in bad {
        for verb in ["", "&watch=1&timeoutSeconds=1"] {
            let path = format!("/api/v1/configmaps?shardSelector={}{verb}", encoded(&selector));
            let message = format!("invalid shard selector: {why}");
            assert_eq!(
                get(&client, &path).await?.status(),
                (500, "", message.as_str()),
                "{selector}"
            );
        }
    }
    Ok(())
}

async fn server_without_shard_support_ignores_the_selector(server: &Server) -> Outcome {
    let client = server.client()?;
    let namespace = namespace(&client).await?;
    let maps = namespace.config_maps();
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name, 0)).await?;
    }
    let path = format!(
        "/api/v1/namespaces/{}/configmaps?labelSelector=even",
        namespace.name
    );
    let nothing = range("uid", HALF, "0x8000000000000001");
    let list = get(&client, &format!("{path}&shardSelector={}", encoded(&nothing))).await?;
    assert_eq!(list.names(), ["a", "b", "c"]);
    assert_eq!(list.json.pointer("/metadata/shardInfo"), None);
    namespace.delete().await?;
    Ok(())
}
