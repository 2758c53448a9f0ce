//! How a command ends: with a code, or with a failure whose text is what kubectl would print.

use std::fmt;
use std::io;

/// How a command ended that did what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Success,
    /// It ended early for a reason outside, with this code: 130 after Ctrl-C, say.
    Code(u8),
}

impl Exit {
    /// The code for the shell.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Code(code) => code,
        }
    }
}

/// Why a command could not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    text: String,
    code: u8,
}

impl Failure {
    /// `error: TEXT`, code 1.
    pub fn error(text: impl fmt::Display) -> Self {
        Self::verbatim(format!("error: {text}"))
    }

    /// The text as it is, code 1: for sentences that kubectl prints without the prefix.
    pub fn verbatim(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: 1,
        }
    }

    /// Nobody reads what we write any more: the end, without a word.
    pub fn nobody_reads() -> Self {
        Self {
            text: String::new(),
            code: 0,
        }
    }

    /// What to print on standard error; empty for a silent end.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The code for the shell.
    pub fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// For what we write: a closed pipe is a normal end.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::nobody_reads(),
            _ => Self::error(format!("cannot write: {error}")),
        }
    }
}

/// An error and what caused it, in one line, without saying anything twice.
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
