//! For the fuzzer: recordings that are read whatever their bytes are.
//!
//! Blocks have checksums, so that mutated files only show how damage is found. The *plain* form of a recording is the
//! contents of its blocks, which are packed anew after a mutation.

use std::path::Path;

use super::block::{BlockKind, Packing, file_head, pack};
use super::cursor::{Cursor, Step};
use super::reader::Recording;
use super::record::{Record, RecordKind, SessionHead};
use crate::objects::kinds::Kind;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contents {
    /// The number of changes.
    pub changes: usize,
    /// The number of sessions and notes.
    pub others: usize,
    /// The number of objects in the end.
    pub objects: usize,
    /// The number of objects that cannot be restored.
    pub unusable: usize,
    /// The number of damaged parts.
    pub damaged: usize,
}

/// Reads a recording twice: change by change, and the state at its end.
///
/// # Errors
///
/// Nothing in it can be read.
pub fn read(path: &Path) -> Result<Contents, String> {
    let recording = Recording::open(path).map_err(|failure| failure.to_string())?;
    let (_, ends) = recording.times();
    let mut contents = Contents::default();
    let mut cursor = Cursor::new(recording, Box::new(|_, _| true));
    while let Some(step) = cursor.next().map_err(|failure| failure.to_string())? {
        match step {
            Step::Change { .. } => contents.changes += 1,
            Step::Began { .. } | Step::Note { .. } => contents.others += 1,
        }
    }
    contents.damaged = cursor.recording().take_damage().len();
    let recording = Recording::open(path).map_err(|failure| failure.to_string())?;
    let mut cursor = Cursor::seek(recording, Box::new(|_, _| true), ends.as_microsecond())
        .map_err(|failure| failure.to_string())?;
    let (objects, unusable) = cursor.state().objects();
    (contents.objects, contents.unusable) = (objects.len(), unusable);
    Ok(contents)
}

/// The file of a plain recording: blocks of a letter for the kind, a digit for its flags, a length in hexadecimal, a
/// newline and the content. What is not of this form is the content of a last block of changes.
pub fn packed(plain: &[u8]) -> Vec<u8> {
    let mut file = file_head().to_vec();
    let mut rest = plain;
    while !rest.is_empty() {
        let (packing, content, after) = next_block(rest).unwrap_or((packing(b'C', 0), rest, &[]));
        // Blocks are short: inputs are.
        file.extend(pack(packing, content).unwrap_or_default());
        rest = after;
    }
    file
}

fn next_block(plain: &[u8]) -> Option<(Packing, &[u8], &[u8])> {
    let [kind @ (b'S' | b'C' | b'K'), flags, rest @ ..] = plain else {
        return None;
    };
    let newline = rest.iter().take(9).position(|byte| *byte == b'\n')?;
    let (length, rest) = (rest.get(..newline)?, rest.get(newline + 1..)?);
    let length = usize::from_str_radix(std::str::from_utf8(length).ok()?, 16).ok()?;
    let (content, rest) = rest.split_at(length.min(rest.len()));
    Some((packing(*kind, *flags), content, rest))
}

fn packing(kind: u8, flags: u8) -> Packing {
    Packing {
        kind: match kind {
            b'S' => BlockKind::Session,
            b'K' => BlockKind::Keyframe,
            _ => BlockKind::Changes,
        },
        first: flags & 1 != 0,
        last: flags & 2 != 0,
        times: (BEGAN, BEGAN + 9),
        session: 7,
    }
}

const BEGAN: i64 = 1_800_000_000_000_000;

/// Plain recordings with every kind of block and record.
pub fn examples() -> Vec<Vec<u8>> {
    let session = SessionHead {
        program: "example".to_owned(),
        kinds: vec![Kind {
            version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            plural: "pods".to_owned(),
            namespaced: true,
            ..Kind::default()
        }],
        masked: true,
        began: BEGAN,
        ..SessionHead::default()
    };
    // Text and numbers can be written as JSON.
    let session = serde_json::to_vec(&session).unwrap_or_default();
    let object = br#"{"metadata":{"name":"a","namespace":"shop","uid":"1","resourceVersion":"5"},"status":{"phase":"Pending"}}"#;
    let patch = br#"[{"op":"replace","path":"/status/phase","value":"Running"},{"op":"add","path":"/metadata/labels","value":{"a":"b"}}]"#;
    let marks = br#"{"/data/password":"abc"}"#;
    let record = |kind, time: i64, marks: &'static [u8], content: &'static [u8]| Record {
        kind,
        time: BEGAN + time,
        object_kind: 0,
        merged: 0,
        key: "shop/a",
        marks,
        content,
    };
    let changes = [
        record(RecordKind::Initial, 1, &[], object),
        record(RecordKind::Synced, 2, &[], b""),
        record(RecordKind::Updated, 3, &[], patch),
        record(RecordKind::Deleted(kube_informers::Cause::Observed), 4, &[], b""),
        record(RecordKind::Added, 5, marks, object),
        Record::note(RecordKind::Interrupted, BEGAN + 6, "connection lost"),
        Record::note(RecordKind::Recovered, BEGAN + 7, "connected"),
        Record::note(RecordKind::Remark, BEGAN + 8, "remark"),
        Record::note(RecordKind::Stopped, BEGAN + 9, ""),
    ];
    let mut content = Vec::new();
    for change in &changes {
        change.write(&mut content);
    }
    let mut keyframe = Vec::new();
    changes[0].write(&mut keyframe);
    let mut plain = Vec::new();
    let mut block = |name: &str, content: &[u8]| {
        plain.extend_from_slice(format!("{name}{:x}\n", content.len()).as_bytes());
        plain.extend_from_slice(content);
        plain.clone()
    };
    vec![
        block("S0", &session),
        block("C0", &content),
        block("K3", &keyframe),
        block("C0", &content),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_recordings_without_damage() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("recording");
        let read = |plain: &[u8]| {
            std::fs::write(&file, packed(plain)).unwrap();
            read(&file)
        };

        let all = examples();
        let last = read(all.last().unwrap()).unwrap();

        assert!(all.iter().all(|plain| read(plain).is_ok()));
        assert_eq!((last.damaged, last.unusable), (0, 0), "{last:?}");
        assert!(
            last.changes >= 4 && last.others >= 4 && last.objects == 1,
            "{last:?}"
        );
        assert!(read(b"no blocks").is_err());
    }
}
