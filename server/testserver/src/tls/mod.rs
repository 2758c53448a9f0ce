//! TLS with certificates that are generated when the server is built: an authority, the server's certificate, and a
//! certificate for an administrator.

mod subject;

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
#[cfg(feature = "cli")]
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

use crate::user::User;
use subject::user_of;

/// The certificates of one server.
#[derive(Clone)]
pub(crate) struct Tls {
    acceptor: TlsAcceptor,
    authority: String,
    client: String,
    client_key: String,
}

/// Never prints keys.
impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// Generates certificates for loopback and for the addresses that the server listens on.
    pub(crate) fn generate(addresses: &[IpAddr]) -> io::Result<Tls> {
        let (authority, issuer) = authority()?;
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        names.extend(addresses.iter().map(ToString::to_string));
        names.sort();
        names.dedup();

        let mut server = CertificateParams::new(names).map_err(failed)?;
        server
            .distinguished_name
            .push(DnType::CommonName, "kube-testserver");
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate().map_err(failed)?;
        let server = server.signed_by(&server_key, &issuer).map_err(failed)?;

        let mut client = CertificateParams::new(Vec::new()).map_err(failed)?;
        client
            .distinguished_name
            .push(DnType::CommonName, "kube-testserver:admin");
        client
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client_key = KeyPair::generate().map_err(failed)?;
        let client = client.signed_by(&client_key, &issuer).map_err(failed)?;

        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let acceptor = acceptor(vec![server.der().clone()], key, vec![authority.der().clone()])?;
        Ok(Tls {
            acceptor,
            authority: authority.pem(),
            client: client.pem(),
            client_key: client_key.serialize_pem(),
        })
    }

    /// Uses the server's certificate and key, and the authority of its clients, all in PEM. There is no kubeconfig: the client
    /// knows the certificates.
    #[cfg(feature = "cli")]
    pub(crate) fn read(certificate: &[u8], key: &[u8], clients: &[u8]) -> io::Result<Tls> {
        let certificates = |pem| {
            CertificateDer::pem_slice_iter(pem)
                .collect::<Result<Vec<_>, _>>()
                .map_err(failed)
        };
        let key = PrivateKeyDer::from_pem_slice(key).map_err(failed)?;
        Ok(Tls {
            acceptor: acceptor(certificates(certificate)?, key, certificates(clients)?)?,
            authority: String::new(),
            client: String::new(),
            client_key: String::new(),
        })
    }

    /// The handshake. Also returns the user, if the client has authenticated by certificate.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<(TlsStream<S>, Option<User>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.acceptor.accept(stream).await?;
        // Certificates of other authorities fail the handshake.
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let user = certificate.and_then(|certificate| user_of(certificate));
        Ok((stream, user))
    }

    /// The authority in PEM.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The authority as a kubeconfig has it.
    pub(crate) fn authority_data(&self) -> String {
        STANDARD.encode(&self.authority)
    }

    /// The administrator's credentials as a kubeconfig has them.
    pub(crate) fn user(&self) -> Value {
        json!({
            "client-certificate-data": STANDARD.encode(&self.client),
            "client-key-data": STANDARD.encode(&self.client_key),
        })
    }
}

/// Accepts clients with a certificate of an authority, and those without one, which may authenticate by token instead.
fn acceptor(
    server: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Vec<CertificateDer<'static>>,
) -> io::Result<TlsAcceptor> {
    let provider = Arc::new(default_provider());
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority).map_err(failed)?;
    }
    // Without an authority of clients, no client has a certificate.
    let verifier = match roots.is_empty() {
        true => WebPkiClientVerifier::no_client_auth(),
        false => WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(failed)?,
    };
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(failed)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(server, key)
        .map_err(failed)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

fn authority() -> io::Result<(rcgen::Certificate, Issuer<'static, KeyPair>)> {
    let mut params = CertificateParams::new(Vec::new()).map_err(failed)?;
    params
        .distinguished_name
        .push(DnType::CommonName, "kube-testserver authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok((certificate, Issuer::new(params, key)))
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::other(format!("cannot set up TLS: {error}"))
}
