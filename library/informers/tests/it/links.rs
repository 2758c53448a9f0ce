//! Links between the documents lead somewhere: the file exists, and has the heading. The same for paths in the text.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::workspace;

fn documents(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git", "node_modules"].contains(&&*name) {
                documents(&path, into);
            }
        } else if name.ends_with(".md") {
            into.push(path);
        }
    }
}

/// The targets of `[text](target)`, without other hosts and items of Rust.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')'))
        .map(|(target, _)| target)
        .filter(|target| {
            !target.contains("::") && !target.contains("://") && !target.contains(char::is_whitespace)
        })
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn has_heading(document: &str, wanted: &str) -> bool {
    document
        .lines()
        .filter_map(|line| line.strip_prefix('#'))
        .any(|rest| anchor(rest.trim_start_matches('#')) == wanted)
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut pages = Vec::new();
    documents(workspace(), &mut pages);
    let (mut broken, mut checked) = (Vec::new(), 0);
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for link in links(&text) {
            checked += 1;
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                _ => page.parent().unwrap().join(file),
            };
            let is_there = match heading {
                "" => target.exists(),
                _ => fs::read_to_string(&target).is_ok_and(|text| has_heading(&text, heading)),
            };
            if !is_there {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(checked > 100, "{checked}");
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// Every file and folder below `folder`, relative to it.
fn paths(folder: &Path, prefix: &str, into: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if ["target", ".git", "node_modules"].contains(&&*name) {
            continue;
        }
        let path = format!("{prefix}{name}");
        if entry.file_type().unwrap().is_dir() {
            paths(&entry.path(), &format!("{path}/"), into);
        }
        into.insert(path);
    }
}

/// The words of a text that begin with a folder of the repository, such as `verify/scenarios/run`. Words in capitals are placeholders.
fn paths_from_the_root<'a>(text: &'a str, folders: &BTreeSet<String>) -> impl Iterator<Item = &'a str> {
    text.split(|c: char| c.is_whitespace() || "`()[]\"'|<>,".contains(c))
        .map(|word| word.split(['#', ':']).next().unwrap_or(word))
        .map(|word| word.trim_end_matches(['.', ';', '!', '?', '/']))
        .filter(|word| !word.contains(['*', '…', '$', '{', '=']))
        .filter(|word| {
            let last = word.rsplit('/').next().unwrap_or(word);
            last.chars().any(|c| !c.is_ascii_uppercase())
        })
        .filter(|word| {
            word.split_once('/')
                .is_some_and(|(folder, _)| folders.contains(folder))
        })
}

#[test]
fn every_path_in_a_document_exists() {
    let mut all = BTreeSet::new();
    paths(workspace(), "", &mut all);
    let folders = all
        .iter()
        .filter_map(|path| path.split_once('/'))
        .map(|(folder, _)| folder.to_owned())
        .collect();
    let mut pages = Vec::new();
    documents(workspace(), &mut pages);
    let (mut missing, mut checked) = (Vec::new(), 0);
    for page in pages {
        let text = fs::read_to_string(&page).unwrap();
        for path in paths_from_the_root(&text, &folders) {
            checked += 1;
            if !all.contains(path) {
                missing.push(format!("{}: {path}", page.display()));
            }
        }
    }
    assert!(checked > 100, "{checked}");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The folders with a map, and how many bytes it may have: a long one is not read.
const MAPS: [(&str, usize); 5] = [
    ("", 22_000),
    ("library", 12_000),
    ("server", 12_000),
    ("program", 12_000),
    ("verify", 12_000),
];

/// What stands in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Whether a path is that of a file or folder, or the end of one: a page may shorten a path to `machine/watch.rs`.
fn is_end_of_a_path(path: &str, all: &BTreeSet<String>) -> bool {
    let ending = format!("/{path}");
    all.contains(path) || all.iter().any(|other| other.ends_with(&ending))
}

/// The paths in and below a folder of the repository; all of them for the documents that concern everything.
fn paths_for(folder: &str) -> BTreeSet<String> {
    let (mut all, mut below) = (BTreeSet::new(), BTreeSet::new());
    paths(workspace(), "", &mut all);
    if !folder.is_empty() && !folder.starts_with("docs/") {
        let prefix = format!("{folder}/");
        below.extend(all.iter().filter(|path| path.starts_with(&prefix)).cloned());
    }
    if below.is_empty() { all } else { below }
}

#[test]
fn every_source_file_in_a_document_exists() {
    let mut pages = Vec::new();
    documents(workspace(), &mut pages);
    let (mut missing, mut checked) = (Vec::new(), 0);
    for page in pages {
        let folder = page.parent().unwrap().strip_prefix(workspace()).unwrap();
        let below = paths_for(&folder.to_string_lossy());
        let text = fs::read_to_string(&page).unwrap();
        let sources = quoted(&text)
            .map(|word| word.split("::").next().unwrap_or(word))
            .filter(|word| word.ends_with(".rs") && !word.contains(char::is_whitespace));
        for source in sources {
            checked += 1;
            if !is_end_of_a_path(source, &below) && !workspace().join(source).exists() {
                missing.push(format!("{}: {source}", page.display()));
            }
        }
    }
    assert!(checked > 100, "{checked}");
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_folder_and_table_in_a_map_exists() {
    for (folder, limit) in MAPS {
        let below = paths_for(folder);
        let text = fs::read_to_string(workspace().join(folder).join("ARCHITECTURE.md")).unwrap();
        assert!(
            text.len() <= limit,
            "{folder}/ARCHITECTURE.md has {} bytes: move details beside the code",
            text.len()
        );
        let named: Vec<&str> = quoted(&text)
            .filter(|word| {
                word.ends_with('/')
                    || [".txt", ".toml", ".mod", ".gz"]
                        .iter()
                        .any(|end| word.ends_with(end))
            })
            .map(|word| word.trim_end_matches('/'))
            .collect();
        assert!(named.len() > 5, "{folder}: {named:?}");
        for path in named {
            assert!(
                is_end_of_a_path(path, &below) || workspace().join(path).exists(),
                "{folder}/ARCHITECTURE.md: {path}"
            );
        }
    }
}

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(anchor(" `record FILE KIND[,KIND]...`"), "record-file-kindkind");
    assert_eq!(anchor("Delays, and a full queue"), "delays-and-a-full-queue");
}
