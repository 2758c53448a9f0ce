//! Objects of every kind in both encodings, whole and broken: every access returns what decoding finds, or an error.
//!
//! The objects are those of the suite of `kube-protobuf`, which Go wrote in both encodings.

use std::collections::BTreeSet;
use std::io::Read;

use bytes::Bytes;
use kube::core::DynamicObject;
use kube_informers::Object;
use kube_informers::codec::{Codec, Decoding, Expected};
use kube_informers::error::LazyError;
use kube_informers::lazy::{FieldPath, Lazy, Validate};
use kube_informers::source::{Fetched, WatchItem};
use kube_protobuf::{Envelope, Options, TypeMeta, envelope, from_message};
use serde_json::{Value, json};

type LazyObject = Lazy<DynamicObject>;

struct Record {
    body: Vec<u8>,
    json: Vec<u8>,
}

fn records() -> Vec<Record> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../protobuf/tests/data/objects.bin.gz"
    );
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    let file = std::fs::File::open(path).unwrap();
    flate2::read::MultiGzDecoder::new(file)
        .read_to_end(&mut bytes)
        .unwrap();
    let mut rest = &bytes[..];
    let mut piece = || {
        let (length, after) = rest.split_first_chunk::<4>()?;
        let (piece, after) = after.split_at(u32::from_le_bytes(*length) as usize);
        rest = after;
        Some(piece.to_vec())
    };
    while let Some(body) = piece() {
        records.push(Record {
            body,
            json: piece().unwrap(),
        });
    }
    records
}

fn codec() -> Codec<LazyObject> {
    Codec::new().validate(Validate::OnAccess)
}

/// Reads one watch event as an informer does.
fn receive(
    codec: &Codec<LazyObject>,
    content_type: &str,
    expected: &Expected,
    frame: Vec<u8>,
) -> Option<LazyObject> {
    let decoding = Decoding {
        expected: expected.clone(),
        known: None,
        drop_managed_fields: true,
        max_object_size: 1 << 20,
        shard: None,
    };
    let mut decoder = codec.watch_decoder(Some(content_type), decoding).unwrap();
    decoder.push(Bytes::from(frame));
    match decoder.next() {
        Ok(Some(WatchItem::Added(Fetched::New(object)))) => Some(*object),
        _ => None,
    }
}

fn receive_protobuf(expected: &Expected, raw: &[u8]) -> Option<LazyObject> {
    receive_protobuf_with(&codec(), expected, raw)
}

fn receive_protobuf_with(codec: &Codec<LazyObject>, expected: &Expected, raw: &[u8]) -> Option<LazyObject> {
    let type_meta = TypeMeta {
        api_version: &expected.api_version,
        kind: &expected.kind,
    };
    let frame = envelope::to_watch_frame("ADDED", &envelope::to_body(type_meta, raw));
    receive(
        codec,
        "application/vnd.kubernetes.protobuf;stream=watch",
        expected,
        frame,
    )
}

fn receive_json(expected: &Expected, json: &[u8]) -> Option<LazyObject> {
    receive_json_with(&codec(), expected, json)
}

fn receive_json_with(codec: &Codec<LazyObject>, expected: &Expected, json: &[u8]) -> Option<LazyObject> {
    let frame = [&br#"{"type":"ADDED","object":"#[..], json, b"}\n"].concat();
    receive(codec, "application/json", expected, frame)
}

/// The decoded truth.
fn truth(expected: &Expected, object: &LazyObject) -> Option<Value> {
    if !object.is_protobuf() {
        return serde_json::from_slice(&object.bytes()).ok();
    }
    let message = kube_protobuf::schema::lookup(&expected.api_version, &expected.kind)?;
    let type_meta = TypeMeta {
        api_version: &expected.api_version,
        kind: &expected.kind,
    };
    from_message(message, &object.bytes(), Some(type_meta), &Options::default()).ok()
}

/// The paths of the members of a tree, with their values.
fn paths(path: &str, value: &Value, out: &mut Vec<(String, Value)>) {
    if !path.is_empty() {
        out.push((path.to_owned(), value.clone()));
    }
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric());
                let path = match (is_name, path.is_empty()) {
                    (true, true) => key.clone(),
                    (true, false) => format!("{path}.{key}"),
                    (false, _) => {
                        let quoted = key.replace('\\', "\\\\").replace('"', "\\\"");
                        format!("{path}[\"{quoted}\"]")
                    }
                };
                paths(&path, value, out);
            }
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                paths(&format!("{path}[#{i}]"), value, out);
            }
        }
        _ => {}
    }
}

