//! Prints the name of each ConfigMap that kube-runtime's watcher delivers, in the format of `verify/go/client-go`. For
//! `verify/recovery`. It stops when its standard input ends.

use futures_util::{StreamExt, pin_mut};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use kube_runtime::watcher::{self, Event};
use kube_runtime::{WatchStreamExt, watcher as watch};
use tokio::io::AsyncReadExt;

const USAGE: &str = "usage: lines-kube-runtime --kubeconfig=FILE --namespace=NAME";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut kubeconfig, mut namespace) = (None, None);
    for argument in std::env::args().skip(1) {
        match argument.split_once('=') {
            Some(("--kubeconfig", file)) => kubeconfig = Some(Kubeconfig::read_from(file)?),
            Some(("--namespace", name)) => namespace = Some(name.to_owned()),
            _ => return Err(format!("unknown option {argument}\n{USAGE}").into()),
        }
    }
    let config =
        Config::from_custom_kubeconfig(kubeconfig.ok_or(USAGE)?, &KubeConfigOptions::default()).await?;
    let api: Api<ConfigMap> = Api::namespaced(Client::try_from(config)?, &namespace.ok_or(USAGE)?);
    let events = watch(api, watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let printing = async {
        while let Some(event) = events.next().await {
            let (event, name) = match event {
                Ok(Event::Apply(map) | Event::InitApply(map)) => {
                    ("added", map.metadata.name.unwrap_or_default())
                }
                Ok(Event::InitDone) => ("synced", String::new()),
                Ok(_) => continue,
                Err(error) => {
                    eprintln!("{error}");
                    continue;
                }
            };
            println!("{}", serde_json::json!({"event": event, "name": name}));
        }
    };
    let mut rest = Vec::new();
    let mut stdin = tokio::io::stdin();
    tokio::select! {
        () = printing => {}
        _ = stdin.read_to_end(&mut rest) => {}
    }
    Ok(())
}
