//! An informer in a separate process that prints the events its handler receives, one per line.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use kube::config::Kubeconfig;
use kube_informers_core::tasks::Task;
use kube_informers_e2e::{NoServer, Proxy, Server};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::watch;

use crate::line::Line;
use crate::tape::Tape;

/// The program of an informer.
#[derive(Clone, Debug)]
pub struct InformerProgram<'a> {
    /// The name of its informer in messages.
    pub name: &'static str,
    /// The file.
    pub path: &'a Path,
    /// The options that only this program has.
    pub options: Vec<String>,
}

/// A running informer.
#[derive(Debug)]
pub struct InformerProcess {
    name: &'static str,
    process: Child,
    lines: watch::Receiver<Output>,
    log: PathBuf,
    _reader: Task,
}

#[derive(Debug, Default)]
struct Output {
    lines: Vec<Line>,
    /// The end of the output, or the reason it could not be read.
    end: Option<Result<(), String>>,
}

impl InformerProcess {
    /// Starts an informer that watches the objects of the tape through a proxy. Its files are written to `directory`.
    ///
    /// # Errors
    ///
    /// It cannot be started.
    pub fn start(
        program: &InformerProgram<'_>,
        server: &Server,
        proxy: &Proxy,
        namespace: &str,
        tape: &Tape,
        directory: &Path,
    ) -> Result<InformerProcess, NoServer> {
        let name = program.name;
        let fail = |error: &dyn std::fmt::Display| NoServer::Failed(format!("{name}'s informer: {error}"));
        let kubeconfig = directory.join(format!("{name}.kubeconfig"));
        let text = kubeconfig_through(server, proxy).map_err(|error| fail(&error))?;
        std::fs::write(&kubeconfig, text).map_err(|error| fail(&error))?;
        let log = directory.join(format!("{name}.log"));
        let errors = std::fs::File::create(&log).map_err(|error| fail(&error))?;
        let [group, version, plural, _] = tape.resource;
        let mut command = Command::new(program.path);
        command
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--resource={group}/{version}/{plural}"))
            .arg(format!("--namespace={namespace}"))
            .arg(format!("--label-selector={}", tape.selector.unwrap_or_default()))
            .arg(format!("--watch-list={}", tape.watch_list))
            .args(&program.options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true);
        let mut process = command.spawn().map_err(|error| fail(&error))?;
        let output = process.stdout.take().ok_or_else(|| fail(&"it has no output"))?;
        let (sender, lines) = watch::channel(Output::default());
        let reader = Task::spawn("reader", read(BufReader::new(output).lines(), sender));
        Ok(InformerProcess {
            name,
            process,
            lines,
            log,
            _reader: reader,
        })
    }

    /// Waits until the lines so far satisfy a condition.
    ///
    /// # Errors
    ///
    /// The condition was not met within the timeout, or the program ended.
    pub async fn wait_for(
        &mut self,
        what: &str,
        timeout: Duration,
        condition: impl Fn(&[Line]) -> bool,
    ) -> Result<(), String> {
        let mut ended = false;
        let waiting = self.lines.wait_for(|output| {
            ended = output.end.is_some();
            condition(&output.lines) || ended
        });
        let met = tokio::time::timeout(timeout, waiting)
            .await
            .is_ok_and(|result| result.is_ok());
        if met && (!ended || condition(&self.lines.borrow().lines)) {
            return Ok(());
        }
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let tail: Vec<&str> = log.lines().rev().take(8).collect();
        Err(format!(
            "{}'s informer: no {what}{}; its log ends with:\n{}",
            self.name,
            if ended {
                ", and the process ended"
            } else {
                " within the timeout"
            },
            tail.into_iter().rev().collect::<Vec<_>>().join("\n")
        ))
    }

    /// All lines so far.
    pub fn lines(&self) -> Vec<Line> {
        self.lines.borrow().lines.clone()
    }

    /// Stops the informer and returns all its lines.
    ///
    /// # Errors
    ///
    /// It did not end, or printed an invalid line.
    pub async fn stop(mut self, timeout: Duration) -> Result<Vec<Line>, String> {
        drop(self.process.stdin.take());
        let ended = self.lines.wait_for(|output| output.end.is_some());
        let end = match tokio::time::timeout(timeout, ended).await {
            Ok(Ok(output)) => output.end.clone().unwrap_or(Ok(())),
            _ => Err("it did not end after its input was closed".into()),
        };
        end.map_err(|error| format!("{}'s informer: {error}", self.name))?;
        Ok(self.lines())
    }
}

async fn read(
    mut output: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
    sender: watch::Sender<Output>,
) {
    let end = loop {
        match output.next_line().await {
            Ok(Some(text)) => match serde_json::from_str(&text) {
                Ok(line) => sender.send_modify(|output| output.lines.push(line)),
                Err(error) => break Err(format!("invalid line: {error}")),
            },
            Ok(None) => break Ok(()),
            Err(error) => break Err(error.to_string()),
        }
    };
    sender.send_modify(|output| output.end = Some(end));
}

/// The administrator's kubeconfig with the proxy's address. The certificate is still checked against the server's name.
fn kubeconfig_through(server: &Server, proxy: &Proxy) -> Result<String, String> {
    let mut kubeconfig =
        Kubeconfig::read_from(server.kubeconfig_path()).map_err(|error| error.to_string())?;
    for cluster in kubeconfig
        .clusters
        .iter_mut()
        .filter_map(|named| named.cluster.as_mut())
    {
        let url = cluster.server.clone().unwrap_or_default();
        let url: http::Uri = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let scheme = url.scheme_str().unwrap_or("https");
        cluster.server = Some(format!("{scheme}://{}", proxy.address()));
        if scheme == "https" && cluster.tls_server_name.is_none() {
            cluster.tls_server_name = url.host().map(str::to_owned);
        }
    }
    serde_json::to_string(&kubeconfig).map_err(|error| error.to_string())
}
