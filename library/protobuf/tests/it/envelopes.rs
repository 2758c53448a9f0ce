//! Lists and watch streams that arrive in chunks of any size.

use crate::common::{Random, records};
use bytes::Bytes;
use kube_protobuf::envelope::{self, EventType, ListItem, ListMeta, ListSplitter, WatchSplitter};
use kube_protobuf::{Envelope, ErrorKind, Options, TypeMeta, from_body, raw, schema, ser};
use serde_json::{Value, json};

const PODS: TypeMeta<'static> = TypeMeta {
    api_version: "v1",
    kind: "PodList",
};

fn pod(name: &str) -> Vec<u8> {
    let message = schema::lookup("v1", "Pod").unwrap();
    let pod = json!({"metadata": {"name": name, "namespace": "shop", "uid": "u", "resourceVersion": "7"}});
    ser::value_to_message(message, &pod).unwrap()
}

/// The items of a body that arrives in pieces of at most `size` bytes.
fn split(body: &[u8], size: usize, limit: usize) -> Result<(Vec<ListItem>, ListMeta), kube_protobuf::Error> {
    let (mut splitter, mut items) = (ListSplitter::new(limit), Vec::new());
    for chunk in body.chunks(size) {
        splitter.push(Bytes::copy_from_slice(chunk));
        while let Some(item) = splitter.next_item()? {
            assert!(splitter.kind().ends_with("List"));
            items.push(item);
        }
    }
    Ok((items, splitter.finish()?))
}

fn list() -> (Vec<Vec<u8>>, Vec<u8>, ListMeta) {
    let mut meta = ListMeta::new("42");
    meta.continue_token = "next".to_owned();
    meta.remaining_item_count = Some(0);
    meta.shard_selector = Some("0/2".to_owned());
    let pods = vec![pod("a"), pod(&"b".repeat(300)), pod("c")];
    let body = envelope::to_list_body(PODS, &meta, pods.iter().map(Vec::as_slice));
    (pods, body, meta)
}

#[test]
fn a_list_is_split_into_items_whatever_the_chunks() {
    let (pods, body, meta) = list();
    for size in [1, 2, 3, 7, 64, 100, 1000, body.len()] {
        let (items, found) = split(&body, size, 1 << 20).unwrap();
        let expected: Vec<_> = pods
            .iter()
            .map(|pod| ListItem::Object(Bytes::from(pod.clone())))
            .collect();
        assert_eq!(items, expected, "chunks of {size}");
        assert_eq!(found, meta);
    }
}

#[test]
fn the_type_comes_from_the_envelope_and_items_have_none() {
    let (_, body, _) = list();
    let list: Value = from_body(&body, &Options::default()).unwrap();
    assert_eq!(
        (&list["apiVersion"], &list["kind"]),
        (&json!("v1"), &json!("PodList"))
    );
    let item = list["items"][0].as_object().unwrap();
    assert!(!item.contains_key("apiVersion") && !item.contains_key("kind"));

    let body = ser::to_body(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})).unwrap();
    let pod: Value = from_body(&body, &Options::default()).unwrap();
    assert_eq!((&pod["apiVersion"], &pod["kind"]), (&json!("v1"), &json!("Pod")));
}

#[test]
fn a_list_written_by_go_is_split_as_it_decodes() {
    let mut lists = 0;
    for record in records() {
        let envelope = Envelope::parse(&record.body).unwrap();
        let Some(item) = envelope.message().unwrap().items() else {
            continue;
        };
        let json: Value = serde_json::from_slice(&record.json).unwrap();
        let mut splitter = ListSplitter::new(1 << 24);
        let mut items = Vec::new();
        for chunk in record.body.chunks(97) {
            splitter.push(Bytes::copy_from_slice(chunk));
            while let Some(found) = splitter.next_item().unwrap() {
                let ListItem::Object(bytes) = found else {
                    panic!("too large")
                };
                items.push(
                    kube_protobuf::from_message::<Value>(item, &bytes, None, &Options::default()).unwrap(),
                );
            }
        }
        let meta = splitter
            .finish()
            .unwrap_or_else(|error| panic!("{}: {error}", envelope.kind));
        let expected = json["items"].as_array().cloned().unwrap_or_default();
        assert_eq!(items, expected);
        assert_eq!(
            meta.resource_version,
            json["metadata"]["resourceVersion"].as_str().unwrap_or_default()
        );
        lists += 1;
    }
    assert!(lists > 300, "{lists}");
}

