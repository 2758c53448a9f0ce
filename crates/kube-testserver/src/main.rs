//! The test server as a program: a cluster in memory to point kubectl or any other client at.

use std::process::ExitCode;

use clap::Parser;
use kube_testserver::program::{Arguments, run};

#[tokio::main]
async fn main() -> ExitCode {
    // Wrong flags end the program here with code 2 and a message that names them.
    let arguments = Arguments::parse();
    match run(arguments).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("kube-testserver: {message}");
            ExitCode::FAILURE
        }
    }
}
