//! Which folder of the workspace may name which.

use kube_structure::manifest::{Package, closure, packages};

/// The crates of a house, with all that they are built with.
fn built_with(house: &str, packages: &[Package]) -> Vec<(String, Vec<Package>)> {
    let crates = packages.iter().filter(|package| package.house() == house);
    crates
        .map(|package| {
            let names = closure(package, packages);
            let built = packages.iter().filter(|one| names.contains(one.name.as_str()));
            (package.name.clone(), built.cloned().collect())
        })
        .collect()
}

#[test]
fn the_library_is_built_without_the_server() {
    let packages = packages();
    let library = built_with("library", &packages);

    assert!(library.len() >= 7, "{library:?}");
    for (name, built) in library {
        for other in built {
            assert_eq!(other.house(), "library", "{name} is built with {}", other.name);
        }
    }
}

#[test]
fn the_server_is_built_without_the_informers() {
    let packages = packages();
    let server = built_with("server", &packages);

    assert!(server.len() >= 2, "{server:?}");
    for (name, built) in server {
        for other in built {
            assert_ne!(other.name, "kube-informers", "{name} is built with the informers");
        }
    }
}

#[test]
fn nothing_but_tests_is_built_with_what_verifies_it() {
    let packages = packages();

    for house in ["library", "server", "program", "examples"] {
        for (name, built) in built_with(house, &packages) {
            for other in built {
                assert_ne!(other.house(), "verify", "{name} is built with {}", other.name);
            }
        }
    }
}

#[test]
fn every_crate_stands_in_a_house() {
    for package in packages() {
        assert!(
            ["library", "server", "program", "verify", "examples"].contains(&package.house()),
            "{} is in {}",
            package.name,
            package.folder.display()
        );
        assert!(
            !package.dependencies.is_empty() || package.name == "kube-structure",
            "{}",
            package.name
        );
    }
}
