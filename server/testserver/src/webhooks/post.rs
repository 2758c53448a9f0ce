//! Sends a review over HTTP or HTTPS. The texts of errors are those of Go's client, which users know from their clusters.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT};
use http::{Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

/// The limit of a response, as for request bodies.
const LIMIT: usize = 3 * 1024 * 1024;

/// The longest text of a response that an error quotes.
const QUOTED: usize = 2048;

/// The address of a webhook.
#[derive(Clone)]
pub(super) struct Address {
    /// The URL with its query, as errors show it.
    shown: String,
    /// The name that the certificate must be valid for.
    host: String,
    /// The host and port to connect to.
    connect: (String, u16),
    secure: bool,
    path: String,
    authorities: Vec<u8>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl Address {
    /// The address of `https://host[:port][/path]`. The timeout is sent along, so that the webhook can give up in time.
    pub(super) fn of_url(url: &str, authorities: Vec<u8>, timeout: Duration) -> Result<Address, String> {
        let (secure, host, port, path) = parse(url)?;
        let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
        let path = format!("{path}?timeout={seconds}s");
        let authority = &url[url.find("://").map_or(0, |at| at + 3)..];
        let authority = authority.split('/').next().unwrap_or_default();
        let scheme = if secure { "https" } else { "http" };
        Ok(Address {
            shown: format!("{scheme}://{authority}{path}"),
            connect: (host.clone(), port),
            host,
            secure,
            path,
            authorities,
        })
    }

    /// The same webhook where a service really is: `https://127.0.0.1:9443`, or without TLS. The certificate is still that of
    /// the service.
    pub(super) fn at(mut self, url: &str) -> Result<Address, String> {
        let (secure, host, port, _) = parse(url)?;
        self.connect = (host, port);
        self.secure = secure;
        Ok(self)
    }

    /// The error of a request to this address.
    pub(super) fn failed(&self, why: impl fmt::Display) -> String {
        format!("Post {:?}: {why}", self.shown)
    }
}

/// Scheme, host, port and path of a URL.
fn parse(url: &str) -> Result<(bool, String, u16, String), String> {
    let uri: Uri = url
        .parse()
        .map_err(|error| format!("Unparsable URL {url:?}: {error}"))?;
    let secure = match uri.scheme_str() {
        Some("https") => true,
        Some("http") => false,
        _ => return Err(format!("Unparsable URL {url:?}: it must begin with https://")),
    };
    let host = uri.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if host.is_empty() {
        return Err(format!("Unparsable URL {url:?}: it has no host"));
    }
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    Ok((secure, host, port, clean(uri.path())))
}

/// The path as Go's client sends it: without empty and dotted parts.
#[doc(alias = "path.Clean")]
fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Sends a review and returns the response.
pub(super) async fn post(address: &Address, review: &Value) -> Result<Value, String> {
    let (host, port) = &address.connect;
    let stream = TcpStream::connect((host.as_str(), *port)).await;
    let stream = stream.map_err(|error| {
        let at = if host.contains(':') {
            format!("[{host}]:{port}")
        } else {
            format!("{host}:{port}")
        };
        address.failed(match error.kind() {
            std::io::ErrorKind::ConnectionRefused => format!("dial tcp {at}: connect: connection refused"),
            _ => format!("dial tcp {at}: {error}"),
        })
    })?;
    let request = Request::post(address.path.as_str())
        .header(HOST, authority(address))
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, */*")
        .header(USER_AGENT, concat!("kube-testserver/", env!("CARGO_PKG_VERSION")))
        .body(Full::new(Bytes::from(review.to_string())))
        .map_err(|error| address.failed(error))?;
    if !address.secure {
        return exchange(address, stream, request).await;
    }
    #[cfg(feature = "tls")]
    {
        let stream = tls::connect(stream, &address.host, &address.authorities).await;
        exchange(address, stream.map_err(|why| address.failed(why))?, request).await
    }
    #[cfg(not(feature = "tls"))]
    {
        let _ = (&address.host, &address.authorities);
        Err(address.failed("kube-testserver was built without TLS: enable its feature `tls`"))
    }
}

fn authority(address: &Address) -> &str {
    let rest = address.shown.split("://").nth(1).unwrap_or_default();
    rest.split('/').next().unwrap_or_default()
}

async fn exchange<S>(address: &Address, stream: S, request: Request<Full<Bytes>>) -> Result<Value, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let failed = |error: hyper::Error| address.failed(go_text(&error));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(failed)?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, LIMIT).collect().await;
        let body = body.map_err(|error| {
            format!("unexpected error when reading response body. Please retry. Original error: {error}")
        })?;
        read(parts.status.as_u16(), &parts.headers, &body.to_bytes())
    };
    // The connection makes progress only while it is polled. If it ends first, the request fails or is complete.
    tokio::select! {
        answered = answered => answered,
        () = async {
            let _ = connection.await;
            std::future::pending().await
        } => Err(address.failed("EOF")),
    }
}

fn go_text(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        "EOF".to_owned()
    } else {
        error.to_string()
    }
}

/// The review in a response, or the error that Go's client makes of another status.
fn read(status: u16, headers: &http::HeaderMap, body: &[u8]) -> Result<Value, String> {
    let parsed = serde_json::from_slice::<Value>(body);
    if (200..=206).contains(&status) {
        return parsed.map_err(|error| format!("couldn't get version/kind; json parse error: {error}"));
    }
    if let Ok(Value::Object(object)) = &parsed
        && object.get("kind").is_some_and(|kind| kind == "Status")
        && let Some(message) = object.get("message").and_then(Value::as_str)
    {
        return Err(message.to_owned());
    }
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let quoted = match content_type {
        Some(content_type) if content_type.starts_with("text/") => {
            let body = String::from_utf8_lossy(body.get(..QUOTED).unwrap_or(body));
            body.trim().to_owned()
        }
        _ => "unknown".to_owned(),
    };
    Err(match status {
        400 => "the server rejected our request for an unknown reason".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 | 415 => quoted,
        404 => "the server could not find the requested resource".to_owned(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        409 => "the server reported a conflict".to_owned(),
        422 => "the server rejected our request due to an error in our request".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request"
            .to_owned(),
        500.. => format!("an error on the server ({quoted:?}) has prevented the request from succeeding"),
        _ => format!("the server responded with the status code {status} but did not return more information"),
    })
}

#[cfg(feature = "tls")]
mod tls {
    use std::sync::Arc;

    use tokio::net::TcpStream;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::client::danger::{
        HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
    };
    use tokio_rustls::rustls::client::{WebPkiServerVerifier, verify_server_name};
    use tokio_rustls::rustls::crypto::ring::default_provider;
    use tokio_rustls::rustls::pki_types::pem::PemObject;
    use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
    use tokio_rustls::rustls::server::ParsedCertificate;
    use tokio_rustls::rustls::{
        CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    };

    const UNKNOWN: &str = "tls: failed to verify certificate: x509: certificate signed by unknown authority";

    /// Go's rule: a certificate of the bundle is trusted also if it is the server's own, as in envtest. Such a certificate must
    /// have the right name; its dates are not checked.
    #[derive(Debug)]
    struct Verifier {
        authorities: Arc<WebPkiServerVerifier>,
        bundle: Vec<CertificateDer<'static>>,
    }

    impl ServerCertVerifier for Verifier {
        fn verify_server_cert(
            &self,
            own: &CertificateDer<'_>,
            intermediates: &[CertificateDer<'_>],
            name: &ServerName<'_>,
            ocsp: &[u8],
            now: UnixTime,
        ) -> Result<ServerCertVerified, Error> {
            if self.bundle.iter().any(|known| known == own) {
                verify_server_name(&ParsedCertificate::try_from(own)?, name)?;
                return Ok(ServerCertVerified::assertion());
            }
            self.authorities
                .verify_server_cert(own, intermediates, name, ocsp, now)
        }

        fn verify_tls12_signature(
            &self,
            message: &[u8],
            own: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.authorities.verify_tls12_signature(message, own, signed)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            own: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.authorities.verify_tls13_signature(message, own, signed)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.authorities.supported_verify_schemes()
        }
    }

    /// The handshake with a server whose certificate one of these authorities has signed.
    pub(super) async fn connect(
        stream: TcpStream,
        host: &str,
        authorities: &[u8],
    ) -> Result<TlsStream<TcpStream>, String> {
        let (mut roots, mut bundle) = (RootCertStore::empty(), Vec::new());
        for certificate in CertificateDer::pem_slice_iter(authorities) {
            let certificate = certificate.map_err(|error| format!("clientConfig.caBundle: {error}"))?;
            bundle.push(certificate.clone());
            roots
                .add(certificate)
                .map_err(|error| format!("clientConfig.caBundle: {error}"))?;
        }
        if roots.is_empty() {
            return Err(UNKNOWN.to_owned());
        }
        let provider = Arc::new(default_provider());
        let authorities = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| error.to_string())?;
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier { authorities, bundle }))
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
        let connected = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        connected.map_err(
            |error| match error.get_ref().and_then(|error| error.downcast_ref()) {
                // An authority of the same name has another key.
                Some(Error::InvalidCertificate(
                    CertificateError::UnknownIssuer | CertificateError::BadSignature,
                )) => UNKNOWN.to_owned(),
                Some(Error::InvalidCertificate(why)) => {
                    format!("tls: failed to verify certificate: x509: {why:?}")
                }
                _ => error.to_string(),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(url: &str) -> String {
        let address = Address::of_url(url, Vec::new(), Duration::from_secs(10)).unwrap();
        address.shown
    }

    #[test]
    fn url_is_shown_with_the_timeout() {
        assert_eq!(
            shown("https://127.0.0.1:9443/validate/"),
            "https://127.0.0.1:9443/validate?timeout=10s"
        );
        assert_eq!(
            shown("https://127.0.0.1:9443//a/./b/../validate"),
            "https://127.0.0.1:9443/a/validate?timeout=10s"
        );
        assert_eq!(
            shown("https://hooks.example.com"),
            "https://hooks.example.com/?timeout=10s"
        );
        for bad in ["", "127.0.0.1:9443", "ftp://example.com", "https://"] {
            assert!(Address::of_url(bad, Vec::new(), Duration::ZERO).is_err(), "{bad}");
        }
    }

    #[test]
    fn service_has_its_own_name_at_another_address() {
        let address = Address::of_url("https://hook.shop.svc:443/x", Vec::new(), Duration::from_secs(1));
        let address = address.unwrap().at("http://127.0.0.1:8080").unwrap();
        assert_eq!(address.connect, ("127.0.0.1".to_owned(), 8080));
        assert!(!address.secure);
        assert_eq!(address.host, "hook.shop.svc");
        assert_eq!(authority(&address), "hook.shop.svc:443");
    }
}
