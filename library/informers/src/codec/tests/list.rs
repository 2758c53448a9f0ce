//! List bodies.

use proptest::prelude::*;
use serde_json::json;

use super::super::json::list::ListSplitter;
use super::super::json::scan::{Outline, Span};
use super::noise::Noise;
use super::*;

/// A list body: its items and its bytes.
fn body(noise: &mut Noise) -> (Vec<Value>, Vec<u8>) {
    let items: Vec<Value> = (0..noise.below(6)).map(|_| noise.item()).collect();
    let mut list = json!({
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "continue": noise.text()},
    });
    for _ in 0..noise.below(3) {
        let key = format!("{}x", noise.text());
        list[key] = noise.value(3);
    }
    let items = match noise.below(8) {
        6 => {
            list["items"] = Value::Null;
            Vec::new()
        }
        7 => Vec::new(),
        _ => {
            list["items"] = json!(items);
            items
        }
    };
    let mut bytes = Vec::new();
    noise.write(&list, &mut bytes);
    (items, bytes)
}

/// The items, and the envelope if the body is complete.
type Split = (Vec<(Vec<u8>, Outline)>, Option<Vec<u8>>);

/// Splits a body.
fn split(chunks: Vec<Bytes>) -> Option<Split> {
    let mut splitter = ListSplitter::new(usize::MAX);
    let mut items = Vec::new();
    for chunk in chunks {
        splitter.push(chunk);
        while let Some(item) = splitter.next().ok()? {
            assert_eq!(item.size, item.bytes.len());
            items.push((item.bytes.to_vec(), item.outline));
        }
    }
    Some((items, splitter.envelope().map(<[u8]>::to_vec)))
}

#[derive(serde::Deserialize)]
struct Items {
    #[serde(rename = "items")]
    _items: Option<serde::de::IgnoredAny>,
}

