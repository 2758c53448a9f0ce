//! Records exchanges with a real kube-apiserver, or checks that the recorded responses are still current.
//!
//! The recordings are `server/testserver/tests/recorded/*.json`. To add an exchange, write it there without its
//! response; `e2e exchanges write` adds the response.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join_all;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use kube_exchanges::{Disruption, Recording, Response, Sent, User, differences, play};
use kube_informers_e2e::recorder::Recorder;
use kube_informers_e2e::{NoServer, Server, Setup};

/// The number of concurrent requests that overload the server, and the number of attempts.
const CONCURRENCY: usize = 200;
const ATTEMPTS: usize = 50;

/// A real server and clients for its users.
struct Real {
    server: Server,
    /// Name and version of the server.
    name: String,
    admin: kube::Client,
    nobody: kube::Client,
    unauthenticated: kube::Client,
}

impl Real {
    async fn start(flags: &[String]) -> Result<Real, NoServer> {
        let setup = flags.iter().fold(Setup::own(), |setup, flag| setup.flag(flag));
        let server = Server::own(&setup).await?;
        let fail = |error: String| NoServer::Failed(format!("no client for the server: {error}"));
        let cluster = server
            .as_cluster()
            .ok_or_else(|| fail("the server is not a cluster".into()))?;
        let client = async |path: PathBuf, token: Option<&str>| client(&path, token).await.map_err(fail);
        let admin = client(cluster.kubeconfig(), None).await?;
        let version = admin.apiserver_version().await;
        let version = version.map_err(|error| fail(error.to_string()))?;
        Ok(Real {
            name: format!("kube-apiserver {}", version.git_version),
            admin,
            nobody: client(cluster.nobody_kubeconfig(), None).await?,
            unauthenticated: client(cluster.kubeconfig(), Some("invalid-token")).await?,
            server,
        })
    }

    async fn request(&self, request: Sent) -> Result<Response, String> {
        let is_watch = request.is_watch();
        let client = match request.user {
            User::Admin => &self.admin,
            User::Nobody => &self.nobody,
            User::Unauthenticated => &self.unauthenticated,
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
        Ok(Response::new(parts.status.as_u16(), headers, &bytes, is_watch))
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
    let mut config = config.map_err(|error| error.to_string())?;
    // Every response is recorded, also those that kube would retry.
    config.default_retry = false;
    kube::Client::try_from(config).map_err(|error| error.to_string())
}

impl kube_exchanges::Server for Real {
    async fn send(&mut self, request: Sent) -> Result<Response, String> {
        if !request.until_refused {
            return self.request(request).await;
        }
        for _ in 0..ATTEMPTS {
            let requests = (0..CONCURRENCY).map(|_| self.request(request.clone()));
            for response in join_all(requests).await {
                let response = response?;
                if response.status == 429 {
                    return Ok(response);
                }
            }
        }
        Err("no request was refused".into())
    }

    async fn pause(&mut self) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }

    async fn disrupt(&mut self, disrupt: Disruption) -> Result<(), String> {
        match disrupt {
            // The overload is caused by the request itself.
            Disruption::Overload => return Ok(()),
            Disruption::Compact => {
                self.server.compact().await.map_err(|error| error.to_string())?;
                // The caches of the old process still have the history.
                self.server
                    .kill_and_restart()
                    .await
                    .map_err(|error| error.to_string())?;
            }
        }
        let cluster = self.server.as_cluster().ok_or("the server is not a cluster")?;
        self.admin = client(&cluster.kubeconfig(), None).await?;
        Ok(())
    }
}

/// Records or checks; returns the number of differences.
pub async fn run(recorder: &Recorder) -> Result<usize, NoServer> {
    let fail = NoServer::Failed;
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../server/testserver/tests/recorded");
    // One server for all recordings with the same flags.
    let mut servers: BTreeMap<Vec<String>, Real> = BTreeMap::new();
    let (mut exchanges, mut different) = (0, 0);
    for (name, mut recording) in kube_exchanges::read(&directory).map_err(fail)? {
        if !recorder.wants(&name) {
            continue;
        }
        if !servers.contains_key(&recording.flags) {
            servers.insert(recording.flags.clone(), Real::start(&recording.flags).await?);
        }
        let Some(server) = servers.get_mut(&recording.flags) else {
            continue;
        };
        let responses = play(&recording, server)
            .await
            .map_err(|failed| fail(format!("{name}: {failed}")))?;
        exchanges += responses.len();
        if recorder.write {
            recording.server.clone_from(&server.name);
            record(&mut recording, responses);
            kube_exchanges::write(&directory, &name, &recording).map_err(fail)?;
            println!("{name}: {} exchanges", recording.exchanges.len());
        } else {
            for difference in differences(&recording, &responses) {
                different += 1;
                println!("{name}/{difference}");
            }
        }
    }
    if !recorder.write {
        println!("{exchanges} recorded exchanges checked against a real server: {different} differences");
    }
    Ok(different)
}

fn record(recording: &mut Recording, responses: Vec<Response>) {
    for (exchange, response) in recording.exchanges.iter_mut().zip(responses) {
        exchange.response = Some(response);
    }
}
