//! The files of the fuzzer: one corpus per reader, as lines of base64, and one file per regression.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::engine::Finding;

/// How large the corpus of a reader may become in the repository.
const MAX_CORPUS_BYTES: usize = 48 * 1024;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The corpus of a reader; empty if there is none.
///
/// # Errors
///
/// The file cannot be read, or a line of it is not base64.
pub fn load(reader: &str) -> io::Result<Vec<Vec<u8>>> {
    let file = folder("corpus").join(format!("{reader}.txt"));
    let text = match std::fs::read_to_string(&file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        text => text?,
    };
    text.lines()
        .map(|line| STANDARD.decode(line).map_err(io::Error::other))
        .collect()
}

/// Replaces the corpus of a reader by the shortest of these inputs. Returns how many were kept.
///
/// # Errors
///
/// The file cannot be written.
pub fn save(reader: &str, mut inputs: Vec<Vec<u8>>) -> io::Result<usize> {
    inputs.sort_by(|a, b| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
    inputs.dedup();
    let mut text = String::new();
    let mut kept = 0;
    for input in inputs {
        let line = STANDARD.encode(input);
        if text.len() + line.len() >= MAX_CORPUS_BYTES {
            break;
        }
        text.push_str(&line);
        text.push('\n');
        kept += 1;
    }
    std::fs::create_dir_all(folder("corpus"))?;
    std::fs::write(folder("corpus").join(format!("{reader}.txt")), text)?;
    Ok(kept)
}

/// The regressions: the reader of each, the name of its file and the input.
///
/// # Errors
///
/// A file cannot be read.
pub fn regressions() -> io::Result<Vec<(String, String, Vec<u8>)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder("regressions"))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if let Some((reader, _)) = name.split_once('.').filter(|_| name.ends_with(".bin")) {
            found.push((reader.to_owned(), name.clone(), std::fs::read(&path)?));
        }
    }
    found.sort();
    Ok(found)
}

/// Writes an input to the regressions. Returns the name of the file.
///
/// # Errors
///
/// The file cannot be written.
pub fn save_regression(finding: &Finding) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    finding.input.hash(&mut hasher);
    let name = format!("{}.{:08x}.bin", finding.reader, hasher.finish() as u32);
    std::fs::create_dir_all(folder("regressions"))?;
    std::fs::write(folder("regressions").join(&name), &finding.input)?;
    Ok(name)
}
