//! Records stories of requests and answers at a real kube-apiserver, or proves that the recorded ones are still what it
//! says.
//!
//! ```text
//! record write [STORY ...]    asks a real server, and writes its answers into the stories
//! record check [STORY ...]    asks a real server, and compares with the answers in the stories
//! ```
//!
//! The stories are `crates/kube-testserver/tests/recorded/*.json`. A new exchange is written there by hand, without its
//! answer; `record write` adds that.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube_exchanges::{Act, Answer, Sent, Story, User, differences, play};
use kube_informers_e2e::{NoServer, Server, Setup};

/// How many requests are sent at once to be one too many, and how often.
const CROWD: usize = 200;
const ATTEMPTS: usize = 50;

/// A real server, and its users.
struct Real {
    server: Server,
    /// What it calls itself.
    name: String,
    admin: kube::Client,
    nobody: kube::Client,
    stranger: kube::Client,
}

impl Real {
    async fn start(flags: &[String]) -> Result<Real, NoServer> {
        let setup = flags.iter().fold(Setup::own(), |setup, flag| setup.flag(flag));
        let server = Server::own(&setup).await?;
        let fail = |error: String| NoServer::Failed(format!("no client for the server: {error}"));
        let cluster = server
            .as_cluster()
            .ok_or_else(|| fail("it is no cluster".into()))?;
        let client = async |path: PathBuf, token: Option<&str>| client(&path, token).await.map_err(fail);
        let admin = client(cluster.kubeconfig(), None).await?;
        let version = admin.apiserver_version().await;
        let version = version.map_err(|error| fail(error.to_string()))?;
        Ok(Real {
            name: format!("kube-apiserver {}", version.git_version),
            admin,
            nobody: client(cluster.nobody_kubeconfig(), None).await?,
            stranger: client(cluster.kubeconfig(), Some("nobody-gave-this-token")).await?,
            server,
        })
    }

    async fn ask(&self, request: Sent) -> Result<Answer, String> {
        let is_watch = request.is_watch();
        let client = match request.user {
            User::Admin => &self.admin,
            User::Nobody => &self.nobody,
            User::Stranger => &self.stranger,
        };
        let mut built = http::Request::builder()
            .method(request.method.as_str())
            .uri(&request.path);
        for (name, value) in &request.headers {
            built = built.header(name, value);
        }
        let built = built
            .body(Body::from(request.body))
            .map_err(|error| error.to_string())?;
        let response = client.send(built).await.map_err(|error| error.to_string())?;
        let (parts, body) = response.into_parts();
        let bytes = body
            .collect()
            .await
            .map_err(|error| error.to_string())?
            .to_bytes();
        let headers = parts
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_bytes()));
        Ok(Answer::new(parts.status.as_u16(), headers, &bytes, is_watch))
    }
}

async fn client(kubeconfig: &Path, token: Option<&str>) -> Result<kube::Client, String> {
    let mut kubeconfig = Kubeconfig::read_from(kubeconfig).map_err(|error| error.to_string())?;
    if let Some(token) = token {
        for user in &mut kubeconfig.auth_infos {
            user.auth_info = Some(AuthInfo {
                token: Some(token.to_owned().into()),
                ..AuthInfo::default()
            });
        }
    }
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    kube_informers::client(config.map_err(|error| error.to_string())?).map_err(|error| error.to_string())
}

impl kube_exchanges::Server for Real {
    async fn send(&mut self, request: Sent) -> Result<Answer, String> {
        if !request.until_refused {
            return self.ask(request).await;
        }
        for _ in 0..ATTEMPTS {
            let crowd = (0..CROWD).map(|_| self.ask(request.clone()));
            for answer in join_all(crowd).await {
                let answer = answer?;
                if answer.status == 429 {
                    return Ok(answer);
                }
            }
        }
        Err("no request was one too many".into())
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    async fn act(&mut self, act: Act) -> Result<(), String> {
        match act {
            // The crowd comes with the request.
            Act::Overload => return Ok(()),
            Act::Forget => {
                self.server.compact().await.map_err(|error| error.to_string())?;
                // The caches of the old process remember.
                self.server
                    .kill_and_restart()
                    .await
                    .map_err(|error| error.to_string())?;
            }
        }
        let cluster = self.server.as_cluster().ok_or("it is no cluster")?;
        self.admin = client(&cluster.kubeconfig(), None).await?;
        Ok(())
    }
}

/// Records or checks the stories; gives the number of differences.
async fn run(write: bool, wanted: &[String]) -> Result<usize, NoServer> {
    let fail = NoServer::Failed;
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/kube-testserver/tests/recorded");
    // One server for all stories that need the same flags.
    let mut servers: BTreeMap<Vec<String>, Real> = BTreeMap::new();
    let (mut exchanges, mut different) = (0, 0);
    for (name, mut story) in kube_exchanges::read(&directory).map_err(fail)? {
        if !wanted.is_empty() && !wanted.contains(&name) {
            continue;
        }
        if !servers.contains_key(&story.flags) {
            servers.insert(story.flags.clone(), Real::start(&story.flags).await?);
        }
        let Some(server) = servers.get_mut(&story.flags) else {
            continue;
        };
        let answers = play(&story, server)
            .await
            .map_err(|failed| fail(format!("{name}: {failed}")))?;
        exchanges += answers.len();
        if write {
            story.server.clone_from(&server.name);
            record(&mut story, answers);
            kube_exchanges::write(&directory, &name, &story).map_err(fail)?;
            println!("{name}: {} exchanges", story.exchanges.len());
        } else {
            for difference in differences(&story, &answers) {
                different += 1;
                println!("{name}/{difference}");
            }
        }
    }
    if !write {
        println!("{exchanges} recorded exchanges asked again of a real server: {different} differences");
    }
    Ok(different)
}

fn record(story: &mut Story, answers: Vec<Answer>) {
    for (exchange, answer) in story.exchanges.iter_mut().zip(answers) {
        exchange.answer = Some(answer);
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((mode, wanted)) if mode == "write" => run(true, wanted).await,
        Some((mode, wanted)) if mode == "check" => run(false, wanted).await,
        _ => Err(NoServer::Failed("usage: record write|check [STORY ...]".into())),
    };
    match outcome.or_else(|error| error.skip_loudly("the recorded exchanges").map(|()| 0)) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("record: {error}");
            ExitCode::FAILURE
        }
    }
}
