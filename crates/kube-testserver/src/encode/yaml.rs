//! JSON as YAML, in the style of the library that a real server uses: sorted keys, lists at the column of their key, texts without quotes
//! where possible, long ones folded.

mod order;

use std::fmt::Write;

use serde_json::{Map, Value};

/// A text is folded at the first space behind this column.
const WIDTH: usize = 80;

/// The document, with a newline at the end.
pub(crate) fn to_string(value: &Value) -> String {
    let mut writer = Writer { out: String::new() };
    writer.node(value, 0, Place::Inline);
    writer.out.push('\n');
    writer.out
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// On the present line: the document, or an item behind its dash.
    Inline,
    /// Behind a key. Maps and lists begin on the next line.
    Value,
}

struct Writer {
    out: String,
}

impl Writer {
    /// Writes a value; lines of it that follow begin at `indent`.
    fn node(&mut self, value: &Value, indent: usize, place: Place) {
        match value {
            Value::Object(fields) if !fields.is_empty() => self.map(fields, indent, place),
            Value::Array(items) if !items.is_empty() => {
                for (position, item) in items.iter().enumerate() {
                    if position > 0 || place == Place::Value {
                        self.line(indent);
                    }
                    self.out.push_str("- ");
                    self.node(item, indent + 2, Place::Inline);
                }
            }
            scalar => {
                if place == Place::Value {
                    self.out.push(' ');
                }
                match scalar {
                    Value::String(text) => self.text(text, indent, true),
                    // Numbers, truth values, null, and empty maps and lists are the same in JSON.
                    other => self.out.push_str(&other.to_string()),
                }
            }
        }
    }

    fn map(&mut self, fields: &Map<String, Value>, indent: usize, place: Place) {
        let fields = fields.iter().map(|(key, value)| (key.clone(), value));
        for (position, (key, value)) in order::sorted(fields).into_iter().enumerate() {
            if position > 0 || place == Place::Value {
                self.line(indent);
            }
            self.text(&key, indent, false);
            self.out.push(':');
            let indent = if value.is_array() { indent } else { indent + 2 };
            self.node(value, indent, Place::Value);
        }
    }

    fn line(&mut self, indent: usize) {
        self.out.push('\n');
        self.out.extend(std::iter::repeat_n(' ', indent));
    }

    fn column(&self) -> usize {
        let line = self.out.rsplit('\n').next().unwrap_or_default();
        line.chars().count()
    }

    /// A text; keys are not folded.
    fn text(&mut self, text: &str, indent: usize, fold: bool) {
        let special = text.chars().any(|c| c != '\n' && !is_printable(c)) || text.contains(" \n");
        if text.contains('\n') {
            if fold && !special && !text.ends_with(' ') {
                return self.literal(text, indent);
            }
            return self.double_quoted(text, indent, fold);
        }
        if is_other_type(text) || special {
            self.double_quoted(text, indent, fold);
        } else if is_plain(text) {
            self.folded(text, indent, fold, |c| (c, None));
        } else {
            self.out.push('\'');
            self.folded(text, indent, fold, |c| (c, (c == '\'').then_some(c)));
            self.out.push('\'');
        }
    }

