//! What Go's JSON decoder says about bytes that it cannot decode. Knows nothing of objects and requests.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::nesting::DEEPEST;

/// The type of a value, as the decoder names it.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The error of a value that does not fit the Go type it is decoded into.
pub fn mismatch(value: &Value, go_type: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type {go_type}",
        json_type(value)
    )
}

/// Why bytes cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The error of Go's decoder.
    Invalid(String),
    /// Valid, but deeper than objects can be.
    TooDeep,
}

/// Parses JSON as Go's decoder does: bytes that are not UTF-8 and halves of surrogate pairs become replacement characters.
pub fn parse(bytes: &[u8]) -> Result<Value, Unreadable> {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return Ok(value);
    }
    let depth = scan(bytes).map_err(Unreadable::Invalid)?;
    if depth > DEEPEST {
        return Err(Unreadable::TooDeep);
    }
    // Bytes that are still valid to Go only, such as numbers that are too large, keep the error of our parser.
    serde_json::from_str(&repaired(bytes)).map_err(|error| Unreadable::Invalid(error.to_string()))
}

/// Valid JSON with replacement characters in place of what Go cannot decode.
fn repaired(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    let mut rest = text.as_str();
    let mut out = String::with_capacity(text.len());
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let length = match unit(escape) {
            Some(0xd800..=0xdbff)
                if matches!(unit(escape.get(6..).unwrap_or_default()), Some(0xdc00..=0xdfff)) =>
            {
                12
            }
            Some(0xd800..=0xdfff) => {
                out.push(char::REPLACEMENT_CHARACTER);
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            Some(_) => 6,
            // The character behind the backslash is part of the escape.
            None => escape.char_indices().nth(2).map_or(escape.len(), |(end, _)| end),
        };
        let (escape, behind) = escape.split_at_checked(length).unwrap_or((escape, ""));
        out.push_str(escape);
        rest = behind;
    }
    out.push_str(rest);
    out
}

/// The number of an escape such as `\u00e4` at the start of a text.
fn unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u32::from_str_radix(digits, 16).ok()
}

/// Whether a map of valid JSON has a key twice.
pub fn has_duplicates(bytes: &[u8]) -> bool {
    serde_json::from_slice::<Distinct>(bytes).is_err_and(|error| error.is_data())
}

/// Any value whose maps have distinct keys.
struct Distinct;

impl<'de> Deserialize<'de> for Distinct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Distinct)
    }
}

impl<'de> Visitor<'de> for Distinct {
    type Value = Distinct;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_str<E>(self, _: &str) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_unit<E>(self) -> Result<Distinct, E> {
        Ok(Distinct)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Distinct, A::Error> {
        while items.next_element::<Distinct>()?.is_some() {}
        Ok(Distinct)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Distinct, A::Error> {
        let mut known = HashSet::new();
        while let Some((key, Distinct)) = entries.next_entry::<String, Distinct>()? {
            if !known.insert(key) {
                return Err(A::Error::custom("a key occurs twice"));
            }
        }
        Ok(Distinct)
    }
}

/// What may follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expect {
    Value,
    /// The first element of an array, or its end.
    ValueOrEnd,
    Key,
    /// The first key of an object, or its end.
    KeyOrEnd,
    Colon,
    /// A comma, or the end of what is open.
    More,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Open {
    Object,
    Array,
}

/// How deep JSON is nested, or why bytes are not JSON.
#[doc(alias = "checkValid")]
fn scan(bytes: &[u8]) -> Result<usize, String> {
    let mut scan = Scan { bytes, at: 0 };
    let (mut open, mut expect) = (Vec::new(), Expect::Value);
    let mut depth = 0;
    loop {
        depth = depth.max(open.len());
        scan.skip_space();
        let Some(byte) = scan.next() else {
            let complete = open.is_empty() && expect == Expect::More;
            return if complete {
                Ok(depth)
            } else {
                Err(unexpected_end())
            };
        };
        match (expect, byte) {
            (Expect::ValueOrEnd, b']') | (Expect::KeyOrEnd, b'}') => {
                open.pop();
                expect = Expect::More;
            }
            (Expect::Key | Expect::KeyOrEnd, b'"') => {
                expect = Expect::Colon;
                scan.string()?;
            }
            (Expect::Key | Expect::KeyOrEnd, _) => {
                return Err(invalid(byte, "looking for beginning of object key string"));
            }
            (Expect::Colon, b':') => {
                expect = Expect::Value;
            }
            (Expect::Colon, _) => return Err(invalid(byte, "after object key")),
            (Expect::Value | Expect::ValueOrEnd, b'{') => {
                open.push(Open::Object);
                expect = Expect::KeyOrEnd;
            }
            (Expect::Value | Expect::ValueOrEnd, b'[') => {
                open.push(Open::Array);
                expect = Expect::ValueOrEnd;
            }
            (Expect::Value | Expect::ValueOrEnd, _) => {
                expect = Expect::More;
                scan.scalar(byte)?;
            }
            (Expect::More, _) => match (open.last(), byte) {
                (Some(Open::Object), b',') => {
                    expect = Expect::Key;
                }
                (Some(Open::Array), b',') => {
                    expect = Expect::Value;
                }
                (Some(Open::Object), b'}') | (Some(Open::Array), b']') => {
                    open.pop();
                }
                (Some(Open::Object), _) => return Err(invalid(byte, "after object key:value pair")),
                (Some(Open::Array), _) => return Err(invalid(byte, "after array element")),
                (None, _) => return Err(invalid(byte, "after top-level value")),
            },
        }
    }
}

fn unexpected_end() -> String {
    "unexpected end of JSON input".to_owned()
}

fn invalid(byte: u8, context: &str) -> String {
    let shown = match byte {
        b'\'' => "\\'".to_owned(),
        b'"' => "\"".to_owned(),
        _ => {
            let quoted = crate::field_error::quote(&char::from(byte).to_string());
            quoted.trim_matches('"').to_owned()
        }
    };
    format!("invalid character '{shown}' {context}")
}

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Scan<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek();
        self.at += usize::from(byte.is_some());
        byte
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
    }

