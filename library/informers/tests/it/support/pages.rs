//! For tests of documents that name tests.

use std::path::Path;

/// The root of the repository.
pub fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Prints a figure for `docs/evidence/faults.md`; visible with `--nocapture`.
pub fn measured(fault: &str, figure: impl std::fmt::Display) {
    println!("{fault} measured: {figure}");
}

/// Whether a source file defines a test of this name: a function with a `#[test]` or `#[tokio::test]` attribute.
pub fn defines_test(source: &str, name: &str) -> bool {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let function = format!("fn {name}(");
    lines.iter().enumerate().any(|(number, line)| {
        let is_function = line.starts_with(&function) || line.starts_with(&format!("async {function}"));
        is_function
            && lines[..number]
                .iter()
                .rev()
                .take_while(|line| line.starts_with("#[") || line.starts_with("//"))
                .any(|line| *line == "#[test]" || line.starts_with("#[tokio::test"))
    })
}
