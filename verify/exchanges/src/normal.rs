//! Normalizes responses: replaces uids, versions, times, continue tokens and allocated addresses and ports, which differ
//! between runs.
//!
//! A kept value is replaced by its name, so that its occurrences are still compared. Other values are replaced by their
//! class, so that their format is still compared.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::{Map, Value};

use crate::play::keep;
use crate::recording::{Body, Recording, Response};

/// Headers whose value is unique to each response; only their presence is compared.
const UNIQUE_HEADERS: [&str; 3] = [
    "audit-id",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
];

/// The normalized responses of a recording.
pub fn normal(recording: &Recording, responses: &[Response]) -> Vec<Response> {
    let mut kept = BTreeMap::new();
    let mut of_lists = BTreeSet::new();
    let mut normal = Vec::with_capacity(responses.len());
    for (exchange, response) in recording.exchanges.iter().zip(responses) {
        // A response without the value was reported when it was played.
        let _ = keep(exchange, response, &mut kept);
        if let Body::Json(list) = &response.body
            && list.get("items").is_some()
        {
            let versions = exchange.keep.iter();
            let versions = versions.filter(|(_, pointer)| *pointer == "/metadata/resourceVersion");
            of_lists.extend(versions.map(|(name, _)| name.clone()));
        }
        let requested = serde_json::to_string(&exchange.request).unwrap_or_default();
        normal.push(Names::new(&kept, &of_lists, requested).response(response));
    }
    normal
}

/// The names of the values kept so far, for one response.
struct Names {
    by_value: BTreeMap<String, String>,
    /// The same without the versions of lists. Whether the last write before a list was that of a certain object depends
    /// on unrelated writes, so an object's version is not named after a list.
    of_objects: BTreeMap<String, String>,
    /// The request as text. A value that it contains was chosen by the client, not allocated.
    requested: String,
}

impl Names {
    /// `of_lists`: the names of the kept versions that are those of lists.
    fn new(kept: &BTreeMap<String, String>, of_lists: &BTreeSet<String>, requested: String) -> Names {
        let by_value = |(name, value): (&String, &String)| (value.clone(), format!("<{name}>"));
        Names {
            requested,
            by_value: kept.iter().map(by_value).collect(),
            of_objects: (kept.iter())
                .filter(|(name, _)| !of_lists.contains(*name))
                .map(by_value)
                .collect(),
        }
    }

    fn response(&self, response: &Response) -> Response {
        let headers = response.headers.iter().map(|(name, value)| {
            let value = match name.as_str() {
                name if UNIQUE_HEADERS.contains(&name) => "<uid>".into(),
                // A real server sends those of several rules in the order of a Go map, and the first one is recorded.
                "warning" if value.contains(": failed rule: ") => "<a broken rule>".into(),
                _ => self.sentence(value),
            };
            (name.clone(), value)
        });
        Response {
            status: response.status,
            headers: headers.collect(),
            body: match &response.body {
                Body::Json(value) => Body::Json(self.value(value, false)),
                Body::Events(events) => {
                    let mut events: Vec<Value> = events.iter().map(|event| self.event(event)).collect();
                    // A bookmark may follow another one, depending on the server's timer.
                    events.dedup_by(|next, last| {
                        let both = last["type"] == "BOOKMARK" && next["type"] == "BOOKMARK";
                        both && (next == last || next["object"]["metadata"]["annotations"].is_null())
                    });
                    Body::Events(events)
                }
                Body::Text(text) => Body::Text(self.sentence(text)),
            },
        }
    }

    fn event(&self, event: &Value) -> Value {
        let mut normal = event.clone();
        if let Some(object) = normal.get_mut("object") {
            *object = self.value(object, false);
            if event["type"] == "BOOKMARK" {
                of_a_collection(object);
            }
        }
        normal
    }

