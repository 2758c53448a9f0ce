//! Builds objects in one line: `pod("shop", "cart").label("app", "cart")`.
//! Returns typed objects of k8s-openapi; set other fields on them as on any struct.
//! Some specs are optional in one Kubernetes version and required in another: `into` fits both.

#![allow(clippy::useless_conversion)]

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec,
};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, Event, Namespace, Node, ObjectReference, PersistentVolumeClaim, Pod, PodSpec,
    PodStatus, PodTemplateSpec, Secret, Service, ServiceAccount, ServicePort, ServiceSpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use kube::{Resource, ResourceExt};

fn meta(namespace: Option<&str>, name: &str) -> ObjectMeta {
    ObjectMeta {
        namespace: namespace.map(str::to_owned),
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

fn container() -> Container {
    Container {
        name: "main".to_owned(),
        image: Some("registry.example/main:1".to_owned()),
        ..Container::default()
    }
}

fn template(name: &str) -> (LabelSelector, PodTemplateSpec) {
    let labels = BTreeMap::from([("app".to_owned(), name.to_owned())]);
    let selector = LabelSelector {
        match_labels: Some(labels.clone()),
        ..LabelSelector::default()
    };
    let template = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels),
            ..ObjectMeta::default()
        }),
        spec: Some(PodSpec {
            containers: vec![container()],
            ..PodSpec::default()
        }),
    };
    (selector, template)
}

/// A pod with one container, pending.
pub fn pod(namespace: &str, name: &str) -> Pod {
    Pod {
        metadata: meta(Some(namespace), name),
        spec: Some(PodSpec {
            containers: vec![container()],
            ..PodSpec::default()
        }),
        status: Some(PodStatus {
            phase: Some("Pending".to_owned()),
            ..PodStatus::default()
        }),
    }
}

/// An empty config map.
pub fn config_map(namespace: &str, name: &str) -> ConfigMap {
    ConfigMap {
        metadata: meta(Some(namespace), name),
        ..ConfigMap::default()
    }
}

/// An empty secret of the type `Opaque`.
pub fn secret(namespace: &str, name: &str) -> Secret {
    Secret {
        metadata: meta(Some(namespace), name),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

/// A service with one port that selects the pods labelled `app=<name>`.
pub fn service(namespace: &str, name: &str) -> Service {
    Service {
        metadata: meta(Some(namespace), name),
        spec: Some(ServiceSpec {
            selector: Some(BTreeMap::from([("app".to_owned(), name.to_owned())])),
            ports: Some(vec![ServicePort {
                port: 80,
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// A service account.
pub fn service_account(namespace: &str, name: &str) -> ServiceAccount {
    ServiceAccount {
        metadata: meta(Some(namespace), name),
        ..ServiceAccount::default()
    }
}

/// A claim without a volume.
pub fn persistent_volume_claim(namespace: &str, name: &str) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        metadata: meta(Some(namespace), name),
        ..PersistentVolumeClaim::default()
    }
}

/// A node.
pub fn node(name: &str) -> Node {
    Node {
        metadata: meta(None, name),
        ..Node::default()
    }
}

/// A namespace.
pub fn namespace(name: &str) -> Namespace {
    Namespace {
        metadata: meta(None, name),
        ..Namespace::default()
    }
}

/// An event about a pod.
pub fn event(namespace: &str, name: &str, about_pod: &str) -> Event {
    Event {
        metadata: meta(Some(namespace), name),
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(about_pod.to_owned()),
            ..ObjectReference::default()
        },
        ..Event::default()
    }
}

/// A deployment of one replica whose pods are labelled `app=<name>`.
pub fn deployment(namespace: &str, name: &str) -> Deployment {
    let (selector, template) = template(name);
    Deployment {
        metadata: meta(Some(namespace), name),
        spec: DeploymentSpec {
            replicas: Some(1),
            selector,
            template,
            ..DeploymentSpec::default()
        }
        .into(),
        ..Deployment::default()
    }
}

/// A replica set of one replica whose pods are labelled `app=<name>`.
pub fn replica_set(namespace: &str, name: &str) -> ReplicaSet {
    let (selector, template) = template(name);
    ReplicaSet {
        metadata: meta(Some(namespace), name),
        spec: ReplicaSetSpec {
            replicas: Some(1),
            selector,
            template: template.into(),
            ..ReplicaSetSpec::default()
        }
        .into(),
        ..ReplicaSet::default()
    }
}

/// A stateful set of one replica whose pods are labelled `app=<name>`.
pub fn stateful_set(namespace: &str, name: &str) -> StatefulSet {
    let (selector, template) = template(name);
    StatefulSet {
        metadata: meta(Some(namespace), name),
        spec: StatefulSetSpec {
            replicas: Some(1),
            selector,
            template,
            ..StatefulSetSpec::default()
        }
        .into(),
        ..StatefulSet::default()
    }
}

/// A job of one pod.
pub fn job(namespace: &str, name: &str) -> Job {
    let (_, template) = template(name);
    Job {
        metadata: meta(Some(namespace), name),
        spec: Some(JobSpec {
            template,
            ..JobSpec::default()
        }),
        ..Job::default()
    }
}

/// Sets labels, annotations, finalizers and owners of any typed object.
pub trait Build: Resource + Sized {
    /// Adds a label.
    #[must_use]
    fn label(mut self, key: &str, value: &str) -> Self {
        self.labels_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds an annotation.
    #[must_use]
    fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations_mut().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Adds a finalizer.
    #[must_use]
    fn finalizer(mut self, finalizer: &str) -> Self {
        self.finalizers_mut().push(finalizer.to_owned());
        self
    }

    /// Adds an owner: an object that the server has already stored, so that it has a uid.
    ///
    /// # Panics
    ///
    /// If the owner has no name or no uid.
    #[must_use]
    fn owner<K: Resource<DynamicType = ()>>(mut self, owner: &K) -> Self {
        let reference: Option<OwnerReference> = owner.owner_ref(&());
        match reference {
            Some(reference) => self.owner_references_mut().push(reference),
            None => panic!("an owner needs a name and a uid: create it on the server first"),
        }
        self
    }
}

impl<K: Resource> Build for K {}
