//! Fuzzed objects of every kind, written by Go in both encodings.

use std::collections::BTreeSet;

use crate::common::{Random, differences, records};
use kube_protobuf::{Envelope, Options, from_body, from_message, raw, ser};
use serde_json::Value;

#[test]
fn every_object_has_the_value_of_its_json() {
    let (mut kinds, mut failures, mut count) = (BTreeSet::new(), Vec::new(), 0);
    for record in records() {
        let envelope = Envelope::parse(&record.body).unwrap();
        kinds.insert((envelope.api_version.to_owned(), envelope.kind.to_owned()));
        let json: Value = serde_json::from_slice(&record.json).unwrap();
        count += 1;
        match from_body::<Value>(&record.body, &Options::default()) {
            Ok(value) if value == json => {}
            Ok(value) => {
                let mut out = Vec::new();
                differences("", &json, &value, &mut out);
                // Added in 1.36 without omitempty: what 1.36 prints as null, the JSON of 1.35 does not have.
                out.retain(|text| text != ".spec.stubPKCS10Request: JSON has none, protobuf null");
                if out.is_empty() {
                    continue;
                }
                failures.push(format!(
                    "{} {}: {}",
                    envelope.api_version,
                    envelope.kind,
                    out.join("; ")
                ));
            }
            Err(error) => failures.push(format!("{} {}: {error}", envelope.api_version, envelope.kind)),
        }
    }
    println!("{} kinds, {count} objects", kinds.len());
    assert!(
        failures.is_empty(),
        "{} of {count} differ:\n{}",
        failures.len(),
        failures
            .iter()
            .take(20)
            .map(|f| f.chars().take(600).collect())
            .collect::<Vec<String>>()
            .join("\n")
    );
}

#[test]
fn encoding_the_json_writes_the_bytes_that_go_writes() {
    let options = Options::default();
    let (mut same, mut count, mut encoded) = (0, 0, Vec::new());
    for record in records() {
        let envelope = Envelope::parse(&record.body).unwrap();
        let json: Value = serde_json::from_slice(&record.json).unwrap();
        let Ok(body) = ser::to_body(&json) else {
            panic!(
                "{} {}: {:?}",
                envelope.api_version,
                envelope.kind,
                ser::to_body(&json)
            );
        };
        // JSON has lost what is not UTF-8, and embedded JSON and CBOR may have other bytes of the same value.
        let back: Value = from_body(&body, &options).unwrap();
        let mut out = Vec::new();
        differences("", &json, &back, &mut out);
        // Fields that the object's version did not have: encoding writes Go's zero. An empty RawExtension, which is null in JSON, is left
        // out.
        out.retain(|text| {
            !text.ends_with("status: JSON has none, protobuf {}")
                && !text.ends_with("stubPKCS10Request: JSON has none, protobuf null")
                && !text.ends_with("data: JSON null, protobuf has none")
        });
        assert!(
            out.is_empty(),
            "{} {}: {}",
            envelope.api_version,
            envelope.kind,
            out.join("; ")
        );
        count += usize::from(is_canonical(&envelope));
        same += usize::from(body == record.body);
        for piece in [&body, &record.json] {
            encoded.extend_from_slice(&(piece.len() as u32).to_le_bytes());
            encoded.extend_from_slice(piece);
        }
    }
    // For Go to read.
    if let Some(path) = std::env::var_os("KUBE_PROTOBUF_ENCODED") {
        std::fs::write(path, encoded).unwrap();
    }
    println!("{same} of {count} have the same bytes");
    assert!(same * 3 > count, "only {same} of {count} have the same bytes");
}

/// Whether the fields are in the order in which Go writes them. The oracle also has objects whose fields were moved.
fn is_canonical(envelope: &Envelope<'_>) -> bool {
    let canonical = raw::canonical(envelope.message().unwrap(), envelope.raw).unwrap();
    canonical[..] == *envelope.raw
}

/// The runs of fields in reverse order.
fn reversed(bytes: &[u8]) -> Vec<u8> {
    let (mut rest, mut runs) = (bytes, Vec::<(u32, Vec<u8>)>::new());
    while !rest.is_empty() {
        let start = rest;
        let field = kube_protobuf::wire::part(&mut rest).unwrap().field;
        let bytes = &start[..start.len() - rest.len()];
        match runs.last_mut() {
            Some((number, run)) if *number == field => run.extend_from_slice(bytes),
            _ => runs.push((field, bytes.to_vec())),
        }
    }
    runs.into_iter().rev().flat_map(|(_, bytes)| bytes).collect()
}

