//! Endpoints that no client can use: nothing listens, the name does not exist, only one side speaks TLS, or the certificate is
//! not valid. On real sockets, because the causes come from the operating system and the TLS library.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use kube_informers_core::tasks::{Task, TaskSet};
use rcgen::{BasicConstraints, Certificate, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// An endpoint that no client can use, and what its error message must say.
#[derive(Debug)]
pub struct Endpoint {
    /// Its name: `expired-certificate`.
    pub name: &'static str,
    /// Texts of the innermost cause, in lower case. The message has one of them.
    pub causes: &'static [&'static str],
    /// A part of the usual fix. The message has it as well.
    pub fix: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// `https://` to a port that speaks HTTP.
    PlainPort,
    /// `http://` to a TLS port that sends a TLS alert.
    TlsPort,
    /// `http://` to a TLS port that responds as Go's servers do.
    GoTlsPort,
    UnknownAuthority,
    Expired,
    OtherName,
    UnknownHost,
    Refused,
}

const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "plain-port",
        causes: &["invalidcontenttype"],
        fix: "use http:// in the server address",
        kind: Kind::PlainPort,
    },
    Endpoint {
        name: "tls-port",
        causes: &["invalid http version"],
        fix: "use https:// in the server address",
        kind: Kind::TlsPort,
    },
    Endpoint {
        name: "tls-port-of-go",
        causes: &["client sent an http request to an https server"],
        fix: "use https:// in the server address",
        kind: Kind::GoTlsPort,
    },
    Endpoint {
        name: "unknown-authority",
        causes: &["unknownissuer"],
        fix: "set certificate-authority in the kubeconfig",
        kind: Kind::UnknownAuthority,
    },
    Endpoint {
        name: "expired-certificate",
        causes: &["certificate expired"],
        fix: "renew it, or set the clock of this machine",
        kind: Kind::Expired,
    },
    Endpoint {
        name: "certificate-for-another-name",
        causes: &["not valid for name"],
        fix: "set tls-server-name",
        kind: Kind::OtherName,
    },
    Endpoint {
        name: "unknown-host",
        // A resolver that cannot be reached says the last.
        causes: &[
            "name or service not known",
            "nodename nor servname",
            "temporary failure in name resolution",
        ],
        fix: "check the server address and the DNS of this machine",
        kind: Kind::UnknownHost,
    },
    Endpoint {
        name: "refused",
        causes: &["refused"],
        // The program uses kubectl's wording.
        fix: "",
        kind: Kind::Refused,
    },
];

impl Endpoint {
    /// All endpoints.
    pub fn all() -> &'static [Endpoint] {
        ENDPOINTS
    }

    /// Opens the endpoint until the result is dropped.
    ///
    /// # Errors
    ///
    /// The socket cannot be opened, or the certificates cannot be generated.
    pub async fn open(&self) -> io::Result<OpenEndpoint> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let certificates = Certificates::generate(self.kind).map_err(io::Error::other)?;
        let kind = self.kind;
        let task = match kind {
            // Dropping the listener frees the port, and nothing listens any more.
            Kind::UnknownHost | Kind::Refused => None,
            _ => {
                let acceptor = certificates.acceptor()?;
                Some(Task::spawn("accept", async move {
                    let mut connections = TaskSet::new();
                    while let Ok((stream, _)) = listener.accept().await {
                        connections.spawn("connection", connection(kind, acceptor.clone(), stream));
                    }
                }))
            }
        };
        Ok(OpenEndpoint {
            kind,
            address,
            authority: (kind != Kind::UnknownAuthority).then_some(certificates.authority),
            _task: task,
        })
    }
}

/// The client gives up before or after the response; either way there is nothing to do about errors here.
async fn connection(kind: Kind, acceptor: TlsAcceptor, mut stream: TcpStream) {
    let response: &[u8] = match kind {
        Kind::PlainPort => b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        Kind::GoTlsPort => {
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
        }
        _ => {
            acceptor.accept(stream).await.ok();
            return;
        }
    };
    // Read, so that closing the connection does not reset it before the client has the response.
    if let Ok(0) | Err(_) = stream.read(&mut [0; 4096]).await {
        return;
    }
    stream.write_all(response).await.ok();
    stream.shutdown().await.ok();
}

/// An endpoint on a socket. Dropping it closes the socket.
#[derive(Debug)]
pub struct OpenEndpoint {
    kind: Kind,
    address: SocketAddr,
    authority: Option<Certificate>,
    _task: Option<Task>,
}

impl OpenEndpoint {
    /// The address for the client.
    pub fn url(&self) -> String {
        match self.kind {
            Kind::TlsPort | Kind::GoTlsPort => format!("http://{}", self.address),
            // Reserved by RFC 2606: it never resolves.
            Kind::UnknownHost => "https://api.cluster.invalid:6443".to_owned(),
            _ => format!("https://{}", self.address),
        }
    }

    /// The authority that the client trusts, in DER. `None` for those that are installed on the machine.
    pub fn authority_der(&self) -> Option<Vec<u8>> {
        self.authority.as_ref().map(|authority| authority.der().to_vec())
    }

    /// The same in PEM.
    pub fn authority_pem(&self) -> Option<String> {
        self.authority.as_ref().map(Certificate::pem)
    }
}

/// An authority and a certificate of the server.
struct Certificates {
    authority: Certificate,
    server: Certificate,
    key: KeyPair,
}

impl Certificates {
    fn generate(kind: Kind) -> Result<Self, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let authority = params.self_signed(&authority_key)?;
        let issuer = Issuer::new(params, authority_key);

        let name = match kind {
            Kind::OtherName => "other.example",
            _ => "127.0.0.1",
        };
        let mut params = CertificateParams::new(vec![name.to_owned()])?;
        if kind == Kind::Expired {
            params.not_before = date_time_ymd(2001, 1, 1);
            params.not_after = date_time_ymd(2002, 1, 1);
        }
        let key = KeyPair::generate()?;
        let server = params.signed_by(&key, &issuer)?;
        Ok(Self {
            authority,
            server,
            key,
        })
    }

    fn acceptor(&self) -> io::Result<TlsAcceptor> {
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|config| {
                config
                    .with_no_client_auth()
                    .with_single_cert(vec![self.server.der().clone()], key)
            })
            .map_err(io::Error::other)?;
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