#[derive(Default)]
struct Counts {
    objects: usize,
    read: usize,
    errors: usize,
}

/// Compares all accesses with the truth. An error is always allowed.
fn check(expected: &Expected, object: &LazyObject, counts: &mut Counts) -> Option<Value> {
    let tree = truth(expected, object);
    let decoded = object.get();
    let projected = object.project::<Value>();
    let Some(tree) = tree else {
        // There is no truth: nothing may panic.
        for path in ["metadata", "spec", "status", "data", "metadata.labels.app"] {
            drop(object.value(path));
        }
        counts.errors += 1;
        return None;
    };
    counts.objects += 1;
    let what = || format!("{expected} protobuf: {}", object.is_protobuf());
    match projected {
        Ok(projected) => assert_eq!(projected, tree, "{}", what()),
        Err(_) => counts.errors += 1,
    }
    if let Ok(decoded) = &decoded {
        for (name, value) in decoded.data.as_object().unwrap() {
            assert_eq!(tree.get(name), Some(value), "{} {name}", what());
        }
        let meta = &decoded.metadata;
        assert_eq!(object.object_name(), meta.name.as_deref().unwrap_or_default());
        let is = |held: Option<&str>, decoded: Option<&str>| held == decoded.filter(|text| !text.is_empty());
        assert!(is(object.object_namespace(), meta.namespace.as_deref()));
        assert!(is(object.object_uid(), meta.uid.as_deref()));
        assert!(is(object.object_version(), meta.resource_version.as_deref()));
        let mut labels: Vec<_> = object.object_labels().collect();
        labels.sort_unstable();
        let decoded_labels = meta.labels.iter().flatten();
        assert!(
            labels
                .into_iter()
                .eq(decoded_labels.map(|(k, v)| (k.as_str(), v.as_str())))
        );
        let owners: Vec<_> = object.object_owners().map(|owner| owner.uid).collect();
        let decoded_owners = meta.owner_references.iter().flatten();
        assert!(
            owners
                .into_iter()
                .eq(decoded_owners.map(|owner| owner.uid.as_str()))
        );
    }
    let mut all = Vec::new();
    paths("", &tree, &mut all);
    for (path, value) in all.iter().filter(|(path, _)| !path.contains('\u{fffd}')).take(60) {
        match object.value(path) {
            Ok(found) => {
                assert_eq!(found.as_ref(), Some(value), "{} {path}", what());
                counts.read += 1;
            }
            Err(_) => counts.errors += 1,
        }
    }
    // Fields that the schema has and the object may lack.
    for path in [
        "metadata.deletionTimestamp",
        "metadata.generateName",
        "spec",
        "status",
        "data",
    ] {
        let path_in_tree: FieldPath = path.parse().unwrap();
        match object.value(path) {
            Ok(found) => assert_eq!(found.as_ref(), path_in_tree.find(&tree), "{} {path}", what()),
            Err(LazyError::Path { .. }) => {}
            Err(_) => counts.errors += 1,
        }
    }
    Some(tree)
}

fn check_changes(old: (&LazyObject, &Value), new: (&LazyObject, &Value), counts: &mut Counts) {
    let mut all = Vec::new();
    paths("", old.1, &mut all);
    for (path, was) in all.iter().filter(|(path, _)| !path.contains('\u{fffd}')).take(30) {
        let parsed: FieldPath = path.parse().unwrap();
        match new.0.changed(old.0, path) {
            Ok(changed) => {
                assert_eq!(changed, parsed.find(new.1) != Some(was), "{path}");
                counts.read += 1;
            }
            Err(_) => counts.errors += 1,
        }
    }
}

