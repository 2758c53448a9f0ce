//! Reads what a server says about a failure: a `Status` object, plain text, a page of HTML, or nothing.

use std::time::Duration;

use serde_json::Value;

use super::error::{ApiError, StatusCause};

/// The server's words are kept up to this length.
const LONGEST_MESSAGE: usize = 500;
const LONGEST_TEXT: usize = 200;
/// More than a day to wait is a mistake, and could not be added to a clock.
const LONGEST_WAIT: u64 = 24 * 60 * 60;
const MOST_CAUSES: usize = 16;

impl ApiError {
    /// The error a `Status` object speaks of. A `code` other than 0 is that of the HTTP answer and counts.
    pub(crate) fn from_status(code: u16, body: &[u8]) -> Self {
        match serde_json::from_slice(body) {
            Ok(status @ Value::Object(_)) => Self::from_value(code, &status),
            _ => Self::new(code, "", "it sent no readable Status"),
        }
    }

    /// The error an HTTP answer speaks of. `cut` says that there was more of the body.
    pub(crate) fn from_body(code: u16, content_type: &str, body: &[u8], cut: bool) -> Self {
        let text = body.trim_ascii();
        let is_html = content_type.contains("html") || text.first() == Some(&b'<');
        let more = if cut { "more than " } else { "" };
        match (serde_json::from_slice(text), std::str::from_utf8(text)) {
            (Ok(status @ Value::Object(_)), _) => Self::from_value(code, &status),
            _ if is_html => Self::new(
                code,
                "",
                &format!(
                    "({more}{} bytes of HTML: something else than the API server answered)",
                    body.len()
                ),
            ),
            (Ok(Value::String(text)), _) => Self::new(code, "", &shorten(&text, LONGEST_TEXT)),
            (_, Ok(text)) if !text.starts_with('{') => Self::new(code, "", &shorten(text, LONGEST_TEXT)),
            _ => Self::new(
                code,
                "",
                &format!("({more}{} bytes that cannot be read)", body.len()),
            ),
        }
    }

    fn from_value(code: u16, status: &Value) -> Self {
        let text = |value: &Value, name: &str, length| {
            let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
            shorten(text, length)
        };
        let details = status.get("details").unwrap_or(&Value::Null);
        let causes = details.get("causes").and_then(Value::as_array);
        let said = status.get("code").and_then(Value::as_u64);
        Self {
            code: match code {
                0 => said.and_then(|code| code.try_into().ok()).unwrap_or(0),
                code => code,
            },
            reason: text(status, "reason", LONGEST_TEXT),
            message: text(status, "message", LONGEST_MESSAGE),
            retry_after: details
                .get("retryAfterSeconds")
                .and_then(Value::as_u64)
                .and_then(wait),
            causes: causes
                .into_iter()
                .flatten()
                .take(MOST_CAUSES)
                .map(|cause| StatusCause {
                    reason: text(cause, "reason", LONGEST_TEXT),
                    message: text(cause, "message", LONGEST_TEXT),
                })
                .collect(),
        }
    }
}

/// A number of seconds to wait; 0 means that the server asks for nothing.
pub(crate) fn wait(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds.min(LONGEST_WAIT)))
}

/// The beginning of a text, on one line.
pub(crate) fn shorten(text: &str, length: usize) -> String {
    let mut short = String::new();
    for (count, word) in text.split_whitespace().enumerate() {
        if count > 0 {
            short.push(' ');
        }
        short.push_str(word);
        if short.len() > 4 * length {
            break;
        }
    }
    match short.char_indices().nth(length) {
        None => short,
        Some((end, _)) => {
            short.truncate(end);
            short.push('…');
            short
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOO_MANY: &[u8] = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
        "message":"storage is (re)initializing","reason":"TooManyRequests",
        "details":{"retryAfterSeconds":3,"causes":[{"reason":"r","message":"m"}]},"code":429}"#;

    #[test]
    fn a_status_over_many_lines_is_read() {
        let error = ApiError::from_body(429, "application/json", TOO_MANY, false);

        assert_eq!(error.code, 429);
        assert_eq!(error.reason, "TooManyRequests");
        assert_eq!(error.message, "storage is (re)initializing");
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
        assert_eq!(error.causes[0].reason, "r");
    }

    #[test]
    fn the_http_code_counts_before_that_of_the_status() {
        assert_eq!(ApiError::from_status(503, TOO_MANY).code, 503);
        assert_eq!(ApiError::from_status(0, TOO_MANY).code, 429);
        assert_eq!(
            ApiError::from_status(0, br#"{"code":70000,"reason":"Expired"}"#).code,
            0
        );
    }

    #[test]
    fn a_status_with_one_odd_member_keeps_the_others() {
        let error = ApiError::from_body(
            410,
            "",
            br#"{"reason":"Expired","message":5,"details":"none","code":"410"}"#,
            false,
        );

        assert_eq!((error.reason.as_str(), error.message.as_str()), ("Expired", ""));
        assert!(error.is_expired());
    }

    #[test]
    fn plain_text_is_kept_and_shortened() {
        let text = |body: &str| ApiError::from_body(429, "text/plain", body.as_bytes(), false).message;

        assert_eq!(
            text("Too many requests,\n please try again later.\n"),
            "Too many requests, please try again later."
        );
        assert_eq!(text(&"ä".repeat(1000)), format!("{}…", "ä".repeat(200)));
        assert_eq!(text(""), "");
    }

    #[test]
    fn html_is_named_and_not_quoted() {
        for (kind, body) in [
            ("", "<html>secret</html>"),
            ("text/html; charset=utf-8", "secret"),
        ] {
            let error = ApiError::from_body(502, kind, body.as_bytes(), false);
            assert!(error.message.contains("bytes of HTML"), "{error}");
            assert!(!error.message.contains("secret"), "{error}");
        }
    }

    #[test]
    fn garbage_and_half_a_status_are_not_quoted() {
        assert_eq!(
            ApiError::from_body(500, "", b"\xff\xfe\x00", false).message,
            "(3 bytes that cannot be read)"
        );
        assert_eq!(
            ApiError::from_body(500, "", br#"{"message":"half"#, true).message,
            "(more than 16 bytes that cannot be read)"
        );
    }

    #[test]
    fn an_absurd_wait_is_a_day() {
        assert_eq!(wait(0), None);
        assert_eq!(wait(u64::MAX), Some(Duration::from_secs(86_400)));
    }
}