proptest! {
    #[test]
    fn a_list_splits_into_its_items_for_any_chunks(
        noise in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (items, bytes) = body(&mut Noise::new(noise));

        let (split_items, envelope) = split(chunks(&bytes, &cuts)).expect("a valid body");

        let found: Vec<Value> = split_items.iter().map(|(item, _)| serde_json::from_slice(item).unwrap()).collect();
        prop_assert_eq!(found, items);
        let mut whole: Value = serde_json::from_slice(&bytes).unwrap();
        if whole["items"].is_array() {
            whole["items"] = json!([]);
        }
        prop_assert_eq!(serde_json::from_slice::<Value>(&envelope.expect("complete")).unwrap(), whole);
        prop_assert_eq!(split(vec![bytes.into()]).unwrap().0, split_items);
    }

    #[test]
    fn f39_a_truncated_list_is_never_complete(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let (_, bytes) = body(&mut Noise::new(noise));

        let outcome = split(chunks(&bytes[..cut.index(bytes.len())], &cuts));

        prop_assert!(outcome.is_none_or(|(_, envelope)| envelope.is_none()));
    }

    #[test]
    fn f39_a_list_with_one_wrong_byte_is_read_like_serde_or_rejected(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![any::<u8>(), prop::sample::select(b"{}[]\",:\\ n0".to_vec())],
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let (_, mut bytes) = body(&mut Noise::new(noise));
        let at = at.index(bytes.len());
        bytes[at] = byte;

        let ours = split(chunks(&bytes, &cuts)).and_then(|(items, envelope)| {
            let items = items.iter().map(|(item, _)| serde_json::from_slice::<Value>(item));
            let mut whole: Value = serde_json::from_slice(&envelope?).ok()?;
            let items = items.collect::<Result<Vec<_>, _>>().ok()?;
            if whole.get("items").is_some_and(Value::is_array) {
                whole["items"] = json!(items);
            }
            Some(whole)
        });
        let theirs = serde_json::from_slice::<Value>(&bytes).ok().filter(Value::is_object);

        // Intended difference: two members named `items` are rejected, where a tree keeps the last one.
        let twice = serde_json::from_slice::<Items>(&bytes)
            .is_err_and(|error| error.to_string().starts_with("duplicate field"));
        if ours.is_some() || !twice {
            prop_assert_eq!(ours, theirs);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(
        bytes in prop::collection::vec(prop::sample::select(b"{}[]\",:\\ nitems0a<\xff".to_vec()), 0..60),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let decoder = &mut *Codec::<k8s_openapi::api::core::v1::Pod>::new().list_decoder(None, pods()).unwrap();
        let _ = read_list(decoder, chunks(&bytes, &cuts));
        let decoder = &mut *Codec::<k8s_openapi::api::core::v1::Pod>::new().watch_decoder(None, pods()).unwrap();
        let _ = read_watch(decoder, chunks(&bytes, &cuts));
    }

    #[test]
    fn the_skimmed_identity_equals_the_one_serde_reads(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (items, bytes) = body(&mut Noise::new(noise));

        let (split_items, _) = split(chunks(&bytes, &cuts)).expect("a valid body");

        for ((raw, outline), item) in split_items.iter().zip(items) {
            let text = |span: Option<Span>| span.map(|span| span.text(raw).unwrap().into_owned());
            let said = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
            let metadata = item.get("metadata").cloned().unwrap_or_default();
            prop_assert_eq!(text(outline.api_version), said(item.get("apiVersion")));
            prop_assert_eq!(text(outline.kind), said(item.get("kind")));
            prop_assert_eq!(text(outline.name), said(metadata.get("name")));
            prop_assert_eq!(text(outline.namespace), said(metadata.get("namespace")));
            prop_assert_eq!(text(outline.uid), said(metadata.get("uid")));
            prop_assert_eq!(text(outline.resource_version), said(metadata.get("resourceVersion")));
        }
    }

    #[test]
    fn managed_fields_are_removed_from_the_metadata_only(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (items, bytes) = body(&mut Noise::new(noise));

        let (split_items, _) = split(chunks(&bytes, &cuts)).expect("a valid body");

        for ((raw, outline), mut item) in split_items.into_iter().zip(items) {
            let mut raw = raw;
            let had = item.get_mut("metadata").and_then(Value::as_object_mut).and_then(|m| m.remove("managedFields"));
            prop_assert_eq!(outline.managed_fields.is_some(), had.is_some());
            if let Some(cut) = outline.managed_fields {
                raw.drain(cut.start..cut.end);
            }
            prop_assert_eq!(serde_json::from_slice::<Value>(&raw).unwrap(), item);
        }
    }
}

use k8s_openapi::api::core::v1::Pod;

fn read(body: &str) -> Result<(Vec<String>, ListMeta), SourceError> {
    let one = read_list(
        &mut *Codec::<Pod>::new().list_decoder(None, pods()).unwrap(),
        vec![body.to_owned().into()],
    );
    let bytes = body.bytes().map(|byte| Bytes::copy_from_slice(&[byte])).collect();
    let many = read_list(
        &mut *Codec::<Pod>::new().list_decoder(None, pods()).unwrap(),
        bytes,
    );
    assert_eq!(
        one.as_ref().map_err(ToString::to_string),
        many.as_ref().map_err(ToString::to_string),
        "the same, whole and byte by byte"
    );
    one
}

fn refusal(body: &str) -> String {
    read(body).unwrap_err().to_string()
}

#[test]
fn a_page_has_its_token_and_remaining_count() {
    let body = json!({
        "kind": "PodList", "apiVersion": "v1",
        "metadata": {"resourceVersion": "9", "continue": "abc", "remainingItemCount": 4},
        "items": [pod("a", "1"), pod("b", "2")],
    });

    let (items, meta) = read(&body.to_string()).unwrap();

    assert_eq!(items, ["shop/a@1", "shop/b@2"]);
    assert_eq!(
        meta,
        ListMeta {
            resource_version: Some("9".into()),
            continue_token: Some("abc".into()),
            remaining: Some(4),
            shard_selector: None,
        }
    );
}

#[test]
fn an_empty_token_means_none_and_null_items_mean_an_empty_list() {
    let (items, meta) =
        read(r#"{"kind":"PodList","items":null,"metadata":{"continue":"","resourceVersion":"3"}}"#).unwrap();

    assert_eq!(items, [""; 0]);
    assert_eq!(meta.continue_token, None);
    assert_eq!(meta.resource_version.as_deref(), Some("3"));
    assert_eq!(read(r#"{"kind":"PodList"}"#).unwrap().1, ListMeta::default());
}

#[test]
fn escaped_keys_are_recognized() {
    let body = format!(r#"{{"\u0069tems":[{}],"\u006Betadata":{{}}}}"#, pod("a", "1"));
    assert_eq!(read(&body).unwrap().0, ["shop/a@1"]);
}

#[test]
fn items_that_are_not_objects_do_not_affect_the_others() {
    let body = format!(r#"{{"items":[1,"x",null,[{{}}],true,{},{{}}]}}"#, pod("a", "1"));

    let (items, _) = read(&body).unwrap();

    assert_eq!(items[5], "shop/a@1");
    assert_eq!(
        items
            .iter()
            .filter(|item| item.contains("expected an object"))
            .count(),
        5
    );
    assert_eq!(
        items[6],
        "an object without a readable name has no name (2 bytes)"
    );
}

#[test]
fn f39_a_body_with_trailing_data_is_rejected() {
    let list = r#"{"kind":"PodList","items":[]}"#;
    let status = r#"{"kind":"Status","status":"Failure","code":500}"#;

    assert_eq!(
        refusal(&format!("{list}\n{status}")),
        "the list has trailing data at offset 30"
    );
    assert_eq!(read(&format!(" {list} \n")).unwrap().0.len(), 0);
}

#[test]
fn f39_a_truncated_list_followed_by_a_status_is_rejected() {
    for half in [
        r#"{"kind":"PodList","items":["#,
        r#"{"kind":"PodList","items":[{"metadata":{"name":"a"}},{"metadata":"#,
        r#"{"kind":"PodList","items":[{"metadata":{"name":"a"}}"#,
        r#"{"kind":"PodList","items":[{"metadata":{"name":"a"#,
    ] {
        let error = refusal(&format!(
            r#"{half}{{"kind":"Status","status":"Failure","code":500}}"#
        ));
        assert!(
            error.contains("truncated") || error.contains("not JSON"),
            "{error}"
        );
    }
}

#[test]
fn no_other_object_passes_for_an_empty_list() {
    assert_eq!(refusal(""), "the response body is empty");
    assert_eq!(
        refusal("{}"),
        "the response is not a list: it has neither a kind nor items"
    );
    assert_eq!(
        refusal(r#"{"kind":"Status","status":"Success"}"#),
        "the response is a Status, not a list"
    );
    assert_eq!(
        refusal(&pod("a", "1").to_string()),
        "the response is not a list: it has neither a kind nor items"
    );
    assert!(refusal(r#"{"kind":"Pod","items":[]}"#).contains("a Pod, not a list"));
    assert!(refusal(r#"{"kind":"PodList","items":{}}"#).contains("items: invalid type: an object"));
    assert!(refusal(r#"{"items":[],"items":[]}"#).contains("two members named \"items\""));
    assert!(refusal(r#"{"items":[,]}"#).contains("unexpected byte at offset 10"));
    assert!(refusal(r#"{"items":[{},]}"#).contains("unexpected byte at offset 13"));
    assert!(refusal("[]").contains("does not start with an object"));
    assert!(refusal("OK").contains("does not start with an object"));
}

#[test]
fn html_is_reported_as_html() {
    assert_eq!(
        refusal("\n<!DOCTYPE html><html>log in here</html>"),
        "the response is HTML or XML, not from an API server: check the server address and any proxy in between"
    );
}

/// Upstream: TestIsUnsupportedTableObject
#[test]
fn a_table_is_rejected_with_an_explanation() {
    let table =
        r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{},"columnDefinitions":[],"rows":[]}"#;
    assert!(refusal(table).contains("the server sent a Table"));

    let large = format!(
        r#"{{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[{}]}}"#,
        vec![r#"{"cells":["something"]}"#; 60_000].join(",")
    );
    let decoder = &mut *Codec::<Pod>::new().list_decoder(None, pods()).unwrap();
    let error = read_list(decoder, vec![large.into()]).unwrap_err();
    assert!(error.to_string().contains("the server sent a Table"), "{error}");

    let item = r#"{"items":[{"kind":"Table","apiVersion":"meta.k8s.io/v1beta1"}]}"#;
    assert!(refusal(item).contains("the server sent a Table"));

    // A Table of another group is a wrong kind.
    let other =
        r#"{"items":[{"kind":"Table","apiVersion":"furniture.example/v1","metadata":{"name":"oak"}}]}"#;
    assert_eq!(
        read(other).unwrap().0,
        ["object oak is a furniture.example/v1/Table, not a v1/Pod (78 bytes)"]
    );
}

#[test]
fn other_encodings_are_rejected_by_name() {
    let codec = Codec::<Pod>::new();
    let error = codec
        .list_decoder(Some("application/x-protobuf"), pods())
        .err()
        .unwrap();
    assert!(error.to_string().contains("application/x-protobuf"), "{error}");
    assert!(codec.watch_decoder(Some("application/cbor-seq"), pods()).is_err());
    assert!(
        codec
            .list_decoder(Some("application/json; charset=utf-8"), pods())
            .is_ok()
    );
    assert!(codec.list_decoder(Some("text/plain"), pods()).is_ok());
}
