//! A real kube-apiserver and etcd, managed by the script `verify/scenarios/cluster`. Stopped on drop, even after a panic.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tempfile::TempDir;
use tokio::process::Command;

use crate::error::NoServer;

/// The script's exit code if it cannot build the programs.
const CANNOT_BUILD: i32 = 77;

/// A kube-apiserver and an etcd: owned by this handle and stopped with it, or shared.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    own: Option<TempDir>,
}

impl Cluster {
    /// Starts a cluster with these flags for kube-apiserver.
    ///
    /// # Errors
    ///
    /// Skipped without a Go toolchain to build it; failed if it does not start.
    pub async fn start(flags: &[String]) -> Result<Cluster, NoServer> {
        let own = TempDir::new().map_err(|error| NoServer::failed("no directory for a cluster", error))?;
        // The handle exists before the processes, so that they are stopped on any failure.
        let cluster = Cluster {
            directory: own.path().to_owned(),
            own: Some(own),
        };
        cluster.run("up", flags).await?;
        Ok(cluster)
    }

    /// A cluster started by `verify/scenarios/cluster with` in this directory. It is not stopped on drop.
    pub fn lent(directory: impl Into<PathBuf>) -> Cluster {
        Cluster {
            directory: directory.into(),
            own: None,
        }
    }

    /// The directory with its files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// The kubeconfig of a user without permissions.
    pub fn nobody_kubeconfig(&self) -> PathBuf {
        self.directory.join("nobody.kubeconfig")
    }

    /// The kubeconfig of a user without role bindings at first.
    pub fn user_kubeconfig(&self) -> PathBuf {
        self.directory.join("user.kubeconfig")
    }

    /// Whether this handle owns the cluster, so that it may be disrupted.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Kills kube-apiserver (SIGKILL). etcd keeps running.
    ///
    /// # Errors
    ///
    /// The script failed.
    pub async fn kill_apiserver(&self) -> Result<(), NoServer> {
        self.run("kill-apiserver", &[]).await.map(drop)
    }

    /// Stops kube-apiserver gracefully (SIGTERM). etcd keeps running.
    ///
    /// # Errors
    ///
    /// The script failed.
    pub async fn stop_apiserver(&self) -> Result<(), NoServer> {
        self.run("stop-apiserver", &[]).await.map(drop)
    }

    /// Starts kube-apiserver again, on the same port and data.
    ///
    /// # Errors
    ///
    /// It did not become ready.
    pub async fn start_apiserver(&self, flags: &[String]) -> Result<(), NoServer> {
        self.run("start-apiserver", flags).await.map(drop)
    }

    /// Compacts all history of etcd.
    ///
    /// # Errors
    ///
    /// etcd refused.
    pub async fn compact(&self) -> Result<(), NoServer> {
        self.run("compact", &[]).await.map(drop)
    }

    /// Starts kube-controller-manager, which is stopped with the cluster.
    ///
    /// # Errors
    ///
    /// Skipped without a Go toolchain to build it; failed if it does not start.
    pub async fn start_controllers(&self) -> Result<(), NoServer> {
        self.run("start-controllers", &[]).await.map(drop)
    }

    async fn run(&self, command: &str, flags: &[String]) -> Result<Output, NoServer> {
        let output = Command::new(script())
            .arg(command)
            .arg(&self.directory)
            .args(flags)
            // If this process is killed, the script's watchdog stops the cluster.
            .env("KUBE_INFORMERS_E2E_OWNER", std::process::id().to_string())
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(|error| NoServer::failed("verify/scenarios/cluster cannot be run", error))?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(match output.status.code() {
            Some(CANNOT_BUILD) => NoServer::Skipped(said),
            _ => NoServer::Failed(format!(
                "verify/scenarios/cluster {command} failed ({}): {said}",
                output.status
            )),
        })
    }
}

/// The processes are stopped first: the directory is removed with the field.
impl Drop for Cluster {
    fn drop(&mut self) {
        if self.own.is_none() {
            return;
        }
        let down = std::process::Command::new(script())
            .arg("down")
            .arg(&self.directory)
            .stdin(Stdio::null())
            .output();
        if let Err(error) = down {
            eprintln!("a cluster could not be stopped: {error}");
        }
    }
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cluster")
}
