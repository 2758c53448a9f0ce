//! One word per idea: the words that CONTRIBUTING.md retires appear nowhere in the repository.

use std::fs;
use std::path::{Path, PathBuf};

/// Files that list retired words, or old names, on purpose.
const EXEMPT: &[&str] = &["CONTRIBUTING.md", "CHANGELOG.md"];

/// Directories that hold build output, recordings or test data.
const SKIPPED: &[&str] = &["target", ".git", "recorded", "testdata", "images", "node_modules"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The third column of the glossary.
fn retired_words(contributing: &str) -> Vec<String> {
    let glossary = contributing
        .split("## Glossary")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .expect("CONTRIBUTING.md has a glossary");
    glossary
        .lines()
        .filter(|line| line.starts_with('|') && !line.starts_with("|--"))
        .skip(1)
        .filter_map(|row| row.trim_matches('|').split('|').nth(2))
        .flat_map(|cell| cell.split(','))
        .map(|word| word.trim().to_lowercase())
        .filter(|word| !word.is_empty())
        .collect()
}

/// Whether `line` contains `word` with no letter or digit on either side. Underscores separate words in identifiers.
fn contains_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric();
    line.match_indices(word).any(|(at, _)| {
        !line[..at].chars().next_back().is_some_and(is_part)
            && !line[at + word.len()..].chars().next().is_some_and(is_part)
    })
}

fn visit(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("the directory is readable") {
        let path = entry.expect("the entry is readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !SKIPPED.contains(&&*name) {
                visit(&path, files);
            }
        } else if ["rs", "md", "go", "js", "toml", "yml", "yaml"]
            .iter()
            .any(|extension| path.extension().is_some_and(|found| found == *extension))
        {
            files.push(path);
        }
    }
}

#[test]
fn retired_words_appear_nowhere() {
    let root = root();
    let words = retired_words(
        &fs::read_to_string(root.join("CONTRIBUTING.md")).expect("CONTRIBUTING.md is readable"),
    );
    assert!(
        words.contains(&"told".to_owned()),
        "the glossary was not parsed: {words:?}"
    );
    let mut files = Vec::new();
    visit(&root, &mut files);

    let mut found = Vec::new();
    for path in files {
        let shown = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
        if EXEMPT.contains(&&*shown) || shown.ends_with("tests/it/vocabulary.rs") {
            continue;
        }
        let text = fs::read_to_string(&path)
            .expect("the file is text")
            .to_lowercase();
        for (number, line) in text.lines().enumerate() {
            // An identifier's underscores count as spaces: `who_asks` is as retired as `who asks`.
            let line = line.replace('_', " ");
            for word in words.iter().filter(|word| contains_word(&line, word)) {
                found.push(format!("{shown}:{}: {word}", number + 1));
            }
        }
    }

    assert!(
        found.is_empty(),
        "{} uses of retired words; CONTRIBUTING.md's glossary has the replacements:\n{}",
        found.len(),
        found.join("\n")
    );
}

#[test]
fn words_are_found_whole_and_in_identifiers() {
    assert!(contains_word("the handler was told so", "told"));
    assert!(contains_word("told", "told"));
    assert!(!contains_word("retold stories", "told"));
    assert!(!contains_word("outdoors", "doors"));
}
