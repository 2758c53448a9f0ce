//! The bytes of a recording: a head, then blocks with length, times and checksums. docs/reference/recording.md describes them.
//!
//! Pure: takes and gives bytes.

use std::fmt;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;

/// The first bytes of every recording.
const MAGIC: [u8; 8] = *b"kirecord";
/// The format. A later one that older releases cannot read gets another number.
pub const VERSION: u32 = 1;
/// The length of the head of a file: magic, version, checksum.
pub const FILE_HEAD: usize = 16;
/// The first bytes of every block: a reader finds the next block after damage by them. Not valid UTF-8.
pub const MARKER: [u8; 4] = [0xf1, b'K', b'I', b'B'];
/// The length of the head of a block.
pub const BLOCK_HEAD: usize = 40;
/// The largest content of a block before compression. API servers accept objects of at most a few MiB.
pub const MAX_CONTENT: usize = 32 << 20;
/// The largest block as stored. Content that does not shrink grows by less than this.
const MAX_STORED: usize = MAX_CONTENT + (1 << 20);

/// The head of a file.
pub fn file_head() -> [u8; FILE_HEAD] {
    let mut head = [0; FILE_HEAD];
    head[..8].copy_from_slice(&MAGIC);
    head[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32fast::hash(&head[..12]);
    head[12..].copy_from_slice(&checksum.to_le_bytes());
    head
}

/// Why a file is not a recording that this release can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotARecording {
    /// It begins with something else.
    Unknown,
    /// It is written by a later release.
    Version(u32),
    /// Its head is damaged or incomplete.
    Damaged,
}

impl fmt::Display for NotARecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("it is not a recording: `record FILE` writes one"),
            Self::Version(version) => write!(
                f,
                "it has format {version}, and this release reads format {VERSION}: use a newer release"
            ),
            Self::Damaged => f.write_str("the first 16 bytes of the recording are damaged"),
        }
    }
}

/// Checks the head of a file.
///
/// # Errors
///
/// It is not the head of a recording of this format.
pub fn check_file_head(bytes: &[u8]) -> Result<(), NotARecording> {
    let known = bytes.len().min(MAGIC.len());
    if bytes[..known] != MAGIC[..known] || known == 0 {
        return Err(NotARecording::Unknown);
    }
    let head: &[u8; FILE_HEAD] = bytes.first_chunk().ok_or(NotARecording::Damaged)?;
    if crc32fast::hash(&head[..12]) != u32_at(head, 12) {
        return Err(NotARecording::Damaged);
    }
    match u32_at(head, 8) {
        VERSION => Ok(()),
        other => Err(NotARecording::Version(other)),
    }
}

/// What a block contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// The start of a session: the recorded kinds and the scope.
    Session,
    /// Changes and notes, in order.
    Changes,
    /// A part of a keyframe: the complete state at one moment.
    Keyframe,
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHead {
    /// What it contains.
    pub kind: BlockKind,
    /// The first block of a keyframe.
    pub first: bool,
    /// The last block of a keyframe.
    pub last: bool,
    /// The stored length.
    pub stored: u32,
    /// The length of the content.
    pub content: u32,
    /// The time of its first record, in microseconds since 1970.
    pub begins: i64,
    /// The time of its last record.
    pub ends: i64,
    /// Identifies the session: records refer to its kinds.
    pub session: u16,
    checksum: u32,
}

const FIRST: u8 = 1;
const LAST: u8 = 2;

impl BlockHead {
    /// The head in these bytes; `None` if they are none, or damaged.
    pub fn parse(bytes: &[u8; BLOCK_HEAD]) -> Option<Self> {
        if bytes[..4] != MARKER || crc32fast::hash(&bytes[..36]) != u32_at(bytes, 36) {
            return None;
        }
        let kind = match bytes[4] {
            b'S' => BlockKind::Session,
            b'C' => BlockKind::Changes,
            b'K' => BlockKind::Keyframe,
            _ => return None,
        };
        let head = Self {
            kind,
            first: bytes[5] & FIRST != 0,
            last: bytes[5] & LAST != 0,
            stored: u32_at(bytes, 8),
            content: u32_at(bytes, 12),
            begins: i64_at(bytes, 16),
            ends: i64_at(bytes, 24),
            session: u16::from_le_bytes([bytes[6], bytes[7]]),
            checksum: u32_at(bytes, 32),
        };
        (head.stored as usize <= MAX_STORED && head.content as usize <= MAX_CONTENT).then_some(head)
    }

