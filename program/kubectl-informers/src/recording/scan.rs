//! Finds the blocks of a file by reading their heads only, and what is damaged between them.

use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;

use super::block::{BLOCK_HEAD, BlockHead, FILE_HEAD, MARKER, NotARecording, check_file_head};

/// How much is searched for the next block at a time.
const WINDOW: usize = 64 << 10;

/// Where a block is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The start of its head.
    pub offset: u64,
    /// Its head.
    pub head: BlockHead,
}

impl Place {
    /// The end of the block.
    pub fn end(&self) -> u64 {
        self.offset + BLOCK_HEAD as u64 + u64::from(self.head.stored)
    }
}

/// The blocks of a file.
#[derive(Debug, Default)]
pub struct Scan {
    /// In order.
    pub blocks: Vec<Place>,
    /// The bytes that belong to no block, except at the end.
    pub damaged: Vec<Range<u64>>,
    /// The bytes after the last block: a block that was not written completely.
    pub torn: u64,
}

impl Scan {
    /// The end of the last block.
    pub fn end(&self) -> u64 {
        self.blocks.last().map_or(FILE_HEAD as u64, Place::end)
    }
}

/// Scans a file of this length.
///
/// # Errors
///
/// The file cannot be read, or it is not a recording.
pub fn scan(file: &mut (impl Read + Seek), length: u64) -> io::Result<Result<Scan, NotARecording>> {
    let mut head = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(FILE_HEAD as u64).read_to_end(&mut head)?;
    if let Err(error) = check_file_head(&head) {
        return Ok(Err(error));
    }
    let mut scan = Scan::default();
    let mut at = FILE_HEAD as u64;
    while at < length {
        let next = match place_at(file, at, length)? {
            Some(place) => Some(place),
            None => search(file, at + 1, length)?,
        };
        let Some(place) = next else {
            scan.torn = length - at;
            break;
        };
        if place.offset > at {
            scan.damaged.push(at..place.offset);
        }
        at = place.end();
        scan.blocks.push(place);
    }
    Ok(Ok(scan))
}

/// The block that begins here and ends within the file.
fn place_at(file: &mut (impl Read + Seek), offset: u64, length: u64) -> io::Result<Option<Place>> {
    let mut bytes = [0; BLOCK_HEAD];
    if length.saturating_sub(offset) < BLOCK_HEAD as u64 {
        return Ok(None);
    }
    file.seek(SeekFrom::Start(offset))?;
    match file.read_exact(&mut bytes) {
        // It has become shorter since its length was read.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let place = BlockHead::parse(&bytes).map(|head| Place { offset, head });
    Ok(place.filter(|place| place.end() <= length))
}

/// The next block from here on.
fn search(file: &mut (impl Read + Seek), from: u64, length: u64) -> io::Result<Option<Place>> {
    let mut start = from;
    let mut window = Vec::with_capacity(WINDOW);
    while start < length {
        window.clear();
        file.seek(SeekFrom::Start(start))?;
        file.take(WINDOW as u64).read_to_end(&mut window)?;
        let candidates = window
            .windows(MARKER.len())
            .enumerate()
            .filter(|(_, bytes)| *bytes == MARKER)
            .map(|(at, _)| start + at as u64);
        for offset in candidates {
            if let Some(place) = place_at(file, offset, length)? {
                return Ok(Some(place));
            }
        }
        if window.len() < WINDOW {
            return Ok(None);
        }
        // A marker may lie across the end of the window.
        start += (WINDOW - (MARKER.len() - 1)) as u64;
    }
    Ok(None)
}
