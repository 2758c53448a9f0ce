//! Decode errors name the path and the expected type, and never a value.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Pod, Secret};
use serde::Deserialize;
use serde_json::json;

use super::*;

/// A canary for a secret value, which must not appear in any error. It resembles a part of a serde message.
const CANARY: &str = "c4n4ry, expected `i32` at line 1 column 7";

#[derive(Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    Plain,
    Tuple(i32, i32),
    Struct { field: i32 },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Strict {
    #[expect(dead_code)]
    only: Option<i32>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Number(#[expect(dead_code)] i32),
    Flag(#[expect(dead_code)] bool),
}

#[derive(Debug, Deserialize)]
#[serde(tag = "tag")]
enum Tagged {
    A {
        #[expect(dead_code)]
        value: i32,
    },
}

#[derive(Debug)]
struct Checked;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Err(serde::de::Error::custom(format!("{text} is not allowed")))
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code)]
struct Everything {
    int: Option<i32>,
    unsigned: Option<u8>,
    flag: Option<bool>,
    text: Option<String>,
    letter: Option<char>,
    pair: Option<(i32, i32)>,
    choice: Option<Choice>,
    strict: Option<Strict>,
    untagged: Option<Untagged>,
    tagged: Option<Tagged>,
    checked: Option<Checked>,
    list: Option<Vec<i32>>,
    map: Option<BTreeMap<String, i32>>,
    by_number: Option<BTreeMap<u32, i32>>,
    by_choice: Option<BTreeMap<Choice, i32>>,
    wrapped: Option<NewType>,
    must: i32,
}

#[derive(Debug, Deserialize)]
struct NewType(#[expect(dead_code)] Option<Vec<Strict>>);

/// The explanation of a failed decode. Asserts that it does not contain the canary.
fn why<T: serde::de::DeserializeOwned + std::fmt::Debug>(bytes: &[u8]) -> String {
    let error = serde_json::from_slice::<T>(bytes).unwrap_err();
    let text = super::super::json::explain::explain::<T>(bytes, &error);
    assert!(!text.contains("c4n4ry"), "a value got out: {text}");
    text
}

fn why_not_everything(mut members: Value) -> String {
    if members.get("must").is_none() {
        members["must"] = json!(1);
    }
    why::<Everything>(members.to_string().as_bytes())
}

#[test]
fn no_decode_error_contains_a_value() {
    let c = CANARY;
    let variants = "one of `Plain`, `Tuple`, `Struct`";
    let cases = [
        (
            json!({"int": c}),
            "int: invalid type: a string, expected i32".to_owned(),
        ),
        (
            json!({"int": 1e300}),
            "int: invalid type: a floating point number, expected i32".into(),
        ),
        (
            json!({"int": 5_000_000_000_u64}),
            "int: invalid value: an integer, expected i32".into(),
        ),
        (
            json!({"unsigned": -3}),
            "unsigned: invalid value: an integer, expected u8".into(),
        ),
        (
            json!({"flag": c}),
            "flag: invalid type: a string, expected a boolean".into(),
        ),
        (
            json!({"text": {c: c}}),
            "text: invalid type: an object, expected a string".into(),
        ),
        (
            json!({"letter": c}),
            "letter: invalid value: a string, expected a character".into(),
        ),
        (
            json!({"pair": [1]}),
            "pair: invalid length, expected a tuple of size 2".into(),
        ),
        (
            json!({"choice": c}),
            format!("choice: unknown variant, expected {variants}"),
        ),
        (
            json!({"choice": {c: 1}}),
            format!("choice: unknown variant, expected {variants}"),
        ),
        (
            json!({"choice": {"Plain": c}}),
            "choice: invalid type: something else, expected unit variant".into(),
        ),
        (
            json!({"choice": {"Struct": {"field": c}}}),
            "choice.field: invalid type: a string, expected i32".into(),
        ),
        (
            json!({"choice": {"Tuple": [1, c]}}),
            "choice[1]: invalid type: a string, expected i32".into(),
        ),
        (
            json!({"strict": {c: 1}}),
            "strict: unknown field, expected one of `only`".into(),
        ),
        (
            json!({"strict": {"only": c}}),
            "strict.only: invalid type: a string, expected i32".into(),
        ),
        (json!({"untagged": c}), "untagged: rejected by the type".into()),
        (
            json!({"tagged": {"tag": c}}),
            "tagged.tag: unknown variant, expected one of `A`".into(),
        ),
        (
            json!({"tagged": {"tag": "A", "value": c}}),
            "tagged: invalid type: a string, expected i32".into(),
        ),
        (
            json!({"tagged": {"tag": "A"}}),
            "tagged: missing field `value`".into(),
        ),
        (json!({"checked": c}), "checked: rejected by the type".into()),
        (
            json!({"list": [1, 2, c]}),
            "list[2]: invalid type: a string, expected i32".into(),
        ),
        (
            json!({"map": {"key": c}}),
            "map.key: invalid type: a string, expected i32".into(),
        ),
        (
            json!({"map": {"a.b/c": c}}),
            "map[\"a.b/c\"]: invalid type: a string, expected i32".into(),
        ),
        (
            json!({"byNumber": {"7": c}}),
            "byNumber.7: invalid type: a string, expected i32".into(),
        ),
        (
            json!({"byNumber": {c: 1}}),
            "invalid JSON near byte 14: invalid value: expected key to be a number in quotes".into(),
        ),
        (
            json!({"byChoice": {"Other": 1}}),
            format!("byChoice: unknown variant, expected {variants}"),
        ),
        (
            json!({"wrapped": [{c: 1}]}),
            "wrapped[0]: unknown field, expected one of `only`".into(),
        ),
        (
            json!({"must": c}),
            "must: invalid type: a string, expected i32".into(),
        ),
    ];
    for (members, expected) in cases {
        assert_eq!(why_not_everything(members), expected);
    }
}

#[test]
fn a_missing_and_a_repeated_field_are_named_by_the_type() {
    assert_eq!(why::<Everything>(b"{}"), "missing field `must`");
    assert_eq!(
        why::<Everything>(br#"{"must":1,"text":"c4n4ry","text":"c4n4ry"}"#),
        "duplicate field near byte 32"
    );
}

#[test]
fn broken_json_is_reported_with_its_position() {
    assert_eq!(
        why::<Everything>(br#"{"text":"c4n4ry"]}"#),
        "invalid JSON near byte 17: expected `,` or `}`"
    );
    assert_eq!(
        why::<Everything>(br#"{"text":"c4n4ry"#),
        "invalid JSON near byte 15: unexpected end"
    );
}

#[test]
fn a_path_from_outside_cannot_grow_without_bound() {
    let mut deep = json!("c4n4ry");
    for _ in 0..20 {
        deep = json!({"k".repeat(1000): deep});
    }
    let text = why::<BTreeMap<String, BTreeMap<String, i32>>>(deep.to_string().as_bytes());
    assert!(text.len() < 400, "{text}");
}

#[test]
fn a_secret_that_cannot_be_read_stays_secret() {
    let secret = json!({"metadata": {"name": "s"}, "data": {"password": "c4n4ry is no base64"}});
    assert_eq!(
        why::<Secret>(secret.to_string().as_bytes()),
        "data.password: rejected by the type"
    );
}

#[test]
fn the_path_leads_into_a_pod() {
    let pod = json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": "c4n4ry"}]}]}});
    assert_eq!(
        why::<Pod>(pod.to_string().as_bytes()),
        "spec.containers[0].ports[0].containerPort: invalid type: a string, expected i32"
    );
}
