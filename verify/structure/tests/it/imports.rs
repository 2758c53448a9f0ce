//! Which module may import which, in every crate.

use std::path::PathBuf;

use kube_structure::cycles::cycles;
use kube_structure::manifest::{Package, packages};
use kube_structure::modules::{Modules, code};
use kube_structure::{read, root, rust_files};

/// More modules than this must not import each other in a circle.
const MOST: usize = 3;

fn src_of(package: &Package) -> PathBuf {
    package.folder.join("src")
}

#[test]
fn no_cycle_has_more_than_three_modules() {
    let mut found = Vec::new();
    for package in packages() {
        let src = root().join(src_of(&package));
        if !src.is_dir() {
            continue;
        }
        let modules = Modules::of(&src);
        assert!(modules.all().count() > 0, "{}", src.display());
        for cycle in cycles(&modules) {
            if cycle.modules.len() > MOST {
                let folder: PathBuf = [src_of(&package), cycle.folder.iter().collect()].iter().collect();
                found.push(format!("{}: {}", folder.display(), cycle.modules.join(" ")));
            }
        }
    }
    assert!(
        found.is_empty(),
        "cycles of more than {MOST} modules:\n{}",
        found.join("\n")
    );
}

#[test]
fn files_have_at_most_600_lines_of_code() {
    for package in packages() {
        for file in rust_files(&root().join(&package.folder)) {
            let text = read(&file);
            let lines = code(&text).lines().count();
            assert!(
                lines <= 600 || text.starts_with("// Generated "),
                "{} has {lines} lines of code: split it",
                file.display()
            );
        }
    }
}
