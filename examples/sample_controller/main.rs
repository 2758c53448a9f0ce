//! Kubernetes' sample-controller: a kind `Foo` whose objects each own a Deployment.
//!
//! `cargo run --example sample_controller` runs a script against the embedded server and checks every step.
//! `cargo run --example sample_controller -- --kubeconfig ~/.kube/config --install` runs in a cluster until a signal.

#![allow(clippy::disallowed_names, reason = "the kind is called Foo")]

mod controller;
mod flags;
mod foo;
mod recorder;
mod run;
mod scene;

use std::process::ExitCode;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::flags::Flags;
use crate::run::run;

type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_env_filter("kube_controller=info,sample_controller=info")
        .init();
    let flags = match Flags::from_arguments(std::env::args().skip(1)) {
        Ok(flags) => flags,
        Err(help) => {
            eprintln!("{help}");
            return ExitCode::from(2);
        }
    };
    match start(flags).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn start(flags: Flags) -> Result<(), Error> {
    let Some(path) = flags.kubeconfig.clone() else {
        return scene::play(flags).await;
    };
    let kubeconfig = Kubeconfig::read_from(path)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let client = kube::Client::try_from(config)?;
    if flags.install {
        foo::install(&client).await?;
    }
    run(client, &flags).await
}
