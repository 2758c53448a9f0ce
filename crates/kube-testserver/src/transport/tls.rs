//! TLS with certificates that are generated when the server is built: an authority, the server's certificate, and a
//! certificate for an administrator.

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
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use tokio_rustls::server::TlsStream;

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

        let provider = Arc::new(default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(authority.der().clone()).map_err(failed)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            // A client may authenticate by token instead.
            .allow_unauthenticated()
            .build()
            .map_err(failed)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(server_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(failed)?
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![server.der().clone()], key)
            .map_err(failed)?;
        Ok(Tls {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            authority: authority.pem(),
            client: client.pem(),
            client_key: client_key.serialize_pem(),
        })
    }

    /// The handshake. Also returns whether the client has authenticated by certificate.
    pub(crate) async fn accept<S>(&self, stream: S) -> io::Result<(TlsStream<S>, bool)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.acceptor.accept(stream).await?;
        // Certificates of other authorities fail the handshake.
        let authenticated = stream.get_ref().1.peer_certificates().is_some();
        Ok((stream, authenticated))
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
