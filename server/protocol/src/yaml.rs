//! JSON as YAML, in the style of the library that a real server uses: sorted keys, lists at the column of their key, texts without quotes
//! where possible, long ones folded.

mod order;
mod resolve;

use std::fmt::Write;

use serde_json::{Map, Number, Value};

use resolve::is_other_type;

/// A text is folded at the first space behind this column.
const WIDTH: usize = 80;

/// Keys of more bytes stand behind a question mark.
const LONGEST_KEY: usize = 128;

/// The document, with a newline at the end.
pub fn to_string(value: &Value) -> String {
    let mut writer = Writer { out: String::new() };
    // Lines of a text are never at the first column, where they could end the document.
    let indent = if value.is_string() { 2 } else { 0 };
    writer.node(value, indent, Place::Inline);
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
                    Value::Number(number) => self.out.push_str(&number_text(number)),
                    // Truth values, null, and empty maps and lists are the same in JSON.
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
            if key.len() > LONGEST_KEY || key.contains('\n') {
                self.out.push_str("? ");
                self.text(&key, indent + 2, true);
                self.line(indent);
                self.out.push_str(": ");
                self.node(value, indent + 2, Place::Inline);
                continue;
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
            1 if !body.is_empty() => {}
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

/// A number as Go writes it, with an exponent from a million on unless it is an integer.
#[doc(alias = "floatv")]
fn number_text(number: &Number) -> String {
    let Some(float) = number.as_f64().filter(|_| number.is_f64()) else {
        return number.to_string();
    };
    // The shortest digits that are read as this number, as `-1.25e-7`.
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // JSON has integers without an exponent, and these are read as such if they fit.
    let plain = float.to_string();
    if float.fract() == 0.0 && (plain.parse::<i64>().is_ok() || plain.parse::<u64>().is_ok()) {
        return plain.parse::<i64>().map_or(plain, |integer| integer.to_string());
    }
    if (-4..6).contains(&exponent) {
        return plain;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
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

    #[test]
    fn texts_that_look_like_numbers_are_quoted() {
        for text in [
            ".NaN",
            ".nan",
            ".NAN",
            ".Inf",
            "-.Inf",
            "+.INF",
            "-.inf",
            "0X1F",
            "0B1",
            "0O7",
            "-0x1",
            "0b-1",
            "08",
            "+1",
            ".5",
            ".5_0",
            "5.",
            "1e3",
            "1_0",
            "-1:30.5",
            "2026-1-2T3:4:5.6+01:00",
        ] {
            assert_eq!(to_string(&json!(text)), format!("\"{text}\"\n"));
        }
        for text in [
            ".NaNs",
            ".iNF",
            ".nAN",
            "nUll",
            "0x",
            "0xg",
            "1e999",
            "._5",
            "-0xffffffffffffffff",
            "e3",
            "1:60",
            "2026-13-01",
            "2026-11-17T15:52",
            "infinity",
            "+",
            ".",
        ] {
            assert_eq!(to_string(&json!(text)), format!("{text}\n"));
        }
    }

    #[test]
    fn texts_of_line_breaks_keep_them() {
        assert_eq!(to_string(&json!({ "k": "\n", "l": 1 })), "k: |2+\n\nl: 1\n");
        assert_eq!(to_string(&json!({ "k": "\n\n", "l": 1 })), "k: |2+\n\n\nl: 1\n");
    }

    #[test]
    fn long_keys_and_keys_of_several_lines_stand_behind_a_question_mark() {
        let long = "k".repeat(129);
        assert_eq!(
            to_string(&json!({ "a": { &long: { "b": 1, "c": [2] } } })),
            format!("a:\n  ? {long}\n  : b: 1\n    c:\n    - 2\n")
        );
        assert_eq!(
            to_string(&json!({ &long: [1, 2], "a\nb": "c" })),
            format!("? |-\n  a\n  b\n: c\n? {long}\n: - 1\n  - 2\n")
        );
    }

    #[test]
    fn numbers_are_written_as_by_go() {
        for (number, expected) in [
            (json!(1_234_567.5), "1.2345675e+06"),
            (json!(1e21), "1e+21"),
            (json!(1.0), "1"),
            (json!(-0.0), "0"),
            (json!(1e6), "1000000"),
            (json!(0.0001), "0.0001"),
            (json!(0.00001), "1e-05"),
            (json!(123_456.75), "123456.75"),
            (json!(-1.5e-100), "-1.5e-100"),
            (json!(u64::MAX), "18446744073709551615"),
            (json!(1e19), "10000000000000000000"),
            (json!(9.464265625e18), "9464265625000000000"),
            (json!(1e20), "1e+20"),
        ] {
            assert_eq!(to_string(&number), format!("{expected}\n"));
        }
    }

    /// Whether two values differ at most in whether an integer is held as a float.
    fn is_same(one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
            }
            (Value::Object(one), Value::Object(other)) => {
                one.len() == other.len()
                    && one
                        .iter()
                        .all(|(key, value)| other.get(key).is_some_and(|other| is_same(value, other)))
            }
            _ => one == other,
        }
    }

    fn texts() -> impl Strategy<Value = String> {
        prop_oneof![
            any::<String>(),
            "[ \n\ta:#'\"\\\\{}\\[\\],&*!|>%@`?~<.=-]{0,12}",
            "[-+.0-9_eExXbBoO:]{1,8}",
            "[-+.]?(nan|NaN|NAN|inf|Inf|INF|null|Null|yes|True|off|~|<<)",
            "([a-z]{1,12} {1,2}){5,40}",
            "[a-z\n ]{100,200}",
        ]
    }

    fn values() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(|float: f64| Value::from(float)),
            texts().prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 40, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((texts(), inner), 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_reads_back_as_itself(value in values()) {
            let text = to_string(&value);
            let read = serde_saphyr::from_str::<Value>(&text);
            prop_assert!(read.is_ok(), "{value} as {text:?}: {read:?}");
            let read = read.unwrap();
            prop_assert!(is_same(&value, &read), "{value} as {text:?} is {read}");
        }
    }
}
