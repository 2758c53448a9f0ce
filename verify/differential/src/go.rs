//! The programs in `verify/go`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Whether there is a Go toolchain.
pub fn is_installed() -> bool {
    let go = Command::new("go").arg("version").output();
    go.is_ok_and(|output| output.status.success())
}

/// Builds the program in `verify/go/NAME`, once in a process. The first build downloads client-go's modules and takes minutes.
///
/// # Panics
///
/// If it does not build.
pub fn build(name: &'static str) -> PathBuf {
    // Held during a build: a second one would replace a program that runs.
    static BUILT: Mutex<BTreeMap<&str, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = built.get(name) {
        return program.clone();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let program = root.join("target/e2e/go").join(name);
    let output = Command::new("go")
        .args(["build", "-mod=readonly", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(root.join("verify/go").join(name))
        .output()
        .expect("go runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "verify/go/{name} does not build: {errors}"
    );
    built.insert(name, program.clone());
    program
}