#[test]
fn order_of_fields_does_not_matter() {
    for record in records() {
        let envelope = Envelope::parse(&record.body).unwrap();
        let message = envelope.message().unwrap();
        // Items of a list that are not adjacent change their order with the fields.
        if !is_canonical(&envelope) {
            continue;
        }
        let reversed = reversed(envelope.raw);
        let options = Options::default();
        let straight: Value = from_message(message, envelope.raw, None, &options).unwrap();
        assert_eq!(
            from_message::<Value>(message, &reversed, None, &options).unwrap(),
            straight
        );
        let canonical = raw::canonical(message, &reversed).unwrap();
        assert_eq!(
            from_message::<Value>(message, &canonical, None, &options).unwrap(),
            straight
        );
        if message.has_object_meta() {
            assert_eq!(raw::header(&reversed).ok(), raw::header(envelope.raw).ok());
        }
    }
}

#[test]
fn broken_bytes_are_an_error_or_a_value() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let options = Options::default();
    let (mut errors, mut count) = (0, 0);
    for record in records() {
        let envelope = Envelope::parse(&record.body).unwrap();
        let message = envelope.message().unwrap();
        for _ in 0..4 {
            let mut bytes = envelope.raw.to_vec();
            for _ in 0..random.below(4) {
                let at = random.below(bytes.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
            bytes.truncate(bytes.len() - random.below(8).min(bytes.len()));
            count += 1;
            errors += usize::from(from_message::<Value>(message, &bytes, None, &options).is_err());
            let _ = raw::canonical(message, &bytes);
            let _ = raw::header(&bytes);
            let _ = raw::header_of_prefix(&bytes);
            let _ = raw::without_managed_fields(&bytes);
            if let Ok(labels) = raw::labels(&bytes) {
                labels.for_each(drop);
            }
        }
    }
    assert!(errors > count / 20 && errors < count, "{errors} of {count}");
}

/// The paths of all members of a tree, with their values.
fn paths(path: &str, value: &Value, out: &mut Vec<(String, Value)>) {
    if !path.is_empty() {
        out.push((path.to_owned(), value.clone()));
    }
    let quoted = |key: &str| key.replace('\\', "\\\\").replace('"', "\\\"");
    match value {
        Value::Object(members) => {
            for (key, value) in members {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                // A key that is not a name needs brackets, and only maps have such keys.
                let path = if key.bytes().all(|b| b.is_ascii_alphanumeric()) && !key.is_empty() {
                    path
                } else {
                    format!(
                        "{}[\"{}\"]",
                        path.strip_suffix(&format!(".{key}")).unwrap_or_default(),
                        quoted(key)
                    )
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

#[test]
fn a_path_reads_what_decoding_finds_there() {
    let (mut read, mut skipped) = (0, 0);
    for record in records() {
        let envelope = Envelope::parse(&record.body).unwrap();
        let message = envelope.message().unwrap();
        let tree: Value = from_message(message, envelope.raw, None, &Options::default()).unwrap();
        let mut all = Vec::new();
        paths("", &tree, &mut all);
        for (path, expected) in all.into_iter().take(200) {
            // Invalid UTF-8 in a key has no path.
            let Ok(parsed) = raw::Path::parse(message, &path) else {
                skipped += 1;
                continue;
            };
            match (parsed.read(envelope.raw))
                .and_then(|found| found.map(|value| value.to_value()).transpose())
            {
                Ok(found) => {
                    if path.contains('\u{fffd}') {
                        continue;
                    }
                    assert_eq!(found.as_ref(), Some(&expected), "{} {path}", envelope.kind);
                    read += 1;
                }
                Err(error) if error.kind() == kube_protobuf::ErrorKind::NotCanonical => {
                    skipped += usize::from(is_canonical(&envelope));
                }
                Err(error) => panic!("{} {path}: {error}", envelope.kind),
            }
        }
    }
    println!("{read} values read by path, {skipped} paths skipped");
    assert!(
        read > 20 * skipped && read > 10_000,
        "{read} read, {skipped} skipped"
    );
}
