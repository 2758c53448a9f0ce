//! Transforms on bytes.

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube_informers::error::LazyError;
use kube_informers::lazy::Lazy;
use kube_informers::source::Encoding;
use kube_informers::source::SourceOptions;
use kube_informers::{Informer, ListWatch, Object, Scope};
use kube_testserver::TestServer;
use kube_testserver::builders::{pod, secret};
use serde_json::{Value, json};

use super::{ENCODINGS, encoded_as, lazy_pods};
use crate::support::*;

/// Replaces the values of a Secret by their length.
fn redact(
    mut secret: Lazy<Secret>,
) -> Result<Option<Lazy<Secret>>, Box<dyn std::error::Error + Send + Sync>> {
    let Some(Value::Object(mut data)) = secret.value("data")? else {
        return Ok(Some(secret));
    };
    for value in data.values_mut() {
        *value = json!("PGhpZGRlbj4=");
    }
    secret.set("data", Value::Object(data))?;
    Ok(Some(secret))
}

#[tokio::test(start_paused = true)]
async fn secret_values_are_redacted_before_they_are_held() {
    for encoding in ENCODINGS {
        let server = TestServer::new();
        let mut object = secret("ns", "token");
        let value = ByteString(b"canary".to_vec());
        object.data = Some([("password".to_owned(), value)].into());
        server.create(object);
        let source =
            ListWatch::<Lazy<Secret>>::new(server.client(), Scope::all()).options(encoded_as(encoding));
        let informer = synced(Informer::from_list_watch(source).try_transform(redact)).await;

        let object = informer.store().get("ns/token").unwrap();
        let held = object.bytes();
        for canary in [&b"canary"[..], b"Y2FuYXJ5"] {
            assert!(
                !held.windows(canary.len()).any(|part| part == canary),
                "{encoding:?}"
            );
        }
        let decoded = object.get().unwrap();
        assert_eq!(decoded.data.as_ref().unwrap()["password"].0, b"<hidden>");
        assert_eq!(decoded.type_.as_deref(), Some("Opaque"));
        assert_eq!(object.object_uid(), decoded.metadata.uid.as_deref());
    }
}

#[tokio::test(start_paused = true)]
async fn a_summary_of_managed_fields_is_attached_before_they_are_cut() {
    for encoding in ENCODINGS {
        let server = TestServer::new();
        server.load([json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "a", "namespace": "ns",
                "managedFields": [{"manager": "helm", "operation": "Update", "apiVersion": "v1",
                    "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {"containers": [{"name": "main", "image": "i"}]},
        })]);
        let source = ListWatch::<Lazy<Pod>>::new(server.client(), Scope::all()).options(SourceOptions {
            drop_managed_fields: Some(false),
            ..encoded_as(encoding)
        });
        let informer = Informer::from_list_watch(source).try_transform(|mut pod| {
            let managers = match pod.path("metadata.managedFields")? {
                Some(entries) => entries.deserialize::<Vec<ManagedFieldsEntry>>()?,
                None => Vec::new(),
            };
            let names: Vec<_> = managers.into_iter().filter_map(|entry| entry.manager).collect();
            pod.attach(names.join(",").as_bytes());
            pod.set("metadata.managedFields", None)?;
            Ok(Some(pod))
        });
        let informer = synced(informer).await;
        let object = informer.store().get("ns/a").unwrap();
        assert!(
            object.attachment().starts_with(b"helm"),
            "{:?}",
            object.attachment()
        );
        assert_eq!(object.get().unwrap().metadata.managed_fields, None);
        assert!(!object.bytes().windows(4).any(|part| part == b"helm"));
        assert_eq!(object.object_name(), "a");
    }
}

#[tokio::test(start_paused = true)]
async fn setting_a_field_keeps_all_others_and_rejects_what_does_not_fit() {
    let server = TestServer::new();
    server.create(pod("ns", "a"));
    for encoding in ENCODINGS {
        let informer = synced(lazy_pods(&server, encoding)).await;
        let original = informer.store().get("ns/a").unwrap();
        let mut object = Lazy::clone(&original);
        object.set("spec.nodeName", json!("n9")).unwrap();
        object
            .set("metadata.labels", json!({"b": "2", "a": "\"1\""}))
            .unwrap();
        assert_eq!(object.text("spec.nodeName").unwrap().as_deref(), Some("n9"));
        assert_eq!(object.object_label("a"), Some("\"1\""));
        assert_eq!(object.object_labels().count(), 2);
        let mut expected: Pod = (*original.get().unwrap()).clone();
        expected.spec.as_mut().unwrap().node_name = Some("n9".to_owned());
        expected.metadata.labels = Some(
            [
                ("a".to_owned(), "\"1\"".to_owned()),
                ("b".to_owned(), "2".to_owned()),
            ]
            .into(),
        );
        assert_eq!(*object.get().unwrap(), expected);

        // A decoded object of the old bytes is not served for the new ones.
        object.set("spec.nodeName", None).unwrap();
        assert_eq!(object.get().unwrap().spec.as_ref().unwrap().node_name, None);

        let refused = object.set("spec.containers[main].image", json!("x")).unwrap_err();
        assert!(refused.to_string().contains("ns/a"), "{refused}");
        if encoding == Encoding::Protobuf {
            let refused = object.set("spec.nodeName", json!({"x": "canary"})).unwrap_err();
            assert!(matches!(refused, LazyError::Unencodable { .. }), "{refused}");
            assert!(!refused.to_string().contains("canary"), "{refused}");
        }
        assert_eq!(object.get().unwrap().metadata.name.as_deref(), Some("a"));
    }
}
