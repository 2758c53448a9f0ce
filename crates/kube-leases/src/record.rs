//! What a Lease says: who holds it, for how long, since when. Reads it from a document and writes it into one,
//! leaving everything else there as it is.

use std::time::{Duration, SystemTime};

use k8s_openapi::jiff::{SignedDuration, Timestamp, Unit};
use serde_json::{Map, Value, json};

use crate::wire::metadata;

/// The part of a Lease that elections are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[doc(alias = "LeaderElectionRecord")]
pub(crate) struct Record {
    /// Empty: nobody.
    pub(crate) holder: String,
    /// `None`: the Lease does not say; those who look at it use their own setting.
    pub(crate) lease: Option<Duration>,
    pub(crate) acquired: Option<Timestamp>,
    pub(crate) renewed: Option<Timestamp>,
    pub(crate) transitions: i64,
}

impl Record {
    /// Reads the record. A field that is missing or makes no sense counts as missing: the Lease may have been
    /// made by hand, and is taken over like any other.
    pub(crate) fn read(lease: &Value) -> Record {
        let Some(spec) = lease.get("spec") else {
            return Record::default();
        };
        let text = |field: &str| spec.get(field).and_then(Value::as_str);
        let number = |field: &str| spec.get(field).and_then(Value::as_i64);
        let time = |field: &str| text(field).and_then(|time| time.parse::<Timestamp>().ok());
        Record {
            holder: text("holderIdentity").unwrap_or_default().to_owned(),
            lease: number("leaseDurationSeconds")
                .and_then(|seconds| u64::try_from(seconds).ok())
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
            acquired: time("acquireTime"),
            renewed: time("renewTime"),
            transitions: number("leaseTransitions").unwrap_or(0).max(0),
        }
    }

    /// Moves the time of renewal to `wall`, and always forward: others can only see a renewal that changes something,
    /// also when the wall clock stands still or goes back.
    pub(crate) fn renew(&mut self, wall: Timestamp) {
        let next = self
            .renewed
            .and_then(|last| last.checked_add(SignedDuration::from_micros(1)).ok());
        self.renewed = Some(next.map_or(wall, |next| wall.max(next)));
    }

    /// Writes the record into a Lease.
    pub(crate) fn write(&self, lease: &mut Value) {
        let Some(spec) = object_at(lease, "spec") else {
            return;
        };
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

/// A Lease as the server has it, with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) record: Record,
    pub(crate) version: String,
}

impl Seen {
    /// `None` if the document has no version, and so is nothing a server would say.
    pub(crate) fn read(lease: &Value) -> Option<Seen> {
        Some(Seen {
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
        if let Some(labels) = object_at(lease, "metadata")
            .map(|metadata| metadata.entry("labels").or_insert(Value::Null))
            .and_then(as_object)
        {
            labels.insert(key.to_owned(), value.into());
        }
    }
}

/// Sets an annotation and keeps the others.
pub(crate) fn set_annotation(lease: &mut Value, key: &str, value: String) {
    if let Some(annotations) = object_at(lease, "metadata")
        .map(|metadata| metadata.entry("annotations").or_insert(Value::Null))
        .and_then(as_object)
    {
        annotations.insert(key.to_owned(), value.into());
    }
}

/// Lets a write succeed only if the Lease is still in this version.
pub(crate) fn set_version(lease: &mut Value, version: &str) {
    if let Some(metadata) = object_at(lease, "metadata") {
        metadata.insert("resourceVersion".to_owned(), version.into());
    }
}

/// The object under `field`, made if it is not there.
fn object_at<'a>(document: &'a mut Value, field: &str) -> Option<&'a mut Map<String, Value>> {
    let place = document.as_object_mut()?.entry(field).or_insert(Value::Null);
    as_object(place)
}

/// `place` as an object; null becomes an empty one.
fn as_object(place: &mut Value) -> Option<&mut Map<String, Value>> {
    if place.is_null() {
        *place = Value::Object(Map::new());
    }
    place.as_object_mut()
}

/// A wall-clock time as the server keeps it: in microseconds.
pub(crate) fn timestamp(time: SystemTime) -> Timestamp {
    // A clock outside of the years −9999 to 9999 gets the epoch: the value is for people to read, never for decisions.
    Timestamp::try_from(time)
        .and_then(|time| time.round(Unit::Microsecond))
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// As Kubernetes writes a MicroTime: always six digits, so that a time read back equals the one written.
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
        };
        let mut lease = new_lease("shop", "cart", []);

        record.write(&mut lease);

        assert_eq!(Record::read(&lease), record);
        assert_eq!(lease["spec"]["acquireTime"], "2023-11-14T22:13:20.000001Z");
        assert_eq!(lease["spec"]["renewTime"], "2023-11-14T22:13:21.000000Z");
    }

    #[test]
    fn a_record_that_makes_no_sense_is_nobodys() {
        for spec in [
            json!(null),
            json!("text"),
            json!({ "leaseDurationSeconds": -5, "leaseTransitions": -1, "renewTime": "yesterday", "holderIdentity": 7 }),
        ] {
            assert_eq!(Record::read(&json!({ "spec": spec })), Record::default());
        }
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
