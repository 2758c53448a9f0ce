//! The one bound on `K`: what the machinery needs to know of an object, and nothing else.
//!
//! No serde and no Kubernetes type appears here, so that projections, packed bytes or protobuf messages can
//! be cached as well as the types of `k8s-openapi`.

/// An object that can be cached: it has a name, and usually a namespace, a UID and a resource version.
///
/// Implemented for everything that is a [`kube::Resource`]: the types of `k8s-openapi`, derived custom
/// resources, [`DynamicObject`](kube::core::DynamicObject) and
/// [`PartialObjectMeta`](kube::core::PartialObjectMeta). Implement it for a struct of your own to cache only
/// the fields you need:
///
/// ```
/// use kube_informers::object::OwnerRef;
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
///     fn name(&self) -> &str {
///         &self.metadata.name
///     }
///     fn namespace(&self) -> Option<&str> {
///         self.metadata.namespace.as_deref()
///     }
///     fn uid(&self) -> Option<&str> {
///         self.metadata.uid.as_deref()
///     }
///     fn resource_version(&self) -> Option<&str> {
///         self.metadata.resource_version.as_deref()
///     }
/// }
/// ```
#[doc(alias = "metav1.Object")]
pub trait Object: Send + Sync + 'static {
    /// The name; empty when the object has none (such an object is never cached).
    fn name(&self) -> &str;

    /// The namespace; `None` for cluster-scoped objects.
    fn namespace(&self) -> Option<&str>;

    /// The UID the server gave this object. Two objects of one name and different UIDs are different objects.
    fn uid(&self) -> Option<&str>;

    /// The version of this state of the object.
    fn resource_version(&self) -> Option<&str>;

    /// The labels, in no particular order.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        std::iter::empty()
    }

    /// The value of one label.
    fn label(&self, key: &str) -> Option<&str> {
        self.labels().find(|(k, _)| *k == key).map(|(_, value)| value)
    }

    /// The objects that own this one.
    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
        std::iter::empty()
    }
}

/// A borrowed owner reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "OwnerReference")]
pub struct OwnerRef<'a> {
    /// Group and version of the owner, as in `apps/v1`.
    pub api_version: &'a str,
    /// Kind of the owner.
    pub kind: &'a str,
    /// Name of the owner; it lives in the namespace of the object it owns, or is cluster-scoped.
    pub name: &'a str,
    /// UID of the owner.
    pub uid: &'a str,
    /// Whether this is the one owner that manages the object.
    pub controller: bool,
}

impl<K> Object for K
where
    K: kube::Resource + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> Option<&str> {
        self.meta().namespace.as_deref()
    }

    fn uid(&self) -> Option<&str> {
        self.meta().uid.as_deref()
    }

    fn resource_version(&self) -> Option<&str> {
        self.meta().resource_version.as_deref()
    }

    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.meta()
            .labels
            .iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }

    fn owners(&self) -> impl Iterator<Item = OwnerRef<'_>> {
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

        assert_eq!((pod.name(), pod.namespace()), ("cart", Some("shop")));
        assert_eq!(
            (pod.uid(), Object::resource_version(&pod)),
            (Some("u1"), Some("7"))
        );
        assert_eq!(pod.label("app"), Some("web"));
        assert_eq!(pod.label("tier"), None);
        assert_eq!(Object::labels(&pod).collect::<Vec<_>>(), [("app", "web")]);
        let owner = pod.owners().next().unwrap();
        assert_eq!(
            (owner.kind, owner.name, owner.controller),
            ("ReplicaSet", "cart-1", true)
        );
    }

    #[test]
    fn an_object_without_metadata_has_an_empty_name() {
        assert_eq!(Object::name(&Pod::default()), "");
    }
}
