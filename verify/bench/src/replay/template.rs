//! Encoded objects whose version and write time can be overwritten without decoding.

use bytes::Bytes;
use memchr::memmem;
use serde_json::Value;

use super::protobuf;
use crate::pod::{self, NEVER, SENT};

/// The encoding of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Requested by kube-runtime.
    Json,
    /// Requested by this library and by client-go.
    Protobuf,
}

/// All versions have ten digits.
pub const FIRST_VERSION: u64 = 1_000_000_000;

/// One object in one encoding.
pub struct Template {
    bytes: Bytes,
    version_at: usize,
    sent_at: Option<usize>,
    /// The number of bytes at the start that are left out in list items and replaced by an opening brace.
    kind: usize,
}

/// The last write of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The version, with ten digits.
    pub version: u64,
    /// The round of the benchmark.
    pub round: u16,
    /// Nanoseconds since 1970.
    pub nanos: u64,
}

impl Template {
    fn new(bytes: Vec<u8>, version_marker: &[u8], version_offset: usize, encoding: Encoding) -> Option<Self> {
        let version_at = memmem::find(&bytes, version_marker)? + version_offset;
        let sent_at = memmem::find(&bytes, NEVER.as_bytes());
        let kinds = [
            &br#"{"kind":"Pod","apiVersion":"v1","#[..],
            &br#"{"apiVersion":"v1","kind":"Pod","#[..],
        ];
        let kind = kinds
            .into_iter()
            .find(|kind| encoding == Encoding::Json && bytes.starts_with(kind));
        Some(Self {
            kind: kind.map_or(0, <[u8]>::len),
            bytes: bytes.into(),
            version_at,
            sent_at,
        })
    }

    /// Parses an object from a watch event.
    pub fn json(object: &[u8]) -> Option<Self> {
        let marker = br#""resourceVersion":""#;
        let start = memmem::find(object, marker)? + marker.len();
        let end = start + memchr::memchr(b'"', object.get(start..)?)?;
        let mut bytes = object.get(..start)?.to_vec();
        bytes.extend_from_slice(FIRST_VERSION.to_string().as_bytes());
        bytes.extend_from_slice(object.get(end..)?);
        Self::new(bytes, marker, marker.len(), Encoding::Json)
    }

    /// Parses an object from a watch event.
    pub fn protobuf(object: &[u8]) -> Option<Self> {
        // Unknown.raw, Pod.metadata, ObjectMeta.resourceVersion.
        let version = FIRST_VERSION.to_string();
        let unknown = protobuf::replace(
            object.strip_prefix(protobuf::MAGIC)?,
            &[2, 1, 6],
            version.as_bytes(),
        )?;
        let bytes = [protobuf::MAGIC, &unknown].concat();
        let mut marker = Vec::new();
        protobuf::put(&mut marker, 6, version.as_bytes());
        Self::new(bytes, &marker, marker.len() - version.len(), Encoding::Protobuf)
    }

    /// The same object without everything but its metadata, as a server sends it if only metadata is requested. For objects
    /// in protobuf.
    fn metadata_only(&self) -> Option<Self> {
        let bytes = protobuf::metadata_only(&self.bytes)?;
        let mut marker = Vec::new();
        protobuf::put(&mut marker, 6, FIRST_VERSION.to_string().as_bytes());
        let offset = marker.len() - FIRST_VERSION.to_string().len();
        Self::new(bytes, &marker, offset, Encoding::Protobuf)
    }

    fn render(&self, out: &mut Vec<u8>, written: Written, from: usize) {
        let start = out.len();
        out.extend_from_slice(self.bytes.get(from..).unwrap_or_default());
        let mut put = |at: usize, text: String| {
            let at = start + at - from;
            if let Some(place) = out.get_mut(at..at + text.len()) {
                place.copy_from_slice(text.as_bytes());
            }
        };
        put(self.version_at, format!("{:010}", written.version));
        if let Some(sent_at) = self.sent_at {
            put(sent_at, pod::sent(written.round, written.nanos));
        }
    }

