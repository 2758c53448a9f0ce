//! Where two sets of answers to one story differ. Takes normalised answers, gives differences by place.

use std::fmt;

use serde_json::Value;

use crate::normal::normal;
use crate::story::{Answer, Body, Story};

/// One place at which an answer is not the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The exchange.
    pub exchange: String,
    /// The place: `status`, `headers/…` or `body/…`, as a JSON pointer.
    pub at: String,
    /// What was recorded; nothing if the place was not there.
    pub recorded: Option<String>,
    /// What was answered now.
    pub answered: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
        write!(
            f,
            "{} at {}: recorded {}, answered {}",
            self.exchange,
            self.at,
            text(&self.recorded),
            text(&self.answered)
        )
    }
}

/// Where the answers differ from the recorded ones, up to names, versions and times.
pub fn differences(story: &Story, answers: &[Answer]) -> Vec<Difference> {
    let recorded: Vec<Answer> = story
        .exchanges
        .iter()
        .map_while(|exchange| exchange.answer.clone())
        .collect();
    let mut found = Vec::new();
    let pairs = normal(story, &recorded).into_iter().zip(normal(story, answers));
    for (exchange, (recorded, answered)) in story.exchanges.iter().zip(pairs) {
        let mut at = |at: String, recorded: Option<&Value>, answered: Option<&Value>| {
            found.push(Difference {
                exchange: exchange.name.clone(),
                at,
                recorded: recorded.map(Value::to_string),
                answered: answered.map(Value::to_string),
            });
        };
        walk(
            "status",
            &recorded.status.into(),
            &answered.status.into(),
            &mut at,
        );
        let headers = |answer: &Answer| Value::from_iter(answer.headers.clone());
        walk("headers", &headers(&recorded), &headers(&answered), &mut at);
        walk("body", &body(&recorded), &body(&answered), &mut at);
    }
    found
}

fn body(answer: &Answer) -> Value {
    match &answer.body {
        Body::Json(value) => value.clone(),
        Body::Events(events) => events.clone().into(),
        Body::Text(text) => text.clone().into(),
    }
}

type Report<'a> = dyn FnMut(String, Option<&Value>, Option<&Value>) + 'a;

fn walk(at: &str, recorded: &Value, answered: &Value, report: &mut Report<'_>) {
    match (recorded, answered) {
        (Value::Object(one), Value::Object(other)) => {
            for (key, value) in one {
                let at = format!("{at}/{}", escaped(key));
                match other.get(key) {
                    Some(answered) => walk(&at, value, answered, report),
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
                    (Some(recorded), Some(answered)) => walk(&at, recorded, answered, report),
                    (recorded, answered) => report(at, recorded, answered),
                }
            }
        }
        _ if recorded == answered => {}
        _ => report(at.to_owned(), Some(recorded), Some(answered)),
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

    fn story(body: Value) -> Story {
        serde_json::from_value(json!({"about": "one get", "exchanges": [{
            "name": "get",
            "request": {"method": "GET", "path": "/api/v1/namespaces/a/pods/web"},
            "answer": {"status": 200, "headers": {"audit-id": "1"}, "json": body}
        }]}))
        .expect("a story")
    }

    fn answer(status: u16, body: Value) -> Vec<Answer> {
        vec![Answer::new(
            status,
            [("audit-id", b"2".as_slice())],
            body.to_string().as_bytes(),
            false,
        )]
    }

    #[test]
    fn versions_and_times_are_no_differences() {
        let story =
            story(json!({"metadata": {"resourceVersion": "1", "creationTimestamp": "2026-11-15T23:35:26Z"}}));
        let now = json!({"metadata": {"resourceVersion": "9", "creationTimestamp": "2027-01-01T00:00:00Z"}});

        assert_eq!(differences(&story, &answer(200, now)), []);
    }

    #[test]
    fn every_other_place_is_one() {
        let story = story(json!({"a/b": 1, "items": [1, 2], "gone": true}));

        let found = differences(&story, &answer(404, json!({"a/b": 2, "items": [1], "new": 0})));

        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "get at status: recorded 200, answered 404",
                "get at body/a~1b: recorded 1, answered 2",
                "get at body/gone: recorded true, answered nothing",
                "get at body/items/1: recorded 2, answered nothing",
                "get at body/new: recorded nothing, answered 0",
            ]
        );
    }
}
