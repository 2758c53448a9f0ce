//! Plays a recording at a server: the order of requests, and the values that later ones take from earlier responses.
//! Independent of the transport.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::recording::{Body, Disruption, Exchange, Recording, Response, User};

/// The user agent of every request; the server derives the field manager from it.
const USER_AGENT: &str = "recorder/1.0";

/// The maximum number of attempts for a request that is repeated until a response.
const MOST_ATTEMPTS: usize = 100;

/// A request with all values filled in.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The sender.
    pub user: User,
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// All headers but the credentials.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// Repeat it until it is refused, while the server is overloaded.
    pub until_refused: bool,
}

impl Sent {
    /// Whether the response is a stream of events.
    pub fn is_watch(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"))
    }
}

/// A server that handles requests.
pub trait Server {
    /// Sends a request and reads the whole response.
    fn send(&mut self, request: Sent) -> impl Future<Output = Result<Response, String>>;

    /// A short pause between two attempts, about a tenth of a second.
    fn pause(&mut self) -> impl Future<Output = ()>;

    /// Disrupts the server.
    fn disrupt(&mut self, disrupt: Disruption) -> impl Future<Output = Result<(), String>>;
}

/// A recording that could not be played completely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The failed exchange.
    pub exchange: String,
    /// The reason.
    pub reason: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.exchange, self.reason)
    }
}

impl std::error::Error for Failed {}

/// Plays a recording and returns the responses, one per exchange.
///
/// # Errors
///
/// A request got no response, or a response lacks a value to be kept.
pub async fn play(recording: &Recording, server: &mut impl Server) -> Result<Vec<Response>, Failed> {
    let mut kept = BTreeMap::new();
    let mut responses = Vec::with_capacity(recording.exchanges.len());
    for exchange in &recording.exchanges {
        let failed = |reason| Failed {
            exchange: exchange.name.clone(),
            reason,
        };
        if let Some(disrupt) = exchange.first {
            server.disrupt(disrupt).await.map_err(failed)?;
        }
        let mut response = server
            .send(filled(exchange, &kept).map_err(failed)?)
            .await
            .map_err(failed)?;
        for _ in 0..MOST_ATTEMPTS {
            if is_awaited(exchange, &response) {
                break;
            }
            server.pause().await;
            response = server
                .send(filled(exchange, &kept).map_err(failed)?)
                .await
                .map_err(failed)?;
        }
        keep(exchange, &response, &mut kept).map_err(failed)?;
        responses.push(response);
    }
    Ok(responses)
}

/// Whether the response is the one to wait for. A refusal also has the message of the recorded one: a user whose rights have not
/// taken effect yet is refused, too, for another reason.
fn is_awaited(exchange: &Exchange, response: &Response) -> bool {
    let Some(wanted) = exchange.until else { return true };
    let message = |response: &Response| match &response.body {
        Body::Json(body) => body.get("message").cloned(),
        _ => None,
    };
    let is_same = |recorded: &Response| wanted < 400 || message(recorded) == message(response);
    wanted == response.status && exchange.response.as_ref().is_none_or(is_same)
}

/// Adds the kept values of a response.
pub(crate) fn keep(
    exchange: &Exchange,
    response: &Response,
    kept: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    for (name, pointer) in &exchange.keep {
        match response.body.pointer(pointer) {
            Some(Value::String(text)) => kept.insert(name.clone(), text.clone()),
            Some(other) => kept.insert(name.clone(), other.to_string()),
            None => {
                return Err(format!(
                    "the response ({}) has nothing at {pointer}, which was to be kept as {name}",
                    response.status
                ));
            }
        };
    }
    Ok(())
}