    fn to_bytes(self) -> [u8; BLOCK_HEAD] {
        let mut bytes = [0; BLOCK_HEAD];
        bytes[..4].copy_from_slice(&MARKER);
        bytes[4] = match self.kind {
            BlockKind::Session => b'S',
            BlockKind::Changes => b'C',
            BlockKind::Keyframe => b'K',
        };
        bytes[5] = if self.first { FIRST } else { 0 } | if self.last { LAST } else { 0 };
        bytes[6..8].copy_from_slice(&self.session.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.stored.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.content.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.begins.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.ends.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.checksum.to_le_bytes());
        let checksum = crc32fast::hash(&bytes[..36]);
        bytes[36..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Whether these are the stored bytes of this block.
    pub fn is_intact(&self, stored: &[u8]) -> bool {
        stored.len() == self.stored as usize && crc32fast::hash(stored) == self.checksum
    }

    /// The content of the block; `None` if the stored bytes are damaged.
    pub fn unpack(&self, stored: &[u8]) -> Option<Vec<u8>> {
        if !self.is_intact(stored) {
            return None;
        }
        // Never more than the head says, which is limited.
        let mut content = Vec::new();
        DeflateDecoder::new(stored)
            .take(u64::from(self.content) + 1)
            .read_to_end(&mut content)
            .ok()?;
        (content.len() == self.content as usize).then_some(content)
    }
}

/// The description of a block to write.
#[derive(Clone, Copy, Debug)]
pub struct Packing {
    /// What it contains.
    pub kind: BlockKind,
    /// The first block of a keyframe.
    pub first: bool,
    /// The last block of a keyframe.
    pub last: bool,
    /// The times of its first and last record.
    pub times: (i64, i64),
    /// Identifies the session.
    pub session: u16,
}

/// A whole block; `None` if the content is too large.
pub fn pack(packing: Packing, content: &[u8]) -> Option<Vec<u8>> {
    if content.len() > MAX_CONTENT {
        return None;
    }
    let block = vec![0; BLOCK_HEAD];
    let mut encoder = DeflateEncoder::new(block, Compression::new(LEVEL));
    // Writing to memory cannot fail.
    encoder.write_all(content).ok()?;
    let mut block = encoder.finish().ok()?;
    let stored = block.get(BLOCK_HEAD..)?;
    let head = BlockHead {
        kind: packing.kind,
        first: packing.first,
        last: packing.last,
        stored: u32::try_from(stored.len()).ok()?,
        content: u32::try_from(content.len()).ok()?,
        begins: packing.times.0,
        ends: packing.times.1,
        session: packing.session,
        checksum: crc32fast::hash(stored),
    };
    block[..BLOCK_HEAD].copy_from_slice(&head.to_bytes());
    Some(block)
}

/// A middle level: the next ones cost twice the time for a few percent.
const LEVEL: u32 = 4;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn i64_at(bytes: &[u8], at: usize) -> i64 {
    bytes
        .get(at..)
        .and_then(<[u8]>::first_chunk)
        .map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(content: &[u8]) -> Vec<u8> {
        let packing = Packing {
            kind: BlockKind::Changes,
            first: false,
            last: false,
            times: (5, 9),
            session: 7,
        };
        pack(packing, content).unwrap()
    }

    fn head(block: &[u8]) -> Option<BlockHead> {
        BlockHead::parse(block.first_chunk()?)
    }

    #[test]
    fn a_block_is_read_as_it_was_written() {
        let block = packed(b"some content, some content");
        let head = head(&block).unwrap();
        assert_eq!((head.kind, head.begins, head.ends), (BlockKind::Changes, 5, 9));
        assert_eq!(
            head.unpack(&block[BLOCK_HEAD..]).unwrap(),
            b"some content, some content"
        );
    }

    #[test]
    fn every_damaged_byte_of_a_block_is_noticed() {
        let block = packed(b"some content, some content");
        for at in 0..block.len() {
            let mut damaged = block.clone();
            damaged[at] ^= 0x10;
            let read = head(&damaged).and_then(|head| head.unpack(&damaged[BLOCK_HEAD..]));
            assert_eq!(read, None, "byte {at}");
        }
    }

    /// A block of 32 MiB that claims to hold ten bytes must not be inflated, and one that claims too much not be read.
    #[test]
    fn the_length_of_the_content_is_limited_by_the_head() {
        let block = packed(&vec![0; MAX_CONTENT]);
        let mut head = head(&block).unwrap();
        head.content = 10;
        assert_eq!(head.unpack(&block[BLOCK_HEAD..]), None);
        head.content = u32::MAX;
        assert_eq!(BlockHead::parse(&head.to_bytes()), None);
        let packing = Packing {
            kind: BlockKind::Changes,
            first: false,
            last: false,
            times: (0, 0),
            session: 7,
        };
        assert!(pack(packing, &vec![0; MAX_CONTENT + 1]).is_none());
    }

    #[test]
    fn the_head_of_a_file_says_what_it_is() {
        assert_eq!(check_file_head(&file_head()), Ok(()));
        assert_eq!(check_file_head(b"apiVersion: v1"), Err(NotARecording::Unknown));
        assert_eq!(check_file_head(b""), Err(NotARecording::Unknown));
        assert_eq!(check_file_head(&file_head()[..10]), Err(NotARecording::Damaged));
        let mut newer = file_head();
        newer[8] = 2;
        let checksum = crc32fast::hash(&newer[..12]);
        newer[12..].copy_from_slice(&checksum.to_le_bytes());
        assert_eq!(check_file_head(&newer), Err(NotARecording::Version(2)));
    }
}
