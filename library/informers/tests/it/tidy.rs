//! The structure of the library: which module may import which, and code that must be in one place only.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each module and the modules it may import. A stage imports its input and output types, nothing to its right.
const MAY_IMPORT: &[(&str, &[&str])] = &[
    ("object", &[]),
    ("errors", &[]),
    ("key", &["errors", "object"]),
    ("version", &["errors"]),
    ("time", &[]),
    ("lock", &[]),
    ("log_limit", &[]),
    ("quarantine", &["key"]),
    ("selector", &["errors", "object"]),
    ("shard", &["object", "quarantine"]),
    ("scope", &["errors", "selector", "shard"]),
    (
        "source",
        &["codec", "key", "object", "scope", "selector", "shard", "wire"],
    ),
    ("codec", &["key", "object", "quarantine", "shard", "wire"]),
    ("lazy", &["codec", "key", "object", "source"]),
    (
        "bodies",
        &[
            "errors",
            "codec",
            "event",
            "informer",
            "key",
            "object",
            "registration",
            "source",
            "store",
            "version",
        ],
    ),
    ("wire", &["quarantine"]),
    ("delta", &["key", "object", "quarantine", "shard"]),
    ("target", &["delta", "key", "object", "quarantine"]),
    (
        "reflector",
        &[
            "errors",
            "delta",
            "key",
            "object",
            "quarantine",
            "shard",
            "source",
            "target",
            "task",
            "time",
            "version",
            "wire",
        ],
    ),
    (
        "queue",
        &[
            "delta",
            "key",
            "lock",
            "object",
            "quarantine",
            "target",
            "time",
            "version",
        ],
    ),
    ("event", &["key", "object"]),
    (
        "store",
        &[
            "errors",
            "delta",
            "event",
            "key",
            "lock",
            "object",
            "quarantine",
            "shard",
            "source",
            "target",
            "time",
            "version",
        ],
    ),
    ("indexes", &["object", "store"]),
    (
        "lister",
        &["indexes", "key", "object", "selector", "source", "store"],
    ),
    ("handler", &["event", "key", "object", "registration", "target"]),
    ("registration", &["target", "time"]),
    ("task", &[]),
    (
        "dispatcher",
        &[
            "event",
            "handler",
            "key",
            "lock",
            "log_limit",
            "object",
            "registration",
            "store",
            "target",
            "task",
            "time",
        ],
    ),
    (
        "subscription",
        &["dispatcher", "event", "handler", "object", "registration"],
    ),
    (
        "informer",
        &[
            "errors",
            "codec",
            "delta",
            "dispatcher",
            "event",
            "handler",
            "key",
            "lazy",
            "lister",
            "log_limit",
            "object",
            "quarantine",
            "queue",
            "reflector",
            "registration",
            "scope",
            "selector",
            "shard",
            "source",
            "store",
            "subscription",
            "target",
            "task",
            "time",
            "version",
        ],
    ),
    (
        "sync",
        &[
            "factory",
            "informer",
            "object",
            "reflector",
            "registration",
            "time",
        ],
    ),
    (
        "factory",
        &[
            "errors",
            "codec",
            "informer",
            "key",
            "lazy",
            "object",
            "reflector",
            "scope",
            "selector",
            "shard",
            "source",
            "target",
            "task",
            "time",
        ],
    ),
];

fn sources() -> Vec<(PathBuf, String)> {
    fn walk(folder: &Path, into: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, into);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                into.push(path);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    walk(&root, &mut paths);
    paths.sort();
    paths
        .into_iter()
        .filter(|path| !path.iter().any(|part| part == "tests" || part == "tests.rs"))
        .map(|path| {
            (
                path.strip_prefix(&root).unwrap().to_owned(),
                code(&fs::read_to_string(&path).unwrap()),
            )
        })
        .collect()
}

/// The code of a file, without comments and without its unit tests.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or(text);
    text.lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n")
}

/// The top-level module of a file; `None` for `lib.rs`.
fn module(path: &Path) -> Option<String> {
    let first = path.components().next()?.as_os_str().to_str()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (name != "lib").then(|| name.to_owned())
}

fn imports(code: &str) -> BTreeSet<String> {
    code.match_indices("crate::")
        // `kube_crate::x` and the like are other crates.
        .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        .map(|(at, _)| {
            code[at + "crate::".len()..]
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect()
        })
        .filter(|name: &String| name.starts_with(char::is_lowercase))
        .collect()
}

#[test]
fn stages_import_only_leftwards() {
    for (path, code) in sources() {
        let Some(module) = module(&path) else { continue };
        let allowed = MAY_IMPORT
            .iter()
            .find(|(name, _)| *name == module)
            .unwrap_or_else(|| panic!("{module} is not in the table of this test"))
            .1;
        for import in imports(&code) {
            assert!(
                import == module || allowed.contains(&import.as_str()),
                "{} imports crate::{import}, which is not to its left",
                path.display()
            );
        }
    }
}

#[test]
fn the_import_table_names_existing_modules_only() {
    let modules: BTreeSet<String> = sources().iter().filter_map(|(path, _)| module(path)).collect();
    for (name, imports) in MAY_IMPORT {
        for module in imports.iter().chain([name]) {
            assert!(modules.contains(*module), "there is no module {module}");
        }
    }
}

#[test]
fn store_writer_and_dispatcher_meet_in_one_file() {
    let meeting: Vec<String> = sources()
        .into_iter()
        .filter(|(_, code)| code.contains("DeltaWriter") && code.contains("Dispatcher"))
        .map(|(path, _)| path.display().to_string())
        .filter(|path| path != "lib.rs")
        .collect();

    assert_eq!(meeting, ["informer/process.rs"]);
}

#[test]
fn the_store_does_not_depend_on_tokio() {
    for (path, code) in sources() {
        if module(&path).as_deref() == Some("store") {
            assert!(!code.contains("tokio"), "{} names tokio", path.display());
        }
    }
}

#[test]
fn only_the_codec_and_packed_objects_know_json() {
    for (path, code) in sources() {
        if module(&path).is_some_and(|module| module != "codec" && module != "lazy") {
            assert!(
                !code.contains("serde_json"),
                "{} names serde_json",
                path.display()
            );
        }
    }
}

/// The listing of the public API is itself checked by `.ci/api-listing --check`.
#[test]
fn the_root_of_the_crate_has_at_most_45_names() {
    let listing = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/api/kube-informers.txt");
    let names: BTreeSet<String> = fs::read_to_string(listing)
        .unwrap()
        .lines()
        .filter(|line| line.starts_with("pub "))
        .filter_map(|line| line.split("kube_informers::").nth(1))
        .map(|path| {
            path.split(|c: char| !(c.is_alphanumeric() || c == '_'))
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();

    assert!(names.contains("Informer") && names.contains("store"), "{names:?}");
    assert!(names.len() <= 45, "{} names: {names:?}", names.len());
}
