//! Recordings of the program: whole files, and the contents of their blocks under valid checksums.

use std::path::Path;

use kubectl_informers::fuzz::{examples, packed, read};
use tempfile::NamedTempFile;

use super::{MEGABYTE, Reader};
use crate::outcome::Outcome;

/// The path of every file: only the outcome of reading it counts.
fn file() -> NamedTempFile {
    NamedTempFile::new().expect("the folder for temporary files is writable")
}

pub fn readers() -> Vec<Reader> {
    let (files, contents) = (file(), file());
    vec![
        recording(
            "recording-file",
            examples().iter().map(|plain| packed(plain)).collect(),
            move |input, outcome| observe(files.path(), input, outcome),
        ),
        recording("recording-content", examples(), move |input, outcome| {
            observe(contents.path(), &packed(input), outcome);
        }),
    ]
}

fn recording(
    name: &'static str,
    seeds: Vec<Vec<u8>>,
    read: impl FnMut(&[u8], &mut Outcome) + 'static,
) -> Reader {
    Reader {
        name,
        seeds,
        words: &[
            "S0",
            "C0",
            "K3",
            "K1",
            "shop/a",
            "/status",
            "\"op\":\"add\"",
            "\u{f1}KIB",
            "\n",
        ],
        // Windows of files, and the buffers of the compression.
        memory_base: 8 * MEGABYTE,
        // Compressed blocks.
        memory_per_byte: 4096,
        read: Box::new(read),
    }
}

fn observe(path: &Path, file: &[u8], outcome: &mut Outcome) {
    std::fs::write(path, file).expect("a temporary file is writable");
    match read(path) {
        Ok(contents) => {
            outcome.count(contents.changes);
            outcome.count(contents.others);
            outcome.count(contents.objects);
            outcome.count(contents.unusable);
            outcome.count(contents.damaged);
        }
        // The first line names the file.
        Err(error) => outcome.error(&error.replace(&path.display().to_string(), "")),
    }
}
