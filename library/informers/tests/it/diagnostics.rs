//! The messages of the compiler for mistakes that beginners make.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use crate::support::workspace;

/// Declarations that every case uses.
const PREAMBLE: &str = "
    #![allow(unused)]
    use std::sync::Arc;
    use kube_informers::{Event, Informer, Lister, Object};
    pub struct Thing;
    impl Object for Thing {
        fn object_name(&self) -> &str { \"x\" }
        fn object_namespace(&self) -> Option<&str> { None }
        fn object_uid(&self) -> Option<&str> { None }
        fn object_version(&self) -> Option<&str> { None }
    }
";

/// The library as this test was linked against it: the newest one in the directory of the test binary.
fn library() -> (PathBuf, PathBuf) {
    let test = std::env::current_exe().expect("the path of this test");
    let directory = test.parent().expect("a directory").to_owned();
    let modified = |path: &Path| {
        let metadata = path.metadata().ok();
        metadata
            .and_then(|file| file.modified().ok())
            .unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let files = std::fs::read_dir(&directory).expect("a readable directory");
    let libraries = files.filter_map(|file| Some(file.ok()?.path())).filter(|path| {
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        name.starts_with("libkube_informers-") && name.ends_with(".rlib")
    });
    let library = libraries
        .max_by_key(|path| modified(path))
        .expect("the library is built");
    (directory, library)
}

/// What the compiler prints for a function body.
fn errors_of(body: &str) -> String {
    let (directory, library) = library();
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .args([
            "--edition",
            "2024",
            "--crate-type",
            "lib",
            "--emit",
            "metadata",
            "--out-dir",
        ])
        .arg(directory.join("diagnostics"))
        .arg("-L")
        .arg(format!("dependency={}", directory.display()))
        .arg("--extern")
        .arg(format!("kube_informers={}", library.display()))
        // From its input: a file could be overwritten by another case before it is read.
        .arg("-")
        // The compiler shows lines of the library, whose paths are relative to the workspace.
        .current_dir(workspace())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rustc runs");
    let source = format!("{PREAMBLE}{body}");
    let mut input = compiler.stdin.take().expect("a pipe");
    input.write_all(source.as_bytes()).expect("rustc reads");
    drop(input);
    let output = compiler.wait_with_output().expect("rustc runs");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        !output.status.success(),
        "this should not compile: {body}\n{text}"
    );
    text
}

#[track_caller]
fn assert_explains(body: &str, explanations: &[&str]) {
    let text = errors_of(body);
    for explanation in explanations {
        assert!(text.contains(explanation), "no {explanation:?} in:\n{text}");
    }
}

#[test]
fn arc_of_an_object_is_explained() {
    assert_explains(
        "pub fn f(things: Lister<Thing>, thing: Arc<Thing>) { things.controller_of(&thing); }",
        &["`Arc<Thing>` cannot be cached", "`&*object`"],
    );
}

/// `get("shop")` would be the cluster-scoped object of that name.
#[test]
fn namespace_and_name_as_two_arguments_do_not_suggest_the_namespace_alone() {
    let text = errors_of("pub fn f(things: Lister<Thing>) { things.get(\"shop\", \"cart\"); }");
    assert!(text.contains("expected `&ObjectKey`, found `&str`"), "{text}");
    assert!(!text.contains("get(\"shop\")"), "{text}");
}

#[test]
fn struct_that_is_no_object_is_explained() {
    assert_explains(
        "pub struct Other; pub fn f(others: Informer<Other>) {}",
        &[
            "`Other` cannot be cached: it does not implement `Object`",
            "implement `kube_informers::Object`",
        ],
    );
}

#[test]
fn async_closure_that_captures_is_explained() {
    assert_explains(
        "pub async fn g(_: &String) {}
         pub fn f(things: Informer<Thing>, name: String) {
             things.add_event_handler(async move |event: Event<Thing>| g(&name).await).unwrap();
         }",
        // The words of the compiler, which are better than a note of ours could be.
        &[
            "captures state from its environment",
            "to implement `AsyncEventHandler<Thing>`",
        ],
    );
}

#[test]
fn closure_that_returns_something_is_explained() {
    assert_explains(
        "pub fn f(things: Informer<Thing>) { things.add_event_handler(|event: Event<Thing>| event.key()).unwrap(); }",
        &["is not an event handler for `Thing`", "end it with a semicolon"],
    );
}