    /// `collection`: whether the version of this object is that of a collection, which changes with unrelated writes,
    /// too.
    fn value(&self, value: &Value, collection: bool) -> Value {
        match value {
            Value::Object(map) => {
                let collection =
                    collection || map.contains_key("items") || map.contains_key("columnDefinitions");
                Value::Object(self.members(map, collection))
            }
            Value::Array(items) => items.iter().map(|item| self.value(item, false)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    fn members(&self, map: &Map<String, Value>, collection: bool) -> Map<String, Value> {
        let member = |(key, value): (&String, &Value)| {
            let text = value.as_str().unwrap_or_default();
            let value = match key.as_str() {
                "resourceVersion" if is_number(text) && collection => "<collection version>".into(),
                "resourceVersion" if is_number(text) => self
                    .of_objects
                    .get(text)
                    .map_or("<version>", String::as_str)
                    .into(),
                "continue" if !text.is_empty() => "<continue>".into(),
                "message" => self.sentence(text).into(),
                "cells" => self.cells(value),
                "causes" => self.causes(value),
                "managedFields" => self.managed_fields(value),
                "serverAddress" => "<address>".into(),
                "clusterIP" => self.address(value),
                "clusterIPs" => value
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|ip| self.address(ip))
                    .collect(),
                "nodePort" | "healthCheckNodePort" => self.node_port(value),
                "metadata" => self.value(value, collection),
                _ => self.value(value, false),
            };
            (key.clone(), value)
        };
        map.iter().map(member).collect()
    }

    /// The cells of a row, one of which may be an age.
    fn cells(&self, cells: &Value) -> Value {
        let cell = |cell: &Value| match cell.as_str() {
            Some(text) if is_age(text) => "<age>".into(),
            _ => self.value(cell, false),
        };
        cells.as_array().into_iter().flatten().map(cell).collect()
    }

    /// The causes of an error. A real server lists the owners of a field in the order of a Go map.
    fn causes(&self, causes: &Value) -> Value {
        let mut causes = self.value(causes, false);
        if let Some(causes) = causes.as_array_mut()
            && causes
                .iter()
                .all(|cause| cause["reason"] == "FieldManagerConflict")
        {
            causes.sort_by_cached_key(Value::to_string);
        }
        causes
    }

    /// The entries of `managedFields`. Those of one manager are in the order of their times, which are equal if both
    /// writes fall into the same second.
    fn managed_fields(&self, entries: &Value) -> Value {
        let mut entries = self.value(entries, false);
        if let Some(entries) = entries.as_array_mut() {
            entries.sort_by_cached_key(Value::to_string);
        }
        entries
    }

    /// An address of a Service, which a server allocates at random unless the client chose one.
    fn address(&self, value: &Value) -> Value {
        match value.as_str() {
            Some(text) if text.parse::<IpAddr>().is_ok() && !self.requested.contains(text) => {
                "<allocated address>".into()
            }
            _ => self.value(value, false),
        }
    }

    /// A port of every node, allocated likewise.
    fn node_port(&self, value: &Value) -> Value {
        match value.as_u64() {
            Some(port @ 30_000..=32_767) if !self.requested.contains(&port.to_string()) => {
                "<allocated port>".into()
            }
            _ => value.clone(),
        }
    }

    fn named(&self, value: &str) -> Option<&str> {
        self.by_value.get(value).map(String::as_str)
    }

    fn text(&self, text: &str) -> String {
        // Short values, especially versions, occur by chance in other texts.
        if let Some(name) = self.named(text).filter(|_| !is_number(text)) {
            return name.to_owned();
        }
        match text {
            _ if is_uid(text) => "<uid>".into(),
            _ if is_time(text) && text.contains('.') => "<time with fraction>".into(),
            _ if is_time(text) => "<time>".into(),
            _ => text.to_owned(),
        }
    }

    /// A message, which may contain uids and versions among its words.
    fn sentence(&self, text: &str) -> String {
        let mut words = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
            let (before, from) = rest.split_at(start);
            // An object in a message has times, whose colons end a word.
            if let Some((time, after)) = from.split_at_checked(20)
                && is_time(time)
            {
                words.push_str(before);
                words.push_str("<time>");
                rest = after;
                continue;
            }
            let end = from
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
                .unwrap_or(from.len());
            let (word, after) = from.split_at(end);
            words.push_str(before);
            match self.named(word) {
                // The current version of the server matches that of an object only by chance.
                _ if is_number(word) && words.ends_with("current: ") => words.push_str("<version>"),
                Some(name) => words.push_str(name),
                None if is_number(word) && words.ends_with('(') => words.push_str("<version>"),
                None if is_number(word) && words.ends_with(r#"\"resourceVersion\":\""#) => {
                    words.push_str("<version>");
                }
                None => words.push_str(&self.text(word)),
            }
            rest = after;
        }
        words.push_str(rest);
        words
    }
}

/// Every version in a bookmark is that of the collection, also in the row of a table.
fn of_a_collection(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                if key == "resourceVersion" {
                    *value = "<collection version>".into();
                } else {
                    of_a_collection(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(of_a_collection),
        _ => {}
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// `7s`, `2m10s`.
fn is_age(text: &str) -> bool {
    let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
    digits.len() < text.len() && digits.starts_with(|c: char| c.is_ascii_digit()) && text.len() < 8
}

fn is_uid(text: &str) -> bool {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
}

/// `2026-11-15T23:35:26Z`, with or without a fraction.
fn is_time(text: &str) -> bool {
    let Some((seconds, rest)) = text.as_bytes().split_at_checked(19) else {
        return false;
    };
    let shape = b"dddd-dd-ddTdd:dd:dd";
    let matches = seconds.iter().zip(shape).all(|(byte, shape)| match shape {
        b'd' => byte.is_ascii_digit(),
        other => byte == other,
    });
    let fraction = rest
        .strip_suffix(b"Z")
        .map(|rest| rest.strip_prefix(b".").unwrap_or(rest));
    matches && fraction.is_some_and(|digits| digits.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn names() -> Names {
        let kept = [("created", "71"), ("listed", "73"), ("pod", "web-x7k2p")];
        let kept = kept.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let of_lists = BTreeSet::from(["listed".to_owned()]);
        Names::new(&BTreeMap::from(kept), &of_lists, r#"{"nodePort":30080}"#.into())
    }

    #[test]
    fn kept_values_are_named_and_others_replaced_by_their_class() {
        let object = json!({"metadata": {
            "name": "web-x7k2p", "resourceVersion": "71", "uid": "03b253b9-beed-4f85-bbaf-f5bae486fe8f",
            "creationTimestamp": "2026-11-15T23:35:26Z", "generation": 71
        }, "spec": {"renewTime": "2026-11-15T23:35:26.000001Z", "count": "71"}});

        assert_eq!(
            names().value(&object, false),
            json!({"metadata": {
                "name": "<pod>", "resourceVersion": "<created>", "uid": "<uid>",
                "creationTimestamp": "<time>", "generation": 71
            }, "spec": {"renewTime": "<time with fraction>", "count": "71"}})
        );
    }

    #[test]
    fn collection_version_is_not_mistaken_for_an_object_version() {
        let list = json!({"metadata": {"resourceVersion": "71", "continue": "abc"},
            "items": [{"metadata": {"resourceVersion": "71"}}, {"metadata": {"resourceVersion": "72"}}]});

        assert_eq!(
            names().value(&list, false),
            json!({"metadata": {"resourceVersion": "<collection version>", "continue": "<continue>"},
                "items": [{"metadata": {"resourceVersion": "<created>"}}, {"metadata": {"resourceVersion": "<version>"}}]})
        );
    }

    #[test]
    fn object_version_is_not_named_after_a_list() {
        let object = json!({"metadata": {"resourceVersion": "73"}});

        assert_eq!(
            names().value(&object, false),
            json!({"metadata": {"resourceVersion": "<version>"}})
        );
        assert_eq!(
            names().sentence("too old resource version: 73"),
            "too old resource version: <listed>"
        );
    }

    #[test]
    fn ages_are_replaced_in_tables_only() {
        let table =
            json!({"rows": [{"cells": ["web", "7s", "2m10s", "10.0.0.7", 1, null]}], "spec": {"wait": "7s"}});

        assert_eq!(
            names().value(&table, false),
            json!({"rows": [{"cells": ["web", "<age>", "<age>", "10.0.0.7", 1, null]}], "spec": {"wait": "7s"}})
        );
    }

    #[test]
    fn allocated_addresses_and_ports_are_replaced_and_chosen_ones_kept() {
        let service = json!({"clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7", "None"],
            "ports": [{"nodePort": 30080}, {"nodePort": 31000}, {"nodePort": 80}]});

        assert_eq!(
            names().value(&service, false),
            json!({"clusterIP": "<allocated address>", "clusterIPs": ["<allocated address>", "None"],
                "ports": [{"nodePort": 30080}, {"nodePort": "<allocated port>"}, {"nodePort": 80}]})
        );
    }

    #[test]
    fn an_object_within_a_message_is_normalized() {
        assert_eq!(
            names().sentence(
                r#"Invalid: "{\"resourceVersion\":\"381\",\"at\":\"2026-11-15T23:35:26Z\",\"n\":381}""#
            ),
            r#"Invalid: "{\"resourceVersion\":\"<version>\",\"at\":\"<time>\",\"n\":381}""#
        );
    }

    #[test]
    fn order_of_managed_fields_and_of_broken_rules_does_not_count() {
        let names = Names::new(&BTreeMap::new(), &BTreeSet::new(), String::new());
        let entry = |subresource: &str| json!({ "manager": "m", "subresource": subresource });
        let object = |first: &str, second: &str| json!({ "managedFields": [entry(first), entry(second)] });
        let response = |object: Value, rule: &str| Response {
            status: 200,
            headers: [(
                "warning".to_owned(),
                format!("299 - \"spec.{rule}: Invalid value: 9: failed rule: self < 5\""),
            )]
            .into(),
            body: Body::Json(object),
        };

        let (one, other) = (
            names.response(&response(object("", "status"), "a")),
            names.response(&response(object("status", ""), "b")),
        );

        assert_eq!(one, other);
        assert_ne!(one, names.response(&response(object("", "scale"), "a")));
    }

    #[test]
    fn conflicting_managers_are_sorted_and_other_causes_keep_their_order() {
        let details = |reason: &str, first: &str, second: &str| {
            let causes = [first, second].map(|message| json!({"reason": reason, "message": message}));
            names().value(&json!({ "causes": causes }), false)
        };

        let conflict = "FieldManagerConflict";
        assert_eq!(
            details(conflict, "alice", "bob"),
            details(conflict, "bob", "alice")
        );
        let invalid = "FieldValueInvalid";
        assert_ne!(details(invalid, "alice", "bob"), details(invalid, "bob", "alice"));
    }

    #[test]
    fn messages_are_normalized_word_by_word() {
        assert_eq!(
            names()
                .sentence("pods \"web-x7k2p\" uid 03b253b9-beed-4f85-bbaf-f5bae486fe8f: too old: 71 (209)"),
            "pods \"<pod>\" uid <uid>: too old: <created> (<version>)"
        );
    }
}
