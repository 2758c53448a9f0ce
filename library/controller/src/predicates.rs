//! Predicates for [`Watch::when`](crate::Watch::when): which events lead to a reconcile.
//!
//! They filter updates. Additions and deletions always pass. So do resyncs, whose purpose is to process everything
//! again; only [`resource_version_changed`] rejects them. Combine them in a closure:
//!
//! ```
//! use kube_controller::{Watch, predicates};
//! # use k8s_openapi::api::apps::v1::Deployment;
//! # use kube_informers::{Informer, ObjectKey};
//!
//! # fn example(deployments: &Informer<Deployment>) -> Watch<Deployment, ObjectKey> {
//! Watch::object(deployments)
//!     .when(|event| predicates::generation_changed(event) || predicates::annotations_changed(event))
//! # }
//! ```

use kube_informers::lazy::Lazy;
use kube_informers::{Event, Object};

/// The spec changed, or the object is being deleted: the server counts these changes in `metadata.generation`.
///
/// Objects without a generation, such as ConfigMaps, always pass.
#[doc(alias = "TypedGenerationChangedPredicate")]
#[doc(alias = "GenerationChangedPredicate")]
pub fn generation_changed<K: kube::Resource>(event: &Event<K>) -> bool {
    updated(event, |old, new| {
        let generation = new.meta().generation;
        generation.is_none() || generation != old.meta().generation
    })
}

/// The labels changed.
#[doc(alias = "TypedLabelChangedPredicate")]
#[doc(alias = "LabelChangedPredicate")]
pub fn labels_changed<K: Object>(event: &Event<K>) -> bool {
    updated(event, |old, new| {
        new.object_labels().count() != old.object_labels().count()
            || new
                .object_labels()
                .any(|(label, value)| old.object_label(label) != Some(value))
    })
}

/// The annotations changed.
#[doc(alias = "TypedAnnotationChangedPredicate")]
#[doc(alias = "AnnotationChangedPredicate")]
pub fn annotations_changed<K: kube::Resource>(event: &Event<K>) -> bool {
    updated(event, |old, new| old.meta().annotations != new.meta().annotations)
}

/// The finalizers changed.
pub fn finalizers_changed<K: kube::Resource>(event: &Event<K>) -> bool {
    updated(event, |old, new| old.meta().finalizers != new.meta().finalizers)
}

/// A field of a [`Lazy`] object changed: `path_changed("spec")`. Compares bytes, and decodes nothing if they are equal.
///
/// The other predicates of this module can be written as paths: `metadata.generation`, `metadata.annotations`,
/// `metadata.finalizers`. An object that cannot be read passes, so that the reconciler reports it.
///
/// ```
/// use kube_controller::{Watch, predicates};
/// # use k8s_openapi::api::core::v1::Pod;
/// # use kube_informers::lazy::Lazy;
/// # use kube_informers::{Informer, ObjectKey};
///
/// # fn example(pods: &Informer<Lazy<Pod>>) -> Watch<Lazy<Pod>, ObjectKey> {
/// Watch::object(pods).when(predicates::path_changed("spec"))
/// # }
/// ```
pub fn path_changed<K>(path: &str) -> impl Fn(&Event<Lazy<K>>) -> bool + Send + use<K> {
    let path = path.to_owned();
    move |event| updated(event, |old, new| new.changed(old, &path).unwrap_or(true))
}

/// The owners changed.
pub fn owners_changed<K: Object>(event: &Event<K>) -> bool {
    updated(event, |old, new| !old.object_owners().eq(new.object_owners()))
}

/// Anything changed at all. Rejects only resyncs.
#[doc(alias = "TypedResourceVersionChangedPredicate")]
#[doc(alias = "ResourceVersionChangedPredicate")]
pub fn resource_version_changed<K: Object>(event: &Event<K>) -> bool {
    !event.is_resync()
}

/// Asks about a change; whatever is not a change passes.
fn updated<K>(event: &Event<K>, changed: impl FnOnce(&K, &K) -> bool) -> bool {
    match event {
        Event::Updated {
            old,
            new,
            resync: false,
        } => changed(old, new),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use kube_informers::Cause;

    use super::*;

    type Named = (&'static str, fn(&Event<Pod>) -> bool);

    const ALL: [Named; 6] = [
        ("generation", generation_changed),
        ("labels", labels_changed),
        ("annotations", annotations_changed),
        ("finalizers", finalizers_changed),
        ("owners", owners_changed),
        ("version", resource_version_changed),
    ];

    fn pod() -> Pod {
        let mut pod = Pod::default();
        pod.metadata.generation = Some(1);
        pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
        pod
    }

    fn passing(event: &Event<Pod>) -> Vec<&'static str> {
        ALL.into_iter()
            .filter(|(_, predicate)| predicate(event))
            .map(|(name, _)| name)
            .collect()
    }

    fn passing_update(change: impl FnOnce(&mut Pod)) -> Vec<&'static str> {
        let mut new = pod();
        change(&mut new);
        passing(&Event::Updated {
            old: Arc::new(pod()),
            new: Arc::new(new),
            resync: false,
        })
    }

    #[test]
    fn each_sees_its_own_part_of_an_update() {
        assert_eq!(passing_update(|_| {}), ["version"]);
        assert_eq!(
            passing_update(|pod| pod.metadata.generation = Some(2)),
            ["generation", "version"]
        );
        for labels in [
            [("app".to_owned(), "db".to_owned())].into(),
            [("tier".to_owned(), "web".to_owned())].into(),
            Default::default(),
        ] {
            assert_eq!(
                passing_update(|pod| pod.metadata.labels = Some(labels)),
                ["labels", "version"]
            );
        }
        assert_eq!(
            passing_update(|pod| pod.metadata.annotations = Some(Default::default())),
            ["annotations", "version"]
        );
        assert_eq!(
            passing_update(|pod| pod.metadata.finalizers = Some(vec!["a".to_owned()])),
            ["finalizers", "version"]
        );
        assert_eq!(
            passing_update(|pod| pod.metadata.owner_references = Some(vec![Default::default()])),
            ["owners", "version"]
        );
    }

    #[test]
    fn what_has_no_generation_always_passes() {
        assert!(passing_update(|pod| pod.metadata.generation = None).contains(&"generation"));
    }

    #[test]
    fn appearing_and_going_pass_and_only_one_holds_back_resyncs() {
        let object = Arc::new(pod());
        let added = Event::Added {
            object: object.clone(),
            initial: true,
        };
        let deleted = Event::Deleted {
            object: object.clone(),
            cause: Cause::Missed,
        };
        let resync = Event::Updated {
            old: object.clone(),
            new: object,
            resync: true,
        };

        assert_eq!(passing(&added).len(), ALL.len());
        assert_eq!(passing(&deleted).len(), ALL.len());
        assert_eq!(
            passing(&resync),
            ["generation", "labels", "annotations", "finalizers", "owners"]
        );
    }
}
