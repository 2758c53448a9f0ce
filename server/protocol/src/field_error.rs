//! Validation errors for single fields, in the wording of an API server.
//!
//! Formats the text and the machine-readable cause of an `Invalid` status. Independent of HTTP and of kinds.

use std::fmt;

use serde_json::{Value, json};

/// The kind of error. The names are those of `details.causes[].reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorKind {
    /// The field must have a value.
    Required,
    /// The value breaks a rule.
    Invalid,
    /// The value is of the wrong JSON type.
    TypeInvalid,
    /// The value is not one of the allowed ones.
    NotSupported,
    /// The value occurs twice where it may occur once.
    Duplicate,
    /// The value refers to something that does not exist.
    NotFound,
    /// The value may not be set here.
    Forbidden,
    /// The value is longer than allowed.
    TooLong,
    /// There are more items than allowed.
    TooMany,
}

impl FieldErrorKind {
    /// The value of `details.causes[].reason`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Required => "FieldValueRequired",
            Self::Invalid => "FieldValueInvalid",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Duplicate => "FieldValueDuplicate",
            Self::NotFound => "FieldValueNotFound",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::NotFound => "Not found",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(self, Self::Required | Self::Forbidden | Self::TooLong)
    }
}

/// An error of one field.
#[doc(alias = "field.Error")]
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// The path of the field, such as `spec.names.plural` or `spec.versions[0].name`.
    pub field: String,
    /// The kind of error.
    pub kind: FieldErrorKind,
    /// The rejected value; shown in the message for most kinds.
    pub value: Value,
    /// The human-readable reason.
    pub detail: String,
    /// Whether the message leaves the value out, although errors of this kind show it.
    pub omits_value: bool,
    /// The value as the message shows it, if not as JSON.
    pub shown_value: Option<String>,
}

impl FieldError {
    fn new(field: impl Into<String>, kind: FieldErrorKind, value: Value, detail: impl Into<String>) -> Self {
        Self {
            field: field.into(),
            kind,
            value,
            detail: detail.into(),
            omits_value: false,
            shown_value: None,
        }
    }

    /// The same error with another text for its value.
    #[must_use]
    pub fn showing(mut self, text: String) -> Self {
        self.shown_value = Some(text);
        self
    }

    /// The same error without the value in its message.
    #[must_use]
    pub fn without_value(mut self) -> Self {
        self.omits_value = true;
        self
    }

    /// The field has no value but needs one.
    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Required, Value::Null, detail)
    }

    /// The value breaks a rule, which `detail` states.
    pub fn invalid(field: impl Into<String>, value: impl Into<Value>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Invalid, value.into(), detail)
    }

    /// The value has the wrong JSON type.
    pub fn type_invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(field, FieldErrorKind::TypeInvalid, value.into(), detail)
    }

    /// The value is not one of `supported`.
    pub fn not_supported(field: impl Into<String>, value: impl Into<Value>, supported: &[&str]) -> Self {
        let quoted: Vec<String> = supported.iter().map(|text| quote(text)).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        Self::new(field, FieldErrorKind::NotSupported, value.into(), detail)
    }

    /// The value occurs twice.
    pub fn duplicate(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, FieldErrorKind::Duplicate, value.into(), "")
    }

    /// The value refers to something that does not exist.
    pub fn not_found(field: impl Into<String>, value: impl Into<Value>) -> Self {
        Self::new(field, FieldErrorKind::NotFound, value.into(), "")
    }

    /// The field may not be set here.
    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> Self {
        Self::new(field, FieldErrorKind::Forbidden, Value::Null, detail)
    }

    /// The value is longer than `max` bytes. The value itself is not kept.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self::new(
            field,
            FieldErrorKind::TooLong,
            Value::Null,
            format!("may not be more than {max} bytes"),
        )
    }

    /// There are `count` items where `max` are allowed.
    pub fn too_many(field: impl Into<String>, count: usize, max: usize) -> Self {
        Self::new(
            field,
            FieldErrorKind::TooMany,
            json!(count),
            format!("must have at most {max} items"),
        )
    }

    /// The message without the field's path: `Invalid value: "x": detail`.
    pub fn body(&self) -> String {
        let mut text = self.kind.words().to_owned();
        if self.kind.shows_value() && !self.omits_value {
            text.push_str(": ");
            match (&self.shown_value, &self.value) {
                (Some(shown), _) => text.push_str(shown),
                (None, Value::String(string)) => text.push_str(&quote(string)),
                (None, other) => text.push_str(&other.to_string()),
            }
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }

    /// The entry for `details.causes` of a status object.
    pub fn cause(&self) -> Value {
        json!({ "reason": self.kind.reason(), "message": self.body(), "field": self.field })
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body())
    }
}

