//! Redacts Secret values when objects arrive: what the program does not hold, no output can show.
//!
//! A value is replaced by its length and a hash keyed per process, so that changes remain visible.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::objects::kinds::Kind;
use crate::objects::path::{escape, unescape};

/// What remains of the redacted values, by JSON pointer.
pub type Marks = BTreeMap<String, Mark>;

/// What remains of a redacted value. Equal hashes in two states of an object mean equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    hash: u64,
    length: usize,
}

impl Mark {
    /// Puts the placeholder of the value into the object.
    pub fn show(self, object: &mut Value, pointer: &str) {
        let Some((parent, name)) = pointer.rsplit_once('/') else {
            return;
        };
        let place = match object.pointer_mut(parent) {
            Some(Value::Object(fields)) => fields.entry(unescape(name)).or_insert(Value::Null),
            Some(Value::Array(items)) => match name.parse().ok().and_then(|at: usize| items.get_mut(at)) {
                Some(item) => item,
                None => return,
            },
            _ => return,
        };
        *place = Value::from(placeholder(self.length));
    }
}

/// Whether and how values are redacted.
#[derive(Clone)]
pub struct Redaction {
    show: bool,
    /// With a random key, so that values cannot be found by hashing guesses.
    hasher: RandomState,
}

/// kubectl writes the whole object there, Secret values included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Shorter values are not searched for in annotations: they would match everywhere.
const SHORTEST_REPEATED: usize = 4;
/// Shorter parts of a value, such as one line of it, are not looked for either.
const SHORTEST_PART: usize = 8;

impl Redaction {
    /// Values are redacted.
    pub fn on() -> Self {
        Self {
            show: false,
            hasher: RandomState::new(),
        }
    }

    /// Values are shown, as requested by the user.
    pub fn off() -> Self {
        Self {
            show: true,
            ..Self::on()
        }
    }

    /// Values are shown if `show`.
    pub fn showing(show: bool) -> Self {
        if show { Self::off() } else { Self::on() }
    }

    /// Whether values are shown.
    pub fn shows(&self) -> bool {
        self.show
    }

    /// Redacts the values of a Secret, and annotations that repeat them. The annotation in which kubectl keeps
    /// the last applied object is redacted for every kind: it only repeats the object, and in copies made by
    /// other tools it may repeat a Secret.
    pub fn apply(&self, kind: &Kind, object: &mut Value) -> Marks {
        let mut marks = Marks::new();
        let Value::Object(object) = object else {
            return marks;
        };
        if self.show {
            return marks;
        }
        let mut repeated = Values::default();
        if kind.is_secret() {
            for field in ["data", "stringData"] {
                if let Some(values) = object.get_mut(field) {
                    repeated.collect(values);
                    self.conceal_all(&format!("/{field}"), values, &mut marks);
                }
            }
        }
        let Some(Value::Object(metadata)) = object.get_mut("metadata") else {
            return marks;
        };
        if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
            self.conceal_annotations(kind, annotations, &repeated, &mut marks);
        }
        if let Some(Value::Object(labels)) = metadata.get_mut("labels") {
            for (name, value) in labels {
                if repeated.is_in(value.as_str().unwrap_or_default()) {
                    self.conceal(format!("/metadata/labels/{}", escape(name)), value, &mut marks);
                }
            }
        }
        // Field sets name list elements by value, which may be a value of the Secret.
        if let Some(fields) = metadata.get_mut("managedFields")
            && repeated.is_in(&fields.to_string())
        {
            self.conceal("/metadata/managedFields".to_owned(), fields, &mut marks);
        }
        marks
    }

    fn conceal_annotations(
        &self,
        kind: &Kind,
        annotations: &mut Map<String, Value>,
        repeated: &Values,
        marks: &mut Marks,
    ) {
        for (name, value) in annotations {
            let text = value.as_str().unwrap_or_default();
            let repeats = name == LAST_APPLIED
                || kind.is_secret() && (holds_a_copy(text) || is_packed(text) || repeated.is_in(text));
            if repeats {
                self.conceal(format!("/metadata/annotations/{}", escape(name)), value, marks);
            }
        }
    }

    /// Every leaf below `value`, at any depth.
    fn conceal_all(&self, path: &str, value: &mut Value, marks: &mut Marks) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    self.conceal_all(&format!("{path}/{}", escape(name)), value, marks);
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter_mut().enumerate() {
                    self.conceal_all(&format!("{path}/{index}"), value, marks);
                }
            }
            Value::Null => {}
            leaf => self.conceal(path.to_owned(), leaf, marks),
        }
    }

    fn conceal(&self, path: String, value: &mut Value, marks: &mut Marks) {
        let (hash, length) = match &*value {
            Value::String(text) => (self.hasher.hash_one(text), length(text, &path)),
            other => {
                let text = other.to_string();
                (self.hasher.hash_one(&text), text.len())
            }
        };
        *value = Value::from(placeholder(length));
        marks.insert(path, Mark { hash, length });
    }
}

