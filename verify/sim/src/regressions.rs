//! Tapes that once violated an invariant.

use std::error::Error;
use std::path::PathBuf;

use crate::tape::Tape;
use crate::world::run;

/// The folder of the tapes.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("regressions")
}

/// Runs all of them. Returns their number.
///
/// # Errors
///
/// A tape cannot be read, or violates an invariant.
pub fn run_all() -> Result<usize, Box<dyn Error>> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == "tape"));
    files.sort();
    for file in &files {
        let name = file.display();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{name}: {error}"))?;
        let tape: Tape = text.parse().map_err(|error| format!("{name}: {error}"))?;
        if let Some(failure) = run(&tape, false).failure {
            return Err(format!("{name}: step {}: violates {}", failure.step, failure.violation).into());
        }
    }
    Ok(files.len())
}
