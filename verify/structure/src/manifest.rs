//! The manifests of the workspace, as far as the rules need them: one dependency a line.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::{read, root};

/// One crate of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its folder, from the root: `library/core`.
    pub folder: PathBuf,
    /// What it depends on, in the order of the manifest.
    pub dependencies: Vec<Dependency>,
}

/// One line of a table of dependencies.
#[derive(Clone, Debug)]
pub struct Dependency {
    /// The name of the crate.
    pub name: String,
    /// Only for tests, examples and benchmarks.
    pub is_dev: bool,
    /// The comment beside it, in the lines above or at the end of its own.
    pub reason: Option<String>,
}

impl Package {
    /// The first folder of its path: `library`, `server`, `program`, `verify`, `examples`.
    pub fn house(&self) -> &str {
        let first = self.folder.iter().next();
        first.and_then(|part| part.to_str()).unwrap_or_default()
    }
}

/// The crates of the workspace.
///
/// # Panics
///
/// A manifest cannot be read.
pub fn packages() -> Vec<Package> {
    let text = read(&root().join("Cargo.toml"));
    let members = text
        .split("members = [")
        .nth(1)
        .and_then(|rest| rest.split(']').next());
    let members = members.unwrap_or_default().lines().filter_map(quoted);
    members.map(|folder| package(Path::new(folder))).collect()
}

/// The dependencies that the crates of the workspace share.
pub fn shared() -> Vec<Dependency> {
    dependencies(&read(&root().join("Cargo.toml")))
}

/// All crates of the workspace that a crate is built with, directly or not.
pub fn closure<'a>(of: &'a Package, packages: &'a [Package]) -> BTreeSet<&'a str> {
    let by_name: BTreeMap<&str, &Package> = packages.iter().map(|one| (one.name.as_str(), one)).collect();
    let (mut found, mut open) = (BTreeSet::new(), vec![of]);
    while let Some(package) = open.pop() {
        for dependency in package.dependencies.iter().filter(|one| !one.is_dev) {
            if let Some(next) = by_name.get(dependency.name.as_str())
                && found.insert(next.name.as_str())
            {
                open.push(next);
            }
        }
    }
    found
}

fn package(folder: &Path) -> Package {
    let text = read(&root().join(folder).join("Cargo.toml"));
    let name = text
        .lines()
        .find(|line| line.starts_with("name = "))
        .and_then(quoted);
    Package {
        name: name.unwrap_or_default().to_owned(),
        folder: folder.to_owned(),
        dependencies: dependencies(&text),
    }
}

fn dependencies(manifest: &str) -> Vec<Dependency> {
    let (mut found, mut table, mut comment) = (Vec::new(), "", None);
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            table = header.split(']').next().unwrap_or_default();
            comment = None;
        } else if let Some(text) = line.strip_prefix('#') {
            comment = Some(text.trim().to_owned());
        } else if table.ends_with("dependencies")
            && let Some((key, value)) = line.split_once('=')
            && !line.starts_with([' ', ']'])
        {
            let trailing = value.split_once(" # ").map(|(_, text)| text.trim().to_owned());
            found.push(Dependency {
                name: key.trim().trim_end_matches(".workspace").to_owned(),
                is_dev: table.ends_with("dev-dependencies"),
                reason: comment.take().or(trailing),
            });
        } else {
            comment = None;
        }
    }
    found
}

fn quoted(line: &str) -> Option<&str> {
    line.split('"').nth(1)
}
