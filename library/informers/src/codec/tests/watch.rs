//! Watch bodies.

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use serde_json::json;

use super::super::json::frames::FrameSplitter;
use super::noise::Noise;
use super::*;

/// A watch body: its frames, its bytes, and the end of each frame.
fn body(noise: &mut Noise) -> (Vec<Value>, Vec<u8>, Vec<usize>) {
    let mut frames = Vec::new();
    let mut bytes = Vec::new();
    let mut ends = Vec::new();
    for _ in 0..noise.below(6) {
        let mut frame = json!({"type": noise.text()});
        if noise.below(8) > 0 {
            frame["object"] = noise.item();
        }
        if noise.below(8) == 7 {
            frame["extra"] = noise.value(2);
        }
        noise.write(&frame, &mut bytes);
        ends.push(bytes.len());
        bytes.extend([&b"\n"[..], b"", b"\r\n", b" \n\n"][noise.below(4) as usize]);
        frames.push(frame);
    }
    (frames, bytes, ends)
}

fn split(chunks: Vec<Bytes>) -> Option<Vec<Value>> {
    let mut splitter = FrameSplitter::new(usize::MAX);
    let mut frames = Vec::new();
    for chunk in chunks {
        splitter.push(chunk);
        while let Some(frame) = splitter.next().ok()? {
            let mut value: Value = serde_json::from_slice(frame.head).unwrap();
            if let Some(object) = frame.object {
                value["object"] = serde_json::from_slice(object.bytes).unwrap();
            }
            frames.push(value);
        }
    }
    Some(frames)
}

#[test]
fn a_frame_without_its_object_has_up_to_64_kib() {
    // The object counts as `null`.
    let frame = |size: usize| {
        let around = r#"{"extra":"","object":null}"#.len();
        let extra = "x".repeat(size - around);
        vec![Bytes::from(format!(
            r#"{{"extra":"{extra}","object":{{"a":1}}}}"#
        ))]
    };

    assert_eq!(split(frame(64 << 10)).map(|frames| frames.len()), Some(1));
    assert_eq!(split(frame((64 << 10) + 1)), None);
}

proptest! {
    #[test]
    fn a_watch_splits_into_its_frames_for_any_chunks(
        noise in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(any::<usize>(), 0..12),
    ) {
        let (frames, bytes, _) = body(&mut Noise::new(noise));
        prop_assert_eq!(split(chunks(&bytes, &cuts)), Some(frames));
    }

    #[test]
    fn f39_only_complete_frames_are_returned(
        noise in prop::collection::vec(any::<u8>(), 0..300),
        cut in any::<prop::sample::Index>(),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let (mut frames, bytes, ends) = body(&mut Noise::new(noise));
        let cut = cut.index(bytes.len() + 1);

        let seen = split(chunks(&bytes[..cut], &cuts));

        frames.truncate(ends.iter().filter(|end| **end <= cut).count());
        prop_assert_eq!(seen, Some(frames));
    }
}

fn watch(decoding: Decoding<Pod>, body: &str) -> Result<Vec<String>, SourceError> {
    read_watch(
        &mut *Codec::<Pod>::new().watch_decoder(None, decoding).unwrap(),
        vec![body.to_owned().into()],
    )
}

fn read(body: &str) -> Result<Vec<String>, SourceError> {
    let one = watch(pods(), body);
    for size in [1, 2, 3, 7, 64] {
        let parts = body.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect();
        let many = read_watch(
            &mut *Codec::<Pod>::new().watch_decoder(None, pods()).unwrap(),
            parts,
        );
        assert_eq!(
            one.as_ref().map_err(ToString::to_string),
            many.as_ref().map_err(ToString::to_string),
            "the same in chunks of {size}"
        );
    }
    one
}

fn event(kind: &str, object: Value) -> String {
    json!({"type": kind, "object": object}).to_string()
}

#[test]
fn frames_need_neither_newlines_nor_a_member_order() {
    let (a, b, c) = (pod("a", "1"), pod("b", "2"), pod("c", "3"));
    let body = format!(
        "{{\"type\":\"ADDED\",\"object\":{a}}}{{\"object\":{b},\"type\":\"MODIFIED\"}}\n\n{{ \"x\":[1], \"\\u0074ype\" : \"DELETED\" , \"object\" :{c} }}"
    );
    assert_eq!(
        read(&body).unwrap(),
        ["added shop/a@1", "modified shop/b@2", "deleted shop/c@3"]
    );
}

