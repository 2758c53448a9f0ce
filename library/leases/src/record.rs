//! The election record in a Lease: who holds it, for how long, and since when. It is read from a JSON document and
//! written back into it; everything else in the document is kept.

use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::{SignedDuration, Timestamp, Unit};
use serde_json::{Map, Value, json};

use crate::wire::metadata;

/// The fields of a Lease that elections use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "LeaderElectionRecord")]
pub struct Record {
    /// Empty if nobody holds the Lease.
    pub holder: String,
    /// `None` if the Lease states none; observers then use their own setting.
    pub lease: Option<Duration>,
    /// When the holder acquired the Lease, by its wall clock.
    pub acquired: Option<Timestamp>,
    /// When the holder renewed the Lease, by its wall clock.
    pub renewed: Option<Timestamp>,
    /// How often the holder has changed.
    pub transitions: i64,
    /// Set if a field could not be read.
    pub malformed: Option<Malformed>,
}

/// A spec with a field that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The first such field, and what it should be.
    pub problem: &'static str,
    /// The whole spec. Two malformed records are equal only if their specs are: the holder may be renewing in a format
    /// that cannot be parsed here, and must not look unchanged.
    pub spec: Value,
}

impl Record {
    /// Reads the record. A missing or null field is absent; a field of the wrong type or out of range makes the record
    /// malformed.
    pub(crate) fn read(lease: &Value) -> Record {
        let spec = match lease.get("spec") {
            None | Some(Value::Null) => return Record::default(),
            Some(spec) => spec,
        };
        let mut problem = None;
        let mut record = Record::default();
        match spec {
            Value::Object(fields) => record.read_fields(fields, &mut problem),
            _ => problem = Some("spec is not an object"),
        }
        record.malformed = problem.map(|problem| Malformed {
            problem,
            spec: spec.clone(),
        });
        record
    }

    fn read_fields(&mut self, fields: &Map<String, Value>, problem: &mut Option<&'static str>) {
        let mut take = |field: &str, expected: &'static str, read: &mut dyn FnMut(&Value) -> bool| {
            let value = fields.get(field).filter(|value| !value.is_null());
            if value.is_some_and(|value| !read(value)) {
                problem.get_or_insert(expected);
            }
        };
        take(
            "holderIdentity",
            "spec.holderIdentity is not a string",
            &mut |value| {
                self.holder = value.as_str().unwrap_or_default().to_owned();
                value.is_string()
            },
        );
        take(
            "leaseDurationSeconds",
            "spec.leaseDurationSeconds is not a whole number from 1 to 2147483647",
            &mut |value| {
                let seconds = int32(value).filter(|seconds| *seconds > 0);
                self.lease = seconds.map(|seconds| Duration::from_secs(seconds.unsigned_abs().into()));
                seconds.is_some()
            },
        );
        take(
            "acquireTime",
            "spec.acquireTime is not an RFC 3339 time",
            &mut |value| {
                self.acquired = time(value);
                self.acquired.is_some()
            },
        );
        take(
            "renewTime",
            "spec.renewTime is not an RFC 3339 time",
            &mut |value| {
                self.renewed = time(value);
                self.renewed.is_some()
            },
        );
        take(
            "leaseTransitions",
            "spec.leaseTransitions is not a whole number from 0 to 2147483647",
            &mut |value| {
                let transitions = int32(value).filter(|transitions| *transitions >= 0);
                self.transitions = transitions.unwrap_or(0).into();
                transitions.is_some()
            },
        );
    }

    /// Whether nobody holds the Lease. A malformed record counts as held: its holder may just be unreadable.
    pub(crate) fn is_free(&self) -> bool {
        self.holder.is_empty() && self.malformed.is_none()
    }

    /// Moves the renew time to `wall`, and always forward: observers only see a renewal that changes something, even if
    /// the wall clock stands still or is set back.
    pub(crate) fn renew(&mut self, wall: Timestamp) {
        let next = self
            .renewed
            .and_then(|last| last.checked_add(SignedDuration::from_micros(1)).ok());
        self.renewed = Some(next.map_or(wall, |next| wall.max(next)));
    }

    /// Writes the record into a Lease. A spec that is not an object is replaced.
    pub(crate) fn write(&self, lease: &mut Value) {
        let spec = object_at(lease, "spec");
        spec.insert("holderIdentity".to_owned(), self.holder.clone().into());
        if let Some(lease) = self.lease {
            spec.insert("leaseDurationSeconds".to_owned(), lease.as_secs().into());
        }
        if let Some(acquired) = self.acquired {
            spec.insert("acquireTime".to_owned(), micro_time(acquired).into());
        }
        if let Some(renewed) = self.renewed {
            spec.insert("renewTime".to_owned(), micro_time(renewed).into());
        }
        spec.insert("leaseTransitions".to_owned(), self.transitions.into());
    }
}

/// A Lease as returned by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseState {
    /// What it says.
    pub record: Record,
    /// Its resource version.
    pub version: String,
}

impl LeaseState {
    /// `None` if the document has no resource version.
    pub(crate) fn read(lease: &Value) -> Option<LeaseState> {
        Some(LeaseState {
            record: Record::read(lease),
            version: metadata(lease, "resourceVersion")?.to_owned(),
        })
    }
}

/// A new Lease, without a record.
pub(crate) fn new_lease<'a>(
    namespace: &str,
    name: &str,
    labels: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Value {
    let mut lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": { "namespace": namespace, "name": name },
        "spec": {},
    });
    set_labels(&mut lease, labels);
    lease
}

