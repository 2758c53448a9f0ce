//! Sends a request. An error status becomes an `ApiError`, a success becomes chunks of bytes.
//!
//! Handles HTTP only: no encodings, deadlines or retries.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::client::legacy::connect::capture_connection;
use kube::client::{AuthError, Body};
use tokio::time::sleep;
use tower_service::Service;

use super::gzip::Gunzip;
use crate::codec::error_response;
use crate::wire::{ApiError, SourceError, retry_after};

/// The content coding of compressed bodies.
pub(super) const GZIP: &str = "gzip";

/// The number of bytes read of an error body.
const MAX_ERROR_BODY: usize = 64 << 10;

/// The body of a successful response, as it arrives.
pub(super) struct ResponseBody {
    /// The operation: `list pods in shop`.
    what: String,
    pub content_type: Option<String>,
    body: Body,
    /// For a compressed body.
    gunzip: Option<Gunzip>,
}

impl ResponseBody {
    /// Returns the next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, SourceError> {
        loop {
            if let Some(gunzip) = &mut self.gunzip
                && let Some(bytes) = gunzip.next().map_err(|_| corrupt(&self.what))?
            {
                return Ok(Some(bytes));
            }
            match self.body.frame().await {
                None => {
                    let complete = self.gunzip.as_mut().map_or(Ok(()), Gunzip::finish);
                    return complete.map(|()| None).map_err(|_| corrupt(&self.what));
                }
                Some(Ok(frame)) => match (frame.into_data(), &mut self.gunzip) {
                    (Ok(bytes), Some(gunzip)) => gunzip.push(bytes),
                    (Ok(bytes), None) if !bytes.is_empty() => return Ok(Some(bytes)),
                    // Trailers.
                    _ => {}
                },
                Some(Err(error)) => return Err(transport(&format!("connection lost: {}", self.what), error)),
            }
        }
    }

    /// Adds the operation to an error about the contents of the response.
    pub fn add_context(&self, error: SourceError) -> SourceError {
        match error {
            SourceError::Malformed(text) => SourceError::Malformed(format!("cannot {}: {text}", self.what)),
            error => error,
        }
    }
}

fn corrupt(what: &str) -> SourceError {
    SourceError::Malformed(format!(
        "cannot {what}: the compressed response is corrupt or truncated: check any proxy in between, or turn `gzip` off"
    ))
}

/// Sends a request. `what` is the operation for errors: `list pods in shop`.
pub(super) async fn send(
    client: &kube::Client,
    request: Request<()>,
    what: String,
    connect_timeout: Duration,
) -> Result<ResponseBody, SourceError> {
    let accepts_gzip = header(request.headers(), ACCEPT_ENCODING.as_str()).as_deref() == Some(GZIP);
    let body = unrepeatable_body().await;
    let response = connect_within(connect_timeout, client, request.map(|()| body))
        .await
        .map_err(|error| match error {
            SendError::Failed(error) => transport(&format!("cannot {what}"), error),
            SendError::NotConnected => SourceError::Transport {
                context: format!(
                    "cannot {what}: no connection within {} s",
                    connect_timeout.as_secs_f64()
                ),
                refused: false,
                source: Box::new(io::Error::from(io::ErrorKind::TimedOut)),
            },
        })?;
    let (parts, body) = response.into_parts();
    let content_type = header(&parts.headers, CONTENT_TYPE.as_str());
    let malformed = |text: String| Err(SourceError::Malformed(format!("cannot {what}: {text}")));
    match parts.status {
        StatusCode::OK => {}
        status if status.is_redirection() => return Err(redirect(status, &parts.headers).into()),
        status if status.is_success() || status.is_informational() => {
            return malformed(format!(
                "the server returned {}, but an API server returns 200",
                status.as_u16()
            ));
        }
        status => return Err(api_error(status, &parts.headers, body).await.into()),
    }
    if content_type.as_deref().is_some_and(|kind| kind.contains("html")) {
        return malformed(
            "the response is HTML, not from an API server: check the server address and any proxy in between"
                .to_owned(),
        );
    }
    let gunzip = match header(&parts.headers, CONTENT_ENCODING.as_str()).as_deref() {
        None | Some("identity") => None,
        Some(GZIP) if accepts_gzip => Some(Gunzip::new()),
        Some(encoding) => {
            return malformed(format!(
                "the response is compressed ({encoding}), which was not requested: check any proxy in between"
            ));
        }
    };
    Ok(ResponseBody {
        what,
        content_type,
        body,
        gunzip,
    })
}

