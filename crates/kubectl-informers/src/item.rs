//! `Item`: an object as the program holds it. Any kind, as JSON, with what must not be shown already taken out.

use kube_informers::{Object, OwnerRef};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kinds::Kind;
use crate::redact::{Marks, Redaction};

/// An object of any kind. What it holds may be shown: [`Item::admit`] is the only way in.
pub struct Item {
    value: Value,
    marks: Marks,
}

/// What came from the wire. It becomes an [`Item`] by [`Item::admit`] in the informer's transform, before anything
/// else of the program sees it.
impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self {
            value: Value::deserialize(deserializer)?,
            marks: Marks::default(),
        })
    }
}

impl Item {
    /// Takes out what must not be shown, and puts in kind and version, which lists leave out.
    pub fn admit(&mut self, kind: &Kind, redaction: &Redaction) {
        if let Value::Object(fields) = &mut self.value {
            fields
                .entry("apiVersion")
                .or_insert_with(|| Value::from(kind.api_version()));
            fields
                .entry("kind")
                .or_insert_with(|| Value::from(kind.kind.as_str()));
        }
        self.marks = redaction.apply(kind, &mut self.value);
    }

    /// The object as JSON.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// What was taken out, to see that it changed.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// A field by JSON pointer.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        self.value.pointer(pointer)
    }

    /// A text field by JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.get(pointer)?.as_str()
    }

    fn metadata(&self, field: &str) -> Option<&Value> {
        self.value.get("metadata")?.get(field)
    }
}

impl Object for Item {
    fn name(&self) -> &str {
        self.metadata("name").and_then(Value::as_str).unwrap_or_default()
    }

    fn namespace(&self) -> Option<&str> {
        self.metadata("namespace")
            .and_then(Value::as_str)
            .filter(|namespace| !namespace.is_empty())
    }

    fn uid(&self) -> Option<&str> {
        self.metadata("uid")?.as_str()
    }

    fn resource_version(&self) -> Option<&str> {
        self.metadata("resourceVersion")?.as_str()
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let labels = self.metadata("labels").and_then(Value::as_object);
        labels
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.metadata("labels")?.get(key)?.as_str()
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        let owners = self.metadata("ownerReferences").and_then(Value::as_array);
        owners.into_iter().flatten().filter_map(|owner| {
            let text = |field: &str| owner.get(field).and_then(Value::as_str);
            Some(OwnerRef {
                api_version: text("apiVersion")?,
                kind: text("kind")?,
                name: text("name")?,
                uid: text("uid")?,
                controller: owner.get("controller").and_then(Value::as_bool).unwrap_or(false),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_says_who_it_is() {
        let item: Item = serde_json::from_value(json!({
            "metadata": {
                "name": "cart", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
                "labels": { "app": "cart" },
                "ownerReferences": [
                    { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-1", "uid": "u0", "controller": true },
                ],
            },
        }))
        .unwrap();

        assert_eq!((item.name(), item.namespace()), ("cart", Some("shop")));
        assert_eq!((item.uid(), item.resource_version()), (Some("u1"), Some("7")));
        assert_eq!(item.label("app"), Some("cart"));
        assert_eq!(
            item.owners().map(|owner| owner.name).collect::<Vec<_>>(),
            ["cart-1"]
        );
    }

    #[test]
    fn what_is_no_object_has_no_name() {
        for text in ["null", "[]", "7", "{\"metadata\": 3}"] {
            let item: Item = serde_json::from_str(text).unwrap();
            assert_eq!((item.name(), item.namespace(), item.uid()), ("", None, None));
        }
    }

    #[test]
    fn an_item_of_a_list_gets_kind_and_version() {
        let mut item: Item = serde_json::from_value(json!({ "metadata": { "name": "cart" } })).unwrap();

        item.admit(
            &Kind::for_tests("apps", "v1", "Deployment", "deployments"),
            &Redaction::on(),
        );

        assert_eq!(item.text("/apiVersion"), Some("apps/v1"));
        assert_eq!(item.text("/kind"), Some("Deployment"));
    }
}
