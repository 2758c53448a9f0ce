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
use kube_informers_core::tasks::TaskSet;
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
    "--authorization-mode",
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
    let mut builder = TestServer::builder().conformant();
    let modes = flag(arguments, "--authorization-mode").unwrap_or_default();
    if modes.split(',').any(|mode| mode == "RBAC") {
        builder = builder.rbac();
    }
    let clients = flag(arguments, "--client-ca-file").map(|path| read(Path::new(path)));
    let builder = builder
        .tls_with(
            &read(&certificates.join("apiserver.crt"))?,
            &read(&certificates.join("apiserver.key"))?,
            &clients.transpose()?.unwrap_or_default(),
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
    use std::sync::Arc;

    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore};

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

    /// An authority, as envtest makes one, and the certificates that it issues.
    struct Authority {
        pem: String,
        issuer: Issuer<'static, KeyPair>,
    }

    impl Authority {
        fn new() -> Authority {
            let mut parameters = CertificateParams::new(Vec::new()).unwrap();
            parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let key = KeyPair::generate().unwrap();
            let pem = parameters.self_signed(&key).unwrap().pem();
            Authority {
                pem,
                issuer: Issuer::new(parameters, key),
            }
        }

        /// A certificate and its key in PEM, with common name and organization.
        fn issue(&self, name: &str, group: &str) -> (String, String) {
            let mut parameters = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
            parameters.distinguished_name.push(DnType::CommonName, name);
            parameters
                .distinguished_name
                .push(DnType::OrganizationName, group);
            let key = KeyPair::generate().unwrap();
            let certificate = parameters.signed_by(&key, &self.issuer).unwrap();
            (certificate.pem(), key.serialize_pem())
        }
    }

    /// The start of the response to a request by a user of the authority.
    async fn get(server: &TestServer, authority: &Authority, user: &str, group: &str, path: &str) -> String {
        let certificates = |pem: &str| {
            CertificateDer::pem_slice_iter(pem.as_bytes())
                .collect::<Result<Vec<_>, _>>()
                .unwrap()
        };
        let mut roots = RootCertStore::empty();
        roots.add(certificates(&authority.pem).remove(0)).unwrap();
        let (certificate, key) = authority.issue(user, group);
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_client_auth_cert(
                certificates(&certificate),
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        let url = server.url().unwrap();
        let stream = TcpStream::connect(url.trim_start_matches("https://"))
            .await
            .unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let connector = TlsConnector::from(Arc::new(config));
        let mut stream = connector.connect(name, stream).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // The server may close without a TLS goodbye.
        let _ = stream.read_to_end(&mut response).await;
        String::from_utf8_lossy(&response).into_owned()
    }

    #[tokio::test]
    async fn a_certificate_names_the_user_and_roles_decide() {
        let authority = Authority::new();
        let directory = std::env::temp_dir().join(format!("kube-testserver-envtest-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (certificate, key) = authority.issue("server", "");
        for (name, text) in [
            ("apiserver.crt", &certificate),
            ("apiserver.key", &key),
            ("ca.crt", &authority.pem),
        ] {
            std::fs::write(directory.join(name), text).unwrap();
        }
        let path = directory.display();
        let mut arguments = flags(&format!(
            "--secure-port=0 --cert-dir={path} --client-ca-file={path}/ca.crt --authorization-mode=RBAC"
        ));
        let server = api_server(&arguments).await.unwrap();
        let pods = "/api/v1/pods";

        let admin = get(&server, &authority, "admin", "system:masters", pods).await;
        assert!(admin.starts_with("HTTP/1.1 200"), "{admin}");
        let jane = get(&server, &authority, "jane", "readers", pods).await;
        assert!(jane.starts_with("HTTP/1.1 403"), "{jane}");
        assert!(jane.contains("User \\\"jane\\\" cannot list resource"), "{jane}");

        arguments.pop();
        let open = api_server(&arguments).await.unwrap();
        let jane = get(&open, &authority, "jane", "readers", pods).await;
        assert!(jane.starts_with("HTTP/1.1 200"), "{jane}");
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
