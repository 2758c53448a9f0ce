//! Selects the cluster: from a kubeconfig, from inside a pod, or an embedded one.
//!
//! Takes the options, returns a client. A kubeconfig that was named and cannot be used is an error, never a reason to
//! look elsewhere.

pub mod discovery;
pub mod refusal;

use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kube::client::AuthError;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use kube_informers_core::tasks::Task;
use kube_testserver::churn::{Churn, Population};
use kube_testserver::{Controllers, TestServer};

use crate::cli::limits::Speed;
use crate::cli::recording::Pace;
use crate::cli::{ApiToken, Connection};
use crate::cluster::refusal::RequestError;
use crate::output::notes::Notes;
use crate::process::failure::{Failure, chain, mask_credentials};
use crate::recording::Recording;
use crate::replay::Player;
use crate::replay::reports::Reports;

/// A cluster to watch.
#[derive(Clone)]
pub struct Cluster {
    /// The client to use.
    pub client: Client,
    /// The address of the server, for messages and for the discovery cache.
    pub server: String,
    /// The namespace of the context.
    pub namespace: String,
    /// Which one it is.
    pub origin: Origin,
    /// Where discovery is cached; `None` for the embedded server, which changes with every start.
    pub cache_dir: Option<PathBuf>,
    embedded: Option<Arc<Embedded>>,
}

/// Which cluster it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A context of a kubeconfig.
    Context(String),
    /// The server of `--server`, without a kubeconfig.
    Server,
    /// The cluster this program runs in.
    InCluster,
    /// Our own, in memory.
    Embedded,
    /// A recording, in memory.
    Recording(PathBuf),
}

/// The embedded server, and the churn or the recording that changes its objects. Both stop when this is dropped.
struct Embedded {
    _server: TestServer,
    _task: Task,
    /// Of a recording.
    reports: Option<Reports>,
}

/// What lives in the embedded cluster, and how many changes a second happen there: enough to see something in every
/// second, and to read it.
const POPULATION: &str = "nodes=6,deployments=12,pods=60,configmaps=8,secrets=4";
const CHANGES_A_SECOND: f64 = 6.0;

impl Cluster {
    /// Selects the cluster by the options, and prints which one before the first request.
    ///
    /// # Errors
    ///
    /// The kubeconfig, the context or what they refer to cannot be used.
    pub async fn connect(options: &Connection, notes: &Notes) -> Result<Self, Failure> {
        if options.embedded {
            return Self::embedded(notes, "Using a cluster in memory in which things happen.");
        }
        if let Some(file) = &options.recording {
            return Self::recording(file, options, notes);
        }
        check(options)?;
        if let Some(kubeconfig) = kubeconfig(options)? {
            return Self::of_kubeconfig(kubeconfig, options, notes).await;
        }
        if let Some(server) = &options.server {
            let config = Config::new(address(server)?);
            let server = without_credentials(server.trim_end_matches('/'));
            notes.say(&format!("Connecting to {server}"));
            return Self::of_config(config, server.clone(), Origin::Server, options);
        }
        if let Some(config) = in_cluster() {
            let server = trimmed(&config.cluster_url);
            notes.say(&format!("Connecting to the cluster this runs in, {server}"));
            return Self::of_config(config, server, Origin::InCluster, options);
        }
        Self::embedded(
            notes,
            "No cluster is configured, so this is a cluster in memory in which things happen. Nothing of it is real. \
             Use --kubeconfig or --context to watch a cluster of yours.",
        )
    }

    /// Whether a cluster is configured, so that the embedded one is not needed.
    ///
    /// # Errors
    ///
    /// There is a kubeconfig that cannot be read.
    pub fn is_configured(options: &Connection) -> Result<bool, Failure> {
        if options.recording.is_some() {
            return Ok(true);
        }
        let configured = options.server.is_some() || kubeconfig(options)?.is_some() || in_cluster().is_some();
        Ok(!options.embedded && configured)
    }

    async fn of_kubeconfig(
        kubeconfig: Kubeconfig,
        options: &Connection,
        notes: &Notes,
    ) -> Result<Self, Failure> {
        let context = options
            .context
            .clone()
            .or_else(|| kubeconfig.current_context.clone())
            .unwrap_or_default();
        // As it is written there: kubectl names its cache after it.
        let written = options
            .server
            .clone()
            .or_else(|| server_of(&kubeconfig, &context, options.cluster.as_deref()));
        let choice = KubeConfigOptions {
            context: options.context.clone(),
            cluster: options.cluster.clone(),
            user: options.user.clone(),
        };
        let mut config = Config::from_custom_kubeconfig(kubeconfig, &choice)
            .await
            .map_err(|error| unusable(&error))?;
        if let Some(server) = &options.server {
            config.cluster_url = address(server)?;
        }
        // Shown, and part of a directory name: without credentials.
        let server = without_credentials(&written.unwrap_or_else(|| trimmed(&config.cluster_url)));
        notes.say(&format!("Connecting to {server} (context {context})"));
        Self::of_config(config, server, Origin::Context(context), options)
    }

