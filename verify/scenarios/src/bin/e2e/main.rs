//! Recordings of what a real server does, and the results of other projects' suites.
//!
//! ```text
//! e2e exchanges write|check [RECORDING ...]      requests and the responses of kube-apiserver
//! e2e controllers write|check [STORY ...]        what kube-controller-manager makes of the stories about workloads
//! e2e suites RESULTS EXCEPTIONS [PAGE]           compares results with the list of known failures; verify/scenarios/suites runs it
//! ```
//!
//! `write` saves what the real server does, `check` compares it with the recordings.

mod controllers;
mod exchanges;
mod suites;

use std::process::ExitCode;

use kube_informers_e2e::recorder;

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = match arguments.split_first() {
        Some((name, rest)) => (name.as_str(), rest),
        None => ("", &[] as &[String]),
    };
    match name {
        "exchanges" => {
            recorder::main(
                "e2e exchanges",
                "RECORDING",
                "the recorded exchanges",
                rest,
                exchanges::run,
            )
            .await
        }
        "controllers" => {
            recorder::main(
                "e2e controllers",
                "STORY",
                "the stories of the controllers",
                rest,
                controllers::run,
            )
            .await
        }
        "suites" => suites::main(rest),
        _ => {
            eprintln!("e2e: name what to do: exchanges, controllers or suites");
            ExitCode::FAILURE
        }
    }
}
