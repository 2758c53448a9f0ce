//! Running the program and kubectl on a real server.

use std::path::PathBuf;
use std::process::{Output, Stdio};

use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, PostParams};
use kube_informers_e2e::{Server, Setup, TIMEOUT};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};
use tokio::time::timeout;

/// The program, as cargo built it next to this test.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    let built = test.ancestors().nth(2).expect("target/debug");
    let program = built.join("kubectl-informers");
    assert!(
        program.exists(),
        "{} is missing: cargo build -p kubectl-informers builds it",
        program.display()
    );
    program
}

/// A namespace on a real server, and a home directory of its own for the programs. Both are gone at the end.
pub struct Place {
    pub client: kube::Client,
    pub namespace: String,
    pub home: PathBuf,
    pub kubeconfig: PathBuf,
    _home: Home,
    _server: Server,
}

impl Place {
    /// `None`, said loudly, without a real server or kubectl.
    pub async fn new(what: &str, setup: &Setup) -> Option<Place> {
        let server = match Server::real(setup).await {
            Ok(server) => server,
            Err(error) => {
                error.skip_loudly(what).expect("a server, or a reason to skip");
                return None;
            }
        };
        let version = Command::new("kubectl")
            .args(["version", "--client"])
            .output()
            .await;
        if version.is_err() {
            eprintln!("\n*** SKIPPED: {what}: there is no kubectl ***\n");
            return None;
        }
        let client = server.client().expect("a client");
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = json!({ "metadata": { "generateName": "e2e-program-" } });
        let namespace = serde_json::from_value(namespace).expect("a namespace");
        let created = namespaces.create(&PostParams::default(), &namespace).await;
        let namespace = created.expect("a namespace").metadata.name.expect("its name");
        let home = Home::new(&namespace);
        Some(Place {
            client,
            home: home.0.clone(),
            kubeconfig: server.kubeconfig_path().to_owned(),
            namespace,
            _home: home,
            _server: server,
        })
    }

    /// Deletes the namespace, when everything has succeeded.
    pub async fn leave(self) {
        let namespaces: Api<Namespace> = Api::all(self.client);
        let deleted = namespaces.delete(&self.namespace, &DeleteParams::default()).await;
        deleted.expect("the namespace is deleted");
    }

    /// A program with the kubeconfig of the administrator, in this home and in no other surroundings.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("KUBECONFIG", &self.kubeconfig)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs the program to its end.
    pub async fn run(&self, arguments: &[&str]) -> Output {
        finish(self.command(program(), arguments)).await
    }

    /// Runs kubectl in the namespace, with a manifest on its standard input. Gives its output.
    pub async fn kubectl(&self, arguments: &[&str], input: &Value) -> String {
        let mut command = self.command("kubectl", arguments);
        command
            .args(["--namespace", &self.namespace])
            .stdin(Stdio::piped())
            .env("KUBE_EDITOR", "sed -i s/green/red/");
        let mut child = command.spawn().expect("kubectl");
        let mut stdin = child.stdin.take().expect("standard input");
        // kubectl may not read it.
        let _ = stdin.write_all(input.to_string().as_bytes()).await;
        drop(stdin);
        let output = timeout(TIMEOUT, child.wait_with_output()).await;
        let output = output.expect("kubectl ends").expect("kubectl runs");
        assert!(output.status.success(), "kubectl {arguments:?}: {}", err(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}

pub async fn finish(mut command: Command) -> Output {
    let output = timeout(TIMEOUT, command.output()).await;
    output.expect("the program ends").expect("the program runs")
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running program.
pub struct Watching {
    _child: Child,
    pub lines: Lines<BufReader<ChildStdout>>,
    notes: Lines<BufReader<ChildStderr>>,
}

impl Watching {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("the program");
        let lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let notes = BufReader::new(child.stderr.take().expect("its messages")).lines();
        Self {
            _child: child,
            lines,
            notes,
        }
    }

    /// Waits for a message with these words. Those of a few minutes fit into the pipe.
    pub async fn says(&mut self, words: &str) {
        let said = async {
            while let Some(line) = self.notes.next_line().await.expect("a line") {
                if line.contains(words) {
                    return;
                }
            }
            panic!("the program ended without {words:?}");
        };
        let said = timeout(TIMEOUT, said).await;
        said.unwrap_or_else(|_| panic!("{words:?} was not said"));
    }

    pub async fn line(&mut self) -> String {
        let line = timeout(TIMEOUT, self.lines.next_line()).await;
        line.expect("a line in time").expect("a line").expect("a line")
    }

    /// Reads lines up to one with these words.
    pub async fn line_with(&mut self, words: &str) -> String {
        loop {
            let line = self.line().await;
            if line.contains(words) {
                return line;
            }
        }
    }

    pub async fn event(&mut self) -> Value {
        serde_json::from_str(&self.line().await).expect("JSON")
    }

    /// The next change of this object.
    pub async fn change_of(&mut self, name: &str) -> Value {
        loop {
            let event = self.event().await;
            if event["name"] == name && event["initial"] != true {
                return event;
            }
        }
    }
}

/// A directory that is removed at the end.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("kube-informers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Best effort: it is a temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
