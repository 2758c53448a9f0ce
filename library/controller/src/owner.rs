//! Maps an object to the keys of its owners. Reads owner references and looks nothing up.

use kube_informers::OwnerRef;
use kube_informers::source::ResourceType;
use kube_informers::{Object, ObjectKey};

/// Finds the owners of one kind in the owner references of objects.
///
/// [`Watch::owner`](crate::Watch::owner) uses it. Use it directly for kinds known only at run time:
///
/// ```
/// use kube::core::{ApiResource, GroupVersionKind};
/// use kube_controller::{OwnerKeys, Watch};
/// use kube_informers::{Informer, ObjectKey, source::ResourceType};
/// # use k8s_openapi::api::core::v1::Pod;
///
/// # fn example(pods: &Informer<Pod>) -> Watch<Pod, ObjectKey> {
/// let widgets = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
/// let owners = OwnerKeys::new(ResourceType::from(widgets).namespaced(true));
/// Watch::mapped(pods, move |pod| owners.keys(pod))
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "EnqueueRequestForOwner")]
pub struct OwnerKeys {
    group: String,
    kind: String,
    namespaced: Option<bool>,
    any: bool,
}

impl OwnerKeys {
    /// Owners of a type, if they control the object.
    pub fn of<O: kube::Resource<DynamicType: Default> + 'static>() -> Self {
        Self::new(ResourceType::of::<O>())
    }

    /// Owners of a kind, if they control the object. If the resource does not say whether it is namespaced, the owner
    /// is assumed to be in the namespace of the object.
    pub fn new(resource: impl Into<ResourceType>) -> Self {
        let resource = resource.into();
        Self {
            group: resource.api().group.clone(),
            kind: resource.api().kind.clone(),
            namespaced: resource.is_namespaced(),
            any: false,
        }
    }

    /// All owners of the kind, even those that do not control the object.
    #[must_use]
    pub fn any(mut self) -> Self {
        self.any = true;
        self
    }

    /// The keys of the owners of `object`.
    pub fn keys(&self, object: &impl Object) -> Vec<ObjectKey> {
        // A namespaced owner lives beside what it owns; what lives in no namespace cannot have one.
        let namespace = match (self.namespaced, object.object_namespace()) {
            (Some(false), _) => None,
            (Some(true), None) => return Vec::new(),
            (_, namespace) => namespace,
        };
        object
            .object_owners()
            .filter(|owner| self.matches(owner))
            .map(|owner| ObjectKey::new(namespace, owner.name))
            .collect()
    }

    /// Versions are not compared: an owner of another version of its group is the same object.
    fn matches(&self, owner: &OwnerRef<'_>) -> bool {
        let group = owner.api_version.split_once('/').map_or("", |(group, _)| group);
        (self.any || owner.controller)
            && owner.kind == self.kind
            && group == self.group
            && !owner.name.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::ReplicaSet;
    use k8s_openapi::api::core::v1::{Node, PersistentVolume, Pod};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

    use super::*;

    fn reference(api_version: &str, kind: &str, name: &str, controller: bool) -> OwnerReference {
        OwnerReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            name: name.to_owned(),
            controller: Some(controller),
            ..OwnerReference::default()
        }
    }

    fn owned(references: Vec<OwnerReference>) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some("cart-1".to_owned());
        pod.metadata.namespace = Some("shop".to_owned());
        pod.metadata.owner_references = Some(references);
        pod
    }

    fn texts(keys: Vec<ObjectKey>) -> Vec<String> {
        keys.iter().map(ObjectKey::to_string).collect()
    }

    #[test]
    fn the_controller_of_the_kind_is_found_whatever_its_version() {
        let pod = owned(vec![
            reference("apps/v1", "ReplicaSet", "other", false),
            reference("apps/v1beta2", "ReplicaSet", "cart", true),
        ]);

        assert_eq!(texts(OwnerKeys::of::<ReplicaSet>().keys(&pod)), ["shop/cart"]);
        assert_eq!(
            texts(OwnerKeys::of::<ReplicaSet>().any().keys(&pod)),
            ["shop/other", "shop/cart"]
        );
    }

    #[test]
    fn another_group_or_kind_is_not_an_owner() {
        let pod = owned(vec![
            reference("example.com/v1", "ReplicaSet", "a", true),
            reference("apps/v1", "Deployment", "b", true),
            reference("v1", "ReplicaSet", "c", true),
            reference("apps/v1", "ReplicaSet", "", true),
        ]);

        assert!(OwnerKeys::of::<ReplicaSet>().any().keys(&pod).is_empty());
    }

    #[test]
    fn the_owner_lives_where_its_kind_lives() {
        let pod = owned(vec![reference("v1", "Node", "worker-1", true)]);
        assert_eq!(texts(OwnerKeys::of::<Node>().keys(&pod)), ["worker-1"]);

        let mut volume = PersistentVolume::default();
        volume.metadata.owner_references = Some(vec![reference("apps/v1", "ReplicaSet", "cart", true)]);
        assert!(OwnerKeys::of::<ReplicaSet>().keys(&volume).is_empty());
    }
}