    fn of_config(
        mut config: Config,
        server: String,
        origin: Origin,
        options: &Connection,
    ) -> Result<Self, Failure> {
        override_config(&mut config, options);
        let namespace = config.default_namespace.clone();
        // Never sent, but every library that logs a request would log it.
        config.cluster_url = without_user(&config.cluster_url);
        // So that operators of the server can identify the client.
        let agent = concat!("kubectl-informers/", env!("CARGO_PKG_VERSION"));
        config
            .headers
            .push((http::header::USER_AGENT, http::HeaderValue::from_static(agent)));
        // A failure is shown at once. kube would retry a discovery request for longer than a user waits.
        config.default_retry = false;
        let user = config.auth_info.clone();
        let client = kube::Client::try_from(config).map_err(|error| no_client(error, &user))?;
        Ok(Self {
            client,
            server,
            namespace,
            origin,
            cache_dir: cache_dir(options),
            embedded: None,
        })
    }

    /// A populated in-memory cluster with simulated changes.
    fn embedded(notes: &Notes, words: &str) -> Result<Self, Failure> {
        notes.warn(words);
        let server = TestServer::builder()
            .seed(1)
            .controllers(Controllers::all())
            .field_managers()
            .build();
        let mut churn = Churn::new(server.clone(), 1);
        let population: Population = POPULATION
            .parse()
            .map_err(|error| Failure::error(format!("the embedded cluster cannot be filled: {error}")))?;
        churn
            .fill(&population)
            .map_err(|error| Failure::error(format!("the embedded cluster cannot be filled: {error}")))?;
        Ok(Self {
            client: server.client(),
            server: "embedded".to_owned(),
            namespace: "default".to_owned(),
            origin: Origin::Embedded,
            cache_dir: None,
            embedded: Some(Arc::new(Embedded {
                _server: server,
                _task: Task::spawn("churn", churn.run(CHANGES_A_SECOND)),
                reports: None,
            })),
        })
    }

    /// A cluster in memory with the objects of a recording, in which the recorded changes happen again.
    fn recording(file: &Path, options: &Connection, notes: &Notes) -> Result<Self, Failure> {
        let mut recording = Recording::open(file)?;
        let server = Player::builder(&mut recording)?.build();
        let pace = Pace {
            speed: options.replay_speed.unwrap_or(Speed(1.0)),
            from: options.replay_from.clone(),
        };
        for damage in recording.take_damage() {
            notes.warn(&damage);
        }
        let player = Player::new(server.clone(), recording, &pace)?;
        let reports = player.reports().clone();
        notes.say(&format!("Replaying {} from {}", file.display(), player.start()));
        Ok(Self {
            client: server.client(),
            server: "recording".to_owned(),
            namespace: "default".to_owned(),
            origin: Origin::Recording(file.to_owned()),
            cache_dir: None,
            embedded: Some(Arc::new(Embedded {
                _server: server,
                _task: Task::spawn("replay", async move {
                    if let Err(failure) = player.play().await {
                        tracing::warn!(%failure, "the recording cannot be read any further");
                    }
                }),
                reports: Some(reports),
            })),
        })
    }

    /// Whether it is in memory: the embedded server or a recording.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// The reports of the recording; `None` if it is not one.
    pub fn reports(&self) -> Option<&Reports> {
        self.embedded.as_ref()?.reports.as_ref()
    }

    /// Its name in headlines.
    pub fn title(&self) -> String {
        match &self.origin {
            Origin::Context(context) => format!("{context} ({})", self.server),
            Origin::Server => self.server.clone(),
            Origin::InCluster => format!("this cluster ({})", self.server),
            Origin::Embedded => "embedded cluster, in memory".to_owned(),
            Origin::Recording(file) => format!("recording {}", file.display()),
        }
    }
}

/// The cluster this runs in; `None` outside of one.
fn in_cluster() -> Option<Config> {
    env::var_os("KUBERNETES_SERVICE_HOST")?;
    Config::incluster().ok()
}

