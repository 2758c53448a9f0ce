//! Reads a `Status` object. One member of an unexpected type does not hide the others.

use serde_json::Value;

use crate::wire::{ApiError, StatusCause, retry_after};

const MAX_MESSAGE: usize = 500;
const MAX_TEXT: usize = 200;
const MAX_CAUSES: usize = 16;

/// The error that a `Status` describes; `None` if the value is not an object.
pub(super) fn status(status: &Value) -> Option<ApiError> {
    let status = Some(status).filter(|status| status.is_object())?;
    let text = |value: &Value, name: &str, length| {
        let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
        one_line(text, length)
    };
    let details = status.get("details").unwrap_or(&Value::Null);
    let causes = details.get("causes").and_then(Value::as_array);
    let token = status.pointer("/metadata/continue").and_then(Value::as_str);
    let code = status.get("code").and_then(Value::as_u64);
    Some(ApiError {
        code: code.and_then(|code| code.try_into().ok()).unwrap_or(0),
        reason: text(status, "reason", MAX_TEXT),
        message: text(status, "message", MAX_MESSAGE),
        retry_after: details
            .get("retryAfterSeconds")
            .and_then(Value::as_u64)
            .and_then(retry_after),
        causes: causes
            .into_iter()
            .flatten()
            .take(MAX_CAUSES)
            .map(|cause| StatusCause {
                reason: text(cause, "reason", MAX_TEXT),
                message: text(cause, "message", MAX_TEXT),
            })
            .collect(),
        continue_token: token.filter(|token| !token.is_empty()).map(str::to_owned),
    })
}

/// The beginning of a text, on one line.
pub(super) fn one_line(text: &str, length: usize) -> String {
    let mut line = String::new();
    for (count, word) in text.split_whitespace().enumerate() {
        if count > 0 {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > 4 * length {
            break;
        }
    }
    if let Some((end, _)) = line.char_indices().nth(length) {
        line.truncate(end);
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(json: &str) -> Option<ApiError> {
        super::status(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn an_out_of_range_code_is_ignored() {
        assert_eq!(status(r#"{"code":429}"#).unwrap().code, 429);
        assert_eq!(status(r#"{"code":70000,"reason":"Expired"}"#).unwrap().code, 0);
        assert_eq!(status(r#""Expired""#), None);
    }

    #[test]
    fn an_expired_list_names_the_token_to_continue_with() {
        let token = |json: &str| status(json).unwrap().continue_token;

        assert_eq!(
            token(r#"{"code":410,"metadata":{"continue":"abc"}}"#).as_deref(),
            Some("abc")
        );
        assert_eq!(token(r#"{"code":410,"metadata":{"continue":""}}"#), None);
    }

    #[test]
    fn a_member_of_the_wrong_type_does_not_hide_the_others() {
        let error = status(r#"{"reason":"Expired","message":5,"details":"none","code":"410"}"#).unwrap();

        assert_eq!((error.reason.as_str(), error.message.as_str()), ("Expired", ""));
        assert!(error.is_expired());
    }
}