enum SendError {
    Failed(kube::Error),
    NotConnected,
}

/// Sends a request that must get a connection within `timeout`. The response may take longer.
///
/// The connection timeout of a client is 30 s by default and cannot be changed after the client was built. After an outage
/// in which packets were dropped, a cache would be stale for that long although the server is back: a connection attempt
/// repeats its first packet at ever longer intervals.
async fn connect_within(
    timeout: Duration,
    client: &kube::Client,
    mut request: Request<Body>,
) -> Result<Response<Body>, SendError> {
    let mut connection = capture_connection(&mut request);
    let mut sending = std::pin::pin!(client.send(request));
    let not_connected = async {
        // kube runs credential plugins while it is polled for the first time. That is not connecting.
        tokio::task::yield_now().await;
        // An in-process server, which has no connection, ends this too: it drops the extension of the request.
        let connected = async { drop(connection.wait_for_connection_metadata().await) };
        tokio::select! {
            () = connected => std::future::pending().await,
            () = sleep(timeout) => {}
        }
    };
    tokio::select! {
        biased;
        response = &mut sending => response.map_err(SendError::Failed),
        () = not_connected => Err(SendError::NotConnected),
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.chars().take(100).collect::<String>().to_ascii_lowercase())
}

/// Redirects are never followed: the new address would receive the credentials.
fn redirect(status: StatusCode, headers: &HeaderMap) -> ApiError {
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let host = location.and_then(|location| Some(location.parse::<http::Uri>().ok()?.host()?.to_owned()));
    let place = host.map_or("another address".to_owned(), |host| {
        host.chars().take(100).collect::<String>()
    });
    ApiError::new(
        status.as_u16(),
        "",
        &format!("redirects to {place} are not followed: check the server address"),
    )
}

async fn api_error(status: StatusCode, headers: &HeaderMap, mut body: Body) -> ApiError {
    let mut bytes = Vec::new();
    let mut truncated = false;
    // If the connection is lost, the bytes received so far are used.
    while let Some(Ok(frame)) = body.frame().await {
        let data = frame.into_data().unwrap_or_default();
        let room = MAX_ERROR_BODY - bytes.len();
        bytes.extend(data.iter().take(room));
        if data.len() > room {
            truncated = true;
            break;
        }
    }
    let content_type = header(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let error = error_response(status.as_u16(), &content_type, &bytes, truncated);
    // The other form of the header, a date, requires a wall clock that agrees with the server's.
    let seconds = header(headers, RETRY_AFTER.as_str()).and_then(|text| text.trim().parse().ok());
    ApiError {
        retry_after: seconds.and_then(retry_after).or(error.retry_after),
        ..error
    }
}

fn transport(context: &str, error: kube::Error) -> SourceError {
    SourceError::Transport {
        context: context.to_owned(),
        refused: is_refused(&error),
        source: Box::new(error),
    }
}

/// Whether an error is caused by a refused connection to the server.
fn is_refused(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        // What refused the connection is the issuer of tokens.
        if error.is::<AuthError>() {
            return false;
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                return true;
            }
            // `source` of an I/O error skips the error it wraps.
            if error.get_ref().is_some_and(|inner| is_refused(inner)) {
                return true;
            }
        }
        next = error.source();
    }
    false
}

/// An empty body that cannot be cloned.
///
/// By default kube's client repeats a request that failed with 429, 503 or 504, up to 15 times and for minutes,
/// before it returns. That would hide an overloaded server from the reflector's backoff and delay shutdown. It
/// repeats only requests whose body it can clone, which are bodies it created itself. A body taken from a response
/// is passed on unchanged, so each request gets the body of a response that no server sent.
async fn unrepeatable_body() -> Body {
    // The client spawns a task and panics outside of a runtime.
    if tokio::runtime::Handle::try_current().is_err() {
        return Body::empty();
    }
    let client = kube::Client::new(EmptyResponses, "");
    match client.send(Request::new(Body::empty())).await {
        Ok(response) => response.into_body(),
        Err(_) => Body::empty(),
    }
}

/// An in-process server that returns an empty response to every request.
struct EmptyResponses;

impl Service<Request<Body>> for EmptyResponses {
    type Response = Response<Empty<Bytes>>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        ready(Ok(Response::new(Empty::new())))
    }
}