    /// The rest of a scalar that begins with this byte.
    fn scalar(&mut self, first: u8) -> Result<(), String> {
        match first {
            b'"' => self.string(),
            b't' => self.literal("true"),
            b'f' => self.literal("false"),
            b'n' => self.literal("null"),
            b'-' | b'0'..=b'9' => self.number(first),
            _ => Err(invalid(first, "looking for beginning of value")),
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for expected in word.bytes().skip(1) {
            match self.next() {
                Some(byte) if byte == expected => {}
                Some(byte) => {
                    let expected = char::from(expected);
                    return Err(invalid(
                        byte,
                        &format!("in literal {word} (expecting '{expected}')"),
                    ));
                }
                None => return Err(unexpected_end()),
            }
        }
        Ok(())
    }

    /// The rest of a string, behind its quote.
    fn string(&mut self) -> Result<(), String> {
        loop {
            match self.next().ok_or_else(unexpected_end)? {
                b'"' => return Ok(()),
                b'\\' => match self.next().ok_or_else(unexpected_end)? {
                    b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"' => {}
                    b'u' => {
                        for _ in 0..4 {
                            let byte = self.next().ok_or_else(unexpected_end)?;
                            if !byte.is_ascii_hexdigit() {
                                return Err(invalid(byte, "in \\u hexadecimal character escape"));
                            }
                        }
                    }
                    byte => return Err(invalid(byte, "in string escape code")),
                },
                byte if byte < 0x20 => return Err(invalid(byte, "in string literal")),
                _ => {}
            }
        }
    }

    fn number(&mut self, first: u8) -> Result<(), String> {
        let first = match first {
            b'-' => self.digit("in numeric literal")?,
            digit => digit,
        };
        if first != b'0' {
            self.digits();
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digit("after decimal point in numeric literal")?;
            self.digits();
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digit("in exponent of numeric literal")?;
            self.digits();
        }
        Ok(())
    }

    fn digit(&mut self, context: &str) -> Result<u8, String> {
        match self.next() {
            Some(byte) if byte.is_ascii_digit() => Ok(byte),
            Some(byte) => Err(invalid(byte, context)),
            None => Err(unexpected_end()),
        }
    }

    fn digits(&mut self) {
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn errors_are_those_of_go() {
        let cases = [
            ("", "unexpected end of JSON input"),
            ("{\"a\":", "unexpected end of JSON input"),
            ("\"a", "unexpected end of JSON input"),
            ("x", "invalid character 'x' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
            (
                "{1",
                "invalid character '1' looking for beginning of object key string",
            ),
            (
                "{\"a\":1,}",
                "invalid character '}' looking for beginning of object key string",
            ),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"",
                "invalid character '\"' after object key:value pair",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("{} 'x'", "invalid character '\\'' after top-level value"),
            ("nul!", "invalid character '!' in literal null (expecting 'l')"),
            ("\"a\nb\"", "invalid character '\\n' in string literal"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            (
                "\"\\u00g0\"",
                "invalid character 'g' in \\u hexadecimal character escape",
            ),
            ("-x", "invalid character 'x' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            ("1ex", "invalid character 'x' in exponent of numeric literal"),
            ("012", "invalid character '1' after top-level value"),
        ];
        for (text, expected) in cases {
            let invalid = Unreadable::Invalid(expected.to_owned());
            assert_eq!(parse(text.as_bytes()), Err(invalid), "{text}");
        }
        assert_eq!(
            mismatch(&Value::Bool(true), "map[string]interface {}"),
            "json: cannot unmarshal bool into Go value of type map[string]interface {}"
        );
    }

    #[test]
    fn what_is_no_unicode_becomes_replacement_characters() {
        let cases: &[(&[u8], &str)] = &[
            (b"\"a\xff\xe2\x82b\"", "a\u{fffd}\u{fffd}\u{fffd}b"),
            (br#""\ud800""#, "\u{fffd}"),
            (br#""\udc00\ud800x""#, "\u{fffd}\u{fffd}x"),
            (br#""\ud800\ud83d\ude00""#, "\u{fffd}\u{1f600}"),
            (br#""\\ud800 \" \ud800""#, "\\ud800 \" \u{fffd}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(
                parse(bytes),
                Ok(Value::from(*expected)),
                "{}",
                bytes.escape_ascii()
            );
        }
    }

    #[test]
    fn too_deep_is_not_invalid() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        assert!(parse(deep(DEEPEST).as_bytes()).is_ok());
        assert_eq!(parse(deep(1000).as_bytes()), Err(Unreadable::TooDeep));
    }

    #[test]
    fn keys_that_occur_twice_in_a_map_are_noticed() {
        assert!(has_duplicates(br#"{"a": [{"b": 1, "c": null, "b": "x"}]}"#));
        assert!(!has_duplicates(br#"{"a": [{"b": 1}, {"b": true}], "b": 1.5}"#));
    }

    proptest! {
        #[test]
        fn only_invalid_json_has_an_error(text in "[\\[\\]{}\":,a-eu0-9\\\\ .+-]{0,20}|true|[0-9.eE+-]{1,6}") {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(scan(text.as_bytes()).is_ok(), valid, "{}", text);
        }
    }
}
