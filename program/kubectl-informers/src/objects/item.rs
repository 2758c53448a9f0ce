//! `Item`: an object as the program holds it: any kind, in the encoding of its kind, redacted.

use std::error::Error;

use bytes::Bytes;
use kube::core::DynamicObject;
use kube_informers::codec::{Codec, Decoding, Expected};
use kube_informers::lazy::Lazy;
use kube_informers::lazy::Validate;
use kube_informers::source::{Fetched, ListItem};
use serde_json::{Value, json};

use crate::objects::kinds::Kind;
use crate::objects::redact::{Marks, Redaction};
use crate::objects::summary::Summary;
use crate::objects::who::Managers;

/// An object of any kind. Its content may be shown: [`admit`] has removed the rest before anything was retained.
///
/// Attached to it is a [`Summary`] of what was removed.
pub type Item = Lazy<DynamicObject>;

/// The fields that redaction may change.
const CONCEALED: [&str; 5] = [
    "data",
    "stringData",
    "metadata.annotations",
    "metadata.labels",
    "metadata.managedFields",
];
/// The annotation that is redacted for every kind.
const LAST_APPLIED: &str = r#"metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]"#;

/// The transform of every informer. Redacts the object, and summarises its managed fields, which stay in the object only if
/// `managed_fields`.
///
/// # Errors
///
/// The object cannot be decoded or redacted, so that it must not be shown. The text names fields, and no values.
pub fn admit(
    mut item: Item,
    kind: &Kind,
    redaction: &Redaction,
    managed_fields: bool,
) -> Result<Option<Item>, Box<dyn Error + Send + Sync>> {
    let managers = match item.value("metadata.managedFields")? {
        Some(fields) => {
            if !managed_fields {
                item.set("metadata.managedFields", None)?;
            }
            Managers::of(&fields)
        }
        None => Managers::default(),
    };
    let summary = Summary {
        managers,
        marks: conceal(&mut item, kind, redaction)?,
    };
    // What cannot be shown is quarantined and reported.
    item.project::<Value>()?;
    item.attach(&summary.to_bytes());
    Ok(Some(item))
}

/// Redacts the values in the bytes.
fn conceal(
    item: &mut Item,
    kind: &Kind,
    redaction: &Redaction,
) -> Result<Marks, Box<dyn Error + Send + Sync>> {
    // Of most kinds one annotation is redacted, which most objects do not have.
    let is_affected = kind.is_secret() || item.path(LAST_APPLIED)?.is_some();
    if redaction.shows() || !is_affected {
        return Ok(Marks::new());
    }
    let mut part = json!({ "metadata": {} });
    let is_data = |field: &str| !field.starts_with("metadata.");
    for field in CONCEALED {
        // The data of other kinds is no secret.
        if is_data(field) && !kind.is_secret() {
            continue;
        }
        if let Some(value) = item.value(field)? {
            match field.strip_prefix("metadata.") {
                Some(name) => part["metadata"][name] = value,
                None => part[field] = value,
            }
        }
    }
    let before = part.clone();
    let marks = redaction.apply(kind, &mut part);
    for field in CONCEALED {
        let pointer = format!("/{}", field.replace('.', "/"));
        let (was, is) = (before.pointer(&pointer), part.pointer(&pointer));
        // Data is replaced even if nothing in it was concealed: a JSON document may have the field twice.
        if was == is && !(is_data(field) && is.is_some()) {
            continue;
        }
        let value = match (field, is) {
            // In protobuf the values of `data` are bytes, and managed fields are a list. Their placeholders are added
            // when the object is shown.
            ("data", Some(Value::Object(values))) if item.is_protobuf() => {
                let names = values.keys().map(|name| (name.clone(), Value::from("")));
                Some(Value::Object(names.collect()))
            }
            ("metadata.managedFields", _) => None,
            (_, value) => value.cloned(),
        };
        item.set(field, value)?;
    }
    Ok(marks)
}