impl std::error::Error for FieldError {}

/// Several errors as one text: in brackets if there is more than one, without duplicates.
#[doc(alias = "ToAggregate")]
pub fn aggregate(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.len() {
        1 => texts.remove(0),
        _ => format!("[{}]", texts.join(", ")),
    }
}

/// A string in double quotes with Go's escapes, as in the server's messages.
pub fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\u{7}' => quoted.push_str("\\a"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            control if u32::from(control) < 0x20 || control == '\u{7f}' => {
                quoted.push_str(&format!("\\x{:02x}", u32::from(control)));
            }
            plain if is_printable(plain) => quoted.push(plain),
            short if u32::from(short) <= 0xffff => quoted.push_str(&format!("\\u{:04x}", u32::from(short))),
            long => quoted.push_str(&format!("\\U{:08x}", u32::from(long))),
        }
    }
    quoted.push('"');
    quoted
}

/// Whether Go prints a character as it is: one that is not a control or format character, and no space but the common one.
#[doc(alias = "IsPrint")]
fn is_printable(character: char) -> bool {
    // Rust has the same rule for all characters of a text but the first one, where it escapes marks, too.
    character.is_ascii() || format!("a{character}").escape_debug().count() == 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_match_a_real_server() {
        let invalid = FieldError::invalid("metadata.name", "A b", "must be lower case");
        assert_eq!(
            invalid.to_string(),
            "metadata.name: Invalid value: \"A b\": must be lower case"
        );

        let required = FieldError::required("spec.group", "");
        assert_eq!(required.to_string(), "spec.group: Required value");

        let unsupported = FieldError::not_supported("spec.scope", "Moon", &["Cluster", "Namespaced"]);
        assert_eq!(
            unsupported.to_string(),
            "spec.scope: Unsupported value: \"Moon\": supported values: \"Cluster\", \"Namespaced\""
        );
        assert_eq!(unsupported.cause()["reason"], "FieldValueNotSupported");
    }

    #[test]
    fn several_errors_are_bracketed_and_deduplicated() {
        let one = FieldError::required("a", "");
        let two = FieldError::required("b", "");

        assert_eq!(aggregate(std::slice::from_ref(&one)), "a: Required value");
        assert_eq!(
            aggregate(&[one.clone(), one, two]),
            "[a: Required value, b: Required value]"
        );
    }

    #[test]
    fn quoting_escapes_control_characters_as_go_does() {
        assert_eq!(quote("a\"\\\n\u{1}\u{80}ü"), "\"a\\\"\\\\\\n\\x01\\u0080ü\"");
    }

    #[test]
    fn characters_that_go_does_not_print_are_escaped() {
        for (text, expected) in [
            ("a\u{a0}b", "\"a\\u00a0b\""),
            ("\u{ad}", "\"\\u00ad\""),
            ("\u{85}\u{2028}\u{feff}", "\"\\u0085\\u2028\\ufeff\""),
            ("\u{e0001}", "\"\\U000e0001\""),
            ("e\u{301} größer 😀 \u{fffd}", "\"e\u{301} größer 😀 \u{fffd}\""),
            ("\u{7f}'", "\"\\x7f'\""),
        ] {
            assert_eq!(quote(text), expected);
        }
    }
}
