//! `docs/parity.md` has a row for every tested behaviour of client-go, and the tests it names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const UPSTREAM: &str = include_str!("parity/upstream.txt");

struct Row {
    id: String,
    verdict: String,
    proof: String,
}

fn workspace() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(workspace().join("docs/parity.md")).unwrap();
    page.lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').splitn(3, '|').map(str::trim).collect();
            assert_eq!(cells.len(), 3, "a row has three cells: {line}");
            Row {
                id: cells[0].trim_matches('`').to_owned(),
                verdict: cells[1].to_owned(),
                proof: cells[2].to_owned(),
            }
        })
        .collect()
}

#[test]
fn every_behaviour_has_one_row() {
    let mut seen = BTreeMap::new();
    for row in rows() {
        *seen.entry(row.id).or_insert(0) += 1;
    }
    let upstream: BTreeSet<&str> = UPSTREAM.lines().collect();

    assert_eq!(upstream.len(), 219);
    for id in &upstream {
        assert_eq!(seen.get(*id), Some(&1), "{id} has one row");
    }
    for id in seen.keys() {
        assert!(upstream.contains(id.as_str()), "{id} is no behaviour of the list");
    }
}

#[test]
fn what_is_ported_names_tests_that_exist_and_name_it() {
    for row in rows() {
        match row.verdict.as_str() {
            "ported" => {
                let tests: Vec<&str> = row.proof.split('`').filter(|part| part.contains("::")).collect();
                assert!(!tests.is_empty(), "{} names no test", row.id);
                for test in tests {
                    let (path, name) = test.rsplit_once("::").unwrap();
                    let text = fs::read_to_string(workspace().join(path))
                        .unwrap_or_else(|error| panic!("{}: {path}: {error}", row.id));
                    assert!(
                        text.contains(&format!("fn {name}(")),
                        "{}: {path} has no test {name}",
                        row.id
                    );
                    let upstream = row.id.rsplit("::").next().unwrap();
                    assert!(
                        text.contains(upstream),
                        "{}: {path} does not name {upstream}",
                        row.id
                    );
                }
            }
            "not applicable" | "planned" => {
                assert!(row.proof.len() > 20, "{}: the reason is missing", row.id);
            }
            other => panic!("{}: {other:?} is no verdict", row.id),
        }
    }
}
