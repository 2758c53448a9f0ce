//! Why each dependency is there.

use std::collections::BTreeSet;

use kube_structure::manifest::{packages, shared};

#[test]
fn the_reason_for_a_dependency_stands_beside_it() {
    let packages = packages();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package.name.as_str()).collect();
    let shared = shared();
    let explained: BTreeSet<&str> = shared
        .iter()
        .filter(|one| one.reason.is_some())
        .map(|one| one.name.as_str())
        .collect();
    let mut missing: Vec<String> = shared
        .iter()
        .filter(|one| one.reason.is_none() && !ours.contains(one.name.as_str()))
        .map(|one| format!("Cargo.toml: {}", one.name))
        .collect();
    for package in &packages {
        for dependency in &package.dependencies {
            let name = dependency.name.as_str();
            if dependency.reason.is_none() && !ours.contains(name) && !explained.contains(name) {
                missing.push(format!("{}/Cargo.toml: {name}", package.folder.display()));
            }
        }
    }

    assert!(missing.is_empty(), "no comment says why:\n{}", missing.join("\n"));
}