/// An object from its JSON, as [`tree`](Contents::tree) gives it, with what remains of values that were redacted before.
///
/// # Errors
///
/// The object cannot be decoded, so that it must not be shown.
pub fn restored(
    kind: &Kind,
    object: &[u8],
    marks: Marks,
    redaction: &Redaction,
    managed_fields: bool,
) -> Result<Item, Box<dyn Error + Send + Sync>> {
    let mut list = format!(
        "{{\"kind\":{},\"apiVersion\":{},\"items\":[",
        Value::from(format!("{}List", kind.kind)),
        Value::from(kind.api_version())
    )
    .into_bytes();
    list.extend_from_slice(object);
    list.extend_from_slice(b"]}");
    let item = first_of_list(kind, "application/json", list.into())?;
    let Some(mut item) = item.map_or(Ok(None), |item| admit(item, kind, redaction, managed_fields))? else {
        return Err("it is not an object with a name".into());
    };
    if !marks.is_empty() {
        let mut summary = item.summary();
        summary.marks.extend(marks);
        item.attach(&summary.to_bytes());
    }
    Ok(item)
}

/// The first object of a list.
fn first_of_list(
    kind: &Kind,
    content_type: &str,
    list: Bytes,
) -> Result<Option<Item>, Box<dyn Error + Send + Sync>> {
    let decoding = Decoding {
        expected: Expected {
            api_version: kind.api_version(),
            kind: kind.kind.clone(),
            metadata_only: false,
        },
        known: None,
        drop_managed_fields: false,
        max_object_size: list.len(),
        shard: None,
    };
    let codec = Codec::<Item>::new().validate(Validate::OnAccess);
    let mut decoder = codec.list_decoder(Some(content_type), decoding)?;
    decoder.push(list);
    while let Some(item) = decoder.next()? {
        if let ListItem::Object(Fetched::New(item)) = item {
            return Ok(Some(*item));
        }
    }
    Ok(None)
}

/// What can be read of an [`Item`].
pub trait Contents {
    /// The object as JSON. Decoded anew at every call.
    fn tree(&self) -> Tree;

    /// What was removed from the object.
    fn summary(&self) -> Summary;

    /// Its size in bytes, as it is held.
    fn size(&self) -> usize;
}

impl Contents for Item {
    fn tree(&self) -> Tree {
        // It was decoded when it was admitted.
        let mut tree: Value = self.project().unwrap_or_default();
        if let Value::Object(fields) = &mut tree {
            // List items omit them.
            for name in ["apiVersion", "kind"] {
                if !fields.contains_key(name)
                    && let Ok(Some(text)) = self.text(name)
                {
                    fields.insert(name.to_owned(), Value::from(text));
                }
            }
        }
        for (pointer, mark) in &self.summary().marks {
            mark.show(&mut tree, pointer);
        }
        Tree(tree)
    }

    fn summary(&self) -> Summary {
        Summary::from_bytes(self.attachment())
    }

    fn size(&self) -> usize {
        self.bytes().len() + self.attachment().len()
    }
}

/// An object as JSON.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree(pub Value);

impl Tree {
    /// A field by JSON pointer.
    pub fn get(&self, pointer: &str) -> Option<&Value> {
        self.0.pointer(pointer)
    }

    /// A text field by JSON pointer.
    pub fn text(&self, pointer: &str) -> Option<&str> {
        self.get(pointer)?.as_str()
    }
}

/// An object of a kind as it is received in JSON, and admitted.
///
/// # Panics
///
/// It cannot be decoded.
#[cfg(test)]
pub(crate) fn received(kind: &Kind, object: Value) -> Item {
    admit(tests::decoded(kind, &object), kind, &Redaction::on(), false)
        .unwrap()
        .unwrap()
}

#[cfg(test)]
mod tests {
    use kube_informers::Object;

    use super::*;

