//! `docs/evidence/faults.md` has one row for every fault of the catalogue, and the tests it names exist and carry its number.

use std::fs;

use crate::support::{defines_test, workspace};

struct Row {
    fault: String,
    tests: Vec<String>,
    measured: String,
    seen: String,
}

fn rows() -> Vec<Row> {
    let page = fs::read_to_string(workspace().join("docs/evidence/faults.md")).unwrap();
    page.lines()
        .filter(|line| line.starts_with("| F"))
        .filter(|line| !line.starts_with("| Fault "))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(cells.len(), 4, "a row has four cells: {line}");
            Row {
                fault: cells[0].to_owned(),
                tests: (cells[1].split('`').filter(|part| part.contains("::")))
                    .map(str::to_owned)
                    .collect(),
                measured: cells[2].to_owned(),
                seen: cells[3].to_owned(),
            }
        })
        .collect()
}

#[test]
fn every_fault_has_one_row_with_a_figure_and_what_the_user_sees() {
    let numbers: Vec<String> = rows().iter().map(|row| row.fault[..3].to_owned()).collect();
    let expected: Vec<String> = (1..=45).map(|number| format!("F{number:02}")).collect();
    assert_eq!(numbers, expected);
    for row in rows() {
        assert!(row.fault.len() > 8, "{} has a title", row.fault);
        assert!(
            row.measured.chars().any(|c| c.is_ascii_digit()) || row.measured.contains("a fresh change"),
            "{} has a figure: {}",
            row.fault,
            row.measured
        );
        assert!(row.seen.ends_with('.'), "{} says what the user sees", row.fault);
    }
}

#[test]
fn every_row_names_existing_tests_that_carry_its_number() {
    for row in rows() {
        let number = row.fault[..3].to_lowercase();
        assert!(!row.tests.is_empty(), "{} names no test", row.fault);
        for test in row.tests {
            let (path, name) = test.rsplit_once("::").unwrap();
            let source = fs::read_to_string(workspace().join(path))
                .unwrap_or_else(|error| panic!("{}: {path}: {error}", row.fault));
            assert!(
                defines_test(&source, name),
                "{}: {path} has no test {name}",
                row.fault
            );
            assert!(name.starts_with(&format!("{number}_")), "{}: {name}", row.fault);
        }
    }
}