    /// Appends the object as an item of a JSON list.
    pub fn item(&self, out: &mut Vec<u8>, written: Written) {
        if self.kind > 0 {
            out.push(b'{');
        }
        self.render(out, written, self.kind);
    }

    /// Appends the object as an event of a watch.
    pub fn event(&self, out: &mut Vec<u8>, encoding: Encoding, kind: &str, written: Written) {
        begin_event(out, encoding, kind, self.bytes.len());
        self.render(out, written, 0);
        end_event(out, encoding);
    }
}

fn begin_event(out: &mut Vec<u8>, encoding: Encoding, kind: &str, object: usize) {
    match encoding {
        Encoding::Json => out.extend_from_slice(format!(r#"{{"type":"{kind}","object":"#).as_bytes()),
        Encoding::Protobuf => out.extend_from_slice(&protobuf::frame_head(kind, object)),
    }
}

fn end_event(out: &mut Vec<u8>, encoding: Encoding) {
    if encoding == Encoding::Json {
        out.extend_from_slice(b"}\n");
    }
}

/// Appends the event for an expired version.
pub fn expired(out: &mut Vec<u8>, encoding: Encoding) {
    let status = match encoding {
        Encoding::Json => br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version","reason":"Expired","code":410}"#.to_vec(),
        Encoding::Protobuf => protobuf::expired(),
    };
    begin_event(out, encoding, "ERROR", status.len());
    out.extend_from_slice(&status);
    end_event(out, encoding);
}

/// A whole collection in one encoding.
pub struct Encoded {
    /// The objects, in order of their numbers if they have any.
    pub objects: Vec<Template>,
    /// The bookmark that ends the initial events.
    pub bookmark: Template,
}

impl Encoded {
    /// Generated pods.
    #[must_use]
    pub fn made(count: usize, encoding: Encoding) -> Option<Self> {
        let encoded = |mut object: Value| {
            object["metadata"]["resourceVersion"] = "1".into();
            match encoding {
                Encoding::Json => Template::json(object.to_string().as_bytes()),
                Encoding::Protobuf => Template::protobuf(&kube_protobuf::ser::to_body(&object).ok()?),
            }
        };
        let bookmark = serde_json::json!({
            "kind": "Pod", "apiVersion": "v1", "spec": {"containers": null}, "status": {},
            "metadata": {"creationTimestamp": null, "annotations": {"k8s.io/initial-events-end": "true"}},
        });
        Some(Self {
            objects: (0..count)
                .map(|number| encoded(pod::pod(number)))
                .collect::<Option<_>>()?,
            bookmark: encoded(bookmark)?,
        })
    }

    /// The metadata of the same objects, if they are in protobuf.
    #[must_use]
    pub fn metadata_only(&self) -> Option<Self> {
        Some(Self {
            objects: self
                .objects
                .iter()
                .map(Template::metadata_only)
                .collect::<Option<_>>()?,
            bookmark: self.bookmark.metadata_only()?,
        })
    }

    /// Parses a recorded watch stream that ends with the bookmark. Errors give the position.
    ///
    /// # Errors
    ///
    /// It is truncated, or contains something other than pod events.
    pub fn recorded(stream: &[u8], encoding: Encoding) -> Result<Self, String> {
        let mut objects = Vec::new();
        let mut at = 0;
        while at < stream.len() {
            let rest = stream.get(at..).unwrap_or_default();
            let (kind, template, length) =
                Self::next(rest, encoding).ok_or_else(|| format!("no pod event at byte {at}"))?;
            at += length;
            match kind.as_str() {
                "ADDED" if template.sent_at.is_none() => {
                    return Err(format!("the object before byte {at} has no annotation {SENT}"));
                }
                "ADDED" => objects.push(template),
                "BOOKMARK" => {
                    return Ok(Self {
                        objects,
                        bookmark: template,
                    });
                }
                other => return Err(format!("unexpected event {other:?} in the recording")),
            }
        }
        Err("the recording ends before its bookmark".to_owned())
    }

    fn next(stream: &[u8], encoding: Encoding) -> Option<(String, Template, usize)> {
        match encoding {
            Encoding::Protobuf => {
                let (kind, object, length) = protobuf::split_frame(stream)?;
                Some((kind, Template::protobuf(&object)?, length))
            }
            Encoding::Json => {
                let length = memchr::memchr(b'\n', stream)? + 1;
                let rest = stream.get(..length)?.strip_prefix(br#"{"type":""#)?;
                let kind_end = memchr::memchr(b'"', rest)?;
                let kind = String::from_utf8(rest.get(..kind_end)?.to_vec()).ok()?;
                let object = rest
                    .get(kind_end..)?
                    .strip_prefix(br#"","object":"#)?
                    .strip_suffix(b"}\n")?;
                Some((kind, Template::json(object)?, length))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    const WRITTEN: Written = Written {
        version: 1_000_000_777,
        round: 12,
        nanos: 34,
    };

    #[test]
    fn generated_pod_is_rendered_with_the_requested_version_and_time() {
        let made = Encoded::made(3, Encoding::Json).unwrap();
        let mut event = Vec::new();
        made.objects[2].event(&mut event, Encoding::Json, "MODIFIED", WRITTEN);
        let mut item = Vec::new();
        made.objects[2].item(&mut item, WRITTEN);

        let event: Value = serde_json::from_slice(&event).unwrap();
        let item: Value = serde_json::from_slice(&item).unwrap();

        assert_eq!(event["type"], "MODIFIED");
        assert_eq!(event["object"]["metadata"]["resourceVersion"], "1000000777");
        assert_eq!(
            event["object"]["metadata"]["annotations"][SENT],
            pod::sent(12, 34)
        );
        assert_eq!(event["object"]["metadata"], item["metadata"]);
        assert_eq!(item.get("kind"), None);
    }

    #[test]
    fn generated_pods_are_equal_in_both_encodings() {
        let [json, protobuf] = [Encoding::Json, Encoding::Protobuf].map(|encoding| {
            let mut out = Vec::new();
            Encoded::made(1, encoding).unwrap().objects[0].render(&mut out, WRITTEN, 0);
            out
        });
        let json: Pod = serde_json::from_slice(&json).unwrap();
        let options = kube_protobuf::Options::new();
        assert_eq!(json, kube_protobuf::from_body(&protobuf, &options).unwrap());
    }

    #[test]
    fn metadata_of_a_generated_pod_is_that_of_the_whole() {
        let whole = Encoded::made(1, Encoding::Protobuf).unwrap();
        let [metadata, whole] = [whole.metadata_only().unwrap(), whole].map(|encoded| {
            let mut out = Vec::new();
            encoded.objects[0].render(&mut out, WRITTEN, 0);
            out
        });
        let options = kube_protobuf::Options::new();
        let metadata: kube::core::PartialObjectMeta<Pod> =
            kube_protobuf::from_body(&metadata, &options).unwrap();
        let whole: Pod = kube_protobuf::from_body(&whole, &options).unwrap();
        assert_eq!(metadata.metadata, whole.metadata);
        assert_eq!(metadata.types.unwrap().kind, "PartialObjectMetadata");
    }

    #[test]
    fn recording_round_trips() {
        let made = Encoded::made(2, Encoding::Json).unwrap();
        let mut stream = Vec::new();
        for object in &made.objects {
            object.event(
                &mut stream,
                Encoding::Json,
                "ADDED",
                Written {
                    version: FIRST_VERSION,
                    ..Written::default()
                },
            );
        }
        assert!(Encoded::recorded(&stream, Encoding::Json).is_err());
        made.bookmark
            .event(&mut stream, Encoding::Json, "BOOKMARK", WRITTEN);

        let read = Encoded::recorded(&stream, Encoding::Json).unwrap();

        assert_eq!(read.objects.len(), 2);
        assert_eq!(read.objects[1].bytes, made.objects[1].bytes);
    }
}
