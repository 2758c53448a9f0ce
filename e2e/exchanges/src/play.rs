//! Plays a story at a server. Knows the order of requests and the values that later ones take from earlier answers;
//! does not know how a request travels.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

use crate::story::{Act, Answer, Body, Exchange, Story, User};

/// The client that every request says it comes from: the server derives the field manager from it.
const USER_AGENT: &str = "recorder/1.0";

/// How often a request is sent whose answer is waited for, with a pause after each.
const MOST_ATTEMPTS: usize = 100;

/// A request with all values filled in.
#[derive(Clone, Debug)]
pub struct Sent {
    /// Who asks.
    pub user: User,
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// All headers but the credentials.
    pub headers: BTreeMap<String, String>,
    /// The body.
    pub body: Vec<u8>,
    /// Send it until it is refused, while the server has too much to do.
    pub until_refused: bool,
}

impl Sent {
    /// Whether the answer is a stream of events.
    pub fn is_watch(&self) -> bool {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        query
            .split('&')
            .any(|pair| matches!(pair, "watch=true" | "watch=1"))
    }
}

/// A server that can be asked.
pub trait Server {
    /// Sends a request and reads the answer to its end.
    fn send(&mut self, request: Sent) -> impl Future<Output = Result<Answer, String>>;

    /// A moment between two attempts, a tenth of a second or so.
    fn pause(&mut self) -> impl Future<Output = ()>;

    /// Does something to the server itself.
    fn act(&mut self, act: Act) -> impl Future<Output = Result<(), String>>;
}

/// A story that could not be played to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// The exchange at which it ended.
    pub exchange: String,
    /// Why.
    pub reason: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.exchange, self.reason)
    }
}

impl std::error::Error for Failed {}

/// Plays a story and gives the answers, one per exchange.
///
/// # Errors
///
/// A request got no answer, or an answer lacks a value that was to be kept.
pub async fn play(story: &Story, server: &mut impl Server) -> Result<Vec<Answer>, Failed> {
    let mut kept = BTreeMap::new();
    let mut answers = Vec::with_capacity(story.exchanges.len());
    for exchange in &story.exchanges {
        let failed = |reason| Failed {
            exchange: exchange.name.clone(),
            reason,
        };
        if let Some(act) = exchange.first {
            server.act(act).await.map_err(failed)?;
        }
        let mut answer = server.send(filled(exchange, &kept)).await.map_err(failed)?;
        for _ in 0..MOST_ATTEMPTS {
            if exchange.until.is_none_or(|wanted| wanted == answer.status) {
                break;
            }
            server.pause().await;
            answer = server.send(filled(exchange, &kept)).await.map_err(failed)?;
        }
        keep(exchange, &answer, &mut kept).map_err(failed)?;
        answers.push(answer);
    }
    Ok(answers)
}

/// Adds the values that an answer gives to later requests.
pub(crate) fn keep(
    exchange: &Exchange,
    answer: &Answer,
    kept: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    for (name, pointer) in &exchange.keep {
        match answer.body.pointer(pointer) {
            Some(Value::String(text)) => kept.insert(name.clone(), text.clone()),
            Some(other) => kept.insert(name.clone(), other.to_string()),
            None => {
                return Err(format!(
                    "the answer ({}) has nothing at {pointer}, which was to be kept as {name}",
                    answer.status
                ));
            }
        };
    }
    Ok(())
}

fn filled(exchange: &Exchange, kept: &BTreeMap<String, String>) -> Sent {
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
    let body = match (&request.body, &request.text) {
        (Some(json), _) => {
            headers
                .entry("content-type".to_owned())
                .or_insert_with(|| "application/json".to_owned());
            fill(&json.to_string())
        }
        (None, Some(text)) => fill(text),
        (None, None) => String::new(),
    };
    Sent {
        user: exchange.user,
        method: request.method.clone(),
        path: fill(&request.path),
        headers,
        body: body.into_bytes(),
        until_refused: exchange.first == Some(Act::Overload),
    }
}

impl Answer {
    /// An answer from its parts; headers that belong to the connection are left out.
    pub fn new<'a>(
        status: u16,
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        bytes: &[u8],
        is_watch: bool,
    ) -> Answer {
        const OF_THE_CONNECTION: [&str; 5] = [
            "connection",
            "content-length",
            "date",
            "keep-alive",
            "transfer-encoding",
        ];
        let headers = headers
            .into_iter()
            .filter(|(name, _)| !OF_THE_CONNECTION.contains(name))
            .map(|(name, value)| (name.to_owned(), String::from_utf8_lossy(value).into_owned()))
            .collect();
        Answer {
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

        let sent = filled(&exchange(), &kept);

        assert_eq!(sent.path, "/api/v1/namespaces/a/pods/web-1?resourceVersion=7");
        assert_eq!(sent.body, br#"{"metadata":{"name":"web-1"}}"#);
        assert_eq!(sent.headers["content-type"], "application/json");
    }

    #[test]
    fn a_value_that_is_missing_is_named() {
        let answer = Answer::new(409, [("date", b"now".as_slice())], b"{}", false);

        let error = keep(&exchange(), &answer, &mut BTreeMap::new()).expect_err("there is no uid");

        assert!(
            error.contains("409") && error.contains("/metadata/uid"),
            "{error}"
        );
        assert!(answer.headers.is_empty());
    }

    #[test]
    fn the_events_of_a_watch_are_taken_apart() {
        let body = Body::read(b"{\"type\":\"ADDED\"}\n{\"type\":\"DELETED\"}\n", true);

        assert_eq!(
            body,
            Body::Events(vec![json!({"type": "ADDED"}), json!({"type": "DELETED"})])
        );
        assert_eq!(body.pointer("/1/type"), Some(&json!("DELETED")));
    }
}
