//! Constructors of `Informer` from a client and a scope.

use kube::core::{ApiResource, DynamicObject};

use super::{Informer, InformerBuilder};
use crate::codec::FromWire;
use crate::scope::Scope;
use crate::source::{KnownResource, ListWatch, ResourceType};

impl<K: FromWire> Informer<K> {
    /// All objects of a type, in all namespaces.
    pub fn all(client: kube::Client) -> InformerBuilder<K>
    where
        K: KnownResource,
    {
        Self::scoped(client, Scope::all())
    }

    /// The objects of a type in one namespace.
    pub fn namespaced(client: kube::Client, namespace: &str) -> InformerBuilder<K>
    where
        K: KnownResource,
    {
        Self::scoped(client, Scope::namespace(namespace))
    }

    /// The objects of a type in a scope: some namespaces, some labels, some fields.
    #[doc(alias = "NewFilteredPodInformer")]
    pub fn scoped(client: kube::Client, scope: Scope) -> InformerBuilder<K>
    where
        K: KnownResource,
    {
        Self::from_list_watch(ListWatch::new(client, scope))
    }

    /// The objects of a resource, decoded into your own struct with only the fields it declares.
    ///
    /// ```
    /// # use kube_informers::{Informer, Object, Scope};
    /// # #[derive(serde::Deserialize)] struct Meta { name: String, namespace: Option<String> }
    /// #[derive(serde::Deserialize)]
    /// struct PodName {
    ///     metadata: Meta,
    /// }
    /// # impl Object for PodName {
    /// #     fn object_name(&self) -> &str { &self.metadata.name }
    /// #     fn object_namespace(&self) -> Option<&str> { self.metadata.namespace.as_deref() }
    /// #     fn object_uid(&self) -> Option<&str> { None }
    /// #     fn object_version(&self) -> Option<&str> { None }
    /// # }
    ///
    /// # fn example(client: kube::Client) {
    /// let pods = kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&());
    /// let names = Informer::<PodName>::projected(client, &pods, Scope::all()).start();
    /// # }
    /// ```
    pub fn projected(
        client: kube::Client,
        resource: impl Into<ResourceType>,
        scope: Scope,
    ) -> InformerBuilder<K> {
        Self::from_list_watch(ListWatch::projected(client, resource, scope))
    }
}

impl Informer<DynamicObject> {
    /// The objects of a resource known only at run time, custom resources included.
    #[doc(alias = "NewFilteredDynamicInformer")]
    #[inline] // Not generic: a plain function would compile a whole informer into the library.
    #[doc(alias = "NewFilteredMetadataInformer")]
    pub fn dynamic(
        client: kube::Client,
        resource: &ApiResource,
        scope: Scope,
    ) -> InformerBuilder<DynamicObject> {
        Self::from_list_watch(ListWatch::dynamic(client, resource, scope))
    }
}
