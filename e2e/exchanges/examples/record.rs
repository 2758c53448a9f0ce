//! Records stories at a real kube-apiserver, or proves that the recorded ones are still what it says.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube_exchanges::{Act, Answer, Sent, Server, User, differences, play, read, write};

struct Real {
    directory: PathBuf,
    flags: Vec<String>,
    clients: BTreeMap<&'static str, kube::Client>,
}

fn cluster(arguments: &[&str], flags: &[String]) -> Result<(), String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cluster");
    let status = std::process::Command::new(script)
        .args(arguments)
        .args(flags)
        .stdout(std::process::Stdio::null())
        .status()
        .map_err(|e| e.to_string())?;
    status.success().then_some(()).ok_or(format!("{arguments:?} failed"))
}

impl Real {
    async fn start(directory: PathBuf, flags: &[String]) -> Result<Real, String> {
        cluster(&["up", &directory.to_string_lossy()], flags)?;
        let mut clients = BTreeMap::new();
        for (who, file) in [("admin", "kubeconfig"), ("nobody", "nobody.kubeconfig"), ("stranger", "kubeconfig")] {
            let mut kubeconfig = Kubeconfig::read_from(directory.join(file)).map_err(|e| e.to_string())?;
            if who == "stranger" {
                for auth in &mut kubeconfig.auth_infos {
                    if let Some(auth) = &mut auth.auth_info {
                        auth.token = Some(String::from("nobody-gave-this-token").into());
                    }
                }
            }
            let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .map_err(|e| e.to_string())?;
            config.default_retry = false;
            config.read_timeout = None;
            clients.insert(who, kube::Client::try_from(config).map_err(|e| e.to_string())?);
        }
        Ok(Real { directory, flags: flags.to_vec(), clients })
    }

    async fn once(&self, request: Sent) -> Result<Answer, String> {
        let is_watch = request.is_watch();
        let who = match request.user { User::Admin => "admin", User::Nobody => "nobody", User::Stranger => "stranger" };
        let mut built = http::Request::builder().method(request.method.as_str()).uri(&request.path);
        for (name, value) in &request.headers {
            built = built.header(name, value);
        }
        let built = built.body(Body::from(request.body)).map_err(|e| e.to_string())?;
        let response = self.clients[who].send(built).await.map_err(|e| format!("{e:?}"))?;
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
        let headers = parts.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        Ok(Answer::new(parts.status.as_u16(), headers, &bytes, is_watch))
    }
}

impl Server for Real {
    async fn send(&mut self, request: Sent) -> Result<Answer, String> {
        if !request.until_refused {
            return self.once(request).await;
        }
        for _ in 0..20 {
            let mut all = Vec::new();
            let this = &*self;
            for _ in 0..100 { let request = request.clone(); all.push(async move { this.once(request).await }); }
            for answer in futures(all).await {
                let answer = answer?;
                if answer.status == 429 { return Ok(answer); }
            }
        }
        Err("nothing was refused".into())
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    async fn act(&mut self, act: Act) -> Result<(), String> {
        let directory = self.directory.to_string_lossy().into_owned();
        match act {
            Act::Overload => Ok(()),
            Act::Forget => {
                cluster(&["compact", &directory], &[])?;
                cluster(&["kill-apiserver", &directory], &[])?;
                cluster(&["start-apiserver", &directory], &self.flags)
            }
        }
    }
}

async fn futures<F: Future>(all: Vec<F>) -> Vec<F::Output> {
    futures_util::future::join_all(all).await
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = cluster(&["down", &self.directory.to_string_lossy()], &[]);
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

#[tokio::main]
async fn main() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/kube-testserver/tests/recorded");
    let mut running: BTreeMap<Vec<String>, Real> = BTreeMap::new();
    for (name, mut story) in read(&directory)? {
        if arguments.len() > 1 && !arguments[1..].contains(&name) { continue; }
        if !running.contains_key(&story.flags) {
            let at = std::env::temp_dir().join(format!("exchanges-{}-{}", std::process::id(), running.len()));
            running.insert(story.flags.clone(), Real::start(at, &story.flags).await?);
        }
        let server = running.get_mut(&story.flags).unwrap();
        let answers = match play(&story, server).await { Ok(a) => a, Err(e) => { println!("{name}: {e}"); continue } };
        if arguments[0] == "record" {
            for (exchange, answer) in story.exchanges.iter_mut().zip(answers) { exchange.answer = Some(answer); }
            story.server = "kube-apiserver v1.37.1".into();
            write(&directory, &name, &story)?;
            println!("{name}: recorded {}", story.exchanges.len());
        } else {
            for d in differences(&story, &answers) { println!("{name}: {d}"); }
        }
    }
    Ok(())
}