    /// An object as a server sends it in JSON.
    pub(super) fn decoded(kind: &Kind, object: &Value) -> Item {
        let list = json!({ "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "items": [object] });
        first_of_list(kind, "application/json", list.to_string().into())
            .unwrap()
            .unwrap()
    }

    fn pods() -> Kind {
        Kind::for_tests("", "v1", "Pod", "pods")
    }

    #[test]
    fn identity_of_an_item_is_read_from_its_bytes() {
        let item = received(
            &pods(),
            json!({
                "metadata": {
                    "name": "cart", "namespace": "shop", "uid": "u1", "resourceVersion": "7",
                    "labels": { "app": "cart" },
                    "ownerReferences": [
                        { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-1", "uid": "u0", "controller": true },
                    ],
                },
            }),
        );

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
    fn an_item_of_a_list_gets_kind_and_version() {
        let item = received(
            &Kind::for_tests("apps", "v1", "Deployment", "deployments"),
            json!({ "metadata": { "name": "cart" }, "spec": { "paused": true } }),
        );

        assert_eq!(
            item.tree().0,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment",
                "metadata": { "name": "cart" }, "spec": { "paused": true },
            })
        );
    }

    #[test]
    fn managed_fields_are_summarised_and_cut() {
        let object = json!({
            "metadata": { "name": "cart", "managedFields": [
                { "manager": "kubelet", "operation": "Update", "fieldsV1": { "f:status": {} } },
            ] },
        });
        let kept = admit(decoded(&pods(), &object), &pods(), &Redaction::on(), true);

        let item = received(&pods(), object);

        assert!(!String::from_utf8_lossy(&item.bytes()).contains("managedFields"));
        let creators = item.summary().managers.creators().unwrap();
        assert_eq!(&*creators[0].author.manager, "kubelet");
        assert!(
            kept.unwrap()
                .unwrap()
                .tree()
                .get("/metadata/managedFields/0")
                .is_some()
        );
    }

    /// The same object as a server sends it in protobuf.
    fn protobuf(kind: &Kind, object: &Value) -> Item {
        let types = kube_protobuf::TypeMeta {
            api_version: &kind.api_version(),
            kind: &format!("{}List", kind.kind),
        };
        let message = kube_protobuf::schema::lookup(&kind.api_version(), &kind.kind).unwrap();
        let item = kube_protobuf::ser::to_message(message, object).unwrap();
        let list = kube_protobuf::envelope::to_list_body(types, &Default::default(), [item.as_slice()]);
        first_of_list(kind, kube_protobuf::MEDIA_TYPE, list.into())
            .unwrap()
            .unwrap()
    }

    #[test]
    fn no_value_of_a_secret_is_held_in_either_encoding() {
        let kind = Kind::for_tests("", "v1", "Secret", "secrets");
        let object = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
            "metadata": {
                "name": "db", "namespace": "shop",
                "annotations": { "hint": "it is correct-horse!", "owner": "team shop" },
                "labels": { "copy": "correct-horse" },
                "managedFields": [{
                    "manager": "m", "operation": "Update", "fieldsType": "FieldsV1",
                    "fieldsV1": { "f:metadata": { "f:finalizers": { "v:\"correct-horse\"": {} } } },
                }],
            },
            "data": { "password": "Y29ycmVjdC1ob3JzZQ==" },
            "stringData": { "plain": "correct-horse" },
        });
        for (item, managed_fields) in [
            (decoded(&kind, &object), false),
            (decoded(&kind, &object), true),
            (protobuf(&kind, &object), false),
            (protobuf(&kind, &object), true),
        ] {
            let item = admit(item, &kind, &Redaction::on(), managed_fields)
                .unwrap()
                .unwrap();

            for held in [&*item.bytes(), item.attachment()] {
                let text = String::from_utf8_lossy(held);
                assert!(
                    !text.contains("correct-horse") && !text.contains("Y29y"),
                    "{text}"
                );
            }
            assert_eq!(item.object_label("copy"), Some("<13 bytes>"));
            let mut expected = object.clone();
            expected["metadata"]["annotations"]["hint"] = "<20 bytes>".into();
            expected["metadata"]["labels"]["copy"] = "<13 bytes>".into();
            expected["data"]["password"] = "<13 bytes>".into();
            expected["stringData"]["plain"] = "<13 bytes>".into();
            let mut tree = item.tree().0;
            let fields = tree["metadata"].as_object_mut().unwrap().remove("managedFields");
            expected["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("managedFields");
            assert_eq!(tree, expected);
            let shown = fields.and_then(|fields| Some(fields.as_str()?.starts_with('<')));
            assert_eq!(shown, managed_fields.then_some(true));
        }
    }

    #[test]
    fn a_change_of_equal_length_is_seen_in_protobuf() {
        let kind = Kind::for_tests("", "v1", "Secret", "secrets");
        let redaction = Redaction::on();
        let marks = |value: &str| {
            let object = json!({ "metadata": { "name": "db" }, "data": { "password": value } });
            let item = admit(protobuf(&kind, &object), &kind, &redaction, false);
            item.unwrap().unwrap().summary().marks
        };

        assert_eq!(marks("YWFhYQ=="), marks("YWFhYQ=="));
        assert_ne!(marks("YWFhYQ=="), marks("YmJiYg=="));
    }

    #[test]
    fn a_second_field_of_the_same_name_does_not_escape_redaction() {
        let kind = Kind::for_tests("", "v1", "Secret", "secrets");
        for (first, second) in [("{}", r#"{"a":"Y2FuYXJ5"}"#), (r#"{"a":"Y2FuYXJ5"}"#, "{}")] {
            let list = format!(
                r#"{{"kind":"SecretList","apiVersion":"v1","items":[{{"metadata":{{"name":"db"}},"data":{first},"data":{second}}}]}}"#
            );
            let item = first_of_list(&kind, "application/json", list.into())
                .unwrap()
                .unwrap();

            let item = admit(item, &kind, &Redaction::on(), false).unwrap().unwrap();

            assert!(!String::from_utf8_lossy(&item.bytes()).contains("Y2Fu"));
        }
    }

    #[test]
    fn a_restored_item_equals_the_one_that_was_held() {
        let kind = Kind::for_tests("", "v1", "Secret", "secrets");
        let object = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": { "name": "db", "managedFields": [
                { "manager": "m", "operation": "Update", "fieldsV1": { "f:data": {} } },
            ] },
            "data": { "password": "Y29ycmVjdC1ob3JzZQ==" },
        });
        let held = admit(protobuf(&kind, &object), &kind, &Redaction::on(), true)
            .unwrap()
            .unwrap();
        let bytes = serde_json::to_vec(&held.tree().0).unwrap();
        let restore =
            |bytes: &[u8], redaction| restored(&kind, bytes, held.summary().marks, &redaction, true);

        let item = restore(&bytes, Redaction::off()).unwrap();

        assert_eq!(item.tree(), held.tree());
        assert_eq!(item.summary(), held.summary());
        let unmasked = serde_json::to_vec(&object).unwrap();
        let item = restored(&kind, &unmasked, Marks::new(), &Redaction::on(), false).unwrap();
        assert_eq!(item.tree().text("/data/password"), Some("<13 bytes>"));
        for malformed in [&b"{}"[..], b"[]", b"", b"{", b"{\"metadata\":{}}", b"],[", b"]}"] {
            assert!(restore(malformed, Redaction::off()).is_err());
        }
    }

    #[test]
    fn secrets_are_shown_on_request() {
        let kind = Kind::for_tests("", "v1", "Secret", "secrets");
        let object = json!({ "metadata": { "name": "db" }, "data": { "password": "YWFhYQ==" } });

        let item = admit(protobuf(&kind, &object), &kind, &Redaction::off(), false);

        let item = item.unwrap().unwrap();
        assert_eq!(item.tree().text("/data/password"), Some("YWFhYQ=="));
        assert!(item.summary().marks.is_empty());
    }

    #[test]
    fn both_encodings_show_the_same() {
        let object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "cart", "namespace": "shop",
                "annotations": { "kubectl.kubernetes.io/last-applied-configuration": "{}" },
            },
            "spec": { "containers": [{ "name": "web", "image": "shop/web:1", "resources": { "limits": { "cpu": "1" } } }] },
            "status": { "phase": "Running", "startTime": "2026-01-02T03:04:05Z" },
        });

        let [json, protobuf] = [decoded(&pods(), &object), protobuf(&pods(), &object)].map(|item| {
            admit(item, &pods(), &Redaction::on(), false)
                .unwrap()
                .unwrap()
                .tree()
        });

        let annotation = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";
        assert_eq!(json.text(annotation), Some("<2 bytes>"));
        assert_eq!(json.get("/spec"), protobuf.get("/spec"));
        assert_eq!(json.get("/status"), protobuf.get("/status"));
        assert_eq!(protobuf.text(annotation), Some("<2 bytes>"));
        assert_eq!(
            (protobuf.text("/apiVersion"), protobuf.text("/kind")),
            (Some("v1"), Some("Pod"))
        );
    }

    #[test]
    fn an_object_that_cannot_be_shown_is_refused() {
        // A Secret whose data is not base64 could not be redacted by its length.
        let kind = Kind::for_tests("", "v1", "Secret", "secrets");
        let item = decoded(
            &kind,
            &json!({ "metadata": { "name": "db", "annotations": 7 }, "data": "plain" }),
        );

        match admit(item, &kind, &Redaction::on(), false) {
            Ok(item) => assert!(!item.unwrap().tree().0.to_string().contains("plain")),
            Err(error) => assert!(!error.to_string().contains("plain"), "{error}"),
        }
    }
}
