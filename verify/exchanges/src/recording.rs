//! The file format of recordings.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Requests that belong together, with their responses.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The subject of the recording, in one sentence.
    pub about: String,
    /// Name and version of the recorded server.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// Additional flags of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// The exchanges, in order.
    pub exchanges: Vec<Exchange>,
}

/// One request and its response.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// What it demonstrates. Unique within its recording.
    pub name: String,
    /// A disruption of the server before the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Disruption>,
    /// The sender.
    #[serde(default, skip_serializing_if = "User::is_admin", rename = "as")]
    pub user: User,
    /// The request.
    pub request: Request,
    /// Repeat the request until its response has this status, for objects that take a moment to appear. A refusal must also have
    /// the recorded message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u16>,
    /// Values of the response that later requests need: a name, and the JSON pointer to the value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keep: BTreeMap<String, String>,
    /// The response; absent until it is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none", rename = "answer")]
    pub response: Option<Response>,
}

/// A disruption of the server.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Disruption {
    /// Compacts all history: older versions expire, in every cache too.
    #[serde(rename = "forget")]
    Compact,
    /// Sends more concurrent requests than the server accepts, until one is refused.
    Overload,
}

/// The sender of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum User {
    /// Has all permissions.
    #[default]
    Admin,
    /// Is authenticated and has no permissions.
    Nobody,
    /// Sends an invalid token.
    Unauthenticated,
}

impl User {
    fn is_admin(&self) -> bool {
        *self == User::Admin
    }
}

/// A request. `<name>` in path and body is replaced by a kept value.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers other than credentials and user agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// A body that is sent as protobuf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protobuf: Option<Value>,
    /// A body that is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// A response.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Response {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case, without connection headers.
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(flatten)]
    pub body: Body,
}

/// A body by its format.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Body {
    /// One JSON value.
    Json(Value),
    /// The events of a watch.
    Events(Vec<Value>),
    /// Anything else.
    Text(String),
}

impl Body {
    /// Parses a body: a watch has one JSON value per line. Protobuf is decoded, so that recordings can be read; the
    /// content type tells the encodings apart.
    pub fn read(bytes: &[u8], is_watch: bool) -> Body {
        if is_watch && let Some(events) = protobuf_events(bytes) {
            return Body::Events(events);
        }
        if bytes.starts_with(b"k8s\0")
            && let Ok(value) = kube_protobuf::from_body(bytes, &kube_protobuf::Options::new())
        {
            return Body::Json(value);
        }
        if is_watch
            && let Ok(events) = serde_json::Deserializer::from_slice(bytes)
                .into_iter()
                .collect::<Result<Vec<Value>, _>>()
            // The response to a watch of something that cannot be watched may be an object.
            && events.iter().all(|event| event.get("type").is_some())
        {
            return Body::Events(events);
        }
        match serde_json::from_slice(bytes) {
            Ok(value) => Body::Json(value),
            Err(_) => Body::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }

    /// The value at a JSON pointer; for a watch the pointer starts with the index of the event.
    pub fn pointer(&self, pointer: &str) -> Option<&Value> {
        match self {
            Body::Json(value) => value.pointer(pointer),
            Body::Events(events) => {
                let (number, rest) = pointer.strip_prefix('/')?.split_once('/')?;
                events
                    .get(number.parse::<usize>().ok()?)?
                    .pointer(&format!("/{rest}"))
            }
            Body::Text(_) => None,
        }
    }
}

/// The events of a watch in protobuf; `None` if these are no such frames.
fn protobuf_events(bytes: &[u8]) -> Option<Vec<Value>> {
    let mut frames = kube_protobuf::envelope::WatchSplitter::new(bytes.len());
    frames.push(bytes::Bytes::copy_from_slice(bytes));
    let mut events = Vec::new();
    while let Some(frame) = frames.next_event().ok()? {
        let frame = frame.ok()?;
        let object: Value = frame
            .envelope()
            .ok()?
            .decode(&kube_protobuf::Options::new())
            .ok()?;
        events.push(serde_json::json!({ "type": frame.event.as_str(), "object": object }));
    }
    (frames.is_at_boundary() && !events.is_empty()).then_some(events)
}

/// Reads every recording of a directory, by name.
///
/// # Errors
///
/// The directory cannot be read, or a file in it is not a recording; the text names the file.
pub fn read(directory: &Path) -> Result<BTreeMap<String, Recording>, String> {
    let cannot = |what: &Path, why: &dyn std::fmt::Display| format!("cannot read {}: {why}", what.display());
    let mut recordings = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(|error| cannot(directory, &error))? {
        let path = entry.map_err(|error| cannot(directory, &error))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read(&path).map_err(|error| cannot(&path, &error))?;
        let recording = serde_json::from_slice(&text).map_err(|error| cannot(&path, &error))?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        recordings.insert(name, recording);
    }
    Ok(recordings)
}

/// Writes a recording back to its file.
///
/// # Errors
///
/// The file cannot be written; the text names it.
pub fn write(directory: &Path, name: &str, recording: &Recording) -> Result<(), String> {
    let path = directory.join(format!("{name}.json"));
    let mut text = serde_json::to_string_pretty(recording).map_err(|error| error.to_string())?;
    text.push('\n');
    std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
