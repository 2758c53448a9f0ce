//! Objects as Go prints them: fields in the order of the struct.

use kube_protobuf::schema::{Kind as Type, Message, Shape};
use serde_json::{Map, Value};

use crate::kinds::Kind;

/// An object after a patch, as a real server prints it before it decodes it: what the patch has touched is in alphabetical order, because
/// it passed through maps, the rest in the order of Go's structs.
pub(crate) fn printed_patch(kind: &Kind, before: &Value, patched: &Value) -> String {
    let mut out = String::new();
    print(kind.message(), Some(before), patched, &mut out);
    out
}

fn print(message: Option<&'static Message>, before: Option<&Value>, value: &Value, out: &mut String) {
    let touched = before.is_some_and(|before| before != value);
    match value {
        Value::Object(fields) => {
            let names = match message {
                Some(message) if !touched => in_struct_order(message, fields),
                _ => fields.keys().map(String::as_str).collect(),
            };
            let mut separator = '{';
            for name in names {
                let Some(value) = fields.get(name) else { continue };
                out.push(separator);
                separator = ',';
                out.push_str(&Value::from(name).to_string());
                out.push(':');
                let before = before.filter(|_| touched).and_then(|before| before.get(name));
                print(message_of(message, name), before, value, out);
            }
            if separator == '{' {
                out.push('{');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                // The items of a list are either all as before, or as the patch has them.
                print(message.filter(|_| !touched), None, item, out);
            }
            out.push(']');
        }
        scalar => out.push_str(&scalar.to_string()),
    }
}

/// The type of a field, or of the items of a list or a map.
fn message_of(message: Option<&'static Message>, name: &str) -> Option<&'static Message> {
    let (_, field) = super::field_of(message?, name)?;
    let is_message = field.kind() == Type::Message && field.shape() != Shape::Map;
    field.message().filter(|_| is_message)
}

/// The names of the fields that an object has, in the order of Go's struct.
fn in_struct_order<'a>(message: &'static Message, fields: &'a Map<String, Value>) -> Vec<&'a str> {
    // Of types that the table does not have, the fields are in the order of their numbers, as in most structs.
    let order = super::internal::struct_order(message).unwrap_or_else(|| {
        let mut order = if message.has_object_meta() {
            vec!["kind", "apiVersion"]
        } else {
            Vec::new()
        };
        flatten(message, &mut order);
        order
    });
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_by_key(|name| order.iter().position(|known| known == name).unwrap_or(usize::MAX));
    names
}

fn flatten(message: &'static Message, order: &mut Vec<&'static str>) {
    for (_, field) in message.fields() {
        match (field.shape(), field.message()) {
            (Shape::Embedded, Some(inner)) => flatten(inner, order),
            _ => order.push(field.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn touched_parts_are_sorted_and_others_are_in_the_order_of_the_struct() {
        let kind = Registry::builtin().kind("", "v1", "Pod").unwrap();
        let before = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "creationTimestamp": null, "labels": { "b": "1", "a": "2" }, "name": "p", "uid": "u" },
            "spec": {
                "containers": [{ "imagePullPolicy": "Always", "terminationMessagePolicy": "File", "name": "c" }],
                "initContainers": [], "volumes": [], "dnsPolicy": "Default",
            },
        });
        let mut patched = before.clone();
        patched["spec"]["dnsPolicy"] = json!(1);

        let printed = printed_patch(&kind, &before, &patched);

        assert_eq!(
            printed,
            "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"uid\":\"u\",\"creationTimestamp\":null,\
             \"labels\":{\"a\":\"2\",\"b\":\"1\"}},\"spec\":{\"containers\":[{\"name\":\"c\",\"terminationMessagePolicy\":\
             \"File\",\"imagePullPolicy\":\"Always\"}],\"dnsPolicy\":1,\"initContainers\":[],\"volumes\":[]}}"
        );
        patched["spec"]["containers"][0]["name"] = json!(2);
        assert!(printed_patch(&kind, &before, &patched).contains("[{\"imagePullPolicy\""));
        let same = printed_patch(&kind, &before, &before);
        assert!(
            same.contains("\"spec\":{\"volumes\":[],\"initContainers\":[],\"containers\""),
            "{same}"
        );
    }
}