    /// Writes each character, and the one that follows from it, if any. Breaks long lines at single spaces.
    fn folded(
        &mut self,
        text: &str,
        indent: usize,
        fold: bool,
        escape: impl Fn(char) -> (char, Option<char>),
    ) {
        let mut before = ' ';
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let next = rest.peek();
            let single = c == ' ' && before != ' ' && next.is_some_and(|&next| next != ' ');
            if fold && single && self.column() > WIDTH {
                self.line(indent);
            } else {
                let (c, more) = escape(c);
                self.out.push(c);
                self.out.extend(more);
            }
            before = c;
        }
    }

    /// Lines as they are.
    fn literal(&mut self, text: &str, indent: usize) {
        self.out.push('|');
        if text.starts_with([' ', '\n']) {
            self.out.push('2');
        }
        let body = text.trim_end_matches('\n');
        let ends = text.len() - body.len();
        match ends {
            0 => self.out.push('-'),
            1 => {}
            _ => self.out.push('+'),
        }
        for line in body.split('\n') {
            self.line(if line.is_empty() { 0 } else { indent });
            self.out.push_str(line);
        }
        self.out.extend(std::iter::repeat_n('\n', ends.saturating_sub(1)));
    }

    fn double_quoted(&mut self, text: &str, indent: usize, fold: bool) {
        self.out.push('"');
        let mut before = ' ';
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let next = rest.peek();
            if fold && c == ' ' && before != ' ' && next.is_some() && self.column() > WIDTH {
                self.line(indent);
                if next == Some(&' ') {
                    self.out.push('\\');
                }
            } else if is_printable(c) && !matches!(c, '"' | '\\') {
                self.out.push(c);
            } else {
                self.escape(c);
            }
            before = c;
        }
        self.out.push('"');
    }

    fn escape(&mut self, c: char) {
        const SHORT: &[(char, char)] = &[
            ('\0', '0'),
            ('\u{7}', 'a'),
            ('\u{8}', 'b'),
            ('\t', 't'),
            ('\n', 'n'),
            ('\u{b}', 'v'),
            ('\u{c}', 'f'),
            ('\r', 'r'),
            ('\u{1b}', 'e'),
            ('"', '"'),
            ('\\', '\\'),
            ('\u{85}', 'N'),
            ('\u{a0}', '_'),
            ('\u{2028}', 'L'),
            ('\u{2029}', 'P'),
        ];
        let code = u32::from(c);
        // Writing to a `String` cannot fail.
        let _ = match SHORT.iter().find(|(long, _)| *long == c) {
            Some((_, short)) => write!(self.out, "\\{short}"),
            None if code <= 0xff => write!(self.out, "\\x{code:02X}"),
            None if code <= 0xffff => write!(self.out, "\\u{code:04X}"),
            None => write!(self.out, "\\U{code:08X}"),
        };
    }
}

/// Whether a character needs no escape, for any but a line break.
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
        && !matches!(c, '\u{feff}' | '\u{2028}' | '\u{2029}')
}

/// Whether a text of one line needs no quotes to be read as one text.
fn is_plain(text: &str) -> bool {
    const INDICATORS: &str = "#,[]{}&*!|>'\"%@`";
    let blank = |c: Option<&char>| c.is_none_or(|c| matches!(c, ' ' | '\t'));
    let characters: Vec<char> = text.chars().collect();
    let Some(first) = characters.first() else {
        return false;
    };
    let starts = INDICATORS.contains(*first) || matches!(first, '?' | '-') && blank(characters.get(1));
    let inside = characters.iter().enumerate().any(|(at, c)| match c {
        ':' => blank(characters.get(at + 1)),
        '#' => at > 0 && blank(characters.get(at - 1)),
        _ => false,
    });
    let edges = text.starts_with(' ') || text.ends_with(' ');
    let marks = text.starts_with("---") || text.starts_with("...");
    !(starts || inside || edges || marks)
}

/// Whether a text without quotes would be read as null, a truth value, a number or a time.
fn is_other_type(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "", "~", "<<", "null", "true", "false", "y", "yes", "on", "n", "no", "off", ".nan", ".inf", "+.inf",
        "-.inf",
    ];
    let mut capitalized = text.to_lowercase();
    if let Some(first) = text.get(..1) {
        capitalized.replace_range(..1, first);
    }
    let cased = text == text.to_lowercase() || text == text.to_uppercase() || text == capitalized;
    WORDS.contains(&text.to_lowercase().as_str()) && cased || is_number(text) || is_time(text)
}