/// The configuration; `None` if there is none.
fn kubeconfig(options: &Connection) -> Result<Option<Kubeconfig>, Failure> {
    if let Some(path) = &options.kubeconfig {
        return read(path).map(Some);
    }
    let listed: Vec<PathBuf> = env::var_os("KUBECONFIG")
        .map(|value| {
            env::split_paths(&value)
                .filter(|path| !path.as_os_str().is_empty())
                .collect()
        })
        .unwrap_or_default();
    if !listed.is_empty() {
        return read_all(&listed).map(Some);
    }
    let usual = home().map(|home| home.join(".kube").join("config"));
    let usual = usual
        .filter(|path| path.exists())
        .map(|path| read(&path))
        .transpose()?;
    // A file in which nothing is configured is as good as none.
    match usual.filter(|config| !config.contexts.is_empty() || config.current_context.is_some()) {
        Some(config) => Ok(Some(config)),
        // Who names a context wants that one.
        None => match [&options.context, &options.cluster].into_iter().flatten().next() {
            Some(name) => Err(Failure::error(format!(
                "context \"{name}\" does not exist: no kubeconfig has one"
            ))),
            None => Ok(None),
        },
    }
}

/// The names of the contexts, clusters or users of the kubeconfig.
///
/// # Errors
///
/// There is a kubeconfig that cannot be read.
pub fn configured(options: &Connection, what: &str) -> Result<Vec<String>, Failure> {
    let Some(config) = kubeconfig(options)? else {
        return Ok(Vec::new());
    };
    Ok(match what {
        "context" => config.contexts.into_iter().map(|one| one.name).collect(),
        "cluster" => config.clusters.into_iter().map(|one| one.name).collect(),
        _ => config.auth_infos.into_iter().map(|one| one.name).collect(),
    })
}

/// Files that are not there are left out, as kubectl does it, unless none is there.
fn read_all(paths: &[PathBuf]) -> Result<Kubeconfig, Failure> {
    let mut merged: Option<Kubeconfig> = None;
    for path in paths.iter().filter(|path| path.exists()) {
        let next = read(path)?;
        merged = Some(match merged {
            Some(merged) => merged.merge(next).map_err(|error| unusable(&error))?,
            None => next,
        });
    }
    match (merged, paths.first()) {
        (Some(merged), _) => Ok(merged),
        (None, Some(path)) => read(path),
        (None, None) => Ok(Kubeconfig::default()),
    }
}

fn read(path: &Path) -> Result<Kubeconfig, Failure> {
    Kubeconfig::read_from(path).map_err(|error| match error {
        KubeconfigError::ReadConfig(cause, _) if cause.kind() == std::io::ErrorKind::NotFound => {
            Failure::error(format!("stat {}: no such file or directory", path.display()))
        }
        KubeconfigError::ReadConfig(cause, _) => Failure::error(format!(
            "error loading config file \"{}\": {cause}",
            path.display()
        )),
        // The text of the parser quotes the file, and that holds credentials: only the place is repeated.
        KubeconfigError::Parse(cause) => {
            let place = cause
                .location()
                .map_or_else(String::new, |place| format!(", see line {}", place.line()));
            Failure::error(format!(
                "error loading config file \"{}\": it is not a kubeconfig in YAML or JSON{place}",
                path.display()
            ))
        }
        other => unusable(&other),
    })
}

/// In kubectl's wording.
fn unusable(error: &KubeconfigError) -> Failure {
    match error {
        KubeconfigError::LoadContext(name) => Failure::error(format!("context \"{name}\" does not exist")),
        KubeconfigError::LoadClusterOfContext(name) => {
            Failure::error(format!("cluster \"{name}\" does not exist"))
        }
        KubeconfigError::CurrentContextNotSet => Failure::error(
            "current-context is not set: choose a context with --context, or set it with kubectl config use-context",
        ),
        other => Failure::error(format!("invalid configuration: {}", chain(other))),
    }
}

fn server_of(kubeconfig: &Kubeconfig, context: &str, cluster: Option<&str>) -> Option<String> {
    let cluster = match cluster {
        Some(cluster) => cluster,
        None => {
            let named = kubeconfig.contexts.iter().find(|named| named.name == context)?;
            &named.context.as_ref()?.cluster
        }
    };
    let named = kubeconfig.clusters.iter().find(|named| named.name == cluster)?;
    named.cluster.as_ref()?.server.clone()
}

/// `https://user:secret@host` as `https://host`.
fn without_credentials(server: &str) -> String {
    mask_credentials(server).replacen("***@", "", 1)
}

