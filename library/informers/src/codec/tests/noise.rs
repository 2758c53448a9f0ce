//! Random JSON in random formatting, from bytes that proptest can shrink.

use serde_json::{Map, Value, json};

/// A source of decisions. When it is exhausted, it returns the simplest decision.
pub struct Noise {
    bytes: std::vec::IntoIter<u8>,
}

/// Strings and keys that would mislead a careless scanner.
const HOSTILE: [&str; 16] = [
    "",
    "a",
    "items",
    "metadata",
    "name",
    "managedFields",
    "\"",
    "\\",
    "\\\"",
    "}],\"items\":[{",
    "{\"metadata\":{\"name\":\"x\"}}",
    "]}",
    "ünïcödé \u{1F600}",
    "\n\t\u{0}",
    "a string that is rather longer than sixteen bytes, with \" and \\ in its later part",
    "\\u0069tems",
];

impl Noise {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes: bytes.into_iter(),
        }
    }

    pub fn below(&mut self, bound: u8) -> u8 {
        self.bytes.next().unwrap_or(0) % bound
    }

    pub fn text(&mut self) -> String {
        HOSTILE[self.below(16) as usize].to_owned()
    }

    pub fn value(&mut self, depth: u8) -> Value {
        match self.below(if depth == 0 { 6 } else { 9 }) {
            0 => Value::Null,
            1 => json!(self.below(2) == 1),
            2 => json!(self.below(200)),
            3 => json!(-1.5e3),
            4 | 5 => Value::String(self.text()),
            6 => (0..self.below(4)).map(|_| self.value(depth - 1)).collect(),
            7 => self.object(depth),
            _ => json!({"metadata": {"name": "nested", "managedFields": [1]}}),
        }
    }

    pub fn object(&mut self, depth: u8) -> Value {
        let members = (0..self.below(4)).map(|_| (self.text(), self.value(depth.saturating_sub(1))));
        Value::Object(members.collect::<Vec<_>>().into_iter().collect())
    }

    /// An object that resembles a Kubernetes object, with missing or unusual members.
    pub fn item(&mut self) -> Value {
        if self.below(8) == 7 {
            return self.value(2);
        }
        let mut metadata = Map::new();
        for key in [
            "name",
            "namespace",
            "uid",
            "resourceVersion",
            "managedFields",
            "labels",
        ] {
            match self.below(4) {
                0 => {}
                1 => _ = metadata.insert(key.to_owned(), self.value(2)),
                _ => _ = metadata.insert(key.to_owned(), json!(self.text())),
            }
        }
        let mut object = Map::new();
        for key in ["apiVersion", "kind", "status"] {
            if self.below(3) > 0 {
                object.insert(key.to_owned(), json!(self.text()));
            }
        }
        object.insert("spec".to_owned(), self.value(3));
        if self.below(8) < 7 {
            object.insert("metadata".to_owned(), Value::Object(metadata));
        }
        Value::Object(object)
    }

    /// Writes a value with members in any order, random whitespace and unnecessary escapes.
    pub fn write(&mut self, value: &Value, out: &mut Vec<u8>) {
        match value {
            Value::Array(values) => {
                out.push(b'[');
                self.space(out);
                for (index, value) in values.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    self.space(out);
                    self.write(value, out);
                    self.space(out);
                }
                out.push(b']');
            }
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                let turn = self.below(8) as usize;
                if !members.is_empty() {
                    let turn = turn % members.len();
                    members.rotate_left(turn);
                }
                if self.below(2) == 1 {
                    members.reverse();
                }
                out.push(b'{');
                self.space(out);
                for (index, (key, value)) in members.into_iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                        self.space(out);
                    }
                    self.write_text(key, out);
                    self.space(out);
                    out.push(b':');
                    self.space(out);
                    self.write(value, out);
                    self.space(out);
                }
                out.push(b'}');
            }
            Value::String(text) => self.write_text(text, out),
            scalar => out.extend(scalar.to_string().bytes()),
        }
    }

    fn write_text(&mut self, text: &str, out: &mut Vec<u8>) {
        let escape_all = self.below(8) == 7;
        if !escape_all {
            out.extend(Value::String(text.to_owned()).to_string().bytes());
            return;
        }
        out.push(b'"');
        for unit in text.encode_utf16() {
            out.extend(format!("\\u{unit:04x}").bytes());
        }
        out.push(b'"');
    }

    fn space(&mut self, out: &mut Vec<u8>) {
        match self.below(12) {
            9 => out.push(b' '),
            10 => out.extend(b"\n\t"),
            11 => out.extend(b"\r\n  "),
            _ => {}
        }
    }
}
