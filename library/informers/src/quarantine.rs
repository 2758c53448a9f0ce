//! Objects that could not be read: their identity and the problem, without their contents.

use std::fmt;

use crate::key::ObjectKey;

/// One object that could not be decoded, transformed or indexed.
///
/// It has the identity, the size and the problem, but never a value of the object, which may be a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadObject {
    /// The key; `None` if the name could not be read.
    pub key: Option<ObjectKey>,
    /// The UID, if it could be read.
    pub uid: Option<String>,
    /// The resource version, if it could be read.
    pub resource_version: Option<String>,
    /// The problem, without values: `spec.replicas: invalid type, expected i32`.
    pub problem: Problem,
    /// The size of the encoded object in bytes; 0 if it was never encoded.
    pub size: usize,
}

/// The unreadable item that may be an object that is missing from a list: one without a readable name, unless its UID is
/// another one.
pub(crate) fn doubt<'a>(unreadable: &'a [BadObject], missing_uid: Option<&str>) -> Option<&'a BadObject> {
    unreadable.iter().find(|bad| {
        let other = matches!((bad.uid.as_deref(), missing_uid), (Some(bad), Some(missing)) if bad != missing);
        bad.key.is_none() && !other
    })
}

/// Why an object is in quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes are not an object of the expected type.
    Decode(String),
    /// The item is of an unexpected kind.
    WrongKind {
        /// `apiVersion/kind` of the item.
        found: String,
        /// The requested `apiVersion/kind`.
        expected: String,
    },
    /// The item has no name.
    Nameless,
    /// The item is larger than the limit.
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The transform returned an error or panicked.
    Transform(String),
    /// An index function panicked.
    Index(String),
    /// The object has no UID, and the shard is by UID.
    NoUid,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(text) => write!(f, "cannot be decoded: {text}"),
            Self::WrongKind { found, expected } => write!(f, "is a {found}, not a {expected}"),
            Self::Nameless => f.write_str("has no name"),
            Self::TooLarge { limit } => write!(f, "is larger than the limit of {limit} bytes"),
            Self::Transform(text) => write!(f, "cannot be transformed: {text}"),
            Self::Index(text) => write!(f, "cannot be indexed: {text}"),
            Self::NoUid => f.write_str(
                "has no UID, so its shard is unknown: implement `Object::object_uid`, or use shards by namespace",
            ),
        }
    }
}

impl fmt::Display for BadObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.key {
            Some(key) => write!(f, "object {key}")?,
            None => f.write_str("an object without a readable name")?,
        }
        if let Some(version) = &self.resource_version {
            write!(f, " at version {version}")?;
        }
        write!(f, " {}", self.problem)?;
        if self.size > 0 {
            write!(f, " ({} bytes)", self.size)?;
        }
        Ok(())
    }
}
