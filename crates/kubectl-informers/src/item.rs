//! `Item`: an object as the program holds it: any kind, as JSON, redacted.

use std::borrow::Cow;
use std::sync::OnceLock;

use kube_informers::Object;
use kube_informers::object::OwnerRef;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::kinds::Kind;
use crate::redact::{Marks, Redaction};
use crate::who::Managers;

/// An object of any kind. Its content may be shown: [`Item::admit`] is the only constructor.
///
/// Held as text, which takes a tenth of the memory of a tree of values, and parsed on access. Its identity can be
/// read without parsing.
pub struct Item {
    text: Box<str>,
    identity: Identity,
    marks: Marks,
    managers: Managers,
    /// The parsed tree, once it has been requested.
    value: OnceLock<Box<Value>>,
}

#[derive(Clone, Default)]
struct Identity {
    name: Box<str>,
    namespace: Option<Box<str>>,
    uid: Option<Box<str>>,
    resource_version: Option<Box<str>>,
    labels: Box<[(Box<str>, Box<str>)]>,
    owners: Box<[Owner]>,
}

#[derive(Clone)]
struct Owner {
    api_version: Box<str>,
    kind: Box<str>,
    name: Box<str>,
    uid: Box<str>,
    controller: bool,
}

/// An object as received. It becomes an [`Item`] by [`Item::admit`] in the informer's transform, before anything
/// else of the program sees it.
impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Self {
            text: Box::default(),
            identity: Identity::of(&value),
            marks: Marks::default(),
            managers: Managers::default(),
            value: OnceLock::from(Box::new(value)),
        })
    }
}

impl Item {
    /// Redacts the object, and adds `kind` and `apiVersion`, which list items omit. Managed fields are read for the
    /// authors of changes, and stay in the object only if `managed_fields`.
    pub fn admit(&mut self, kind: &Kind, redaction: &Redaction, managed_fields: bool) {
        let mut value = match self.value.take() {
            Some(value) => *value,
            None => self.parse(),
        };
        if let Value::Object(fields) = &mut value {
            fields
                .entry("apiVersion")
                .or_insert_with(|| Value::from(kind.api_version()));
            fields
                .entry("kind")
                .or_insert_with(|| Value::from(kind.kind.as_str()));
        }
        self.managers = Managers::take(&mut value, managed_fields);
        self.marks = redaction.apply(kind, &mut value);
        if !self.marks.is_empty() {
            // Labels are shown, too, and may have repeated a value.
            self.identity = Identity::of(&value);
        }
        self.text = value.to_string().into_boxed_str();
    }

    /// The object as JSON. The tree is kept with the object: for a single access use
    /// [`peek`](Self::peek).
    pub fn value(&self) -> &Value {
        self.value.get_or_init(|| Box::new(self.parse()))
    }

    /// The object as JSON; the tree is not kept.
    pub fn peek(&self) -> Cow<'_, Value> {
        match self.value.get() {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(self.parse()),
        }
    }

    /// The same object with its tree, for many accesses.
    pub fn open(&self) -> Self {
        Self {
            text: Box::default(),
            identity: self.identity.clone(),
            marks: self.marks.clone(),
            managers: self.managers.without_fields(),
            value: OnceLock::from(Box::new(self.peek().into_owned())),
        }
    }

    /// The text was produced by our own serializer, so it can be parsed.
    fn parse(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// The object as JSON text.
    pub fn json(&self) -> Cow<'_, str> {
        match self.text.is_empty() {
            false => Cow::Borrowed(&self.text),
            true => Cow::Owned(self.peek().to_string()),
        }
    }

    /// The size of the object as text, in bytes.
    pub fn size(&self) -> usize {
        self.text.len()
    }

    /// Who has written to it.
    pub fn managers(&self) -> &Managers {
        &self.managers
    }

    /// Hashes of the redacted values, for comparison.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// A field by JSON pointer. The tree is kept, as for [`value`](Self::value).
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        self.value().pointer(pointer)
    }

    /// A text field by JSON pointer. The tree is kept, as for [`value`](Self::value).
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.get(pointer)?.as_str()
    }
}