#[test]
fn an_item_that_is_too_large_is_skipped_and_known_by_its_key() {
    let (pods, body, meta) = list();
    for size in [1, 50, body.len()] {
        let (items, found) = split(&body, size, 200).unwrap();
        assert_eq!((items.len(), &found), (3, &meta));
        let ListItem::TooLarge { size, prefix } = &items[1] else {
            panic!("{items:?}")
        };
        assert_eq!(*size, pods[1].len() as u64);
        let header = raw::header_of_prefix(prefix);
        assert_eq!(
            (header.namespace, header.name),
            ("shop", "b".repeat(300).as_str())
        );
        assert_eq!(items[2], ListItem::Object(Bytes::from(pods[2].clone())));
    }
}

#[test]
fn an_incomplete_list_is_an_error() {
    let (_, body, _) = list();
    for end in 0..body.len() {
        // The last four bytes are two empty fields.
        let complete = body.len() - end <= 4 && (body.len() - end) % 2 == 0;
        assert_eq!(
            split(&body[..end], 13, 1 << 20).is_ok(),
            complete,
            "{end} of {}",
            body.len()
        );
    }
}

#[test]
fn a_body_that_is_no_list_is_an_error() {
    let status = ser::to_body(&json!({"apiVersion": "v1", "kind": "Status", "code": 410})).unwrap();
    let error = split(&status, 5, 1 << 20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotAList);
    assert!(split(b"{\"kind\":\"PodList\"}", 5, 1 << 20).is_err());
    assert_eq!(
        from_body::<Value>(&status, &Options::default()).unwrap()["code"],
        json!(410)
    );
}

#[test]
fn broken_lists_never_panic() {
    let (_, body, _) = list();
    let mut random = Random(7);
    for _ in 0..3000 {
        let mut broken = body.clone();
        for _ in 0..3 {
            let at = random.below(broken.len());
            broken[at] = random.next() as u8;
        }
        let _ = split(
            &broken[..random.below(broken.len())],
            1 + random.below(64),
            1 << 10,
        );
    }
}

fn frame(event: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    envelope::to_watch_frame(
        event,
        &envelope::to_body(
            TypeMeta {
                api_version: "v1",
                kind,
            },
            raw,
        ),
    )
}

#[test]
fn a_watch_is_split_into_events_whatever_the_chunks() {
    let status = schema::lookup("v1", "Status").unwrap();
    let gone = ser::value_to_message(status, &json!({"reason": "Expired", "code": 410})).unwrap();
    let stream = [
        frame("ADDED", "Pod", &pod("a")),
        frame("BOOKMARK", "Pod", &pod("")),
        frame("ERROR", "Status", &gone),
    ]
    .concat();
    for size in [1, 2, 5, 64, stream.len()] {
        let (mut splitter, mut events) = (WatchSplitter::new(1 << 20), Vec::new());
        for chunk in stream.chunks(size) {
            splitter.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = splitter.next_event().unwrap() {
                events.push(event.unwrap());
            }
        }
        assert!(splitter.is_at_boundary());
        let types: Vec<_> = events.iter().map(|event| event.event.clone()).collect();
        assert_eq!(types, [EventType::Added, EventType::Bookmark, EventType::Error]);
        assert_eq!(raw::header(&events[0].raw().unwrap()).unwrap().name, "a");
        let status: Value = events[2].envelope().unwrap().decode(&Options::default()).unwrap();
        assert_eq!(
            (&status["kind"], &status["code"]),
            (&json!("Status"), &json!(410))
        );
    }
}

#[test]
fn an_event_that_is_too_large_is_skipped_and_known_by_its_key() {
    let stream = [
        frame("MODIFIED", "Pod", &pod(&"b".repeat(300))),
        frame("DELETED", "Pod", &pod("a")),
    ]
    .concat();
    for size in [1, 100, stream.len()] {
        let (mut splitter, mut events) = (WatchSplitter::new(200), Vec::new());
        for chunk in stream.chunks(size) {
            splitter.push(Bytes::copy_from_slice(chunk));
            while let Some(event) = splitter.next_event().unwrap() {
                events.push(event);
            }
        }
        let Err(truncated) = &events[0] else {
            panic!("{events:?}")
        };
        assert_eq!(
            (truncated.event(), truncated.header().name),
            (EventType::Modified, "b".repeat(300).as_str())
        );
        assert_eq!(events[1].as_ref().unwrap().event, EventType::Deleted);
        assert_eq!(events.len(), 2);
    }
}