/// Sets these labels and keeps the others.
pub(crate) fn set_labels<'a>(lease: &mut Value, labels: impl IntoIterator<Item = (&'a str, &'a str)>) {
    for (key, value) in labels {
        metadata_map(lease, "labels").insert(key.to_owned(), value.into());
    }
}

/// Sets an annotation and keeps the others.
pub(crate) fn set_annotation(lease: &mut Value, key: &str, value: String) {
    metadata_map(lease, "annotations").insert(key.to_owned(), value.into());
}

/// Makes a write conditional on this version of the Lease.
pub(crate) fn set_version(lease: &mut Value, version: &str) {
    object_at(lease, "metadata").insert("resourceVersion".to_owned(), version.into());
}

fn metadata_map<'a>(lease: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    as_object(object_at(lease, "metadata").entry(field).or_insert(Value::Null))
}

/// The object under `field`. Anything else there is replaced by an empty object: a write that leaves a part out would
/// look successful.
fn object_at<'a>(document: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    as_object(as_object(document).entry(field).or_insert(Value::Null))
}

fn as_object(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(map) => map,
        _ => unreachable!("it was made an object above"),
    }
}

fn int32(value: &Value) -> Option<i32> {
    value.as_i64().and_then(|number| i32::try_from(number).ok())
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}

/// A wall-clock time with the precision of the server: microseconds.
pub(crate) fn timestamp(time: SystemTime) -> Timestamp {
    // A clock before 1970 or after the year 9999 gives the epoch: the value is for people to read, never for decisions.
    Timestamp::try_from(time)
        .and_then(|time| time.round(Unit::Microsecond))
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .max(Timestamp::UNIX_EPOCH)
}

/// The format of a Kubernetes MicroTime: always six digits, so that a time read back equals the one written.
fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Upstream: TestLeaseSpecToLeaderElectionRecordRoundTrip
    #[test]
    fn a_record_written_is_the_record_read() {
        let record = Record {
            holder: "foo".to_owned(),
            lease: Some(Duration::from_secs(10)),
            acquired: Some(timestamp(
                SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_001),
            )),
            renewed: Some(timestamp(
                SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_001),
            )),
            transitions: 1,
            malformed: None,
        };
        let mut lease = new_lease("shop", "cart", []);

        record.write(&mut lease);

        assert_eq!(Record::read(&lease), record);
        assert_eq!(lease["spec"]["acquireTime"], "2023-11-14T22:13:20.000001Z");
        assert_eq!(lease["spec"]["renewTime"], "2023-11-14T22:13:21.000000Z");
    }

    #[test]
    fn a_field_of_the_wrong_type_makes_the_record_malformed_and_not_free() {
        for (spec, problem) in [
            (json!("text"), "spec is not"),
            (json!([]), "spec is not"),
            (json!({ "holderIdentity": 7 }), "spec.holderIdentity is not"),
            (
                json!({ "leaseDurationSeconds": -5 }),
                "spec.leaseDurationSeconds is not",
            ),
            (
                json!({ "leaseDurationSeconds": i64::MAX }),
                "spec.leaseDurationSeconds is not",
            ),
            (
                json!({ "leaseDurationSeconds": 1.5 }),
                "spec.leaseDurationSeconds is not",
            ),
            (json!({ "acquireTime": "" }), "spec.acquireTime is not"),
            (json!({ "renewTime": "yesterday" }), "spec.renewTime is not"),
            (json!({ "leaseTransitions": -1 }), "spec.leaseTransitions is not"),
        ] {
            let record = Record::read(&json!({ "spec": spec }));

            let malformed = record.malformed.clone().unwrap();
            assert!(malformed.problem.starts_with(problem), "{}", malformed.problem);
            assert!(!record.is_free());
        }
    }

    #[test]
    fn a_record_without_a_holder_is_free() {
        for lease in [
            json!({}),
            json!({ "spec": null }),
            json!({ "spec": { "holderIdentity": null, "leaseDurationSeconds": null } }),
            json!({ "spec": { "holderIdentity": "", "leaseDurationSeconds": 1 } }),
        ] {
            assert!(Record::read(&lease).is_free(), "{lease}");
        }
    }

    #[test]
    fn malformed_records_are_equal_only_if_their_specs_are() {
        let read =
            |renewal: u64| Record::read(&json!({ "spec": { "holderIdentity": "x", "renewTime": renewal } }));

        assert_eq!(read(1), read(1));
        assert_ne!(read(1), read(2));
    }

    #[test]
    fn writing_replaces_parts_that_are_not_objects() {
        let mut lease = json!({ "metadata": { "labels": 1, "annotations": [] }, "spec": "text" });

        Record::default().write(&mut lease);
        set_labels(&mut lease, [("a", "b")]);
        set_annotation(&mut lease, "c", "d".to_owned());

        assert_eq!(lease["spec"]["holderIdentity"], "");
        assert_eq!(
            lease["metadata"],
            json!({ "labels": { "a": "b" }, "annotations": { "c": "d" } })
        );
    }

    #[test]
    fn writing_keeps_everything_else() {
        let mut lease = json!({
            "metadata": { "annotations": { "a": "b" }, "labels": { "c": "d" } },
            "spec": { "strategy": "OldestEmulationVersion", "holderIdentity": "old" },
        });

        Record::default().write(&mut lease);
        set_labels(&mut lease, [("e", "f")]);
        set_annotation(&mut lease, "g", "h".to_owned());

        assert_eq!(lease["spec"]["strategy"], "OldestEmulationVersion");
        assert_eq!(lease["metadata"]["annotations"], json!({ "a": "b", "g": "h" }));
        assert_eq!(lease["metadata"]["labels"], json!({ "c": "d", "e": "f" }));
    }
}
