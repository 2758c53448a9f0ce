//! What Go's JSON decoder says about bytes that it cannot decode. Knows nothing of objects and requests.

use serde_json::Value;

/// The type of a value, as the decoder names it.
pub(crate) fn json_type(value: &Value) -> &'static str {
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
pub(crate) fn mismatch(value: &Value, go_type: &str) -> String {
    format!(
        "json: cannot unmarshal {} into Go value of type {go_type}",
        json_type(value)
    )
}

/// Parses JSON, with the error of Go's decoder.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    // Bytes that are valid to Go only, such as very deep ones, keep the error of our parser.
    serde_json::from_slice(bytes).map_err(|error| syntax_error(bytes).unwrap_or_else(|| error.to_string()))
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

/// Why bytes are not JSON; `None` if they are.
#[doc(alias = "checkValid")]
fn syntax_error(bytes: &[u8]) -> Option<String> {
    let mut scan = Scan { bytes, at: 0 };
    let (mut open, mut expect) = (Vec::new(), Expect::Value);
    loop {
        scan.skip_space();
        let Some(byte) = scan.next() else {
            let complete = open.is_empty() && expect == Expect::More;
            return (!complete).then(unexpected_end);
        };
        let scanned = match (expect, byte) {
            (Expect::ValueOrEnd, b']') | (Expect::KeyOrEnd, b'}') => {
                open.pop();
                expect = Expect::More;
                Ok(())
            }
            (Expect::Key | Expect::KeyOrEnd, b'"') => {
                expect = Expect::Colon;
                scan.string()
            }
            (Expect::Key | Expect::KeyOrEnd, _) => {
                Err(invalid(byte, "looking for beginning of object key string"))
            }
            (Expect::Colon, b':') => {
                expect = Expect::Value;
                Ok(())
            }
            (Expect::Colon, _) => Err(invalid(byte, "after object key")),
            (Expect::Value | Expect::ValueOrEnd, b'{') => {
                open.push(Open::Object);
                expect = Expect::KeyOrEnd;
                Ok(())
            }
            (Expect::Value | Expect::ValueOrEnd, b'[') => {
                open.push(Open::Array);
                expect = Expect::ValueOrEnd;
                Ok(())
            }
            (Expect::Value | Expect::ValueOrEnd, _) => {
                expect = Expect::More;
                scan.scalar(byte)
            }
            (Expect::More, _) => match (open.last(), byte) {
                (Some(Open::Object), b',') => {
                    expect = Expect::Key;
                    Ok(())
                }
                (Some(Open::Array), b',') => {
                    expect = Expect::Value;
                    Ok(())
                }
                (Some(Open::Object), b'}') | (Some(Open::Array), b']') => {
                    open.pop();
                    Ok(())
                }
                (Some(Open::Object), _) => Err(invalid(byte, "after object key:value pair")),
                (Some(Open::Array), _) => Err(invalid(byte, "after array element")),
                (None, _) => Err(invalid(byte, "after top-level value")),
            },
        };
        if let Err(error) = scanned {
            return Some(error);
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
            let quoted = crate::admission::field_error::quote(&char::from(byte).to_string());
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
            assert_eq!(parse(text.as_bytes()).unwrap_err(), expected, "{text}");
        }
        assert_eq!(
            mismatch(&Value::Bool(true), "map[string]interface {}"),
            "json: cannot unmarshal bool into Go value of type map[string]interface {}"
        );
    }

    proptest! {
        #[test]
        fn only_invalid_json_has_an_error(text in "[\\[\\]{}\":,a-eu0-9\\\\ .+-]{0,20}|true|[0-9.eE+-]{1,6}") {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
            prop_assert_eq!(syntax_error(text.as_bytes()).is_none(), valid, "{}", text);
        }
    }
}