fn filled(exchange: &Exchange, kept: &BTreeMap<String, String>) -> Result<Sent, String> {
    let fill = |text: &str| {
        kept.iter().fold(text.to_owned(), |text, (name, value)| {
            text.replace(&format!("<{name}>"), value)
        })
    };
    let request = &exchange.request;
    let mut headers = request.headers.clone();
    headers
        .entry("user-agent".to_owned())
        .or_insert_with(|| USER_AGENT.to_owned());
    let mut content_type = |media_type: &str| {
        headers
            .entry("content-type".to_owned())
            .or_insert_with(|| media_type.to_owned());
    };
    let body = if let Some(json) = &request.body {
        content_type("application/json");
        fill(&json.to_string()).into_bytes()
    } else if let Some(object) = &request.protobuf {
        content_type(kube_protobuf::MEDIA_TYPE);
        let object: Value =
            serde_json::from_str(&fill(&object.to_string())).map_err(|error| error.to_string())?;
        kube_protobuf::ser::to_body(&object).map_err(|error| error.to_string())?
    } else {
        fill(request.text.as_deref().unwrap_or_default()).into_bytes()
    };
    Ok(Sent {
        user: exchange.user,
        method: request.method.clone(),
        path: fill(&request.path),
        headers,
        body,
        until_refused: exchange.first == Some(Disruption::Overload),
    })
}

impl Response {
    /// Builds a response from its parts, without connection headers.
    pub fn new<'a>(
        status: u16,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        bytes: &[u8],
        is_watch: bool,
    ) -> Response {
        const CONNECTION_HEADERS: [&str; 5] = [
            "connection",
            "content-length",
            "date",
            "keep-alive",
            "transfer-encoding",
        ];
        let headers = headers
            .into_iter()
            .filter(|(name, _)| !CONNECTION_HEADERS.contains(name))
            .map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        Response {
            status,
            headers,
            body: Body::read(bytes, is_watch && status == 200),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn exchange() -> Exchange {
        serde_json::from_value(json!({
            "name": "update",
            "request": {
                "method": "PUT",
                "path": "/api/v1/namespaces/a/pods/<pod>?resourceVersion=<version>",
                "body": {"metadata": {"name": "<pod>"}}
            },
            "keep": {"uid": "/metadata/uid"}
        }))
        .expect("an exchange")
    }

    #[test]
    fn kept_values_are_filled_into_path_and_body() {
        let kept = BTreeMap::from([("pod".into(), "web-1".into()), ("version".into(), "7".into())]);

        let sent = filled(&exchange(), &kept).expect("a request");

        assert_eq!(sent.path, "/api/v1/namespaces/a/pods/web-1?resourceVersion=7");
        assert_eq!(sent.body, br#"{"metadata":{"name":"web-1"}}"#);
        assert_eq!(sent.headers["content-type"], "application/json");
    }

    #[test]
    fn a_refusal_is_awaited_with_the_recorded_message() {
        let no_headers: [(&str, &[u8]); 0] = [];
        let refusal = |message: &str| {
            let body = json!({ "message": message }).to_string();
            Response::new(403, no_headers, body.as_bytes(), false)
        };
        let mut exchange = exchange();
        exchange.until = Some(403);
        assert!(
            is_awaited(&exchange, &refusal("no rights yet")),
            "nothing is recorded"
        );

        exchange.response = Some(refusal("that is too much"));
        assert!(!is_awaited(&exchange, &refusal("no rights yet")));
        assert!(is_awaited(&exchange, &refusal("that is too much")));
    }

    #[test]
    fn missing_value_is_named() {
        let response = Response::new(409, [("date", b"now".as_slice())], b"{}", false);

        let error = keep(&exchange(), &response, &mut BTreeMap::new()).expect_err("there is no uid");

        assert!(
            error.contains("409") && error.contains("/metadata/uid"),
            "{error}"
        );
        assert!(response.headers.is_empty());
    }

    #[test]
    fn watch_events_are_parsed() {
        let body = Body::read(b"{\"type\":\"ADDED\"}\n{\"type\":\"DELETED\"}\n", true);

        assert_eq!(
            body,
            Body::Events(vec![json!({"type": "ADDED"}), json!({"type": "DELETED"})])
        );
        assert_eq!(body.pointer("/1/type"), Some(&json!("DELETED")));
    }
}
