//! A real kube-apiserver and etcd, by the script `e2e/cluster`. Gone with its handle, also in a panic.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use tokio::process::Command;

use crate::error::NoServer;
use crate::temporary::Temporary;

/// The exit code by which the script says that nothing can be built here.
const CANNOT_BUILD: i32 = 77;

/// A kube-apiserver and an etcd: started for this handle and gone with it, or lent by whoever started them.
#[derive(Debug)]
pub struct Cluster {
    directory: PathBuf,
    own: Option<Temporary>,
}

impl Cluster {
    /// Starts one with these flags for kube-apiserver.
    ///
    /// # Errors
    ///
    /// Skipped without a Go toolchain to build it; failed if it does not start.
    pub async fn start(flags: &[String]) -> Result<Cluster, NoServer> {
        let own = Temporary::new().map_err(|error| NoServer::failed("no directory for a cluster", error))?;
        // The handle is there before the processes: whatever fails now, they are ended.
        let cluster = Cluster {
            directory: own.path().to_owned(),
            own: Some(own),
        };
        cluster.run("up", flags).await?;
        Ok(cluster)
    }

    /// One that `e2e/cluster with` started in this directory. It stays when the handle goes.
    pub fn lent(directory: impl Into<PathBuf>) -> Cluster {
        Cluster {
            directory: directory.into(),
            own: None,
        }
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The kubeconfig of the administrator.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }

    /// The kubeconfig of a user who may do nothing.
    pub fn nobody_kubeconfig(&self) -> PathBuf {
        self.directory.join("nobody.kubeconfig")
    }

    /// The kubeconfig of a user who may do what a role binding says; there is none at first.
    pub fn user_kubeconfig(&self) -> PathBuf {
        self.directory.join("user.kubeconfig")
    }

    /// Whether it was started for this handle, so that it may be harmed.
    pub fn is_own(&self) -> bool {
        self.own.is_some()
    }

    /// Kills kube-apiserver, at once. etcd goes on.
    ///
    /// # Errors
    ///
    /// The script failed.
    pub async fn kill_apiserver(&self) -> Result<(), NoServer> {
        self.run("kill-apiserver", &[]).await.map(drop)
    }

    /// Stops kube-apiserver in order. etcd goes on.
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

    /// Makes etcd forget all history up to now.
    ///
    /// # Errors
    ///
    /// etcd refused.
    pub async fn compact(&self) -> Result<(), NoServer> {
        self.run("compact", &[]).await.map(drop)
    }

    async fn run(&self, command: &str, flags: &[String]) -> Result<Output, NoServer> {
        let output = Command::new(script())
            .arg(command)
            .arg(&self.directory)
            .args(flags)
            // Should this process be killed, the script's watchman ends the cluster.
            .env("KUBE_INFORMERS_E2E_OWNER", std::process::id().to_string())
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(|error| NoServer::failed("e2e/cluster cannot be run", error))?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(match output.status.code() {
            Some(CANNOT_BUILD) => NoServer::Skipped(said),
            _ => NoServer::Failed(format!(
                "e2e/cluster {command} failed ({}): {said}",
                output.status
            )),
        })
    }
}

/// The processes first: the directory goes with the field.
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
