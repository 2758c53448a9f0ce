//! Groups of modules that import each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{Module, Modules};

/// Modules of one folder that form a cycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The module that contains them; empty for the root of the crate.
    pub folder: Module,
    /// Their names.
    pub modules: Vec<String>,
}

/// The cycles of a crate, of the modules of each folder. What is below a module counts as part of it, so that a cycle
/// across folders is one of the folders that have the same parent.
pub fn cycles(modules: &Modules) -> Vec<Cycle> {
    let imports = modules.imports();
    let folders: BTreeSet<Module> = modules
        .all()
        .filter_map(|module| Some(module.split_last()?.1.to_vec()))
        .collect();
    let mut found = Vec::new();
    for folder in folders {
        let below = |module: &Module| {
            module
                .starts_with(&folder)
                .then(|| module.get(folder.len()).cloned())?
        };
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (from, to) in &imports {
            if let (Some(from), Some(to)) = (below(from), below(to))
                && from != to
            {
                graph.entry(to.clone()).or_default();
                graph.entry(from).or_default().insert(to);
            }
        }
        found.extend(groups(&graph).into_iter().map(|modules| Cycle {
            folder: folder.clone(),
            modules,
        }));
    }
    found
}

/// The groups of nodes that reach each other. The graphs are small, so reachability is enough.
fn groups(graph: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = graph
        .keys()
        .map(|from| {
            let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
            while let Some(node) = open.pop() {
                open.extend(
                    graph
                        .get(node)
                        .into_iter()
                        .flatten()
                        .filter(|next| seen.insert(*next)),
                );
            }
            (from, seen)
        })
        .collect();
    let mut found: BTreeSet<Vec<String>> = BTreeSet::new();
    for (from, to) in &reached {
        let group: Vec<String> = to
            .iter()
            .filter(|to| reached.get(**to).is_some_and(|back| back.contains(from)))
            .map(|one| (*one).clone())
            .collect();
        if group.len() > 1 {
            found.insert(group);
        }
    }
    found.into_iter().collect()
}