impl Identity {
    fn of(value: &Value) -> Self {
        let metadata = |field: &str| value.get("metadata")?.get(field);
        let text = |field: &str| metadata(field).and_then(Value::as_str).map(Box::from);
        let labels = metadata("labels").and_then(Value::as_object);
        let owners = metadata("ownerReferences").and_then(Value::as_array);
        Self {
            name: text("name").unwrap_or_default(),
            namespace: metadata("namespace")
                .and_then(Value::as_str)
                .filter(|namespace| !namespace.is_empty())
                .map(Box::from),
            uid: text("uid"),
            resource_version: text("resourceVersion"),
            labels: labels
                .into_iter()
                .flatten()
                .filter_map(|(key, value)| Some((Box::from(key.as_str()), Box::from(value.as_str()?))))
                .collect(),
            owners: owners.into_iter().flatten().filter_map(Owner::of).collect(),
        }
    }
}

impl Owner {
    fn of(owner: &Value) -> Option<Self> {
        let text = |field: &str| owner.get(field).and_then(Value::as_str).map(Box::from);
        Some(Self {
            api_version: text("apiVersion")?,
            kind: text("kind")?,
            name: text("name")?,
            uid: text("uid")?,
            controller: owner.get("controller").and_then(Value::as_bool).unwrap_or(false),
        })
    }
}

impl Object for Item {
    fn object_name(&self) -> &str {
        &self.identity.name
    }

    fn object_namespace(&self) -> Option<&str> {
        self.identity.namespace.as_deref()
    }

    fn object_uid(&self) -> Option<&str> {
        self.identity.uid.as_deref()
    }

    fn object_version(&self) -> Option<&str> {
        self.identity.resource_version.as_deref()
    }

    fn object_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.identity.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    fn object_owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.identity.owners.iter().map(|owner| OwnerRef {
            api_version: &owner.api_version,
            kind: &owner.kind,
            name: &owner.name,
            uid: &owner.uid,
            controller: owner.controller,
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

        assert_eq!(
            (item.object_name(), item.object_namespace()),
            ("cart", Some("shop"))
        );
        assert_eq!(
            (item.object_uid(), item.object_version()),
            (Some("u1"), Some("7"))
        );
        assert_eq!(item.object_label("app"), Some("cart"));
        assert_eq!(
            item.object_owners().map(|owner| owner.name).collect::<Vec<_>>(),
            ["cart-1"]
        );
    }

    #[test]
    fn a_value_that_is_not_an_object_has_no_name() {
        for text in ["null", "[]", "7", "{\"metadata\": 3}"] {
            let item: Item = serde_json::from_str(text).unwrap();
            assert_eq!(
                (item.object_name(), item.object_namespace(), item.object_uid()),
                ("", None, None)
            );
        }
    }

    #[test]
    fn an_item_of_a_list_gets_kind_and_version() {
        let mut item: Item = serde_json::from_value(json!({ "metadata": { "name": "cart" } })).unwrap();

        item.admit(
            &Kind::for_tests("apps", "v1", "Deployment", "deployments"),
            &Redaction::on(),
            false,
        );

        assert_eq!(item.text("/apiVersion"), Some("apps/v1"));
        assert_eq!(item.text("/kind"), Some("Deployment"));
    }

    #[test]
    fn an_admitted_object_is_readable_in_every_way() {
        let mut item: Item =
            serde_json::from_value(json!({ "metadata": { "name": "cart" }, "spec": { "size": 1.5 } }))
                .unwrap();
        item.admit(&Kind::for_tests("", "v1", "Pod", "pods"), &Redaction::on(), false);
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "cart" }, "spec": { "size": 1.5 },
        });

        assert_eq!(*item.peek(), expected);
        assert_eq!(*item.open().value(), expected);
        assert!(item.value.get().is_none(), "looking leaves nothing behind");
        assert_eq!(item.get("/spec/size"), Some(&json!(1.5)));
        assert_eq!(*item.value(), expected);
    }
}
