//! Listers: read a store by label selector, namespace, name and owner.

use std::fmt;
use std::sync::Arc;

use kube::core::Status;
use kube::core::response::StatusDetails;

use crate::indexes;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::selector::Selector;
use crate::source::ResourceType;
use crate::store::{KeyRef, Store};

/// Reads a cache: [`Informer::lister`](crate::Informer::lister).
///
/// Results come from the cache; no request is made. The objects of one result were in the cache at the same time. Cloning
/// is cheap.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::{Node, Pod};
/// # use kube_informers::{Informer, ObjectKey, Selector};
/// # fn example(pods: Informer<Pod>, nodes: Informer<Node>) -> Result<(), Box<dyn std::error::Error>> {
/// let lister = pods.lister();
/// let web: Selector = "app=web,tier in (front, back)".parse()?;
///
/// let everywhere = lister.list(&web);
/// let in_shop = lister.namespace("shop").list(&web);
/// let cart = lister.namespace("shop").get("cart"); // an Option
/// let cart = lister.namespace("shop").try_get("cart")?; // or an error
/// let worker = nodes.lister().get(&ObjectKey::cluster("worker-1"));
/// # Ok(())
/// # }
/// ```
#[doc(alias = "AppendFunc")]
#[doc(alias = "NewGenericLister")]
#[doc(alias = "GenericLister")]
#[doc(alias = "PodLister")]
#[doc(alias = "ResourceIndexer")]
pub struct Lister<K: Object> {
    store: Store<K>,
    resource: Option<Arc<ResourceType>>,
}

impl<K: Object> Lister<K> {
    /// A lister of this store. [`of`](Self::of) sets the resource that errors name.
    pub fn new(store: Store<K>) -> Self {
        Self {
            store,
            resource: None,
        }
    }

    /// Sets the resource for [`NotFoundError`].
    #[must_use]
    pub fn of(mut self, resource: impl Into<ResourceType>) -> Self {
        self.resource = Some(Arc::new(resource.into()));
        self
    }

    /// The objects whose labels match. Reads no labels if the selector matches everything, and no objects if it cannot
    /// match.
    #[doc(alias = "ListAll")]
    pub fn list(&self, selector: &Selector) -> Vec<Arc<K>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let snapshot = self.store.list();
        if selector.is_everything() {
            let mut all = Vec::with_capacity(snapshot.len());
            all.extend(snapshot.iter().cloned());
            return all;
        }
        let selected = snapshot.iter().filter(|object| selector.matches(&***object));
        selected.cloned().collect()
    }

    /// All objects.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.list(&Selector::everything())
    }

    /// The objects of one namespace.
    #[doc(alias = "ByNamespace")]
    #[doc(alias = "ListAllByNamespace")]
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> NamespaceLister<'a, K> {
        NamespaceLister {
            lister: self,
            namespace,
        }
    }

    /// The object with this key. [`namespace`](Self::namespace) takes the parts: `namespace("shop").get("cart")`.
    ///
    /// A node is [`ObjectKey::cluster`]`("worker-1")`.
    // Not generic, unlike `Store::get`: for `get("shop", "cart")` the compiler would suggest `get("shop")`, which compiles and is
    // the cluster-scoped object of that name.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.store.get(key)
    }

    /// The same as [`get`](Self::get), with an error if there is no such object.
    ///
    /// # Errors
    ///
    /// The cache has no such object. The error converts to the [`kube::Error`] that a server would have caused.
    pub fn try_get(&self, key: &ObjectKey) -> Result<Arc<K>, NotFoundError> {
        self.find(key.into())
    }

    /// The controller of `object`, which may be of any kind: the ReplicaSet of a pod, the Deployment of a ReplicaSet.
    /// `None` if it has no controller, or one of another kind, or one that is not in the cache.
    ///
    /// It is found by name and verified by UID, so it is never a later object of the same name.
    #[doc(alias = "GetControllerOf")]
    #[doc(alias = "GetPodReplicaSets")]
    pub fn controller_of(&self, object: &impl Object) -> Option<Arc<K>> {
        let controller = object.object_owners().find(|owner| owner.controller)?;
        self.by_owner_ref(object.object_namespace(), controller.name, controller.uid)
    }

    /// The owners of `object`, which may be of any kind, that are in the cache.
    pub fn owners_of(&self, object: &impl Object) -> Vec<Arc<K>> {
        let owners = object.object_owners();
        owners
            .filter_map(|owner| self.by_owner_ref(object.object_namespace(), owner.name, owner.uid))
            .collect()
    }

    fn by_owner_ref(&self, namespace: Option<&str>, name: &str, uid: &str) -> Option<Arc<K>> {
        // An owner is in the namespace of the owned object, or cluster-scoped.
        [namespace, None]
            .into_iter()
            .filter_map(|namespace| self.store.get((namespace, name)))
            .find(|owner| !uid.is_empty() && owner.object_uid() == Some(uid))
    }

    /// The objects owned by the object with this UID. Uses the index [`indexes::owner_uid`], which the first call adds.
    #[doc(alias = "GetPodControllers")]
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        indexes::owner_uid(&self.store).get(uid)
    }

    /// The objects whose controller is `owner`, such as the pods of a ReplicaSet. Objects that it owns without being their
    /// controller are not included.
    pub fn controlled_by(&self, owner: &impl Object) -> Vec<Arc<K>> {
        let Some(uid) = owner.object_uid().filter(|uid| !uid.is_empty()) else {
            return Vec::new();
        };
        let mut owned = self.owned_by(uid);
        owned.retain(|object| {
            object
                .object_owners()
                .any(|owner| owner.controller && owner.uid == uid)
        });
        owned
    }

    /// The objects whose selector matches `object`, in its namespace: the DaemonSets, Services or PodDisruptionBudgets of
    /// a pod.
    ///
    /// `selector` returns the selector of a candidate. `None` and an empty selector match nothing here. An object
    /// without labels is not matched.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::{apps::v1::DaemonSet, core::v1::Pod};
    /// # use kube_informers::{Lister, Selector};
    /// # fn example(daemon_sets: Lister<DaemonSet>, pod: &Pod) {
    /// let sets = daemon_sets.selecting(pod, |set| Selector::try_from(&set.spec.selector).ok());
    /// # }
    /// ```
    #[doc(alias = "GetPodDaemonSets")]
    #[doc(alias = "GetPodJobs")]
    #[doc(alias = "GetPodStatefulSets")]
    #[doc(alias = "GetPodPodDisruptionBudgets")]
    pub fn selecting(&self, object: &impl Object, selector: impl Fn(&K) -> Option<Selector>) -> Vec<Arc<K>> {
        if object.object_labels().next().is_none() {
            return Vec::new();
        }
        let mut candidates = match object.object_namespace() {
            Some(namespace) => self.store.namespace(namespace),
            None => self.all(),
        };
        candidates.retain(|candidate| {
            selector(candidate).is_some_and(|selector| !selector.is_everything() && selector.matches(object))
        });
        candidates
    }

    /// The underlying store.
    pub fn store(&self) -> &Store<K> {
        &self.store
    }

    fn find(&self, key: KeyRef<'_>) -> Result<Arc<K>, NotFoundError> {
        let found = self.store.get(key);
        found.ok_or_else(|| NotFoundError {
            group: self
                .resource
                .as_ref()
                .map_or_else(String::new, |resource| resource.api().group.clone()),
            resource: self
                .resource
                .as_ref()
                .map_or_else(|| "objects".to_owned(), |resource| resource.api().plural.clone()),
            namespace: key.namespace().map(str::to_owned),
            name: key.name().to_owned(),
        })
    }
}

