//! `kubectl informers`: see what changes in a cluster, live.

use std::process::ExitCode;

fn main() -> ExitCode {
    kubectl_informers::run(std::env::args_os())
}
