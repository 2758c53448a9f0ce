//! `docs/go-names.md` has a row for every exported name of the Go packages.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/go-names.md");
const NAMES: &str = include_str!("go_names.txt");

fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

#[test]
fn every_go_name_has_a_row_with_a_counterpart() {
    let mut listed = BTreeSet::new();
    for row in PAGE.lines().filter(|line| line.starts_with("| `")) {
        let (names, counterpart) = row[1..].split_once(" | ").expect("two cells");
        assert!(
            counterpart.trim_matches([' ', '|']).len() > 3,
            "no counterpart: {row}"
        );
        if let Some(reason) = counterpart.strip_prefix("not needed") {
            assert!(reason.starts_with(": "), "no reason: {row}");
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