fn is_number(text: &str) -> bool {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return false;
    }
    let plain = text.replace('_', "");
    let unsigned = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let digits = |prefix: &str, base: u32| {
        let digits = unsigned.strip_prefix(prefix);
        digits.is_some_and(|digits| u64::from_str_radix(digits, base).is_ok())
    };
    let decimal = |text: &str| {
        let (number, exponent) = match text.split_once(['e', 'E']) {
            Some((number, exponent)) => (number, exponent.strip_prefix(['+', '-']).unwrap_or(exponent)),
            None => (text, "0"),
        };
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let all = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let some = !whole.is_empty() || !fraction.is_empty();
        all(whole) && all(fraction) && some && all(exponent) && !exponent.is_empty()
    };
    // Numbers to the base of sixty, which older parsers read.
    let mut parts = text.strip_prefix(['+', '-']).unwrap_or(text).split(':');
    let sixty = parts.next().is_some_and(|first| {
        first.starts_with(|c: char| c.is_ascii_digit()) && decimal(&first.replace('_', ""))
    }) && text.contains(':')
        && parts.all(|part| {
            let whole = part.split('.').next().unwrap_or_default();
            matches!(whole.len(), 1 | 2) && whole.parse::<u8>().is_ok_and(|number| number < 60)
        });
    decimal(unsigned) || digits("0x", 16) || digits("0b", 2) || digits("0o", 8) || sixty
}

/// A date, with or without a time.
fn is_time(text: &str) -> bool {
    let number = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let (date, time) = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let date: Vec<&str> = date.split('-').collect();
    let is_date = matches!(date.as_slice(), [year, month, day]
        if year.len() == 4 && number(year, 4) && number(month, 2) && number(day, 2));
    let is_clock = |time: &str| {
        let time = time.trim_end_matches('Z');
        let time = time.split(['+', '-', '.']).next().unwrap_or_default();
        time.split(':').count() == 3 && time.split(':').all(|part| number(part, 2))
    };
    is_date && time.is_none_or(is_clock)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_are_written_as_by_a_real_server() {
        let pod = json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": { "name": "a", "creationTimestamp": "2026-11-17T15:52:00Z", "labels": {}, "finalizers": [] },
            "spec": { "containers": [{ "name": "main", "args": ["-x", "true", "1.5", ""], "stdin": true }], "on": null },
        });
        assert_eq!(
            to_string(&pod),
            "apiVersion: v1\nkind: Pod\nmetadata:\n  creationTimestamp: \"2026-11-17T15:52:00Z\"\n  finalizers: []\n  \
             labels: {}\n  name: a\nspec:\n  containers:\n  - args:\n    - -x\n    - \"true\"\n    - \"1.5\"\n    - \"\"\n    \
             name: main\n    stdin: true\n  \"on\": null\n"
        );
        assert_eq!(to_string(&json!([["a"], [{ "b": 1 }]])), "- - a\n- - b: 1\n");
    }

    #[test]
    fn texts_are_quoted_only_where_they_must_be() {
        let cases = [
            ("plain text, with [brackets]", "plain text, with [brackets]"),
            ("a: b", "'a: b'"),
            ("it's", "it's"),
            ("'quoted'", "'''quoted'''"),
            ("#x", "'#x'"),
            ("a #x", "'a #x'"),
            ("a#x", "a#x"),
            ("- x", "'- x'"),
            (" x", "' x'"),
            ("No", "\"No\""),
            ("nO", "nO"),
            ("0x1F", "\"0x1F\""),
            ("1_000", "\"1_000\""),
            ("1:30", "\"1:30\""),
            ("10.0.0.1", "10.0.0.1"),
            ("v1", "v1"),
            ("2026-11-17", "\"2026-11-17\""),
            ("a\tb", "\"a\\tb\""),
            ("a\nb", "|-\n  a\n  b"),
            ("a\nb\n", "|\n  a\n  b"),
            ("a\n\nb\n\n", "|+\n  a\n\n  b\n"),
            (" a\nb", "|2-\n   a\n  b"),
        ];
        for (text, expected) in cases {
            assert_eq!(
                to_string(&json!({ "k": text })),
                format!("k: {expected}\n"),
                "{text:?}"
            );
        }
    }

    #[test]
    fn long_texts_are_folded_at_the_first_space_behind_the_width() {
        let words = "word ".repeat(30);
        let text = to_string(&json!({ "k": words.trim_end() }));
        let lines: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(lines, [82, 71]);
        assert!(text.lines().nth(1).unwrap().starts_with("  word"));
    }
}
