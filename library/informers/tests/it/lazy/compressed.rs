//! Objects that are compressed against similar ones.

use kube_informers::source::SourceOptions;
use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use kube_informers::lazy::Lazy;
use kube_informers::source::Encoding;
use kube_informers::{Informer, ListWatch, Object, Scope, Selector};
use kube_testserver::TestServer;
use kube_testserver::builders::{Build, pod, replica_set};
use serde_json::json;

use super::{ENCODINGS, encoded_as};
use crate::support::*;

/// A pod of about 2 kB, of which its siblings share most.
fn replica(name: &str, set: &ReplicaSet) -> Pod {
    let mut pod = pod("ns", name).label("app", "web").owner(set);
    let spec = pod.spec.as_mut().unwrap();
    spec.node_name = Some(format!("node-of-{name}"));
    let env = (0_u64..40).map(|number| EnvVar {
        name: format!("SETTING_{number}"),
        // Nothing that could be compressed without a sibling.
        value: Some(
            [0x9E37_79B9_7F4A_7C15_u64, 0xBF58_476D_1CE4_E5B9]
                .map(|factor| format!("{:016x}", (number + 1).wrapping_mul(factor)))
                .concat(),
        ),
        ..EnvVar::default()
    });
    spec.containers[0].env = Some(env.collect());
    pod
}

async fn informer(server: &TestServer, encoding: Encoding, compressed: bool) -> Informer<Lazy<Pod>> {
    let source = ListWatch::<Lazy<Pod>>::new(server.client(), Scope::all()).options(SourceOptions {
        compressed,
        ..encoded_as(encoding)
    });
    synced(Informer::from_list_watch(source)).await
}

