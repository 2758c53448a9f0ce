//! `Object`: the only bound on cached types.
//!
//! It mentions neither serde nor Kubernetes types, so projections, packed bytes and protobuf messages can be cached as
//! well as the types of `k8s-openapi`.

/// An object that can be cached: it has a name, and usually a namespace, a UID and a resource version.
///
/// Implemented for every [`kube::Resource`]: the types of `k8s-openapi`, derived custom resources,
/// [`DynamicObject`](kube::core::DynamicObject) and [`PartialObjectMeta`](kube::core::PartialObjectMeta). Implement it for
/// a custom struct to cache only some fields. The names of the methods differ from those of [`kube::ResourceExt`], so both
/// traits can be imported.
///
/// ```
/// use kube_informers::OwnerRef;
/// use kube_informers::Object;
///
/// #[derive(serde::Deserialize)]
/// struct PodNode {
///     metadata: Meta,
///     spec: Spec,
/// }
///
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Meta {
///     name: String,
///     namespace: Option<String>,
///     uid: Option<String>,
///     resource_version: Option<String>,
/// }
///
/// #[derive(serde::Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec {
///     node_name: Option<String>,
/// }
///
/// impl Object for PodNode {
///     fn object_name(&self) -> &str {
///         &self.metadata.name
///     }
///     fn object_namespace(&self) -> Option<&str> {
///         self.metadata.namespace.as_deref()
///     }
///     fn object_uid(&self) -> Option<&str> {
///         self.metadata.uid.as_deref()
///     }
///     fn object_version(&self) -> Option<&str> {
///         self.metadata.resource_version.as_deref()
///     }
/// }
/// ```
#[doc(alias = "metav1.Object")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be cached: it does not implement `Object`",
    label = "not an `Object`",
    note = "an `Arc` from a cache is passed as `&*object`, not as `&object`",
    note = "every `kube::Resource` is an `Object`; implement `kube_informers::Object` for a struct of your own"
)]
pub trait Object: Send + Sync + 'static {
    /// The name; empty if the object has none. Objects without a name are not cached.
    fn object_name(&self) -> &str;

    /// The namespace; `None` for cluster-scoped objects.
    fn object_namespace(&self) -> Option<&str>;

    /// The UID that the server assigned. Objects of one name with different UIDs are different objects.
    fn object_uid(&self) -> Option<&str>;

    /// The resource version of this state of the object.
    fn object_version(&self) -> Option<&str>;

    /// The labels, in no particular order.
    fn object_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }

    /// The value of one label.
    fn object_label(&self, key: &str) -> Option<&str> {
        self.object_labels()
            .find(|(k, _)| *k == key)
            .map(|(_, value)| value)
    }

    /// The objects that own this one.
    fn object_owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        std::iter::empty()
    }

    /// The memory that the object occupies, in bytes, if the type can tell. [`Lazy`](crate::lazy::Lazy) objects can.
    fn object_bytes(&self) -> Option<usize> {
        None
    }

    /// The object is complete and is cached as it is: the last moment to change how it is held. A type can drop spare
    /// room here, or share what many objects have in common.
    fn before_caching(&mut self) {}

    /// The object as one that is decoded on access; `None` unless it is a [`Lazy`](crate::lazy::Lazy) object.
    ///
    /// Hidden, because only `Lazy` implements it. All handlers of an event share one decoded object, which is dropped
    /// when the last of them has returned. Only the dispatcher knows when that is, and it knows the object by this trait:
    /// a second bound on `K` would have to be named by everybody who is generic over objects. Types without it pay
    /// nothing, because the method is resolved for each type.
    #[doc(hidden)]
    fn decoded_on_access(&self) -> Option<&dyn DecodedOnAccess> {
        None
    }
}

/// An object that keeps its decoded form while events that carry it are in flight. It cannot be named outside of the
/// library.
pub trait DecodedOnAccess {
    /// An event that carries the object is queued for one more handler.
    fn begin_delivery(&self);

    /// A handler has returned from an event that carries the object, or will not receive it.
    fn end_delivery(&self);
}

/// A borrowed owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "OwnerReference")]
pub struct OwnerRef<'a> {
    /// Group and version of the owner, as in `apps/v1`.
    pub api_version: &'a str,
    /// Kind of the owner.
    pub kind: &'a str,
    /// Name of the owner, which is in the namespace of the owned object or cluster-scoped.
    pub name: &'a str,
    /// UID of the owner.
    pub uid: &'a str,
    /// Whether this owner is the managing controller. At most one is.
    pub controller: bool,
}

// Errors about a type without `Object` are to name `Object`, which can be implemented, not `kube::Resource`.
#[diagnostic::do_not_recommend]
impl<K> Object for K
where
    K: kube::Resource + Send + Sync + 'static,
{
    fn object_name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn object_namespace(&self) -> Option<&str> {
        self.meta().namespace.as_deref()
    }

    fn object_uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    fn object_version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }

    fn object_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.meta()
            .labels
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn object_label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }

    fn object_owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        self.meta()
            .owner_references
            .iter()
            .flatten()
            .map(|owner| OwnerRef {
                api_version: &owner.api_version,
                kind: &owner.kind,
                name: &owner.name,
                uid: &owner.uid,
                controller: owner.controller.unwrap_or(false),
            })
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

    use kube::ResourceExt;

    use super::*;

    #[test]
    fn a_kubernetes_type_is_an_object() {
        let pod = Pod {
            metadata: ObjectMeta {
                name: Some("cart".into()),
                namespace: Some("shop".into()),
                uid: Some("u1".into()),
                resource_version: Some("7".into()),
                labels: Some([("app".to_string(), "web".to_string())].into()),
                owner_references: Some(vec![OwnerReference {
                    api_version: "apps/v1".into(),
                    kind: "ReplicaSet".into(),
                    name: "cart-1".into(),
                    uid: "u0".into(),
                    controller: Some(true),
                    ..Default::default()
                }]),
                ..Default::default()
            },
            ..Default::default()
        };

        assert_eq!(
            (pod.object_name(), pod.object_namespace()),
            ("cart", Some("shop"))
        );
        assert_eq!(
            (pod.object_uid(), Object::object_version(&pod)),
            (Some("u1"), Some("7"))
        );
        assert_eq!(pod.object_label("app"), Some("web"));
        assert_eq!(pod.object_label("tier"), None);
        assert_eq!(Object::object_labels(&pod).collect::<Vec<_>>(), [("app", "web")]);
        let owner = pod.object_owners().next().unwrap();
        assert_eq!(
            (owner.kind, owner.name, owner.controller),
            ("ReplicaSet", "cart-1", true)
        );
    }

    #[test]
    fn both_traits_can_be_imported() {
        let mut pod = Pod::default();
        pod.metadata.name = Some("cart".into());
        pod.metadata.namespace = Some("shop".into());
        pod.metadata.uid = Some("u1".into());
        pod.metadata.resource_version = Some("7".into());

        assert_eq!(pod.object_name(), pod.name_any());
        assert_eq!(pod.object_namespace(), pod.namespace().as_deref());
        assert_eq!(pod.object_uid(), pod.uid().as_deref());
        assert_eq!(pod.object_version(), pod.resource_version().as_deref());
        assert_eq!(pod.object_labels().count(), pod.labels().len());
        assert_eq!(pod.object_owners().count(), pod.owner_references().len());
    }

    #[test]
    fn an_object_without_metadata_has_an_empty_name() {
        assert_eq!(Object::object_name(&Pod::default()), "");
    }
}