impl<K: Object> Clone for Lister<K> {
    fn clone(&self) -> Self {
        Self {
            store: self.store.clone(),
            resource: self.resource.clone(),
        }
    }
}

/// Counts only: the objects may be Secrets.
impl<K: Object> fmt::Debug for Lister<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lister").field("store", &self.store).finish()
    }
}

/// One namespace of a cache: [`Lister::namespace`].
#[doc(alias = "PodNamespaceLister")]
#[doc(alias = "GenericNamespaceLister")]
pub struct NamespaceLister<'a, K: Object> {
    lister: &'a Lister<K>,
    namespace: &'a str,
}

impl<K: Object> NamespaceLister<'_, K> {
    /// The objects of the namespace whose labels match. Does not read objects of other namespaces.
    pub fn list(&self, selector: &Selector) -> Vec<Arc<K>> {
        if selector.is_nothing() {
            return Vec::new();
        }
        let mut objects = self.lister.store.namespace(self.namespace);
        if !selector.is_everything() {
            objects.retain(|object| selector.matches(&**object));
        }
        objects
    }

    /// All objects of the namespace.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.list(&Selector::everything())
    }

    /// The object with this name.
    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.lister.store.get((self.namespace, name))
    }

    /// The same as [`get`](Self::get), with an error if there is no such object.
    ///
    /// # Errors
    ///
    /// The cache has no such object. The error converts to the [`kube::Error`] that a server would have caused.
    pub fn try_get(&self, name: &str) -> Result<Arc<K>, NotFoundError> {
        self.lister.find(KeyRef::new(Some(self.namespace), name))
    }
}

impl<K: Object> fmt::Debug for NamespaceLister<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamespaceLister({:?})", self.namespace)
    }
}

/// The cache has no such object.
///
/// In a function that returns [`kube::Error`], `?` converts it to a server's 404 response, so
/// `Err(kube::Error::Api(status)) if status.is_not_found()` matches both.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} {:?} not found in the cache", self.qualified(), self.key())]
#[doc(alias = "IsNotFound")]
pub struct NotFoundError {
    /// The API group; empty for the core group or if unknown.
    pub group: String,
    /// The plural name of the resource; `objects` if unknown.
    pub resource: String,
    /// The requested namespace.
    pub namespace: Option<String>,
    /// The requested name.
    pub name: String,
}

impl NotFoundError {
    /// The response of a server that has no such object.
    pub fn status(&self) -> Status {
        let message = format!("{} {:?} not found", self.qualified(), self.name);
        Status::failure(&message, "NotFound")
            .with_code(404)
            .with_details(StatusDetails {
                name: self.name.clone(),
                group: self.group.clone(),
                kind: self.resource.clone(),
                uid: String::new(),
                causes: Vec::new(),
                retry_after_seconds: 0,
            })
    }

    fn qualified(&self) -> String {
        match self.group.as_str() {
            "" => self.resource.clone(),
            group => format!("{}.{group}", self.resource),
        }
    }

    fn key(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

impl From<NotFoundError> for kube::Error {
    fn from(error: NotFoundError) -> Self {
        Self::Api(error.status().boxed())
    }
}
