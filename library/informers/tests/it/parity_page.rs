//! `docs/evidence/parity.md` has one row for every test of client-go, and the tests it names exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::support::{defines_test, workspace};

const UPSTREAM: &str = include_str!("parity/upstream.txt");

struct Row {
    id: String,
    verdict: String,
    proof: String,
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(workspace().join("docs/evidence/parity.md")).unwrap();
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
fn every_upstream_test_has_one_row() {
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
        assert!(upstream.contains(id.as_str()), "{id} is not an upstream test");
    }
}

#[test]
fn ported_rows_name_existing_tests_that_name_their_upstream_test() {
    for row in rows() {
        match row.verdict.as_str() {
            "ported" => {
                let tests: Vec<&str> = row.proof.split('`').filter(|part| part.contains("::")).collect();
                assert!(!tests.is_empty(), "{} names no test", row.id);
                for test in tests {
                    let (path, name) = test.rsplit_once("::").unwrap();
                    let source = fs::read_to_string(workspace().join(path))
                        .unwrap_or_else(|error| panic!("{}: {path}: {error}", row.id));
                    assert!(
                        defines_test(&source, name),
                        "{}: {path} has no test {name}",
                        row.id
                    );
                    let upstream = row.id.rsplit("::").next().unwrap();
                    assert!(
                        source.contains(upstream),
                        "{}: {path} does not name {upstream}",
                        row.id
                    );
                }
            }
            "not applicable" => {
                assert!(row.proof.len() > 20, "{}: the reason is missing", row.id);
            }
            other => panic!("{}: {other:?} is not a verdict", row.id),
        }
    }
}

#[test]
fn only_functions_with_a_test_attribute_count_as_tests() {
    let source = "\
/// Upstream: TestA
#[test]
fn a_test() {}

#[tokio::test(start_paused = true)]
async fn an_async_test() {}

fn a_helper() {}

#[test]
#[should_panic]
fn a_second_test() {}
";
    for (name, expected) in [
        ("a_test", true),
        ("an_async_test", true),
        ("a_helper", false),
        ("a_second_test", true),
        ("test", false),
    ] {
        assert_eq!(defines_test(source, name), expected, "{name}");
    }
}
