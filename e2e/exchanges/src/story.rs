//! The form of a story on disk. Knows files, neither servers nor how answers are compared.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Requests that belong together, and what was answered.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Story {
    /// What the story is about, in one sentence.
    pub about: String,
    /// The server that answered, as it calls itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub server: String,
    /// The flags with which the server has to be started, beyond the usual ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    /// What was asked, in order.
    pub exchanges: Vec<Exchange>,
}

/// One request and its answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Exchange {
    /// What it shows. Unique in its story.
    pub name: String,
    /// What happens to the server before the request is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<Act>,
    /// Who asks.
    #[serde(default, skip_serializing_if = "User::is_admin", rename = "as")]
    pub user: User,
    /// What is asked.
    pub request: Request,
    /// Ask again until the answer has this status: what was made before takes a moment to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u16>,
    /// Values of the answer that later requests need: a name, and the JSON pointer to the value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub keep: BTreeMap<String, String>,
    /// What was answered; absent until the story was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
}

/// Something that is done to the server itself.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    /// All history is forgotten: older versions expire, in every cache too.
    Forget,
    /// The server has more requests in flight than it may have, until one is refused.
    Overload,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum User {
    /// May do everything.
    #[default]
    Admin,
    /// Is known and may do nothing.
    Nobody,
    /// Shows a token that nobody has given out.
    Stranger,
}

impl User {
    fn is_admin(&self) -> bool {
        *self == User::Admin
    }
}

/// What is asked. `<name>` in path and body stands for a kept value.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// `GET`, `POST` and so on.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Headers beyond credentials and the name of the client.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// A JSON body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Value>,
    /// A body that is not JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// What was answered.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The headers, names in lower case; without those that belong to the connection.
    pub headers: BTreeMap<String, String>,
    /// The body.
    #[serde(flatten)]
    pub body: Body,
}

/// A body by its form.
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
    /// Takes a body apart: a watch has one JSON value per line.
    pub fn read(bytes: &[u8], is_watch: bool) -> Body {
        if is_watch
            && let Ok(events) = serde_json::Deserializer::from_slice(bytes)
                .into_iter()
                .collect::<Result<Vec<Value>, _>>()
            // Whoever asks to watch what cannot be watched may be shown an object.
            && events.iter().all(|event| event.get("type").is_some())
        {
            return Body::Events(events);
        }
        match serde_json::from_slice(bytes) {
            Ok(value) => Body::Json(value),
            Err(_) => Body::Text(String::from_utf8_lossy(bytes).into_owned()),
        }
    }

    /// The value at a JSON pointer; in a watch the pointer starts with the number of the event.
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

/// Reads every story of a directory, by name.
///
/// # Errors
///
/// The directory cannot be read, or a file in it is not a story; the text names the file.
pub fn read(directory: &Path) -> Result<BTreeMap<String, Story>, String> {
    let cannot = |what: &Path, why: &dyn std::fmt::Display| format!("cannot read {}: {why}", what.display());
    let mut stories = BTreeMap::new();
    for entry in std::fs::read_dir(directory).map_err(|error| cannot(directory, &error))? {
        let path = entry.map_err(|error| cannot(directory, &error))?.path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read(&path).map_err(|error| cannot(&path, &error))?;
        let story = serde_json::from_slice(&text).map_err(|error| cannot(&path, &error))?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        stories.insert(name, story);
    }
    Ok(stories)
}

/// Writes a story back to its file.
///
/// # Errors
///
/// The file cannot be written; the text names it.
pub fn write(directory: &Path, name: &str, story: &Story) -> Result<(), String> {
    let path = directory.join(format!("{name}.json"));
    let mut text = serde_json::to_string_pretty(story).map_err(|error| error.to_string())?;
    text.push('\n');
    std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}
