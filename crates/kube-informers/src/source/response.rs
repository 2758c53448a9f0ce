//! Sends a request and takes the answer apart: refusals become errors, a success becomes chunks of bytes.
//!
//! Knows HTTP; does not know encodings, deadlines or retries.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::{Ready, ready};
use std::io;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, LOCATION, RETRY_AFTER};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty};
use kube::client::Body;
use tower_service::Service;

use super::error::{ApiError, SourceError};
use super::status::wait;

/// Of an error body no more than this is read.
const LARGEST_ERROR: usize = 64 << 10;

/// A successful answer, as it arrives.
pub(super) struct Answer {
    /// What is asked for: `list pods in shop`.
    what: String,
    pub content_type: Option<String>,
    body: Body,
}

impl Answer {
    /// The next bytes; `None` at the end.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, SourceError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes)),
                    // Trailers.
                    _ => {}
                },
                Some(Err(error)) => return Err(transport(&format!("connection lost: {}", self.what), error)),
            }
        }
    }

    /// Adds what was asked for to an error about the answer's contents.
    pub fn explain(&self, error: SourceError) -> SourceError {
        match error {
            SourceError::Malformed(text) => SourceError::Malformed(format!("cannot {}: {text}", self.what)),
            error => error,
        }
    }
}

/// Sends a request. `what` names it in errors: `list pods in shop`.
pub(super) async fn send(
    client: &kube::Client,
    request: Request<()>,
    what: String,
) -> Result<Answer, SourceError> {
    let body = unrepeatable_body().await;
    let response = client
        .send(request.map(|()| body))
        .await
        .map_err(|error| transport(&format!("cannot {what}"), error))?;
    let (parts, body) = response.into_parts();
    let content_type = header(&parts.headers, CONTENT_TYPE.as_str());
    let malformed = |text: String| Err(SourceError::Malformed(format!("cannot {what}: {text}")));
    match parts.status {
        StatusCode::OK => {}
        status if status.is_redirection() => return Err(redirect(status, &parts.headers).into()),
        status if status.is_success() || status.is_informational() => {
            return malformed(format!(
                "the server answered {}, an API server answers 200",
                status.as_u16()
            ));
        }
        status => return Err(refusal(status, &parts.headers, body).await.into()),
    }
    if content_type.as_deref().is_some_and(|kind| kind.contains("html")) {
        return malformed(
            "the answer is HTML, so this is not an API server: check the server address and any proxy in between"
                .to_owned(),
        );
    }
    let encoding = header(&parts.headers, CONTENT_ENCODING.as_str());
    if let Some(encoding) = encoding.filter(|encoding| encoding != "identity") {
        return malformed(format!(
            "the answer is compressed ({encoding}), which was not asked for: check any proxy in between"
        ));
    }
    Ok(Answer {
        what,
        content_type,
        body,
    })
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.chars().take(100).collect::<String>().to_ascii_lowercase())
}

/// Never followed: the next address would be given the credentials for this one.
fn redirect(status: StatusCode, headers: &HeaderMap) -> ApiError {
    let location = headers.get(LOCATION).and_then(|location| location.to_str().ok());
    let host = location.and_then(|location| Some(location.parse::<http::Uri>().ok()?.host()?.to_owned()));
    let place = host.map_or("another address".to_owned(), |host| {
        host.chars().take(100).collect::<String>()
    });
    ApiError::new(
        status.as_u16(),
        "",
        &format!("it redirects to {place}, and redirects are not followed: check the server address"),
    )
}

async fn refusal(status: StatusCode, headers: &HeaderMap, mut body: Body) -> ApiError {
    let mut bytes = Vec::new();
    let mut cut = false;
    // A body that breaks off is still worth what has come of it.
    while let Some(Ok(frame)) = body.frame().await {
        let data = frame.into_data().unwrap_or_default();
        let room = LARGEST_ERROR - bytes.len();
        bytes.extend(data.iter().take(room));
        if data.len() > room {
            cut = true;
            break;
        }
    }
    let content_type = header(headers, CONTENT_TYPE.as_str()).unwrap_or_default();
    let error = ApiError::from_body(status.as_u16(), &content_type, &bytes, cut);
    // The other form of the header, a date, would need a wall clock that agrees with the server's.
    let seconds = header(headers, RETRY_AFTER.as_str()).and_then(|text| text.trim().parse().ok());
    ApiError {
        retry_after: seconds.and_then(wait).or(error.retry_after),
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

/// Whether a refused connection is at the bottom of an error.
fn is_refused(error: &(dyn StdError + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            if error.kind() == io::ErrorKind::ConnectionRefused {
                return true;
            }
            // The source of an I/O error skips the error it wraps.
            if error.get_ref().is_some_and(|inner| is_refused(inner)) {
                return true;
            }
        }
        next = error.source();
    }
    false
}

/// An empty body that cannot be copied.
///
/// kube's client, unless told otherwise, repeats a request that was answered 429, 503 or 504, up to 15 times
/// and for minutes, before anybody hears of it. That would hide an overloaded server from the back-off above
/// and hold up a stop. It repeats only what it can copy, which is bodies it made itself; a body that came out
/// of a response is passed on as it is. So each request gets the body of a response that nobody sent.
async fn unrepeatable_body() -> Body {
    // The client spawns a task, which outside a runtime it could not.
    if tokio::runtime::Handle::try_current().is_err() {
        return Body::empty();
    }
    let nobody = kube::Client::new(Nobody, "");
    match nobody.send(Request::new(Body::empty())).await {
        Ok(response) => response.into_body(),
        Err(_) => Body::empty(),
    }
}

/// A server that answers nothing to everything, at once and in this process.
struct Nobody;

impl Service<Request<Body>> for Nobody {
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
