//! Errors that name a place and an expected type, and never a value.

use std::fmt;

use serde::de::{self, Unexpected};

/// Why bytes could not be decoded or a value could not be encoded.
///
/// The text names the path in the object and what was expected there. It never contains a value of the object.
pub struct Error(Box<Inner>);

struct Inner {
    /// Innermost step first.
    path: Vec<Step>,
    problem: Problem,
}

/// One step of a path.
pub(crate) enum Step {
    Field(&'static str),
    Key(String),
    Index(usize),
}

pub(crate) enum Problem {
    Malformed(&'static str),
    /// Fields are not in ascending order, repeated, or packed. Decoding starts over on a canonical copy.
    NotCanonical,
    WireType {
        expected: &'static str,
    },
    TooLarge {
        limit: usize,
    },
    TooDeep,
    UnknownKind {
        api_version: String,
        kind: String,
    },
    NotAList {
        kind: String,
    },
    Json(serde_json::error::Category),
    Mismatch(String),
    Rejected,
}

/// The broad class of an [`Error`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are not protobuf of the expected message: truncated, or of another wire type.
    Malformed,
    /// An object, list item or frame is larger than the limit.
    TooLarge,
    /// Messages are nested more deeply than the limit.
    TooDeep,
    /// The schema table has no such kind.
    UnknownKind,
    /// The body holds another kind than a list.
    NotAList,
    /// A single message occurs more than once, or numbers are packed. Only functions of [`raw`](crate::raw) report
    /// this; [`raw::canonical`](crate::raw::canonical) makes the bytes readable for them.
    NotCanonical,
    /// The bytes are well-formed, but they are not a value of the requested type.
    Type,
}

impl Error {
    #[cold]
    pub(crate) fn new(problem: Problem) -> Self {
        Self(Box::new(Inner {
            path: Vec::new(),
            problem,
        }))
    }

    #[cold]
    pub(crate) fn malformed(what: &'static str) -> Self {
        Self::new(Problem::Malformed(what))
    }

    #[cold]
    pub(crate) fn not_canonical() -> Self {
        Self::new(Problem::NotCanonical)
    }

    #[cold]
    pub(crate) fn wire_type(expected: &'static str) -> Self {
        Self::new(Problem::WireType { expected })
    }

    #[cold]
    pub(crate) fn mismatch(text: impl Into<String>) -> Self {
        Self::new(Problem::Mismatch(text.into()))
    }

    #[cold]
    pub(crate) fn unknown_kind(api_version: &str, kind: &str) -> Self {
        Self::new(Problem::UnknownKind {
            api_version: short(api_version),
            kind: short(kind),
        })
    }

    #[cold]
    pub(crate) fn not_a_list(kind: &str) -> Self {
        Self::new(Problem::NotAList { kind: short(kind) })
    }

    #[cold]
    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(Problem::TooLarge { limit })
    }

    pub(crate) fn is_not_canonical(&self) -> bool {
        matches!(self.0.problem, Problem::NotCanonical)
    }

    /// Adds the next step outwards.
    #[cold]
    pub(crate) fn at(mut self, step: Step) -> Self {
        self.0.path.push(step);
        self
    }

    #[cold]
    pub(crate) fn at_key(self, key: &str) -> Self {
        self.at(Step::Key(short(key)))
    }

    /// The class of the error.
    pub fn kind(&self) -> ErrorKind {
        match &self.0.problem {
            Problem::Malformed(_) | Problem::WireType { .. } => ErrorKind::Malformed,
            Problem::NotCanonical => ErrorKind::NotCanonical,
            Problem::TooLarge { .. } => ErrorKind::TooLarge,
            Problem::TooDeep => ErrorKind::TooDeep,
            Problem::UnknownKind { .. } => ErrorKind::UnknownKind,
            Problem::NotAList { .. } => ErrorKind::NotAList,
            Problem::Json(_) | Problem::Mismatch(_) | Problem::Rejected => ErrorKind::Type,
        }
    }

    /// The path to the offending field, such as `spec.containers[0].ports`. Empty for the object itself.
    pub fn path(&self) -> String {
        let mut path = String::new();
        for step in self.0.path.iter().rev() {
            match step {
                Step::Field(name) => {
                    if !path.is_empty() {
                        path.push('.');
                    }
                    path.push_str(name);
                }
                Step::Key(key) => {
                    path.push('[');
                    path.push_str(key);
                    path.push(']');
                }
                Step::Index(index) => {
                    path.push_str("[#");
                    path.push_str(&index.to_string());
                    path.push(']');
                }
            }
        }
        path
    }
}

