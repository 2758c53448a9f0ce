//! How a command ends: with an exit code, or with a failure in kubectl's wording.

use std::fmt;
use std::io;

use crate::text::safe::SafeText;

/// The exit code of a condition that did not hold in time, as that of timeout(1).
const TIMED_OUT: u8 = 124;

/// The result of a successful command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Exit code 0.
    Success,
    /// It was interrupted; the exit code, for example 130 after Ctrl-C.
    Code(u8),
}

impl Exit {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Code(code) => code,
        }
    }
}

/// Why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    text: SafeText,
    code: u8,
}

impl Failure {
    /// `error: TEXT`, code 1.
    pub fn error(text: impl fmt::Display) -> Self {
        Self::verbatim(format!("error: {text}"))
    }

    /// The text without a prefix, code 1: for messages that kubectl prints that way.
    pub fn verbatim(text: impl Into<String>) -> Self {
        Self {
            // Messages quote servers and objects, which must not control the terminal.
            text: SafeText::lines(mask_credentials(&text.into())),
            code: 1,
        }
    }

    /// A condition did not hold in time: `error: TEXT`, with the code of timeout(1).
    pub fn timed_out(text: impl fmt::Display) -> Self {
        Self {
            code: TIMED_OUT,
            ..Self::error(text)
        }
    }

    /// The reader of the output is gone: exits silently.
    pub fn nobody_reads() -> Self {
        Self {
            text: SafeText::default(),
            code: 0,
        }
    }

    /// The text for standard error; empty for a silent exit.
    pub fn text(&self) -> &str {
        self.text.as_str()
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text.as_str())
    }
}

impl std::error::Error for Failure {}

/// For write errors: a closed pipe is a normal exit.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::nobody_reads(),
            _ => Self::error(format!("cannot write: {error}")),
        }
    }
}

/// The text with the user and password of every URL replaced: `https://user:secret@host` as `https://***@host`.
pub fn mask_credentials(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        masked.push_str(before);
        masked.push_str("://");
        let end = after
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | ')' | '>'))
            .unwrap_or(after.len());
        let (authority, tail) = after.split_at(end);
        match authority.rsplit_once('@') {
            Some((_, host)) => {
                masked.push_str("***@");
                masked.push_str(host);
            }
            None => masked.push_str(authority),
        }
        rest = tail;
    }
    masked.push_str(rest);
    masked
}

/// An error and its causes in one line, without repetitions.
pub fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_in_urls_are_masked() {
        for (text, masked) in [
            (
                "to https://jane:s3cret@host:6443/path",
                "to https://***@host:6443/path",
            ),
            (
                "proxy \"http://a:b@c@proxy\": refused",
                "proxy \"http://***@proxy\": refused",
            ),
            ("https://host and mail a@b", "https://host and mail a@b"),
            ("http://x:y@h, socks5://u:p@q", "http://***@h, socks5://***@q"),
        ] {
            assert_eq!(mask_credentials(text), masked);
            assert_eq!(Failure::verbatim(text).to_string(), masked);
        }
    }

    #[test]
    fn a_failure_never_controls_the_terminal() {
        let text = "first\nsecond \u{1b}]52;c;aGk=\u{7} \u{9b}31m \u{202e}";
        for failure in [Failure::error(text), Failure::verbatim(text)] {
            let shown = failure.to_string();
            assert!(
                !shown.contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']),
                "{shown:?}"
            );
            assert!(shown.contains('\n'), "{shown:?}");
        }
    }
}
