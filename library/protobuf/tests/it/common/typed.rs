//! Compares objects as typed values.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kube_protobuf::{Envelope, Options, from_body};
use serde::de::DeserializeOwned;

use super::Record;

/// Compares an object decoded from both encodings. `None` if neither decodes.
pub type Check = fn(&Record) -> Option<Result<(), String>>;
pub type Checks = BTreeMap<(String, String), Check>;

pub fn check<K: DeserializeOwned + PartialEq + Debug>(record: &Record) -> Option<Result<(), String>> {
    let json: Result<K, _> = serde_json::from_slice(&record.json);
    let protobuf: Result<K, _> = from_body(&record.body, &Options::default());
    match (json, protobuf) {
        (Ok(json), Ok(protobuf)) if json == protobuf => Some(Ok(())),
        (Ok(_), Ok(_)) => Some(Err("the values differ".to_owned())),
        (Err(_), Err(_)) => None,
        (Err(error), Ok(_)) => Some(Err(format!("only JSON fails: {error}"))),
        (Ok(_), Err(error)) => Some(Err(format!("only protobuf fails: {error}"))),
    }
}

/// Adds the checks of kinds and of their lists.
#[macro_export]
macro_rules! checks {
    ($($kind:path, $list:tt;)*) => {{
        use k8s_openapi::Resource;
        use $crate::common::typed::{Check, Checks, check};
        let mut checks = Checks::new();
        $(
            let version = <$kind as Resource>::API_VERSION.to_owned();
            let kind = <$kind as Resource>::KIND;
            checks.insert((version.clone(), kind.to_owned()), check::<$kind> as Check);
            $crate::checks!(@list checks, version, kind, $kind, $list);
        )*
        checks
    }};
    (@list $checks:ident, $version:ident, $name:ident, $kind:path, true) => {
        $checks.insert(($version, format!("{}List", $name)), check::<k8s_openapi::List<$kind>> as Check);
    };
    (@list $checks:ident, $version:ident, $name:ident, $kind:path, false) => {};
}

/// Runs the checks. At least `required` objects must decode and be equal.
pub fn run(checks: &Checks, required: usize) {
    let (mut equal, mut rejected, mut failures) = (0, BTreeMap::<_, usize>::new(), Vec::new());
    for record in super::records() {
        let envelope = Envelope::parse(&record.body).unwrap();
        let key = (envelope.api_version.to_owned(), envelope.kind.to_owned());
        let Some(check) = checks.get(&key) else {
            continue;
        };
        match check(&record) {
            Some(Ok(())) => equal += 1,
            Some(Err(error)) => failures.push(format!("{key:?}: {error}")),
            None => *rejected.entry(key).or_default() += 1,
        }
    }
    println!(
        "{} kinds, {equal} objects equal; rejected in both encodings: {rejected:?}",
        checks.len()
    );
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(equal >= required, "only {equal} objects were compared");
}