/// Everything that can be read of the pods, by name.
fn read(informer: &Informer<Lazy<Pod>>) -> BTreeMap<String, (Pod, Vec<String>)> {
    let read = |pod: &Lazy<Pod>| {
        let labels = pod.object_labels().map(|(key, value)| format!("{key}={value}"));
        let owners = pod.object_owners().map(|owner| format!("{owner:?}"));
        let fields = [
            "spec.nodeName",
            "metadata.resourceVersion",
            "spec.containers[main].env[SETTING_7].value",
        ];
        let fields = fields.map(|path| {
            let value = pod.path(path).unwrap().map(|value| value.to_value().unwrap());
            assert_eq!(value, pod.value(path).unwrap());
            assert_eq!(
                value.as_ref().and_then(|value| value.as_str()),
                pod.text(path).unwrap().as_deref()
            );
            format!("{path}: {value:?}")
        });
        let identity = format!(
            "{:?} {:?} {:?}",
            pod.object_namespace(),
            pod.object_uid(),
            pod.object_version()
        );
        labels.chain(owners).chain(fields).chain([identity]).collect()
    };
    let pods = informer.store().list();
    pods.iter()
        .map(|pod| {
            (
                pod.object_name().to_owned(),
                ((*pod.get().unwrap()).clone(), read(pod)),
            )
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn compressed_pods_read_the_same_and_take_a_fraction() {
    for encoding in ENCODINGS {
        let server = TestServer::new();
        for set in ["web", "api"] {
            let set: ReplicaSet = server.create(replica_set("ns", set));
            for number in 0..50 {
                server.create(replica(&format!("{}-{number}", set.object_name()), &set));
            }
        }
        // A pod without owner, and one with labels of its own.
        server.create(pod("ns", "alone"));
        let plain = informer(&server, encoding, false).await;
        let compressed = informer(&server, encoding, true).await;
        assert_eq!(read(&compressed), read(&plain));

        let (plain_bytes, bytes) = (plain.stats().memory.objects, compressed.stats().memory.objects);
        assert!(
            bytes.unwrap() * 3 < plain_bytes.unwrap(),
            "{bytes:?} of {plain_bytes:?}"
        );

        // The whole pods, which others are compressed against, are deleted and changed.
        for name in ["web-0", "api-0"] {
            server.delete::<Pod>("ns", name);
        }
        server.modify::<Pod>("ns", "web-1", |pod| {
            *pod = pod.clone().label("canary", "true");
            pod.spec.as_mut().unwrap().node_name = Some("elsewhere".to_owned());
        });
        wait_for("both have caught up", || {
            [cached(&compressed), cached(&plain)] == [stored(&server, "pods"), stored(&server, "pods")]
        })
        .await;
        assert_eq!(read(&compressed), read(&plain));
        let canary: Selector = "canary=true".parse().unwrap();
        assert_eq!(compressed.lister().list(&canary).len(), 1);
        assert_eq!(compressed.lister().list(&"app=web".parse().unwrap()).len(), 98);
    }
}

/// A new pod has no status, and its siblings have one later: one of them has to be kept whole instead.
#[tokio::test(start_paused = true)]
async fn pods_are_compressed_against_one_that_resembles_them() {
    let server = TestServer::new();
    let set: ReplicaSet = server.create(replica_set("ns", "web"));
    let informer = informer(&server, Encoding::Protobuf, true).await;
    for number in 0..40 {
        server.create(pod("ns", &format!("web-{number}")).owner(&set));
    }
    wait_for("they are cached", || informer.store().len() == 40).await;
    for number in 0..40 {
        let name = format!("web-{number}");
        server.modify::<Pod>("ns", &name, |pod| pod.spec = replica("any", &set).spec);
    }
    let grown = || {
        informer
            .store()
            .list()
            .iter()
            .all(|pod| pod.bytes().len() > 2_000)
    };
    wait_for("all have grown", grown).await;
    let (held, whole): (Vec<_>, Vec<_>) = informer
        .store()
        .list()
        .iter()
        .map(|pod| (pod.object_bytes().unwrap(), pod.bytes().len()))
        .unzip();
    assert!(
        held.iter().sum::<usize>() * 3 < whole.iter().sum::<usize>(),
        "{held:?} of {whole:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_transform_sees_the_whole_object_and_its_result_is_compressed() {
    let server = TestServer::new();
    let set: ReplicaSet = server.create(replica_set("ns", "web"));
    for number in 0..20 {
        server.create(replica(&format!("web-{number}"), &set));
    }
    for encoding in ENCODINGS {
        let options = SourceOptions {
            compressed: true,
            ..encoded_as(encoding)
        };
        let informer = Informer::<Lazy<Pod>>::all(server.client()).source(options);
        let informer = informer.unwrap().try_transform(|mut pod| {
            pod.attach(pod.text("spec.nodeName")?.unwrap_or_default().as_bytes());
            pod.set("spec.nodeName", json!("hidden"))?;
            Ok(Some(pod))
        });
        let informer = synced(informer).await;
        let mut held = 0;
        for pod in informer.store().list().iter() {
            assert_eq!(pod.text("spec.nodeName").unwrap().as_deref(), Some("hidden"));
            assert_eq!(
                pod.attachment(),
                format!("node-of-{}", pod.object_name()).as_bytes()
            );
            held += pod.object_bytes().unwrap();
        }
        let whole: usize = informer.store().list().iter().map(|pod| pod.bytes().len()).sum();
        assert!(held * 2 < whole, "{held} of {whole}");
    }
}

#[tokio::test(start_paused = true)]
async fn memory_of_compressed_objects_is_released() {
    let server = TestServer::new();
    let set: ReplicaSet = server.create(replica_set("ns", "web"));
    for number in 0..10 {
        server.create(replica(&format!("web-{number}"), &set));
    }
    let informer = informer(&server, Encoding::Protobuf, true).await;
    let all = informer.stats().memory.objects.unwrap();
    // The one that is kept whole stays while others need it.
    server.delete::<Pod>("ns", "web-0");
    wait_for("it is gone", || informer.store().len() == 9).await;
    let left = informer.stats().memory.objects.unwrap();
    assert!(left < all && left > 2_000, "{left} of {all}");
    for number in 1..10 {
        server.delete::<Pod>("ns", &format!("web-{number}"));
    }
    wait_for("all are gone", || informer.store().is_empty()).await;
    assert_eq!(informer.stats().memory.objects, Some(0));
}
