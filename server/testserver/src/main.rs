//! The `kube-testserver` program: an in-memory cluster for kubectl or any other client.

use std::process::ExitCode;

use clap::Parser;
use kube_testserver::program::{Program, Role, stand_in};

#[tokio::main]
async fn main() -> ExitCode {
    let mut called = std::env::args();
    let result = match called.next().and_then(|program| Role::of(&program)) {
        Some(role) => stand_in(role, &called.collect::<Vec<_>>()).await,
        // Invalid flags exit here with code 2 and a message that names them.
        None => Program::parse().run().await,
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("kube-testserver: {message}");
            ExitCode::FAILURE
        }
    }
}
