//! Runs a test beside a Go program of this folder. The test targets of several crates include this file with `#[path]`.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Trial};

/// Builds the program in `verify/go/NAME`. The first build downloads client-go's modules and takes minutes.
pub fn build(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../verify/go")
        .join(name);
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let output = Command::new("go")
        .args(["build", "-mod=readonly", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(source)
        .output()
        .expect("go runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "verify/go/{name} does not build: {errors}"
    );
    program
}

/// Runs the only test of a target. It is reported as ignored if no Go toolchain is installed; a program that does not build
/// is a failure.
pub fn run<F: Future<Output = ()>>(name: &str, test: impl FnOnce() -> F + Send + 'static) -> ExitCode {
    let go = Command::new("go").arg("version").output();
    let has_go = go.is_ok_and(|output| output.status.success());
    let trial = Trial::test(name, || {
        tokio::runtime::Runtime::new()?.block_on(test());
        Ok(())
    });
    let trial = trial.with_ignored_flag(!has_go);
    libtest_mimic::run(&Arguments::from_args(), vec![trial]).exit_code()
}