/// Options that belong together.
fn check(options: &Connection) -> Result<(), Failure> {
    if options.impersonate.is_none()
        && (!options.impersonate_groups.is_empty() || options.impersonate_uid.is_some())
    {
        return Err(Failure::error(
            "--as-group and --as-uid need --as: a group cannot be impersonated without a user",
        ));
    }
    if options.client_certificate.is_some() != options.client_key.is_some() {
        return Err(Failure::error(
            "--client-certificate and --client-key belong together: give both files or none",
        ));
    }
    if options.insecure_skip_tls_verify && options.certificate_authority.is_some() {
        return Err(Failure::error(
            "--certificate-authority and --insecure-skip-tls-verify contradict each other: give one of them",
        ));
    }
    let files = [
        (
            "--certificate-authority",
            options.certificate_authority.as_deref(),
        ),
        (
            "--client-certificate",
            options.client_certificate.as_deref().map(Path::new),
        ),
        ("--client-key", options.client_key.as_deref().map(Path::new)),
    ];
    for (option, file) in files {
        if let Some(file) = file
            && let Err(error) = std::fs::File::open(file)
        {
            return Err(Failure::error(format!(
                "{option}: cannot read {}: {error}",
                file.display()
            )));
        }
    }
    Ok(())
}

/// The address of `--server`; `localhost:8080` means http, as for kubectl.
fn address(server: &str) -> Result<http::Uri, Failure> {
    let text = match server.contains("://") {
        true => server.to_owned(),
        false => format!("http://{server}"),
    };
    let uri = text
        .parse::<http::Uri>()
        .ok()
        .filter(|uri| uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https")));
    uri.ok_or_else(|| {
        Failure::error(format!(
            "--server {server:?} is not an address: write https://HOST:PORT"
        ))
    })
}

/// Why there is no client: usually the credentials. The user of the kubeconfig says which they would have been.
fn no_client(error: kube::Error, user: &AuthInfo) -> Failure {
    let provider = user.auth_provider.as_ref().map(|provider| provider.name.as_str());
    let mut text = match (&error, provider, &user.exec) {
        (kube::Error::Auth(AuthError::AuthExec(cause)), Some(provider), _)
            if cause.contains("not supported") || cause.contains("oauth feature") =>
        {
            format!(
                "the auth provider {provider} of the kubeconfig is not supported, as in kubectl since 1.26: use its credential plugin \
             ({}) or --token",
                match provider {
                    "gcp" => "gke-gcloud-auth-plugin",
                    "azure" => "kubelogin",
                    _ => "exec",
                }
            )
        }
        (kube::Error::Auth(AuthError::AuthExecStart(cause)), _, Some(exec)) => format!(
            "the credential plugin {} cannot be started: {cause}; install it, or correct the user in the kubeconfig",
            exec.command.as_deref().unwrap_or_default()
        ),
        (kube::Error::Auth(_), ..) => RequestError::unreachable(error).to_string(),
        _ => chain(&error),
    };
    if let Some(hint) = user.exec.as_ref().and_then(|exec| exec.install_hint.as_deref()) {
        text.push_str("\n\n");
        text.push_str(hint.trim());
    }
    Failure::verbatim(format!("Unable to connect to the server: {text}"))
}

/// The options of the command line go before the kubeconfig.
fn override_config(config: &mut Config, options: &Connection) {
    let user = &mut config.auth_info;
    if let Some(ApiToken(token)) = &options.api_token {
        user.token = Some(token.clone().into());
        user.token_file = None;
        user.exec = None;
        user.auth_provider = None;
    }
    if options.impersonate.is_some() {
        user.impersonate.clone_from(&options.impersonate);
        user.impersonate_uid.clone_from(&options.impersonate_uid);
        user.impersonate_groups =
            Some(options.impersonate_groups.clone()).filter(|groups| !groups.is_empty());
    }
    if let (Some(certificate), Some(key)) = (&options.client_certificate, &options.client_key) {
        user.client_certificate = Some(certificate.clone());
        user.client_certificate_data = None;
        user.client_key = Some(key.clone());
        user.client_key_data = None;
    }
    if let Some(file) = &options.certificate_authority {
        config.root_cert = None;
        config.root_cert_file = Some(file.clone());
    }
    if options.tls_server_name.is_some() {
        config.tls_server_name.clone_from(&options.tls_server_name);
    }
    config.accept_invalid_certs |= options.insecure_skip_tls_verify;
}

/// The address without user name and password.
fn without_user(url: &http::Uri) -> http::Uri {
    let mut parts = url.clone().into_parts();
    parts.authority = parts.authority.and_then(|authority| {
        let host = authority.as_str().rsplit('@').next()?;
        host.parse().ok()
    });
    http::Uri::from_parts(parts).unwrap_or_else(|_| url.clone())
}

fn trimmed(url: &http::Uri) -> String {
    url.to_string().trim_end_matches('/').to_owned()
}

fn cache_dir(options: &Connection) -> Option<PathBuf> {
    options
        .cache_dir
        .clone()
        .or_else(|| home().map(|home| home.join(".kube").join("cache")))
}

fn home() -> Option<PathBuf> {
    env::home_dir().filter(|home| !home.as_os_str().is_empty())
}
