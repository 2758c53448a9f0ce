//! Paths to fields: one grammar for protobuf, for JSON and for trees.
//!
//! A path is a sequence of names, separated by dots, each with any number of selectors in brackets:
//!
//! ```text
//! path     = step { "." name | selector }
//! step     = name | selector
//! name     = one or more characters other than "." "[" "]"
//! selector = "[" text "]" | "[" quoted "]" | "[#" digits "]"
//! quoted   = '"' characters, with \" and \\ '"'
//! ```
//!
//! | Path | Selects |
//! |---|---|
//! | `spec.nodeName` | a field |
//! | `metadata.labels.app` | an entry of a map |
//! | `metadata.labels["app.kubernetes.io/name"]` | an entry whose key has dots; the quotes may be left out |
//! | `status.conditions[Ready].status` | an element of a list by its identity, and a field of it |
//! | `spec.containers[web].image` | the same |
//! | `metadata.finalizers[example.com/cleanup]` | an element of a list of strings or numbers |
//! | `spec.containers[#0].image` | an element of a list by its position |
//! | `["a]b"]` | a selector in quotes |
//!
//! The identity of an element is the merge key that Kubernetes declares for the list, such as `containerPort` for the
//! ports of a container. If there is none, or the kind has no schema, it is the first of `name`, `type` and `key` that
//! the element has. If several elements have the same identity, the first one is selected.
//!
//! A path has at most 1024 bytes and 32 steps.

mod error;
mod json;

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

pub use error::PathError;
pub(crate) use json::{JsonStep, changed_json, read_json};

use error::{MAX_LENGTH, MAX_STEPS};

/// A path to a field. See the [module documentation](self) for the grammar.
///
/// ```
/// use kube_protobuf::path::FieldPath;
/// use serde_json::json;
///
/// let path: FieldPath = "spec.containers[web].image".parse()?;
/// let pod = json!({"spec": {"containers": [{"name": "side"}, {"name": "web", "image": "web:2"}]}});
/// assert_eq!(path.find(&pod), Some(&json!("web:2")));
/// # Ok::<(), kube_protobuf::path::PathError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct FieldPath {
    text: Box<str>,
    steps: Box<[FieldStep]>,
}

/// One step of a [`FieldPath`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FieldStep {
    /// A field, or an entry of a map.
    Name(Box<str>),
    /// An entry of a map by its key, or an element of a list by its identity.
    Selector(Box<str>),
    /// An element of a list by its position.
    Index(usize),
}

impl FieldPath {
    /// Parses a path.
    ///
    /// # Errors
    ///
    /// The path does not follow the grammar, or it is too long.
    pub fn parse(path: &str) -> Result<Self, PathError> {
        Ok(Self {
            steps: steps(path)?.into(),
            text: path.into(),
        })
    }

    /// The steps.
    pub fn steps(&self) -> &[FieldStep] {
        &self.steps
    }

    /// The path as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The value in a tree; `None` if the tree has none.
    ///
    /// The tree has no schema, so elements of lists are identified by `name`, `type` or `key`.
    pub fn find<'v>(&self, tree: &'v Value) -> Option<&'v Value> {
        self.steps
            .iter()
            .try_fold(tree, |value, step| JsonStep::from(step).select(value))
    }

    /// The value in the bytes of a JSON document; `None` if it has none. Only the objects and arrays on the way to the
    /// value are read; the rest is checked for its syntax.
    ///
    /// # Errors
    ///
    /// The bytes are not JSON.
    pub fn read_json(&self, document: &[u8]) -> Result<Option<Value>, serde_json::Error> {
        let steps: Vec<JsonStep> = self.steps.iter().map(JsonStep::from).collect();
        read_json(&steps, document)
    }

    /// Whether the value differs between two JSON documents. Equal bytes are recognised without decoding.
    ///
    /// # Errors
    ///
    /// One of them is not JSON.
    pub fn changed_json(&self, old: &[u8], new: &[u8]) -> Result<bool, serde_json::Error> {
        let steps: Vec<JsonStep> = self.steps.iter().map(JsonStep::from).collect();
        changed_json(&steps, old, new)
    }
}

impl FromStr for FieldPath {
    type Err = PathError;

    fn from_str(path: &str) -> Result<Self, PathError> {
        Self::parse(path)
    }
}

impl AsRef<str> for FieldPath {
    fn as_ref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FieldPath({:?})", self.text)
    }
}

fn steps(path: &str) -> Result<Vec<FieldStep>, PathError> {
    if path.len() > MAX_LENGTH {
        return Err(PathError::TooLong);
    }
    let (mut steps, mut rest) = (Vec::new(), path);
    let at = |rest: &str| PathError::Syntax {
        at: path.len() - rest.len(),
    };
    loop {
        if let Some(after) = rest.strip_prefix('[') {
            let (step, after) = selector(after).ok_or_else(|| at(rest))?;
            steps.push(step);
            rest = after;
        } else {
            let length = rest.find(['.', '[']).unwrap_or(rest.len());
            if length == 0 || rest[..length].contains(']') {
                return Err(at(rest));
            }
            steps.push(FieldStep::Name(rest[..length].into()));
            rest = &rest[length..];
        }
        if steps.len() > MAX_STEPS {
            return Err(PathError::TooLong);
        }
        match rest.as_bytes().first() {
            None => return Ok(steps),
            Some(b'.') => rest = &rest[1..],
            Some(b'[') => {}
            Some(_) => return Err(at(rest)),
        }
    }
}

/// The selector after its opening bracket, and the text behind it.
fn selector(rest: &str) -> Option<(FieldStep, &str)> {
    let Some(quoted) = rest.strip_prefix('"') else {
        let end = rest.find(']').filter(|&end| end > 0)?;
        let step = match rest[..end].strip_prefix('#') {
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                FieldStep::Index(digits.parse().ok()?)
            }
            Some(_) => return None,
            None => FieldStep::Selector(rest[..end].into()),
        };
        return Some((step, &rest[end + 1..]));
    };
    let (mut text, mut chars) = (String::new(), quoted.char_indices());
    loop {
        match chars.next()? {
            (_, '\\') => text.push(chars.next().map(|(_, c)| c).filter(|c| matches!(c, '"' | '\\'))?),
            (end, '"') => {
                let rest = quoted[end + 1..].strip_prefix(']')?;
                return Some((FieldStep::Selector(text.into()), rest));
            }
            (_, other) => text.push(other),
        }
    }
}

#[cfg(test)]
mod tests;
