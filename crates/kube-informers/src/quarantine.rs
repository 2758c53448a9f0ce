//! An object that could not be read: what is known of it, without its contents.

use std::fmt;

use crate::key::ObjectKey;

/// One object that could not be decoded, transformed or indexed.
///
/// It carries identity, size and the kind of trouble, and never a value out of the object: it may be a Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadObject {
    /// Which object; `None` when not even its name could be read.
    pub key: Option<ObjectKey>,
    /// UID, where it could be read.
    pub uid: Option<String>,
    /// Resource version, where it could be read.
    pub resource_version: Option<String>,
    /// What went wrong, as a sentence fragment without values: `spec.replicas: invalid type, expected i32`.
    pub problem: Problem,
    /// Size of the encoded object in bytes; 0 when it never had an encoded form.
    pub size: usize,
}

/// What casts doubt on the absence of an object from a list: an item without a readable name may be any object the
/// list seems to lack, unless it has another UID.
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
    /// The bytes are no object of the wanted type.
    Decode(String),
    /// The item is of another kind than asked for.
    WrongKind {
        /// `apiVersion/kind` of the item.
        found: String,
        /// `apiVersion/kind` that was asked for.
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
    /// It has no UID, and shards go by the UID.
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
                "shows no UID, so nobody can say to which shard it belongs: let `Object::uid` give it, or divide by \
                 namespace",
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
