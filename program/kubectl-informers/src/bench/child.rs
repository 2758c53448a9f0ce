//! The embedded server in a separate process, so that its cost is not counted as ours.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::process::failure::Failure;

/// A server that stops when this is dropped.
pub struct ServerProcess {
    _child: Child,
    directory: PathBuf,
}

impl ServerProcess {
    /// Starts this program as a test server and waits until it serves.
    ///
    /// # Errors
    ///
    /// It cannot be started, or it rejects its arguments.
    pub async fn start(objects: &str, churn: u32) -> Result<Self, Failure> {
        let failed =
            |error: std::io::Error| Failure::error(format!("cannot start the embedded server: {error}"));
        let program = std::env::current_exe().map_err(failed)?;
        let directory = own_directory().map_err(failed)?;
        let mut command = Command::new(program);
        command
            .arg("testserver")
            .args(["--port", "0", "--objects", objects, "--seed", "1", "--kubeconfig"])
            .arg(directory.join("kubeconfig"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        if churn > 0 {
            command.args(["--churn", &format!("{churn}/s")]);
        }
        let mut child = command.spawn().map_err(failed)?;
        let (out, mut err) = (child.stdout.take(), child.stderr.take());
        let mut first = String::new();
        if let Some(out) = out {
            // It prints its address when it serves, or exits with an error on standard error.
            BufReader::new(out).read_line(&mut first).await.map_err(failed)?;
        }
        let server = Self {
            _child: child,
            directory,
        };
        if first.is_empty() {
            let mut words = String::new();
            if let Some(err) = &mut err {
                err.read_to_string(&mut words).await.map_err(failed)?;
            }
            return Err(Failure::error(words.trim().trim_start_matches("error: ")));
        }
        Ok(server)
    }

    /// Its kubeconfig.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.join("kubeconfig")
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Best effort: leftovers are in the temporary directory.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A new directory, so that nobody else can have prepared it.
fn own_directory() -> std::io::Result<PathBuf> {
    let parent = std::env::temp_dir();
    let mut number = 0u32;
    loop {
        let directory = parent.join(format!("kubectl-informers-{}-{number}", std::process::id()));
        match make(&directory) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && number < 1000 => number += 1,
            made => return made.map(|()| directory),
        }
    }
}

#[cfg(unix)]
fn make(directory: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(directory)
}

#[cfg(not(unix))]
fn make(directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir(directory)
}
