//! The syntax of label selectors.

use std::collections::BTreeSet;

use super::{Requirement, Test};

/// Where parsing failed, and why.
pub(super) type Failed = (usize, String);

pub(super) struct Parser<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(super) fn selector(&mut self) -> Result<Vec<Requirement>, Failed> {
        let mut requirements = Vec::new();
        if self.peek().is_none() {
            return Ok(requirements);
        }
        loop {
            requirements.push(self.requirement()?);
            match self.peek() {
                None => return Ok(requirements),
                Some(',') => self.at += 1,
                Some(_) => return self.fail("expected `,` or the end"),
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, Failed> {
        let absent = self.take("!");
        let start = self.skip_space();
        let key = self.word();
        check_key(key).map_err(|problem| (start, problem))?;
        let test = if absent { Test::Absent } else { self.test()? };
        Ok(Requirement {
            key: key.to_owned(),
            test,
        })
    }

    fn test(&mut self) -> Result<Test, Failed> {
        if matches!(self.peek(), None | Some(',')) {
            return Ok(Test::Present);
        }
        if self.take("!=") {
            return Ok(Test::NotIn([self.value()?].into()));
        }
        if self.take("==") || self.take("=") {
            return Ok(Test::In([self.value()?].into()));
        }
        if self.take(">") {
            return Ok(Test::Above(self.number()?));
        }
        if self.take("<") {
            return Ok(Test::Below(self.number()?));
        }
        let start = self.skip_space();
        match self.word() {
            "in" => Ok(Test::In(self.set()?)),
            "notin" => Ok(Test::NotIn(self.set()?)),
            _ => {
                self.at = start;
                self.fail("expected one of `=`, `!=`, `in`, `notin`, `<`, `>` or `,`")
            }
        }
    }

    fn value(&mut self) -> Result<String, Failed> {
        let start = self.skip_space();
        let value = self.word();
        check_value(value).map_err(|problem| (start, problem))?;
        Ok(value.to_owned())
    }

    fn number(&mut self) -> Result<i64, Failed> {
        let start = self.skip_space();
        self.value()?
            .parse()
            .map_err(|_| (start, "expected a whole number".to_owned()))
    }

    fn set(&mut self) -> Result<BTreeSet<String>, Failed> {
        if !self.take("(") {
            return self.fail("expected `(`");
        }
        if self.peek() == Some(')') {
            return self.fail("expected at least one value");
        }
        let mut values = BTreeSet::new();
        loop {
            values.insert(self.value()?);
            if self.take(")") {
                return Ok(values);
            }
            if !self.take(",") {
                return self.fail("expected `,` or `)`");
            }
        }
    }

    /// The text up to a space or an operator.
    fn word(&mut self) -> &'a str {
        let start = self.skip_space();
        let rest = self.rest();
        let length = rest
            .find(|c: char| c.is_whitespace() || "=!(),<>".contains(c))
            .unwrap_or(rest.len());
        self.at += length;
        self.text.get(start..self.at).unwrap_or_default()
    }

    fn take(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        self.at += if found { token.len() } else { 0 };
        found
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest().chars().next()
    }

    fn skip_space(&mut self) -> usize {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        self.at
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn fail<T>(&self, problem: &str) -> Result<T, Failed> {
        Err((self.at, problem.to_owned()))
    }
}

/// A label key: a name, with an optional prefix of a DNS name and a slash.
pub(super) fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = match key.split_once('/') {
        None => (None, key),
        Some((prefix, name)) => (Some(prefix), name),
    };
    if key.is_empty() {
        return Err("expected a label key".to_owned());
    }
    let is_subdomain = |prefix: &str| {
        prefix.len() <= 253
            && prefix.split('.').all(|part| {
                !part.is_empty()
                    && !part.starts_with('-')
                    && !part.ends_with('-')
                    && part
                        .bytes()
                        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
            })
    };
    if !prefix.is_none_or(is_subdomain) || name.is_empty() || !is_label_text(name) {
        return Err(format!("{key:?} is not a label key"));
    }
    Ok(())
}

pub(super) fn check_value(value: &str) -> Result<(), String> {
    match value.is_empty() || is_label_text(value) {
        true => Ok(()),
        false => Err(format!("{value:?} is not a label value")),
    }
}

/// At most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_label_text(text: &str) -> bool {
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 63
        && is_edge(text.bytes().next())
        && is_edge(text.bytes().next_back())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}