/// The placeholder of a value.
fn placeholder(length: usize) -> String {
    match length {
        1 => "<1 byte>".to_owned(),
        length => format!("<{length} bytes>"),
    }
}

/// `data` is base64: the length is that of the decoded value.
fn length(text: &str, path: &str) -> usize {
    match STANDARD.decode(text) {
        Ok(bytes) if path.starts_with("/data/") => bytes.len(),
        _ => text.len(),
    }
}

/// The values of a Secret in every form in which others may repeat them.
#[derive(Default)]
struct Values(BTreeSet<String>);

impl Values {
    /// Adds every text below a value of the Secret.
    fn collect(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.add(text);
                if let Ok(bytes) = STANDARD.decode(text) {
                    self.add_encoded(&bytes);
                    if let Ok(decoded) = String::from_utf8(bytes) {
                        self.add(&decoded);
                        self.add_parts(&decoded);
                    }
                } else {
                    self.add_parts(text);
                }
                self.add_encoded(text.as_bytes());
            }
            Value::Object(fields) => fields.values().for_each(|value| self.collect(value)),
            Value::Array(items) => items.iter().for_each(|value| self.collect(value)),
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        if text.len() >= SHORTEST_REPEATED {
            self.0.insert(text.to_owned());
            // As part of a JSON document.
            let json = Value::from(text).to_string();
            self.0.insert(json.trim_matches('"').to_owned());
        }
    }

    /// Base64 in both alphabets without padding, hexadecimal, and as in addresses.
    fn add_encoded(&mut self, bytes: &[u8]) {
        if bytes.len() < SHORTEST_REPEATED {
            return;
        }
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let address: String = form_urlencoded::byte_serialize(bytes).collect();
        self.0.extend([
            STANDARD_NO_PAD.encode(bytes),
            URL_SAFE_NO_PAD.encode(bytes),
            hex.to_uppercase(),
            hex,
            address.replace('+', "%20"),
            address,
        ]);
    }

    /// The lines of a key or certificate, and the texts of a JSON document (`.dockerconfigjson`).
    fn add_parts(&mut self, text: &str) {
        if let Ok(Value::Object(document)) = serde_json::from_str(text) {
            for value in leaves(&Value::Object(document)) {
                if value.len() >= SHORTEST_PART {
                    self.add(value);
                }
            }
        } else if text.trim().contains('\n') {
            for line in text.lines().filter(|line| line.len() >= SHORTEST_PART) {
                self.add(line);
            }
        }
    }

    fn is_in(&self, text: &str) -> bool {
        self.0.iter().any(|value| text.contains(value.as_str()))
    }
}

fn leaves(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Object(fields) => fields.values().flat_map(leaves).collect(),
        Value::Array(items) => items.iter().flat_map(leaves).collect(),
        _ => Vec::new(),
    }
}

/// Shorter texts in base64 hold no copy of a Secret.
const SHORTEST_PACKED: usize = 24;

/// Whether a text may hold other data in an encoded form: base64 of anything (zip, gzip, JSON), or a YAML document.
/// The format of every tool cannot be known, so such texts are not shown.
fn is_packed(text: &str) -> bool {
    let compact: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let base64 = compact.len() >= SHORTEST_PACKED
        && compact
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte))
        && compact.bytes().any(|byte| byte.is_ascii_uppercase())
        && compact.bytes().any(|byte| byte.is_ascii_lowercase());
    let yaml = text
        .lines()
        .any(|line| matches!(line.trim_end(), "---" | "data:" | "stringData:"));
    base64 || yaml
}