impl Error {
    /// Whether only a type that depends on the encoding, such as raw JSON, has this error.
    pub(crate) fn depends_on_encoding(&self) -> bool {
        matches!(&self.0.problem, Problem::Mismatch(text) if text.contains(NEWTYPE))
    }

    /// The text for an object that was JSON, with the path in its notation. Paths are shortened: their keys are untrusted.
    pub(crate) fn as_of_json(&self) -> String {
        const MAX_PATH: usize = 256;
        let mut path = String::new();
        for step in self.0.path.iter().rev() {
            path.push_str(&match step {
                Step::Field(name) => format!(".{name}"),
                Step::Key(key) if key.contains(|c: char| c == '.' || c == '[' || c.is_whitespace()) => {
                    format!("[\"{}\"]", key.escape_debug())
                }
                Step::Key(key) => format!(".{}", key.escape_debug()),
                Step::Index(index) => format!("[{index}]"),
            });
        }
        let path: String = path.trim_start_matches('.').chars().take(MAX_PATH).collect();
        match path.is_empty() {
            true => self.0.problem.to_string(),
            false => format!("{path}: {}", self.0.problem),
        }
    }
}

/// A name from outside, short enough for a message.
fn short(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.0.path.is_empty() {
            write!(f, "{}: ", self.path())?;
        }
        self.0.problem.fmt(f)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Malformed(what) => write!(f, "malformed protobuf: {what}"),
            Problem::NotCanonical => f.write_str("the fields of the message are not in canonical order"),
            Problem::WireType { expected } => write!(f, "unexpected wire type, expected {expected}"),
            Problem::TooLarge { limit } => write!(f, "larger than the limit of {limit} bytes"),
            Problem::TooDeep => f.write_str("nested too deeply"),
            Problem::UnknownKind { api_version, kind } => {
                write!(f, "no protobuf schema for {kind:?} in {api_version:?}")
            }
            Problem::NotAList { kind } => write!(f, "expected a list, found {kind:?}"),
            Problem::Json(serde_json::error::Category::Data) => {
                f.write_str("the embedded JSON is not of the expected type")
            }
            Problem::Json(_) => f.write_str("the embedded JSON is invalid"),
            Problem::Mismatch(text) => f.write_str(text),
            Problem::Rejected => f.write_str("rejected by the type"),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({self})")
    }
}

impl std::error::Error for Error {}

const NEWTYPE: &str = "a newtype struct";

/// What was found, without its value.
fn class(found: &Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) => "an integer",
        Unexpected::Float(_) => "a floating point number",
        Unexpected::Char(_) | Unexpected::Str(_) => "a string",
        Unexpected::Bytes(_) => "bytes",
        Unexpected::Unit | Unexpected::Option => "null",
        Unexpected::NewtypeStruct => NEWTYPE,
        Unexpected::Seq => "an array",
        Unexpected::Map => "an object",
        _ => "something else",
    }
}

fn one_of(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => format!("one of `{}`", names.join("`, `")),
    }
}

impl de::Error for Error {
    // The text may quote the value: drop it.
    #[cold]
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::new(Problem::Rejected)
    }

    #[cold]
    fn invalid_type(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::mismatch(format!("invalid type: {}, expected {expected}", class(&found)))
    }

    #[cold]
    fn invalid_value(found: Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Self::mismatch(format!("invalid value: {}, expected {expected}", class(&found)))
    }

    #[cold]
    fn invalid_length(_: usize, expected: &dyn de::Expected) -> Self {
        Self::mismatch(format!("invalid length, expected {expected}"))
    }

    #[cold]
    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::mismatch(format!("unknown variant, expected {}", one_of(expected)))
    }

    #[cold]
    fn unknown_field(_: &str, expected: &'static [&'static str]) -> Self {
        Self::mismatch(format!("unknown field, expected {}", one_of(expected)))
    }

    #[cold]
    fn missing_field(field: &'static str) -> Self {
        Self::mismatch(format!("missing field `{field}`"))
    }

    #[cold]
    fn duplicate_field(field: &'static str) -> Self {
        Self::mismatch(format!("duplicate field `{field}`"))
    }
}

impl From<serde_json::Error> for Error {
    #[cold]
    fn from(error: serde_json::Error) -> Self {
        Self::new(Problem::Json(error.classify()))
    }
}
