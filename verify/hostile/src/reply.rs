//! Requests as scenarios see them, and the replies they make.

use std::io::Write;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::body::{Step, Steps};

/// A request of a client.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) path: String,
    pub(crate) watch: bool,
    pub(crate) initial_events: bool,
    pub(crate) continue_token: Option<String>,
}

impl Call {
    pub(crate) fn parse(path: &str, query: &str) -> Self {
        let parameter = |name: &str| {
            form_urlencoded::parse(query.as_bytes())
                .find(|(key, _)| key == name)
                .map(|(_, value)| value.into_owned())
        };
        let is_set = |name| parameter(name).is_some_and(|value| value == "true" || value == "1");
        Self {
            path: path.to_owned(),
            watch: is_set("watch"),
            initial_events: is_set("sendInitialEvents"),
            continue_token: parameter("continue"),
        }
    }
}

/// The reply to one request.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// Whether the response starts at all.
    pub(crate) starts: bool,
    pub(crate) steps: Steps,
}

impl Reply {
    pub(crate) fn json(steps: impl IntoIterator<Item = Step, IntoIter: Send + 'static>) -> Self {
        Self {
            status: 200,
            headers: vec![("content-type", "application/json")],
            starts: true,
            steps: Box::new(steps.into_iter()),
        }
    }

    pub(crate) fn text(body: impl Into<Bytes>) -> Self {
        Self::json([Step::Bytes(body.into())])
    }

    pub(crate) fn silence() -> Self {
        Self {
            starts: false,
            ..Self::json([])
        }
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    pub(crate) fn header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.retain(|(existing, _)| *existing != name);
        self.headers.push((name, value));
        self
    }
}

impl Call {
    /// Whether the request is for a discovery document and not for objects.
    pub(crate) fn is_discovery(&self) -> bool {
        let mut parts = self.path.split('/').filter(|part| !part.is_empty());
        match (parts.next(), parts.count()) {
            (Some("api"), rest) => rest < 2,
            (Some("apis"), rest) => rest < 3,
            _ => true,
        }
    }
}

/// The documents of a server that serves pods and nothing else.
pub(crate) fn discovery(call: &Call) -> Reply {
    match call.path.trim_end_matches('/') {
        "/api" => Reply::text(r#"{"kind":"APIVersions","versions":["v1"]}"#),
        "/apis" => Reply::text(r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[]}"#),
        "/api/v1" => Reply::text(
            r#"{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","shortNames":["po"],"verbs":["get","list","watch"]}]}"#,
        ),
        _ => failure(404, "NotFound"),
    }
}

/// What must never reach a terminal, as a JSON string: escape sequences that set the title and the clipboard, a bell, a
/// C1 control, a bidi override, zero-width and line-separating characters.
pub(crate) const ESCAPES: &str =
    r"\u001b]0;title\u0007\u001b]52;c;ZXZpbA==\u0007\u001b[2J\u009b31m\u202egnp\u200b\u2028end";

/// A `Status` object as the body of an error.
pub(crate) fn failure(code: u16, reason: &str) -> Reply {
    failure_with(code, reason, "")
}

/// The same with a message.
pub(crate) fn failure_with(code: u16, reason: &str, message: &str) -> Reply {
    Reply::text(format!(
        r#"{{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"{reason}","message":"{message}","code":{code}}}"#
    ))
    .status(code)
}

/// The start of a list of pods, up to its items.
pub(crate) fn list_start(token: &str) -> String {
    format!(
        r#"{{"kind":"PodList","apiVersion":"v1","metadata":{{"resourceVersion":"10","continue":"{token}"}},"items":["#
    )
}

/// One page of a list of pods, and the token of the next.
pub(crate) fn page(items: &[String], token: &str) -> Reply {
    Reply::text(format!("{}{}]}}", list_start(token), items.join(",")))
}

/// A complete list of pods.
pub(crate) fn list(items: &[String]) -> Reply {
    page(items, "")
}

pub(crate) fn pod(namespace: &str, name: &str) -> String {
    pod_with(namespace, name, "")
}

/// A pod with more members behind its metadata.
pub(crate) fn pod_with(namespace: &str, name: &str, more: &str) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"uid-{name}","resourceVersion":"7"}}{more}}}"#
    )
}

/// A watch event.
pub(crate) fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

/// A watch that opens and stays silent.
pub(crate) fn quiet_watch() -> Reply {
    Reply::json([Step::Hang])
}

/// `first`, then the result of `item` for 0, 1, 2 and so on, forever, in chunks of about 64 KiB.
pub(crate) fn endless(first: String, item: impl Fn(u64) -> String + Send + 'static) -> Reply {
    Reply::json(chunks(first, item).map(Step::Bytes))
}

/// The chunks of [`endless`], separated by commas.
pub(crate) fn chunks(
    first: String,
    item: impl Fn(u64) -> String + Send + 'static,
) -> impl Iterator<Item = Bytes> {
    let mut number = 0;
    let mut start = Some(first);
    std::iter::repeat_with(move || {
        let mut chunk = start.take().unwrap_or_default();
        while chunk.len() < 64 << 10 {
            if number > 0 {
                chunk.push(',');
            }
            chunk.push_str(&item(number));
            number += 1;
        }
        Bytes::from(chunk)
    })
}

/// The same chunks with a pause before each.
pub(crate) fn slowly(
    chunks: impl Iterator<Item = Bytes> + Send + 'static,
    pause: Duration,
) -> impl Iterator<Item = Step> + Send + 'static {
    chunks.flat_map(move |chunk| [Step::Wait(pause), Step::Bytes(chunk)])
}

/// One complete gzip member.
pub(crate) fn gzip(bytes: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing to a vector cannot fail.
    encoder.write_all(bytes).ok();
    encoder.finish().unwrap_or_default().into()
}
