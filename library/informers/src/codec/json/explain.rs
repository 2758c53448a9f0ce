//! Explains why bytes could not be decoded as a type, without quoting them.
//!
//! serde's messages quote the offending value, which may be a Secret. A failed decode is therefore repeated by
//! `kube-protobuf`, whose error type holds the class of the error, its path and the expected type, and cannot hold a value.

use serde::de::DeserializeOwned;
use serde_json::error::Category;

/// Explains the error of decoding `bytes` as `T`: the path, the class of the error and the expected type, and
/// never a value.
pub(crate) fn explain<T: DeserializeOwned>(bytes: &[u8], error: &serde_json::Error) -> String {
    let near = if error.line() == 1 {
        format!(" near byte {}", error.column())
    } else {
        String::new()
    };
    match error.classify() {
        Category::Io => "cannot be decoded".to_owned(),
        Category::Eof => format!("invalid JSON{near}: unexpected end"),
        Category::Syntax => format!("invalid JSON{near}: {}", syntax(error)),
        Category::Data => {
            let value = serde_json::from_slice(bytes).ok();
            let explained = value.and_then(kube_protobuf::explain_json::<T>);
            explained.unwrap_or_else(|| format!("{}{near}", class(error)))
        }
    }
}

/// The message of a syntax error, which quotes no input. The position at its end is reported separately.
fn syntax(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) => text.get(..end).unwrap_or_default().to_owned(),
        None => text,
    }
}

/// The class of an error that the second pass does not reproduce: a duplicate member, or a type that depends on its
/// deserializer.
fn class(error: &serde_json::Error) -> &'static str {
    const CLASSES: [&str; 7] = [
        "invalid type",
        "invalid value",
        "invalid length",
        "unknown variant",
        "unknown field",
        "missing field",
        "duplicate field",
    ];
    let text = error.to_string();
    CLASSES
        .into_iter()
        .find(|class| text.starts_with(class))
        .unwrap_or("rejected by the type")
}
