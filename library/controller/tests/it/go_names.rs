//! `docs/guide/coming-from-go.md` has a row for every exported name of the Go packages.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/guide/coming-from-go.md");
const NAMES: &str = include_str!("go_names.txt");

/// The rows under "Names": the Go names, and the counterpart.
fn rows() -> impl Iterator<Item = (&'static str, &'static str)> {
    let (_, names) = PAGE
        .split_once("\n## Names\n")
        .expect("the page has a section of names");
    names
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line[1..].split_once(" | ").expect("two cells"))
}

/// The search aliases and the names of items in the sources of all crates.
fn searchable() -> BTreeSet<String> {
    fn walk(folder: &Path, into: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                for line in fs::read_to_string(&path).unwrap().lines() {
                    into.extend(name_in(line));
                }
            }
        }
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut names = BTreeSet::new();
    for folder in fs::read_dir(crates).unwrap() {
        let sources = folder.unwrap().path().join("src");
        // Beside the crates is a page about them.
        if sources.is_dir() {
            walk(&sources, &mut names);
        }
    }
    names
}

/// The alias in `#[doc(alias = "X")]`, or the name of a public item or enum variant.
fn name_in(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(alias) = line.strip_prefix("#[doc(alias = \"") {
        return alias.split('"').next().map(str::to_owned);
    }
    let kinds = ["pub struct ", "pub enum ", "pub trait ", "pub type "];
    let item = kinds.iter().find_map(|kind| line.strip_prefix(kind));
    let text = item.unwrap_or(line);
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    let (name, rest) = text.split_at(end);
    let is_variant = rest.starts_with(['(', ',']) || rest.starts_with(" {");
    let is_name = name.starts_with(char::is_uppercase) && (item.is_some() || is_variant);
    is_name.then(|| name.to_owned())
}

/// Whether a search for a Go name finds its counterpart. `handler.Funcs` is found by itself and by `Funcs`, and `New` by
/// `cache.New`.
fn is_found(name: &str, searchable: &BTreeSet<String>) -> bool {
    let unqualified = name.rsplit('.').next().unwrap_or(name);
    searchable.contains(name)
        || searchable.contains(unqualified)
        || !name.contains('.')
            && searchable
                .iter()
                .any(|alias| alias.rsplit_once('.').is_some_and(|(_, last)| last == name))
}

#[test]
fn every_go_name_with_a_counterpart_is_a_search_alias() {
    let searchable = searchable();
    let elsewhere = ["not needed", "kube:", "std", "tokio"];
    let mut missing = Vec::new();
    let mut checked = 0;
    for (names, counterpart) in rows() {
        if elsewhere.iter().any(|place| counterpart.starts_with(place)) {
            continue;
        }
        for name in in_backticks(names) {
            checked += 1;
            if !is_found(name, &searchable) {
                missing.push(format!("{name}: {counterpart}"));
            }
        }
    }
    assert!(checked > 250, "{checked}");
    assert!(
        missing.is_empty(),
        "add `#[doc(alias = \"...\")]` to the counterpart of:\n{}",
        missing.join("\n")
    );
}

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_go_name_has_a_row_with_a_counterpart() {
    let mut listed = BTreeSet::new();
    for (names, counterpart) in rows() {
        assert!(
            counterpart.trim_matches([' ', '|']).len() > 3,
            "no counterpart: {names}"
        );
        if let Some(reason) = counterpart.strip_prefix("not needed") {
            assert!(reason.starts_with(": "), "no reason: {names}");
        }
        listed.extend(in_backticks(names));
    }
    let packages = NAMES.lines().filter(|line| !line.starts_with('#'));
    let wanted: BTreeSet<&str> = packages
        .flat_map(|line| line.split_once(": ").expect("a package").1.split(' '))
        .collect();

    assert!(wanted.len() > 350, "{}", wanted.len());
    assert_eq!(
        wanted.difference(&listed).collect::<Vec<_>>(),
        [&""; 0],
        "without a row"
    );
    assert_eq!(
        listed.difference(&wanted).collect::<Vec<_>>(),
        [&""; 0],
        "not in Go"
    );
}
