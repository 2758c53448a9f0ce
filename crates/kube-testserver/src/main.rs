//! The `kube-testserver` program: an in-memory cluster for kubectl or any other client.

use std::process::ExitCode;

use clap::Parser;
use kube_testserver::program::{Arguments, run};

#[tokio::main]
async fn main() -> ExitCode {
    // Invalid flags exit here with code 2 and a message that names them.
    let arguments = Arguments::parse();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("kube-testserver: {message}");
            ExitCode::FAILURE
        }
    }
}
