//! Compares normalized responses and returns their differences by path.

use std::fmt;

use serde_json::Value;

use crate::normal::normal;
use crate::recording::{Body, Recording, Response};

/// One difference between a response and the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The exchange.
    pub exchange: String,
    /// The path: `status`, `headers/…` or `body/…`, as a JSON pointer.
    pub at: String,
    /// The recorded value, if any.
    pub recorded: Option<String>,
    /// The received value, if any.
    pub received: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
        write!(
            f,
            "{} at {}: recorded {}, received {}",
            self.exchange,
            self.at,
            text(&self.recorded),
            text(&self.received)
        )
    }
}

/// The differences between the responses and the recorded ones, up to names, versions and times.
pub fn differences(recording: &Recording, responses: &[Response]) -> Vec<Difference> {
    let recorded: Vec<Response> = recording
        .exchanges
        .iter()
        .map_while(|exchange| exchange.response.clone())
        .collect();
    let mut found = Vec::new();
    let pairs = normal(recording, &recorded)
        .into_iter()
        .zip(normal(recording, responses));
    for (exchange, (recorded, received)) in recording.exchanges.iter().zip(pairs) {
        let mut at = |at: String, recorded: Option<&Value>, received: Option<&Value>| {
            found.push(Difference {
                exchange: exchange.name.clone(),
                at,
                recorded: recorded.map(Value::to_string),
                received: received.map(Value::to_string),
            });
        };
        walk(
            "status",
            &recorded.status.into(),
            &received.status.into(),
            &mut at,
        );
        let headers = |response: &Response| Value::from_iter(response.headers.clone());
        walk("headers", &headers(&recorded), &headers(&received), &mut at);
        walk("body", &body(&recorded), &body(&received), &mut at);
    }
    found
}

fn body(response: &Response) -> Value {
    match &response.body {
        Body::Json(value) => value.clone(),
        Body::Events(events) => events.clone().into(),
        Body::Text(text) => text.clone().into(),
    }
}

type Report<'a> = dyn FnMut(String, Option<&Value>, Option<&Value>) + 'a;

fn walk(at: &str, recorded: &Value, received: &Value, report: &mut Report<'_>) {
    match (recorded, received) {
        (Value::Object(one), Value::Object(other)) => {
            for (key, value) in one {
                let at = format!("{at}/{}", escaped(key));
                match other.get(key) {
                    Some(received) => walk(&at, value, received, report),
                    None => report(at, Some(value), None),
                }
            }
            for (key, value) in other.iter().filter(|(key, _)| !one.contains_key(*key)) {
                report(format!("{at}/{}", escaped(key)), None, Some(value));
            }
        }
        (Value::Array(one), Value::Array(other)) => {
            for index in 0..one.len().max(other.len()) {
                let at = format!("{at}/{index}");
                match (one.get(index), other.get(index)) {
                    (Some(recorded), Some(received)) => walk(&at, recorded, received, report),
                    (recorded, received) => report(at, recorded, received),
                }
            }
        }
        _ if recorded == received => {}
        _ => report(at.to_owned(), Some(recorded), Some(received)),
    }
}

/// As in a JSON pointer.
fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn recording(body: Value) -> Recording {
        serde_json::from_value(json!({"about": "one get", "exchanges": [{
            "name": "get",
            "request": {"method": "GET", "path": "/api/v1/namespaces/a/pods/web"},
            "answer": {"status": 200, "headers": {"audit-id": "1"}, "json": body}
        }]}))
        .expect("a recording")
    }

    fn response(status: u16, body: Value) -> Vec<Response> {
        vec![Response::new(
            status,
            [("audit-id", b"2".as_slice())],
            body.to_string().as_bytes(),
            false,
        )]
    }

    #[test]
    fn versions_and_times_are_ignored() {
        let recording = recording(
            json!({"metadata": {"resourceVersion": "1", "creationTimestamp": "2026-11-15T23:35:26Z"}}),
        );
        let now = json!({"metadata": {"resourceVersion": "9", "creationTimestamp": "2027-01-01T00:00:00Z"}});

        assert_eq!(differences(&recording, &response(200, now)), []);
    }

    #[test]
    fn all_other_values_are_compared() {
        let recording = recording(json!({"a/b": 1, "items": [1, 2], "gone": true}));

        let found = differences(
            &recording,
            &response(404, json!({"a/b": 2, "items": [1], "new": 0})),
        );

        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "get at status: recorded 200, received 404",
                "get at body/a~1b: recorded 1, received 2",
                "get at body/gone: recorded true, received nothing",
                "get at body/items/1: recorded 2, received nothing",
                "get at body/new: recorded nothing, received 0",
            ]
        );
    }
}
