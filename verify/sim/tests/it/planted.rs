//! The list of planted bugs fits the sources. That each is found takes a build per bug: `kube-sim planted` does it.

use std::path::Path;

use kube_sim::planted::{self, Edit};

#[test]
fn the_lines_of_every_planted_bug_occur_exactly_once() {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let bugs = planted::read(&tree).unwrap();
    assert!(bugs.len() >= 50, "{} bugs", bugs.len());
    let obstacles: Vec<String> = bugs.iter().filter_map(|bug| bug.obstacle(&tree)).collect();
    assert!(obstacles.is_empty(), "{obstacles:#?}");

    let mut names: Vec<&str> = bugs.iter().map(|bug| bug.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), bugs.len(), "two bugs have the same name");
}

#[test]
fn an_edit_ignores_indentation_and_needs_exactly_one_place() {
    let edit = Edit {
        file: "lib.rs".to_owned(),
        original: vec!["if ready {".to_owned(), "go();".to_owned()],
        replacement: vec!["if true {".to_owned(), "go();".to_owned()],
    };
    let once = "fn f() {\n    if ready {\n        go();\n    }\n}\n";
    assert_eq!(
        edit.apply(once).as_deref(),
        Ok("fn f() {\nif true {\ngo();\n    }\n}\n")
    );
    assert_eq!(edit.apply(&once.repeat(2)), Err(2));
    assert_eq!(edit.apply("if ready {\n    stop();\n"), Err(0));
}

#[test]
fn a_bug_that_changes_nothing_is_refused() {
    for (list, problem) in [
        ("Name", "Name: what does it do?"),
        ("Name\nIt breaks.\nlib.rs", "Name: it changes nothing"),
        ("Name\nIt breaks.\nlib.rs\n  a\n", "Name: it changes nothing"),
        ("Name\nIt breaks.\n- a\n+ b", "Name: a change without a file"),
    ] {
        let error = planted::parse(list).unwrap_err();
        assert_eq!(error.to_string(), problem);
    }
    let bugs = planted::parse("# A comment.\n\nName\nIt breaks.\nby workqueue\nlib.rs\n- a\n").unwrap();
    assert_eq!(bugs[0].found_by, ["workqueue"]);
}
