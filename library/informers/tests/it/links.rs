//! Links between the documents lead somewhere: the file exists, and has the heading.

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

#[test]
fn anchors_are_those_of_github() {
    assert_eq!(anchor(" `record FILE KIND[,KIND]...`"), "record-file-kindkind");
    assert_eq!(
        anchor("The allocator, and a second thread"),
        "the-allocator-and-a-second-thread"
    );
}
