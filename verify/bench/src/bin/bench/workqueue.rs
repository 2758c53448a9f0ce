//! Runs the work queue's own benchmark, including client-go's, and returns its table as Markdown.

use std::fmt::Write;
use std::path::Path;

use tokio::process::Command;

use crate::Result;

/// Runs the benchmark.
///
/// # Errors
///
/// The benchmark fails.
pub async fn run(repository: &Path) -> Result<String> {
    let output = Command::new("cargo")
        .current_dir(repository)
        .args([
            "bench",
            "--quiet",
            "--profile",
            "peers",
            "-p",
            "kube-workqueue",
            "--bench",
            "workqueue",
        ])
        .kill_on_drop(true)
        .output()
        .await
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "the work queue's benchmark failed: {}",
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    Ok(markdown(&String::from_utf8_lossy(&output.stdout)))
}

/// The lines `NAME OURS THEIRS RATIO`; names may contain blanks.
fn markdown(text: &str) -> String {
    let mut out =
        String::from("| ns per operation | here | client-go | / client-go |\n|---|---:|---:|---:|\n");
    for line in text.lines().skip(1) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [name @ .., ours, theirs, ratio] = words.as_slice()
            && ours.parse::<f64>().is_ok()
        {
            let _ = writeln!(out, "| {} | {ours} | {theirs} | {ratio} |", name.join(" "));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_rows_are_kept_and_remarks_dropped() {
        let text = "benchmark    ns/op    client-go    ratio\nqueue, String keys   19181   16734   1.15\nadd after  10  -  -\nclient-go was not measured: it failed\n";

        let table = markdown(text);

        assert!(
            table.ends_with("| queue, String keys | 19181 | 16734 | 1.15 |\n| add after | 10 | - | - |\n"),
            "{table}"
        );
    }
}
