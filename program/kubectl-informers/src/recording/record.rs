//! One record of a block: a change of an object, or a note.
//!
//! ```text
//!  type 1 │ time 8 │ kind 2 │ merged 4 │ length of key 2 │ key │ length of marks 4 │ marks │ length of content 4 │ content
//! ```

use kube_informers::{Cause, ObjectKey};
use serde::{Deserialize, Serialize};

use super::block::MAX_CONTENT;
use crate::objects::kinds::Kind;

/// The start of a session: the content of a session block, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionHead {
    /// The release that wrote it.
    pub program: String,
    /// The cluster, for messages.
    pub cluster: String,
    /// The recorded kinds; records refer to them by index.
    pub kinds: Vec<Kind>,
    /// The namespaces and selectors. Objects of sessions with another scope cannot be compared.
    pub scope: String,
    /// Whether values of Secrets are masked.
    pub masked: bool,
    /// When it began, in microseconds since 1970: tells sessions apart.
    pub began: i64,
    /// Whether it continues the session of the previous file.
    pub continued: bool,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// An object appeared. The content is the object as JSON.
    Added,
    /// An object of the initial list, or of a keyframe. The content is the object as JSON.
    Initial,
    /// An object changed. The content is a JSON patch (RFC 6902) of the state before.
    Updated,
    /// An object is gone.
    Deleted(Cause),
    /// The initial list of a kind is complete.
    Synced,
    /// The connection was lost. The content is a message.
    Interrupted,
    /// The connection is back. The content is a message.
    Recovered,
    /// Something else that the reader should know. The content is a message.
    Remark,
    /// The session ended cleanly.
    Stopped,
}

impl RecordKind {
    fn code(self) -> u8 {
        match self {
            Self::Added => 1,
            Self::Initial => 2,
            Self::Updated => 3,
            Self::Deleted(Cause::Missed) => 5,
            Self::Deleted(Cause::LeftScope) => 6,
            Self::Deleted(_) => 4,
            Self::Synced => 7,
            Self::Interrupted => 8,
            Self::Recovered => 9,
            Self::Remark => 10,
            Self::Stopped => 11,
        }
    }

    fn of(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Added,
            2 => Self::Initial,
            3 => Self::Updated,
            4 => Self::Deleted(Cause::Observed),
            5 => Self::Deleted(Cause::Missed),
            6 => Self::Deleted(Cause::LeftScope),
            7 => Self::Synced,
            8 => Self::Interrupted,
            9 => Self::Recovered,
            10 => Self::Remark,
            11 => Self::Stopped,
            _ => return None,
        })
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it says.
    pub kind: RecordKind,
    /// When, in microseconds since 1970.
    pub time: i64,
    /// The index of the kind of the object; notes about no kind have [`NO_KIND`].
    pub object_kind: u16,
    /// How many earlier changes were merged into this one, because the disk was too slow.
    pub merged: u32,
    /// The key of the object; empty for notes.
    pub key: &'a str,
    /// What remains of masked values, as JSON; often empty.
    pub marks: &'a [u8],
    /// See [`RecordKind`].
    pub content: &'a [u8],
}

/// For notes that are about no kind.
pub const NO_KIND: u16 = u16::MAX;
/// The length of a record without its key, marks and content.
const FIXED: usize = 25;

impl<'a> Record<'a> {
    /// A record about no object.
    pub fn note(kind: RecordKind, time: i64, text: &'a str) -> Self {
        Self {
            kind,
            time,
            object_kind: NO_KIND,
            merged: 0,
            key: "",
            marks: &[],
            content: text.as_bytes(),
        }
    }

    /// Appends the record; `false`, and nothing is appended, if it is too large for a block.
    pub fn write(&self, into: &mut Vec<u8>) -> bool {
        let Ok(key) = u16::try_from(self.key.len()) else {
            return false;
        };
        let (marks, content) = (self.marks.len(), self.content.len());
        if FIXED + self.key.len() + marks + content > MAX_CONTENT {
            return false;
        }
        into.push(self.kind.code());
        into.extend_from_slice(&self.time.to_le_bytes());
        into.extend_from_slice(&self.object_kind.to_le_bytes());
        into.extend_from_slice(&self.merged.to_le_bytes());
        into.extend_from_slice(&key.to_le_bytes());
        into.extend_from_slice(self.key.as_bytes());
        // Limited above.
        into.extend_from_slice(&(marks as u32).to_le_bytes());
        into.extend_from_slice(self.marks);
        into.extend_from_slice(&(content as u32).to_le_bytes());
        into.extend_from_slice(self.content);
        true
    }

    /// The first record in the content of a block, and the rest of the content; `None` if it is malformed.
    pub fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut rest = Rest(bytes);
        let [code] = rest.array()?;
        let record = Self {
            kind: RecordKind::of(code)?,
            time: i64::from_le_bytes(rest.array()?),
            object_kind: u16::from_le_bytes(rest.array()?),
            merged: u32::from_le_bytes(rest.array()?),
            key: {
                let length = u16::from_le_bytes(rest.array()?);
                std::str::from_utf8(rest.bytes(usize::from(length))?).ok()?
            },
            marks: {
                let length = u32::from_le_bytes(rest.array()?);
                rest.bytes(length as usize)?
            },
            content: {
                let length = u32::from_le_bytes(rest.array()?);
                rest.bytes(length as usize)?
            },
        };
        Some((record, rest.0))
    }

    /// The key of the object; `None` for notes and malformed keys.
    pub fn object_key(&self) -> Option<ObjectKey> {
        match self.key.split_once('/') {
            _ if self.key.is_empty() => None,
            Some((namespace, name)) => Some(ObjectKey::namespaced(namespace, name)),
            None => Some(ObjectKey::cluster(self.key)),
        }
    }

    /// The message of a note.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.content).into_owned()
    }
}

struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            code in 1u8..=11, time: i64, object_kind: u16, merged: u32, key in "[a-z/]{0,20}",
            marks: Vec<u8>, content: Vec<u8>, rest: Vec<u8>,
        ) {
            let record = Record {
                kind: RecordKind::of(code).unwrap(),
                time, object_kind, merged, key: &key, marks: &marks, content: &content,
            };
            let mut bytes = Vec::new();
            prop_assert!(record.write(&mut bytes));
            bytes.extend_from_slice(&rest);
            prop_assert_eq!(Record::read(&bytes), Some((record, rest.as_slice())));
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let mut rest = bytes.as_slice();
            while let Some((_, next)) = Record::read(rest) {
                prop_assert!(next.len() < rest.len());
                rest = next;
            }
        }
    }

    #[test]
    fn a_truncated_record_is_noticed() {
        let mut bytes = Vec::new();
        Record::note(RecordKind::Remark, 7, "text").write(&mut bytes);
        for end in 0..bytes.len() {
            assert_eq!(Record::read(&bytes[..end]), None);
        }
    }

    #[test]
    fn a_record_that_fits_into_no_block_is_refused() {
        let long = vec![0; MAX_CONTENT];
        let mut record = Record::note(RecordKind::Remark, 7, "");
        record.content = &long;
        let mut bytes = Vec::new();
        assert!(!record.write(&mut bytes));
        let key = "k".repeat(70_000);
        record = Record {
            key: &key,
            content: &[],
            ..record
        };
        assert!(!record.write(&mut bytes));
        assert!(bytes.is_empty());
    }
}
