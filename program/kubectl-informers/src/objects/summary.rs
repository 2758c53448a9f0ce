//! What [`admit`](crate::objects::item::admit) removes from an object and the program still needs: who owns which fields, and hashes of
//! redacted values. Attached to the object as bytes.
//!
//! ```text
//!  length of the head, 4 bytes │ head: JSON │ hashes of owned fields, 4 bytes each
//! ```

use serde::{Deserialize, Serialize};

use crate::objects::redact::Marks;
use crate::objects::who::{Author, FieldSet, ManagerEntry, Managers};

/// What was removed from an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Who has written to it.
    pub managers: Managers,
    /// What remains of redacted values.
    pub marks: Marks,
}

#[derive(Serialize, Deserialize)]
struct Head {
    /// The managers, each with the number of its fields.
    managers: Vec<(Author, usize)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    keys: Vec<Vec<String>>,
    #[serde(default, skip_serializing_if = "Marks::is_empty")]
    marks: Marks,
}

impl Summary {
    /// As bytes; none if it is empty.
    pub fn to_bytes(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        let head = Head {
            managers: self
                .managers
                .entries
                .iter()
                .map(|entry| (entry.author.clone(), entry.fields.0.len()))
                .collect(),
            keys: self.managers.keys.clone(),
            marks: self.marks.clone(),
        };
        // Writing these types into memory cannot fail.
        let head = serde_json::to_vec(&head).unwrap_or_default();
        let mut bytes = (head.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&head);
        for hash in self.managers.entries.iter().flat_map(|entry| &entry.fields.0) {
            bytes.extend_from_slice(&hash.to_le_bytes());
        }
        bytes
    }

    /// From the bytes of [`to_bytes`](Self::to_bytes).
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self::parse(bytes).unwrap_or_default()
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let (head, hashes) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        let head: Head = serde_json::from_slice(head).ok()?;
        let mut hashes = hashes.chunks_exact(4).map(|hash| match hash {
            &[a, b, c, d] => u32::from_le_bytes([a, b, c, d]),
            _ => 0,
        });
        let entries = head
            .managers
            .into_iter()
            .map(|(author, count)| ManagerEntry {
                author,
                fields: FieldSet(hashes.by_ref().take(count).collect()),
            })
            .collect();
        Some(Self {
            managers: Managers {
                entries,
                keys: head.keys,
            },
            marks: head.marks,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::objects::kinds::Kind;
    use crate::objects::redact::Redaction;

    fn summary() -> Summary {
        let mut secret = json!({ "data": { "password": "YWFhYQ==" } });
        let kind = Kind::for_tests("", "v1", "Secret", "secrets");
        let fields = json!([
            { "manager": "a", "operation": "Update", "fieldsV1": { "f:spec": { "k:{\"id\":7}": { ".": {}, "f:x": {} } } } },
            { "manager": "b", "operation": "Apply", "time": "T", "subresource": "status", "fieldsV1": { "f:status": {} } },
        ]);
        Summary {
            managers: Managers::of(&fields),
            marks: Redaction::on().apply(&kind, &mut secret),
        }
    }

    #[test]
    fn summary_is_read_as_it_was_written() {
        let summary = summary();
        assert_eq!(summary.managers.entries.len(), 2);
        assert_eq!(Summary::from_bytes(&summary.to_bytes()), summary);
        assert!(Summary::default().to_bytes().is_empty());
        assert_eq!(Summary::from_bytes(&[]), Summary::default());
    }

    #[test]
    fn truncated_summary_is_survived() {
        let bytes = summary().to_bytes();
        for end in 0..bytes.len() {
            Summary::from_bytes(&bytes[..end]);
        }
    }
}