/// A small random number generator, so that failures can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// Cut, reordered, repeated, corrupted.
fn broken(bytes: &[u8], way: usize, random: &mut Random) -> Vec<u8> {
    let mut copy = bytes.to_vec();
    match way {
        0 => copy.truncate(random.below(bytes.len())),
        1 => {
            let at = random.below(bytes.len());
            if let Some(byte) = copy.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        2 => {
            let (start, length) = (random.below(bytes.len()), random.below(40));
            copy.drain(start..(start + length).min(bytes.len()));
        }
        _ => {
            let (start, length) = (random.below(bytes.len()), random.below(40));
            let piece = bytes[start..(start + length).min(bytes.len())].to_vec();
            let at = random.below(bytes.len());
            copy.splice(at..at, piece);
        }
    }
    copy
}

/// The fields of a message in another order, or some of them twice.
fn shuffled(raw: &[u8], repeat: bool, random: &mut Random) -> Vec<u8> {
    let (mut rest, mut parts) = (raw, Vec::new());
    while !rest.is_empty() {
        let start = rest;
        kube_protobuf::wire::part(&mut rest).unwrap();
        parts.push(&start[..start.len() - rest.len()]);
    }
    if repeat && !parts.is_empty() {
        parts.push(parts[random.below(parts.len())]);
    }
    for at in (1..parts.len()).rev() {
        parts.swap(at, random.below(at + 1));
    }
    parts.concat()
}

/// An object that a server could have sent: it has a name.
fn expected_of(record: &Record) -> Option<(Expected, Vec<u8>, Vec<u8>)> {
    let envelope = Envelope::parse(&record.body).unwrap();
    let message = envelope
        .message()
        .ok()
        .filter(|message| message.has_object_meta())?;
    let expected = Expected {
        api_version: envelope.api_version.to_owned(),
        kind: envelope.kind.to_owned(),
        metadata_only: false,
    };
    let name = kube_protobuf::raw::header(envelope.raw).ok()?.name;
    let (raw, mut json): (_, Value) = (envelope.raw, serde_json::from_slice(&record.json).unwrap());
    if !name.is_empty() {
        return Some((expected, raw.to_vec(), record.json.clone()));
    }
    json["metadata"]["name"] = "named".into();
    let path = kube_protobuf::raw::Path::parse(message, "metadata.name").ok()?;
    let raw = kube_protobuf::raw::set(&path, raw, Some(&"named".into())).ok()?;
    Some((expected, raw, serde_json::to_vec(&json).unwrap()))
}

/// A field that no schema has, with a number beyond all of them.
fn unknown_field() -> Vec<u8> {
    let mut field = Vec::new();
    kube_protobuf::wire::put_bytes(&mut field, 9_999, b"from the future");
    field
}

/// The first object of a codec is kept whole, and those that resemble it are compressed.
#[test]
fn compressed_objects_read_as_they_were_received() {
    let mut random = Random(7);
    let (mut counts, mut compressed) = (Counts::default(), 0);
    for record in records() {
        let Some((expected, raw, json)) = expected_of(&record) else {
            continue;
        };
        let codec = codec().compressed(true);
        let mut cache = |object: Option<LazyObject>| {
            let mut object = object?;
            let plain = object.clone();
            object.before_caching();
            assert_eq!(object.bytes(), plain.bytes(), "{expected}");
            compressed += usize::from(object.object_bytes() < plain.object_bytes());
            let tree = check(&expected, &object, &mut counts);
            tree.map(|tree| (object, tree))
        };
        let first = cache(receive_protobuf_with(&codec, &expected, &raw));
        for way in 0..4 {
            let bytes = broken(&raw, way, &mut random);
            let next = cache(receive_protobuf_with(&codec, &expected, &bytes));
            if let (Some(first), Some(next)) = (&first, &next) {
                check_changes((&first.0, &first.1), (&next.0, &next.1), &mut Counts::default());
            }
        }
        let codec = codec.clone().compressed(true);
        for _ in 0..2 {
            cache(receive_json_with(&codec, &expected, &json));
        }
    }
    assert!(compressed > 500, "{compressed} of {}", counts.objects);
}

#[test]
fn unknown_protobuf_fields_survive_in_the_bytes() {
    let has_unknown = |object: &LazyObject| {
        let field = unknown_field();
        object.bytes().windows(field.len()).any(|part| part == field)
    };
    let mut checked = 0;
    for record in records() {
        let Some((expected, raw, _)) = expected_of(&record) else {
            continue;
        };
        // Go writes strings that are not UTF-8. Such objects are quarantined, or fail on access.
        let known = receive_protobuf(&expected, &raw).map(|object| object.project::<Value>());
        let Some(Ok(known)) = known else {
            continue;
        };
        let newer = [raw.as_slice(), &unknown_field()].concat();
        let object = receive_protobuf(&expected, &newer).unwrap_or_else(|| panic!("{expected}"));
        assert!(has_unknown(&object), "{expected}");
        // They are not in the decoded object, and disturb nothing.
        assert_eq!(object.project::<Value>().unwrap(), known, "{expected}");
        // A transform keeps them.
        let mut changed = object.clone();
        changed.set("metadata.annotations", json!({ "a": "b" })).unwrap();
        assert!(has_unknown(&changed), "{expected}");
        assert!(changed.changed(&object, "metadata.annotations").unwrap());
        checked += 1;
    }
    assert!(checked > 50, "{checked} kinds");
}

#[test]
fn accesses_to_whole_objects_return_what_decoding_finds() {
    let (mut counts, mut kinds, mut quarantined) = (Counts::default(), BTreeSet::new(), 0);
    for record in records() {
        let Some((expected, raw, json)) = expected_of(&record) else {
            continue;
        };
        let json = receive_json(&expected, &json).unwrap_or_else(|| panic!("{expected}"));
        let Some(protobuf) = receive_protobuf(&expected, &raw) else {
            // Go writes strings that are not UTF-8, and replaces them in JSON.
            quarantined += 1;
            continue;
        };
        let trees = [&protobuf, &json].map(|object| check(&expected, object, &mut counts));
        // The same object in two encodings has not changed.
        if let [Some(one), Some(other)] = &trees
            && one == other
        {
            for path in ["metadata", "spec", "status"] {
                match protobuf.changed(&json, path) {
                    Ok(changed) => assert!(!changed, "{expected} {path}"),
                    Err(error) => assert!(matches!(error, LazyError::Path { .. }), "{error}"),
                }
            }
        }
        kinds.insert(expected.to_string());
    }
    println!(
        "{} kinds, {} objects, {} values, {quarantined} quarantined",
        kinds.len(),
        counts.objects,
        counts.read
    );
    assert!(kinds.len() > 80 && counts.read > 10_000 && quarantined * 5 < counts.objects);
    assert!(
        counts.errors * 50 < counts.read,
        "{} errors, {} read",
        counts.errors,
        counts.read
    );
}

#[test]
fn accesses_to_broken_objects_return_what_decoding_finds_or_an_error() {
    let (mut counts, mut random) = (Counts::default(), Random(7));
    for record in records() {
        let Some((expected, raw, json)) = expected_of(&record) else {
            continue;
        };
        let whole = receive_protobuf(&expected, &raw).map(|object| (truth(&expected, &object), object));
        for way in 0..6 {
            let bytes = match way {
                4 => shuffled(&raw, false, &mut random),
                5 => shuffled(&raw, true, &mut random),
                way => broken(&raw, way, &mut random),
            };
            if let Some(object) = receive_protobuf(&expected, &bytes) {
                let tree = check(&expected, &object, &mut counts);
                if let (Some(tree), Some((Some(was), old))) = (&tree, &whole) {
                    check_changes((old, was), (&object, tree), &mut counts);
                }
            }
        }
        for way in 0..4 {
            let bytes = broken(&json, way, &mut random);
            if let Some(object) = receive_json(&expected, &bytes) {
                check(&expected, &object, &mut counts);
            }
        }
    }
    println!(
        "{} objects, {} values, {} errors",
        counts.objects, counts.read, counts.errors
    );
    assert!(counts.objects > 500 && counts.errors > 100 && counts.read > 5_000);
}
