//! Fuzzed objects of every kind, written by Go in both encodings.

mod common;

use std::collections::BTreeSet;

use common::{Random, differences, records};
use kube_protobuf::{Envelope, Options, from_body, from_message, raw, schema};
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
