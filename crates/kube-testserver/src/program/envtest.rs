//! The program in place of the binaries of envtest, the test environment of Go's controller-runtime.
//!
//! envtest starts `etcd` and `kube-apiserver` of a directory, with flags for ports and certificates. `--envtest DIR` fills a
//! directory with links of these names to this program, which acts by the name it is called by.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use kube_tasks::TaskSet;
use tokio::net::TcpListener;

use super::Stop;
use crate::TestServer;

const API_SERVER: &str = "kube-apiserver";
const ETCD: &str = "etcd";
/// The flags that have an effect. All others are accepted.
const FLAGS: &[&str] = &[
    "--secure-port",
    "--bind-address",
    "--cert-dir",
    "--client-ca-file",
    "--listen-client-urls",
];

/// The program that this one is called as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `kube-apiserver`: the server, with the certificates of envtest.
    ApiServer,
    /// `etcd`: only answers that it is healthy. The server keeps its objects itself.
    Etcd,
}

impl Role {
    /// The role by the path that the program was called by; `None` if it is called by its own name.
    pub fn of(program: &str) -> Option<Role> {
        let name = Path::new(program).file_name()?.to_str()?;
        match name.trim_end_matches(".exe") {
            API_SERVER => Some(Role::ApiServer),
            ETCD => Some(Role::Etcd),
            _ => None,
        }
    }
}

/// Acts in place of another program until it is stopped.
///
/// # Errors
///
/// A flag is missing or invalid, a certificate cannot be read, or the port is in use.
pub async fn stand_in(role: Role, arguments: &[String]) -> Result<(), String> {
    if arguments.iter().any(|argument| argument == "--help") {
        // envtest asks which flags there are.
        println!(
            "kube-testserver in place of kube-apiserver and etcd, for envtest. Flags:\n  {}",
            FLAGS.join("\n  ")
        );
        return Ok(());
    }
    let mut stop = Stop::new().map_err(|error| format!("cannot wait for signals: {error}"))?;
    match role {
        Role::ApiServer => {
            let server = api_server(arguments).await?;
            stop.wait().await;
            server.shutdown().await;
        }
        Role::Etcd => {
            let listener = etcd(arguments).await?;
            // Dropping the connections closes them; envtest has no request in flight then.
            tokio::select! {
                () = answer_healthy(listener) => {}
                () = stop.wait() => {}
            }
        }
    }
    Ok(())
}

/// Links the names of envtest's binaries in a directory to this program.
///
/// # Errors
///
/// The directory or a link cannot be created.
pub(super) fn link(directory: &Path) -> Result<(), String> {
    let fail = |error: io::Error| format!("cannot prepare {}: {error}", directory.display());
    let program = std::env::current_exe().map_err(fail)?;
    if program.file_stem().is_none_or(|name| name != "kube-testserver") {
        // Another program that offers these options does not know the roles.
        return Err(
            "--envtest needs the program kube-testserver: cargo install kube-testserver --features cli"
                .into(),
        );
    }
    std::fs::create_dir_all(directory).map_err(fail)?;
    for name in [API_SERVER, ETCD] {
        let link = directory.join(name);
        match std::fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(fail(error)),
            _ => {}
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(&program, &link).map_err(fail)?;
        #[cfg(not(unix))]
        std::fs::copy(&program, link.with_extension("exe")).map_err(fail)?;
    }
    Ok(())
}

/// The value of `--name=value` or `--name value`; the last one counts.
fn flag<'a>(arguments: &'a [String], name: &str) -> Option<&'a str> {
    let position = arguments
        .iter()
        .rposition(|argument| argument == name || argument.starts_with(&format!("{name}=")))?;
    match arguments[position].split_once('=') {
        Some((_, value)) => Some(value),
        None => arguments.get(position + 1).map(String::as_str),
    }
}

fn required<'a>(arguments: &'a [String], name: &str) -> Result<&'a str, String> {
    flag(arguments, name).ok_or_else(|| format!("{name} is missing: this program must be started by envtest"))
}

async fn api_server(arguments: &[String]) -> Result<TestServer, String> {
    let port: u16 = required(arguments, "--secure-port")?
        .parse()
        .map_err(|_| "--secure-port is not a port".to_owned())?;
    let address = match flag(arguments, "--bind-address") {
        Some(text) => text
            .parse()
            .map_err(|_| "--bind-address is not an address".to_owned())?,
        None => IpAddr::V4(Ipv4Addr::LOCALHOST),
    };
    let certificates = PathBuf::from(required(arguments, "--cert-dir")?);
    let read = |path: &Path| {
        std::fs::read(path)
            .map_err(|error| format!("cannot read the certificate {}: {error}", path.display()))
    };
    let builder = TestServer::builder().conformant();
    let builder = builder
        .tls_with(
            &read(&certificates.join("apiserver.crt"))?,
            &read(&certificates.join("apiserver.key"))?,
            &read(Path::new(required(arguments, "--client-ca-file")?))?,
        )
        .map_err(|error| error.to_string())?;
    let address = SocketAddr::new(address, port);
    let server = builder
        .listen(address)
        .await
        .map_err(|error| super::busy(address, &error))?;
    server.create_system_objects();
    Ok(server)
}

async fn etcd(arguments: &[String]) -> Result<TcpListener, String> {
    let url = required(arguments, "--listen-client-urls")?;
    let address = url.trim_start_matches("http://").trim_end_matches('/');
    TcpListener::bind(address)
        .await
        .map_err(|error| format!("cannot listen on {address}: {error}"))
}

async fn answer_healthy(listener: TcpListener) {
    let mut connections = TaskSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn("health", async move {
            let healthy = service_fn(|_| async {
                Ok::<_, io::Error>(Response::new(Full::new(Bytes::from_static(
                    b"{\"health\":\"true\"}",
                ))))
            });
            // A client that disconnects has its answer.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), healthy)
                .await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_name_of_the_program_is_its_role() {
        assert_eq!(Role::of("assets/kube-apiserver"), Some(Role::ApiServer));
        assert_eq!(Role::of("etcd"), Some(Role::Etcd));
        assert_eq!(Role::of("kube-testserver"), None);
    }

    #[test]
    fn flags_have_values_in_either_form() {
        let arguments = flags("--secure-port=1 --cert-dir /c --secure-port=2");
        assert_eq!(flag(&arguments, "--secure-port"), Some("2"));
        assert_eq!(flag(&arguments, "--cert-dir"), Some("/c"));
        assert_eq!(flag(&arguments, "--cert"), None);
    }

    #[tokio::test]
    async fn missing_flags_and_certificates_are_named() {
        let error = api_server(&flags("--secure-port=0")).await.unwrap_err();
        assert!(error.contains("--cert-dir is missing"), "{error}");
        let error = api_server(&flags(
            "--secure-port=0 --cert-dir=/nowhere --client-ca-file=/nowhere/ca",
        ))
        .await
        .unwrap_err();
        assert!(
            error.contains("cannot read the certificate /nowhere/apiserver.crt"),
            "{error}"
        );
        assert!(
            etcd(&flags("x"))
                .await
                .unwrap_err()
                .contains("--listen-client-urls is missing")
        );
    }
}
