//! `ResourceType`: a resource of the API, with its path and its kind.

use std::any::TypeId;
use std::fmt;

use kube::core::{ApiResource, ClusterResourceScope, NamespaceResourceScope};

use crate::codec::Expected;

/// A resource of the API: the path and the kind of its objects.
///
/// Created from a type that is a [`kube::Resource`], or from an [`ApiResource`] found by discovery. For a projection
/// struct, use the type it is a projection of:
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::source::ResourceType;
///
/// assert_eq!(ResourceType::of::<Pod>().to_string(), "pods");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "GroupVersionResource")]
pub struct ResourceType {
    api: ApiResource,
    /// `None` if unknown.
    namespaced: Option<bool>,
    metadata_only: bool,
}

/// A type whose resource is known at compile time: every [`kube::Resource`] without run-time parameters, and
/// [`Lazy`](crate::lazy::Lazy) objects of such a type.
#[diagnostic::on_unimplemented(
    message = "the resource of `{Self}` is not known at compile time",
    note = "name the resource: `Informer::projected(client, &api_resource, scope)` or `Informer::dynamic(..)`"
)]
pub trait KnownResource: 'static {
    /// The resource.
    fn resource_type() -> ResourceType;
}

impl<K: kube::Resource<DynamicType: Default> + 'static> KnownResource for K {
    fn resource_type() -> ResourceType {
        ResourceType::of::<K>()
    }
}

impl ResourceType {
    /// The resource of a type.
    pub fn of<K: kube::Resource<DynamicType: Default> + 'static>() -> Self {
        Self::of_dynamic::<K>(&Default::default())
    }

    /// The resource of a type whose resource is known at run time only.
    pub fn of_dynamic<K: kube::Resource + 'static>(dynamic: &K::DynamicType) -> Self {
        let scope = TypeId::of::<K::Scope>();
        let namespaced = if scope == TypeId::of::<NamespaceResourceScope>() {
            Some(true)
        } else if scope == TypeId::of::<ClusterResourceScope>() {
            Some(false)
        } else {
            None
        };
        Self {
            api: ApiResource::erase::<K>(dynamic),
            namespaced,
            metadata_only: K::metadata_api(),
        }
    }

    /// Sets whether the resource is namespaced, if the type does not tell. A scope that does not fit is then rejected
    /// with an explanation instead of a 404.
    #[must_use]
    pub fn namespaced(mut self, namespaced: bool) -> Self {
        self.namespaced = Some(namespaced);
        self
    }

    /// Requests the metadata of the objects only.
    #[must_use]
    #[doc(alias = "PartialObjectMetadata")]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// The group, version, kind and plural name.
    pub fn api(&self) -> &ApiResource {
        &self.api
    }

    /// Whether the resource is namespaced; `None` if unknown.
    pub fn is_namespaced(&self) -> Option<bool> {
        self.namespaced
    }

    /// Whether only metadata is requested.
    pub fn is_metadata_only(&self) -> bool {
        self.metadata_only
    }

    pub(crate) fn expected(&self) -> Expected {
        Expected {
            api_version: self.api.api_version.clone(),
            kind: self.api.kind.clone(),
            metadata_only: self.metadata_only,
        }
    }

    /// The path of the collection, in one namespace or in all namespaces.
    pub(crate) fn path(&self, namespace: Option<&str>) -> Result<String, String> {
        let ApiResource {
            group,
            version,
            plural,
            ..
        } = &self.api;
        for (what, part) in [("version", version), ("plural name", plural)] {
            if !is_path_part(part) {
                return Err(format!("{part:?} cannot be the {what} of a resource"));
            }
        }
        let root = match group.as_str() {
            "" => format!("/api/{version}"),
            group if is_path_part(group) => format!("/apis/{group}/{version}"),
            group => return Err(format!("{group:?} cannot be the group of a resource")),
        };
        match namespace {
            None => Ok(format!("{root}/{plural}")),
            Some(namespace) if is_namespace(namespace) => {
                Ok(format!("{root}/namespaces/{namespace}/{plural}"))
            }
            Some(namespace) => Err(format!(
                "{namespace:?} cannot be the name of a namespace: use lower-case letters, digits and `-`, \
                 or `Scope::all()` for all namespaces"
            )),
        }
    }
}

/// `pods`, `deployments.apps`.
impl fmt::Display for ResourceType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.api.plural)?;
        if !self.api.group.is_empty() {
            write!(f, ".{}", self.api.group)?;
        }
        Ok(())
    }
}

impl From<ApiResource> for ResourceType {
    fn from(api: ApiResource) -> Self {
        Self {
            api,
            namespaced: None,
            metadata_only: false,
        }
    }
}

impl From<&ApiResource> for ResourceType {
    fn from(api: &ApiResource) -> Self {
        api.clone().into()
    }
}

/// Whether a text is a valid path segment without escaping.
fn is_path_part(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('.')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
}

/// Whether a text is a DNS label.
fn is_namespace(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::apps::v1::Deployment;
    use k8s_openapi::api::core::v1::{Node, Pod};
    use kube::core::{DynamicObject, GroupVersionKind, PartialObjectMeta};

    use super::*;

    #[test]
    fn a_type_tells_whether_it_is_namespaced() {
        assert_eq!(ResourceType::of::<Pod>().is_namespaced(), Some(true));
        assert_eq!(ResourceType::of::<Node>().is_namespaced(), Some(false));
        assert_eq!(
            ResourceType::of::<PartialObjectMeta<Node>>().is_namespaced(),
            Some(false)
        );
        assert!(ResourceType::of::<PartialObjectMeta<Node>>().is_metadata_only());
        let api = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Shop"));
        let dynamic = ResourceType::of_dynamic::<DynamicObject>(&api);
        assert_eq!(dynamic, ResourceType::from(api));
        assert_eq!(dynamic.is_namespaced(), None);
        assert_eq!(dynamic.to_string(), "shops.example.com");
    }

    #[test]
    fn paths_are_those_of_the_kubernetes_api() {
        let path = |resource: ResourceType, namespace| resource.path(namespace).unwrap();

        assert_eq!(path(ResourceType::of::<Pod>(), None), "/api/v1/pods");
        assert_eq!(
            path(ResourceType::of::<Pod>(), Some("shop")),
            "/api/v1/namespaces/shop/pods"
        );
        assert_eq!(
            path(ResourceType::of::<Deployment>(), Some("shop")),
            "/apis/apps/v1/namespaces/shop/deployments"
        );
    }

    #[test]
    fn untrusted_names_cannot_escape_their_path_segment() {
        for namespace in ["", "a/b", "..", "a?b", "A", "a%2fb", "-a"] {
            let error = ResourceType::of::<Pod>().path(Some(namespace)).unwrap_err();
            assert!(error.contains("name of a namespace"), "{error}");
        }
        for plural in ["", "pods/../secrets", "pods?x", "..", "pods#"] {
            let api = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("", "v1", "Pod"), plural);
            let error = ResourceType::from(api).path(None).unwrap_err();
            assert!(error.contains("plural name of a resource"), "{error}");
        }
    }
}