#[test]
fn only_a_bookmark_ends_the_initial_events() {
    let end = json!({"k8s.io/initial-events-end": "true"});
    let mut liar = pod("a", "5");
    liar["metadata"]["annotations"] = end.clone();
    let body = [
        event("ADDED", liar),
        event("BOOKMARK", json!({"kind": "Pod", "metadata": {"resourceVersion": "6"}})),
        event("BOOKMARK", json!({"metadata": {"resourceVersion": "7", "annotations": {"k8s.io/initial-events-end": "yes"}}})),
        event("BOOKMARK", json!({"metadata": {"resourceVersion": "8", "annotations": end}})),
    ]
    .join("\n");
    assert_eq!(
        read(&body).unwrap(),
        ["added shop/a@5", "bookmark 6", "bookmark 7", "bookmark 8 end"]
    );
}

#[test]
fn f10_a_bookmark_without_a_version_or_of_another_kind_has_no_version() {
    let body = [
        event("BOOKMARK", json!({"metadata": {"resourceVersion": ""}})),
        event("BOOKMARK", json!({"metadata": 5})),
        event("BOOKMARK", json!(null)),
        event(
            "BOOKMARK",
            json!({"kind": "Node", "apiVersion": "v1", "metadata": {"resourceVersion": "9"}}),
        ),
    ]
    .concat();
    assert_eq!(
        read(&body).unwrap(),
        [
            "bookmark -",
            "bookmark -",
            "bookmark -",
            "an object without a readable name is a v1/Node, not a v1/Pod (68 bytes)"
        ]
    );
}

#[test]
fn an_error_event_carries_its_status() {
    let status = json!({"kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired",
        "message": "too old resource version: 1 (5)"});
    let expired = "error: the server returned 410 Expired: too old resource version: 1 (5)";
    let body = [
        event("ERROR", status.clone()),
        status.to_string(),
        event("ERROR", json!("what")),
        r#"{"type":"ERROR"}"#.to_owned(),
    ]
    .join("\n");
    assert_eq!(
        read(&body).unwrap(),
        [
            expired,
            expired,
            "error: the server reported an error: it sent no readable Status",
            "error: the server reported an error: it sent no readable Status"
        ]
    );
}

#[test]
fn an_unknown_event_type_is_reported_per_object_and_the_stream_continues() {
    let body = [
        event("PATCHED", pod("a", "5")),
        event("PATCHED", json!(null)),
        event("PATCHED", json!({})),
        event("not a word", pod("b", "6")),
        event("ADDED", pod("c", "7")),
    ]
    .concat();
    let size = pod("a", "5").to_string().len();
    assert_eq!(
        read(&body).unwrap(),
        [
            format!("object shop/a at version 5 cannot be decoded: the event type \"PATCHED\" is unknown ({size} bytes)"),
            "an object without a readable name cannot be decoded: the event type \"PATCHED\" is unknown (4 bytes)".into(),
            format!("object shop/b at version 6 cannot be decoded: its event type is unknown ({size} bytes)"),
            "added shop/c@7".into(),
        ]
    );
}

#[test]
fn f14_an_undecodable_event_affects_one_object() {
    let mut bad = pod("bad", "6");
    bad["spec"]["containers"] = json!("none");
    let size = bad.to_string().len();
    let trouble = format!(
        "object shop/bad at version 6 cannot be decoded: spec.containers: invalid type: a string, expected a sequence ({size} bytes)"
    );
    let body = [
        event("ADDED", bad.clone()),
        event("DELETED", bad),
        event("ADDED", pod("ok", "7")),
    ]
    .concat();

    assert_eq!(
        read(&body).unwrap(),
        [
            trouble.clone(),
            format!("deleted: {trouble}"),
            "added shop/ok@7".into()
        ]
    );
}

#[test]
fn bodies_that_are_not_a_watch_are_rejected() {
    let refusal = |body: &str| read(body).unwrap_err().to_string();

    assert!(refusal("<html>").contains("not from an API server"));
    assert!(refusal("no").contains("does not start with an object"));
    assert!(refusal("{\"kind\":\"PodList\",\"items\":[]}").contains("without an event type"));
    assert!(refusal("{\"type\":5,\"object\":{}}").contains("type: invalid type: an integer"));
    assert!(refusal("{\"object\":{},\"object\":{}}").contains("two members named \"object\""));
    assert!(refusal("{\"type\":\"ADDED\" \"object\":{}}").contains("unexpected byte at offset 16"));
    assert!(
        refusal(&event(
            "ADDED",
            json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1"})
        ))
        .contains("a Table")
    );
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(70_000));
    assert!(refusal(&long).contains("the response is not a watch"));
}

#[test]
fn an_event_without_an_object_is_reported_as_unreadable() {
    let lines = read(r#"{"type":"ADDED"}{"type":"DELETED","object":null}"#).unwrap();
    assert_eq!(lines.len(), 2);
    assert!(
        lines.iter().all(|line| line.contains("expected an object")),
        "{lines:?}"
    );
}