/// Whether a text looks like a copy of an object: JSON, or packed (gzip in base64), as deployment tools keep it.
fn holds_a_copy(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with(['{', '[']) || text.starts_with("H4sI")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret_kind() -> Kind {
        Kind::for_tests("", "v1", "Secret", "secrets")
    }

    fn secret(password: &str) -> Value {
        json!({
            "kind": "Secret",
            "metadata": {
                "name": "db",
                "annotations": {
                    LAST_APPLIED: format!("{{\"data\":{{\"password\":\"{}\"}}}}", STANDARD.encode(password)),
                    "owner": "team shop",
                    "hint": format!("it is {password}!"),
                },
            },
            "data": { "password": STANDARD.encode(password), "deep": { "a/b": [STANDARD.encode(password)] } },
            "stringData": { "plain": password },
            "type": "Opaque",
        })
    }

    #[test]
    fn no_value_of_a_secret_remains() {
        let mut object = secret("correct horse");

        Redaction::on().apply(&secret_kind(), &mut object);

        let text = object.to_string();
        assert!(!text.contains("correct horse"), "{text}");
        assert!(!text.contains(&STANDARD.encode("correct horse")), "{text}");
        assert_eq!(object["data"]["password"], "<13 bytes>");
        assert_eq!(object["stringData"]["plain"], "<13 bytes>");
        assert_eq!(object["metadata"]["annotations"]["owner"], "team shop");
        assert_eq!(object["metadata"]["annotations"]["hint"], "<20 bytes>");
        assert_eq!(object["type"], "Opaque");
    }

    #[test]
    fn encoded_copies_in_annotations_labels_and_managed_fields_are_redacted() {
        let password = "correct-horse-battery";
        let json = format!("{{\"data\":{{\"password\":\"{}\"}}}}", STANDARD.encode(password));
        let mut object = json!({
            "metadata": {
                "name": "db",
                "annotations": {
                    "banzaicloud.com/last-applied": STANDARD.encode(b"PK\x03\x04 a zip archive with the Secret"),
                    "gzip": "H4sIAAAAAAAAA6tWSkksSVSyqgYA",
                    "json": STANDARD.encode(&json),
                    "wrapped": format!("{}\n{}", &STANDARD.encode(&json)[..20], &STANDARD.encode(&json)[20..]),
                    "yaml": format!("apiVersion: v1\ndata:\n  password: {}\n", STANDARD.encode(password)),
                    "owner": "team shop, see the handbook",
                    "created-by": "some-controller-with-a-long-name",
                },
                "labels": { "copy": password, "app": "shop" },
                "managedFields": [{ "fieldsV1": { format!("v:\"{password}\""): {} } }],
            },
            "data": { "password": STANDARD.encode(password) },
        });

        let marks = Redaction::on().apply(&secret_kind(), &mut object);

        let annotations = &object["metadata"]["annotations"];
        for name in ["banzaicloud.com/last-applied", "gzip", "json", "wrapped", "yaml"] {
            let shown = annotations[name].as_str().unwrap();
            assert!(
                shown.starts_with('<') && shown.ends_with(" bytes>"),
                "{name}: {shown}"
            );
        }
        assert_eq!(annotations["owner"], "team shop, see the handbook");
        assert_eq!(annotations["created-by"], "some-controller-with-a-long-name");
        assert_eq!(
            object["metadata"]["labels"],
            json!({ "copy": "<21 bytes>", "app": "shop" })
        );
        assert!(!object.to_string().contains(password), "{object}");
        assert!(marks.contains_key("/metadata/labels/copy"));
    }

    #[test]
    fn a_value_is_found_in_every_encoding_and_in_parts() {
        let password = "s3cret pass/word+\u{e9}";
        let key = "-----BEGIN KEY-----\nMIIabcdef0123456789\nxyzabc9876543210\n-----END KEY-----\n";
        let docker = json!({ "auths": { "registry": { "password": "docker-pass" } } }).to_string();
        let hex: String = password.bytes().map(|byte| format!("{byte:02x}")).collect();
        let copies = [
            ("plain", format!("x {password} y")),
            ("quoted", format!("say \"{password}\"")),
            ("base64", format!("({})", STANDARD_NO_PAD.encode(password))),
            ("url-safe", format!("({})", URL_SAFE_NO_PAD.encode(password))),
            ("hex", format!("0x{hex}")),
            ("upper-hex", hex.to_uppercase()),
            ("address", "q=s3cret%20pass%2Fword%2B%C3%A9".to_owned()),
            ("form", "q=s3cret+pass%2Fword%2B%C3%A9".to_owned()),
            ("one-line-of-the-key", "see MIIabcdef0123456789".to_owned()),
            ("inside-a-document", "docker-pass!".to_owned()),
        ];
        let annotations: Map<String, Value> = copies
            .iter()
            .map(|(name, text)| ((*name).to_owned(), json!(text)))
            .collect();
        let mut object = json!({
            "metadata": { "annotations": annotations, "labels": { "team": "shop" } },
            "data": {
                "password": STANDARD.encode(password), "tls.key": STANDARD.encode(key),
                ".dockerconfigjson": STANDARD.encode(docker),
            },
        });

        Redaction::on().apply(&secret_kind(), &mut object);

        for (name, _) in copies {
            let shown = object["metadata"]["annotations"][name].as_str().unwrap();
            assert!(
                shown.starts_with('<') && shown.ends_with(" bytes>"),
                "{name}: {shown}"
            );
        }
        assert_eq!(object["metadata"]["labels"]["team"], "shop");
    }

    #[test]
    fn values_that_are_not_text_are_redacted() {
        let mut object = json!({ "data": { "number": 4711, "flag": true, "none": null } });

        Redaction::on().apply(&secret_kind(), &mut object);

        assert_eq!(
            object["data"],
            json!({ "number": "<4 bytes>", "flag": "<4 bytes>", "none": null })
        );
    }

    #[test]
    fn a_redacted_change_of_equal_length_has_another_hash() {
        let redaction = Redaction::on();
        let marks = |password: &str| redaction.apply(&secret_kind(), &mut secret(password));

        assert_eq!(marks("aaaa"), marks("aaaa"));
        assert_ne!(marks("aaaa")["/data/password"], marks("bbbb")["/data/password"]);
        assert!(marks("aaaa").contains_key("/data/deep/a~1b/0"));
    }

    #[test]
    fn hashes_cannot_be_compared_across_processes() {
        let marks = |redaction: Redaction| redaction.apply(&secret_kind(), &mut secret("aaaa"));

        assert_ne!(marks(Redaction::on()), marks(Redaction::on()));
    }

    #[test]
    fn other_kinds_lose_only_the_last_applied_copy() {
        let mut object = json!({
            "metadata": { "annotations": { LAST_APPLIED: "{}", "packed": "{}" } },
            "data": { "colour": "blue" },
        });

        Redaction::on().apply(&Kind::for_tests("", "v1", "ConfigMap", "configmaps"), &mut object);

        assert_eq!(
            object["metadata"]["annotations"],
            json!({ LAST_APPLIED: "<2 bytes>", "packed": "{}" })
        );
        assert_eq!(object["data"]["colour"], "blue");
    }

    #[test]
    fn everything_is_shown_on_request() {
        let mut object = secret("correct horse");

        let marks = Redaction::off().apply(&secret_kind(), &mut object);

        assert_eq!(object, secret("correct horse"));
        assert!(marks.is_empty());
    }

    #[test]
    fn any_shape_of_object_is_survived() {
        for text in [
            "null",
            "[]",
            "{\"data\":[]}",
            "{\"data\":null}",
            "{\"metadata\":[1]}",
        ] {
            let mut object: Value = serde_json::from_str(text).unwrap();
            Redaction::on().apply(&secret_kind(), &mut object);
        }
    }

    proptest::proptest! {
        /// Any value anywhere in the Secret is redacted.
        #[test]
        fn no_value_remains_wherever_it_is(
            value in "[a-zA-Z0-9+/=:{}\"é -]{6,40}",
            place in 0..5usize,
            field in "[a-z~/.]{1,8}",
        ) {
            let encoded = STANDARD.encode(&value);
            let inside = match place {
                0 => json!(encoded),
                1 => json!({ field.clone(): encoded }),
                2 => json!({ field.clone(): [encoded, { "x": encoded }] }),
                3 => json!({ field.clone(): { "deep": value } }),
                _ => json!([value]),
            };
            let mut object = json!({
                "metadata": { "annotations": { field: format!("before {value} after"), "other": encoded } },
                "data": inside,
                "stringData": { "plain": value },
            });

            Redaction::on().apply(&secret_kind(), &mut object);

            for text in leaves(&object) {
                proptest::prop_assert!(!text.contains(&value) && !text.contains(&encoded), "{}", text);
            }
        }
    }
}
