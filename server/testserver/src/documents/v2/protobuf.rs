//! The OpenAPI v2 document in protobuf: messages of the package `openapi.v2`, as clients in Go read them.

use serde_json::Value;

/// The document as a message.
pub(crate) fn encode(document: &Value) -> Vec<u8> {
    let mut out = Message::default();
    out.text(1, &document["swagger"]);
    out.message(2, |info| {
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
    });
    out.message(8, |paths| {
        for (name, item) in members(&document["paths"]) {
            paths.message(2, |named| {
                named.string(1, name);
                named.message(2, |path| path_item(path, item));
            });
        }
    });
    out.message(9, |definitions| {
        named_schemas(definitions, &document["definitions"])
    });
    out.0
}

fn members(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn path_item(out: &mut Message, item: &Value) {
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(called) = item.get(method) {
            out.message(number, |out| operation(out, called));
        }
    }
}

fn operation(out: &mut Message, operation: &Value) {
    out.texts(6, &operation["produces"]);
    out.texts(7, &operation["consumes"]);
    for item in operation["parameters"].as_array().into_iter().flatten() {
        out.message(8, |out| out.message(1, |out| parameter(out, item)));
    }
    out.message(9, |responses| {
        for (code, response) in members(&operation["responses"]) {
            responses.message(1, |named| {
                named.string(1, code);
                named.message(2, |value| {
                    value.message(1, |out| {
                        out.text(1, &response["description"]);
                        out.message(2, |item| item.message(1, |out| schema(out, &response["schema"])));
                    });
                });
            });
        }
    });
    extensions(out, 13, operation);
}

fn parameter(out: &mut Message, parameter: &Value) {
    if parameter["in"] == "body" {
        return out.message(1, |body| {
            body.text(2, &parameter["name"]);
            body.text(3, &parameter["in"]);
            body.flag(4, &parameter["required"]);
            body.message(5, |out| schema(out, &parameter["schema"]));
        });
    }
    // Only parameters of the query are described besides.
    out.message(2, |out| {
        out.message(3, |query| {
            query.text(2, &parameter["in"]);
            query.text(4, &parameter["name"]);
            query.text(6, &parameter["type"]);
            query.flag(20, &parameter["uniqueItems"]);
        });
    });
}

fn named_schemas(out: &mut Message, schemas: &Value) {
    for (name, described) in members(schemas) {
        out.message(1, |named| {
            named.string(1, name);
            named.message(2, |out| schema(out, described));
        });
    }
}

/// A schema. Schemas are limited in depth, so the recursion is too.
fn schema(out: &mut Message, of: &Value) {
    for (number, name) in [
        (1, "$ref"),
        (2, "format"),
        (3, "title"),
        (4, "description"),
        (13, "pattern"),
    ] {
        out.text(number, &of[name]);
    }
    for (number, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        out.double(number, &of[name]);
    }
    for (number, name) in [
        (8, "exclusiveMaximum"),
        (10, "exclusiveMinimum"),
        (16, "uniqueItems"),
    ] {
        out.flag(number, &of[name]);
    }
    for (number, name) in [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ] {
        out.integer(number, &of[name]);
    }
    out.texts(19, &of["required"]);
    for value in of["enum"].as_array().into_iter().flatten() {
        out.message(20, |any| any.string(2, &value.to_string()));
    }
    match &of["additionalProperties"] {
        Value::Null => {}
        Value::Bool(allowed) => out.message(21, |item| item.flag(2, &Value::Bool(*allowed))),
        values => out.message(21, |item| item.message(1, |out| schema(out, values))),
    }
    if of["type"].is_string() {
        out.message(22, |item| item.text(1, &of["type"]));
    }
    if of["items"].is_object() {
        out.message(23, |item| item.message(1, |out| schema(out, &of["items"])));
    }
    if of["properties"].is_object() {
        out.message(25, |out| named_schemas(out, &of["properties"]));
    }
    extensions(out, 31, of);
}

/// The fields whose names start with `x-`, in YAML, of which JSON is a part.
fn extensions(out: &mut Message, number: u32, of: &Value) {
    for (name, value) in members(of).filter(|(name, _)| name.starts_with("x-")) {
        out.message(number, |named| {
            named.string(1, name);
            named.message(2, |any| any.string(2, &format!("{}\n", yaml(value))));
        });
    }
}

/// Strings without quotes, which some clients do not remove.
fn yaml(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The fields of a message, as they are written.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn bytes(&mut self, number: u32, bytes: &[u8]) {
        self.varint(u64::from(number << 3 | 2));
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, number: u32, fill: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        fill(&mut inner);
        self.bytes(number, &inner.0);
    }

    fn string(&mut self, number: u32, text: &str) {
        self.bytes(number, text.as_bytes());
    }

    fn text(&mut self, number: u32, value: &Value) {
        if let Some(text) = value.as_str() {
            self.string(number, text);
        }
    }

    fn texts(&mut self, number: u32, values: &Value) {
        for value in values.as_array().into_iter().flatten() {
            self.text(number, value);
        }
    }

    fn flag(&mut self, number: u32, value: &Value) {
        if value == &Value::Bool(true) {
            self.varint(u64::from(number << 3));
            self.varint(1);
        }
    }

    fn integer(&mut self, number: u32, value: &Value) {
        if let Some(integer) = value.as_i64() {
            self.varint(u64::from(number << 3));
            self.varint(integer as u64);
        }
    }

    fn double(&mut self, number: u32, value: &Value) {
        if let Some(double) = value.as_f64() {
            self.varint(u64::from(number << 3 | 1));
            self.0.extend_from_slice(&double.to_le_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn fields_have_the_numbers_of_the_package() {
        let document = json!({
            "swagger": "2.0", "info": { "title": "K", "version": "v1" }, "paths": {},
            "definitions": { "A": { "type": "object", "x-k": [1] } },
        });
        let schema = b"\xb2\x01\x08\x0a\x06object\xfa\x01\x0d\x0a\x03x-k\x12\x06\x12\x04[1]\n";
        let mut wanted = b"\x0a\x032.0\x12\x07\x0a\x01K\x12\x02v1\x42\x00\x4a".to_vec();
        let named = [b"\x0a\x01A\x12".as_slice(), &[schema.len() as u8], schema].concat();
        wanted.push(named.len() as u8 + 2);
        wanted.extend([0x0a, named.len() as u8]);
        wanted.extend(named);
        assert_eq!(encode(&document), wanted);
    }

    /// `Map` keeps documents in the order of their keys, so that equal documents have equal bytes.
    #[test]
    fn equal_documents_have_equal_bytes() {
        let document = |keys: [&str; 2]| {
            let definitions: Map<String, Value> =
                keys.map(|key| (key.to_owned(), json!({}))).into_iter().collect();
            json!({ "definitions": definitions })
        };
        assert_eq!(encode(&document(["a", "b"])), encode(&document(["b", "a"])));
    }
}
