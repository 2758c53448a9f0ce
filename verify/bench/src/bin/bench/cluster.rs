//! A real kube-apiserver filled with objects. `verify/scenarios/cluster` starts and stops it.
//!
//! The objects are written directly into etcd, as the server would have stored them: thirty times faster than through the
//! server, and with a status and managedFields of several managers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta, PostParams};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::process::Command;
use tokio::time::Instant;

use crate::Result;
use kube_informers_bench::kind::Kind;
use kube_informers_bench::pod;

/// The number of concurrent writes to etcd.
const WRITERS: usize = 16;
/// The timeout until the server shows all objects.
const LOAD_TIMEOUT: Duration = Duration::from_secs(60);

/// A cluster that runs until it is dropped.
pub struct Cluster {
    script: PathBuf,
    directory: PathBuf,
}

impl Cluster {
    /// Starts a cluster with its files in a directory. `None` if it cannot be built without Go.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub async fn start(repository: &Path, directory: &Path) -> Result<Option<Self>> {
        let cluster = Self {
            script: repository.join("verify/scenarios/cluster"),
            directory: directory.to_owned(),
        };
        let status = Command::from(cluster.command("up")).status().await;
        let status = status.map_err(|error| format!("cannot run {}: {error}", cluster.script.display()))?;
        match status.code() {
            Some(0) => Ok(Some(cluster)),
            Some(77) => Ok(None),
            _ => Err(format!("verify/scenarios/cluster up: {status}").into()),
        }
    }

    fn command(&self, command: &str) -> std::process::Command {
        let mut process = std::process::Command::new(&self.script);
        process.arg(command).arg(&self.directory);
        process
    }

    /// The kubeconfig of its administrator.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// A client for it.
    ///
    /// # Errors
    ///
    /// The kubeconfig cannot be used.
    pub async fn client(&self) -> Result<Client> {
        let kubeconfig = kube::config::Kubeconfig::read_from(self.kubeconfig())?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// Creates the namespaces of all objects.
    ///
    /// # Errors
    ///
    /// The server rejects them.
    pub async fn create_namespaces(&self) -> Result<()> {
        let namespaces: Api<Namespace> = Api::all(self.client().await?);
        for number in 0..pod::NAMESPACES {
            let metadata = ObjectMeta {
                name: Some(pod::namespace(number)),
                ..ObjectMeta::default()
            };
            let namespace = Namespace {
                metadata,
                ..Namespace::default()
            };
            namespaces.create(&PostParams::default(), &namespace).await?;
        }
        Ok(())
    }

    /// Writes objects and waits until the server shows them. Returns how many it shows: it has some of its own.
    ///
    /// # Errors
    ///
    /// etcd or the server rejects them.
    pub async fn load(&self, kind: Kind, objects: usize) -> Result<usize> {
        let ports = std::fs::read_to_string(self.directory.join("ports"))?;
        let port = ports.lines().find_map(|line| line.strip_prefix("etcd_port="));
        let url = format!(
            "http://127.0.0.1:{}",
            port.ok_or("verify/scenarios/cluster did not print the port of etcd")?
        );
        let etcd = Client::try_from(Config::new(url.parse()?))?;
        let resource = ApiResource {
            plural: kind.plural().to_owned(),
            ..ApiResource::erase::<Pod>(&())
        };
        let shown: Api<DynamicObject> = Api::all_with(self.client().await?, &resource);
        let before = count(&shown).await?;
        stream::iter(0..objects)
            .map(|number| put(&etcd, kind, number))
            .buffer_unordered(WRITERS)
            .try_collect::<Vec<()>>()
            .await?;
        until_shown(&shown, before + objects).await?;
        Ok(before + objects)
    }
}

impl Drop for Cluster {
    /// Stops the server however the benchmark ends.
    fn drop(&mut self) {
        match self.command("down").status() {
            Ok(status) if status.success() => {}
            other => eprintln!(
                "bench: the server in {} may still run: {other:?}",
                self.directory.display()
            ),
        }
    }
}

async fn put(etcd: &Client, kind: Kind, number: usize) -> Result<()> {
    let key = format!(
        "/registry/{kind}/{}/{}",
        pod::namespace(number),
        pod::name(number)
    );
    let value = kind.object(number).to_string();
    let body = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
    let request = http::Request::post("/v3/kv/put").body(serde_json::to_vec(&body)?)?;
    etcd.request_text(request).await?;
    Ok(())
}

async fn until_shown(objects: &Api<DynamicObject>, wanted: usize) -> Result<()> {
    let began = Instant::now();
    loop {
        let shown = count(objects).await?;
        if shown >= wanted {
            return Ok(());
        }
        if began.elapsed() > LOAD_TIMEOUT {
            return Err(
                format!("the server shows {shown} of {wanted} objects after {LOAD_TIMEOUT:?}").into(),
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The number of objects on the server.
async fn count(objects: &Api<DynamicObject>) -> Result<usize> {
    let page = objects.list_metadata(&ListParams::default().limit(1)).await?;
    let rest = page.metadata.remaining_item_count.unwrap_or(0);
    Ok(page.items.len() + usize::try_from(rest).unwrap_or(0))
}
