//! Reads the body of an error response: a `Status` object, plain text, HTML, or nothing.

use super::encoding::ResponseEncoding;
use super::format::Format;
use super::json::{self, Json};
use super::protobuf::Protobuf;
use super::status::one_line;
use crate::wire::ApiError;

const MAX_TEXT: usize = 200;

/// The error in the body of an HTTP response. `truncated` means that the body was longer.
pub fn error_response(code: u16, content_type: &str, body: &[u8], truncated: bool) -> ApiError {
    let text = body.trim_ascii();
    // Servers and proxies send the wrong content type with errors, so an unsupported one is not an error here.
    let status = match ResponseEncoding::of_content_type(Some(content_type)) {
        Ok(ResponseEncoding::Protobuf) => Protobuf::status(body).or_else(|| Json::status(text)),
        Ok(ResponseEncoding::Json) | Err(_) => Json::status(text),
    };
    if let Some(status) = status {
        return ApiError { code, ..status };
    }
    let is_html = content_type.contains("html") || text.first() == Some(&b'<');
    let more = if truncated { "more than " } else { "" };
    let message = if is_html {
        format!(
            "({more}{} bytes of HTML: the response is not from an API server)",
            body.len()
        )
    } else if let Some(text) = json::string(text) {
        one_line(&text, MAX_TEXT)
    } else {
        match std::str::from_utf8(text) {
            Ok(text) if !text.starts_with('{') => one_line(text, MAX_TEXT),
            _ => format!("({more}{} unreadable bytes)", body.len()),
        }
    };
    ApiError::new(code, "", &message)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_status_over_several_lines_is_read_and_the_http_code_takes_precedence() {
        let body = br#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",
            "message":"storage is (re)initializing","reason":"TooManyRequests",
            "details":{"retryAfterSeconds":3,"causes":[{"reason":"r","message":"m"}]},"code":429}"#;
        let error = error_response(503, "application/json", body, false);

        assert_eq!(error.code, 503);
        assert_eq!(error.reason, "TooManyRequests");
        assert_eq!(error.message, "storage is (re)initializing");
        assert_eq!(error.retry_after, Some(Duration::from_secs(3)));
        assert_eq!(error.causes[0].reason, "r");
    }

    #[test]
    fn plain_text_is_kept_and_shortened() {
        let text = |body: &str| error_response(429, "text/plain", body.as_bytes(), false).message;

        assert_eq!(
            text("Too many requests,\n please try again later.\n"),
            "Too many requests, please try again later."
        );
        assert_eq!(text("\"a JSON string\""), "a JSON string");
        assert_eq!(text(&"ä".repeat(1000)), format!("{}…", "ä".repeat(200)));
        assert_eq!(text(""), "");
    }

    #[test]
    fn html_is_reported_and_not_quoted() {
        for (content_type, body) in [
            ("", "<html>secret</html>"),
            ("text/html; charset=utf-8", "secret"),
        ] {
            let error = error_response(502, content_type, body.as_bytes(), false);
            assert!(error.message.contains("bytes of HTML"), "{error}");
            assert!(!error.message.contains("secret"), "{error}");
        }
    }

    #[test]
    fn garbage_and_truncated_objects_are_not_quoted() {
        assert_eq!(
            error_response(500, "", b"\xff\xfe\x00", false).message,
            "(3 unreadable bytes)"
        );
        assert_eq!(
            error_response(500, "", br#"{"message":"half"#, true).message,
            "(more than 16 unreadable bytes)"
        );
    }
}
