//! Direct access to objects, without HTTP.

use std::sync::Arc;

use kube_api_protocol::status::ApiError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::TestServer;
use crate::controllers::PodRule;
use crate::kinds::Kind;
use crate::patch::Manager;
use crate::state::ServerState;
use crate::storage::{Collection, Store, storage_key};
use crate::write::{self, DeleteOptions, Made, NewObject, Part, Place};

/// Writing objects without HTTP. Objects are stored as given, status included; uid, creation time, generation and
/// resource version are set as for any client.
impl TestServer {
    /// Creates an object, typed or as JSON with `apiVersion` and `kind`; returns the stored object.
    ///
    /// # Panics
    ///
    /// If the server rejects it; the message contains the reason. See [`TestServer::try_create`].
    #[track_caller]
    pub fn create<K: Serialize + DeserializeOwned>(&self, object: K) -> K {
        expect("create", self.try_create(object))
    }

    /// Creates an object or returns the error that a client would receive.
    pub fn try_create<K: Serialize + DeserializeOwned>(&self, object: K) -> Result<K, ApiError> {
        from_value(self.create_as("", to_value(object)?)?)
    }

    /// Creates an object as a field manager; an empty name is none.
    pub(crate) fn create_as(&self, manager: &str, object: Value) -> Result<Value, ApiError> {
        let kind = self.kind_of(&object)?;
        let namespace = namespace_of(&kind, &object);
        let stored_as = self.state.registry.read().stored(&kind);
        let now = self.timestamp();
        let place = Place {
            manager: manager_of(manager, &now),
            ..Place::of_test(&kind, &stored_as, namespace.as_deref(), "")
        };
        let new = NewObject::check(&place, object)?;
        let created = self
            .state
            .write(|store| write::create(&self.state, store, &place, new))?;
        Ok(created.value())
    }

    /// Whether the churn writes as field managers.
    pub(crate) fn has_field_managers(&self) -> bool {
        self.state.config.field_managers
    }

    /// Creates many objects, given as JSON with `apiVersion` and `kind`, in one step; returns their number.
    ///
    /// # Panics
    ///
    /// If the server rejects one of them; those before it are stored.
    #[track_caller]
    pub fn load(&self, objects: impl IntoIterator<Item = Value>) -> usize {
        expect("load", self.try_load(objects))
    }

    /// Creates many objects in one step, or returns the error for the first rejected one; those before it are stored.
    pub fn try_load(&self, objects: impl IntoIterator<Item = Value>) -> Result<usize, ApiError> {
        self.state.write(|store| {
            let mut count = 0;
            for object in objects {
                let kind = self.kind_of(&object)?;
                let namespace = namespace_of(&kind, &object);
                let stored_as = self.state.registry.read().stored(&kind);
                let place = Place::of_test(&kind, &stored_as, namespace.as_deref(), "");
                let new = NewObject::check(&place, object)?;
                write::create(&self.state, store, &place, new)?;
                count += 1;
            }
            Ok(count)
        })
    }

    /// Replaces an object regardless of its version; returns the stored object.
    ///
    /// # Panics
    ///
    /// If the server rejects it; the message contains the reason. See [`TestServer::try_update`].
    #[track_caller]
    pub fn update<K: Serialize + DeserializeOwned>(&self, object: K) -> K {
        expect("update", self.try_update(object))
    }

    /// Replaces an object or returns the error that a client would receive.
    pub fn try_update<K: Serialize + DeserializeOwned>(&self, object: K) -> Result<K, ApiError> {
        let object = to_value(object)?;
        let kind = self.kind_of(&object)?;
        let namespace = namespace_of(&kind, &object);
        let name = text_at(&object, "/metadata/name");
        let updated = self.write(&kind, namespace.as_deref(), &name, |store, place| {
            write::update_now(&self.state, store, place, Part::Object, |_| {
                Ok(Made::Changed(object))
            })
        })?;
        from_value(updated.value())
    }

    /// Creates or replaces an object; returns the stored object.
    ///
    /// # Panics
    ///
    /// If the server rejects it; the message contains the reason.
    #[track_caller]
    pub fn put<K: Serialize + DeserializeOwned + Clone>(&self, object: K) -> K {
        match self.try_update(object.clone()) {
            Err(error) if error.code() == 404 => self.create(object),
            updated => expect("update", updated),
        }
    }

    /// Changes an object in place; returns the stored object.
    ///
    /// # Panics
    ///
    /// If there is no such object, or the server rejects the change.
    #[track_caller]
    pub fn modify<'a, K>(
        &self,
        namespace: impl Into<Option<&'a str>>,
        name: &str,
        change: impl FnOnce(&mut K),
    ) -> K
    where
        K: kube::Resource<DynamicType = ()> + Serialize + DeserializeOwned,
    {
        let namespace = namespace.into();
        let kind = expect("modify", self.kind_for::<K>());
        // Read and written under one lock, so that no other write interleaves.
        let modified = self.write(&kind, namespace, name, |store, place| {
            write::update_now(&self.state, store, place, Part::Object, |object| {
                let mut object: K = from_value(object.clone())?;
                change(&mut object);
                Ok(Made::Changed(to_value(object)?))
            })
        });
        let modified = modified.and_then(|stored| from_value(stored.value()));
        expect("modify", modified)
    }

    /// Deletes an object. An object with finalizers is only marked for deletion. For cluster-scoped kinds the
    /// namespace is `None`.
    ///
    /// # Panics
    ///
    /// If there is no such object. See [`TestServer::try_delete`].
    #[track_caller]
    pub fn delete<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str)
    where
        K: kube::Resource<DynamicType = ()>,
    {
        expect("delete", self.try_delete::<K>(namespace, name));
    }

    /// Deletes an object or returns the error that a client would receive.
    pub fn try_delete<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str) -> Result<(), ApiError>
    where
        K: kube::Resource<DynamicType = ()>,
    {
        let kind = self.kind_for::<K>()?;
        self.delete_object(&kind, namespace.into(), name)
    }

    /// Deletes an object by resource (`pods`, `deployments.apps`) and key (`namespace/name`, or `name`).
    ///
    /// # Panics
    ///
    /// If there is no such resource or object. See [`TestServer::try_delete_key`].
    #[track_caller]
    pub fn delete_key(&self, resource: &str, key: &str) {
        expect("delete", self.try_delete_key(resource, key));
    }

    /// Deletes an object by resource and key or returns the error that a client would receive.
    pub fn try_delete_key(&self, resource: &str, key: &str) -> Result<(), ApiError> {
        let kind = self.resource(resource)?;
        match key.split_once('/') {
            Some((namespace, name)) => self.delete_object(&kind, Some(namespace), name),
            None => self.delete_object(&kind, None, key),
        }
    }

    fn delete_object(&self, kind: &Arc<Kind>, namespace: Option<&str>, name: &str) -> Result<(), ApiError> {
        self.write(kind, namespace, name, |store, place| {
            write::delete(&self.state, store, place, &DeleteOptions::default())
        })?;
        Ok(())
    }

    /// Changes an object (`pods`, `shop/cart`) as it is now, read and written under one lock, as a field manager; an empty name is
    /// none.
    pub(crate) fn edit_as(
        &self,
        manager: &str,
        resource: &str,
        key: &str,
        change: impl FnOnce(&mut Value),
    ) -> Result<Value, ApiError> {
        let kind = self.resource(resource)?;
        let (namespace, name) = match key.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, key),
        };
        let now = self.timestamp();
        let edited = self.write(&kind, namespace, name, |store, place| {
            let place = Place {
                manager: manager_of(manager, &now),
                ..place.clone()
            };
            write::update_now(&self.state, store, &place, Part::Object, |object| {
                let mut object = object.clone();
                change(&mut object);
                Ok(Made::Changed(object))
            })
        });
        edited.map(|stored| stored.value())
    }

    pub(super) fn write<T>(
        &self,
        kind: &Arc<Kind>,
        namespace: Option<&str>,
        name: &str,
        change: impl FnOnce(&mut Store, &Place<'_>) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let stored_as = self.state.registry.read().stored(kind);
        let place = Place::of_test(kind, &stored_as, namespace, name);
        self.state.write(|store| change(store, &place))
    }
}

fn manager_of<'a>(name: &'a str, now: &'a str) -> Option<Manager<'a>> {
    (!name.is_empty()).then_some(Manager {
        name,
        subresource: "",
        now,
    })
}

/// Reading stored objects.
impl TestServer {
    /// The revision of the latest write.
    pub fn resource_version(&self) -> u64 {
        self.state.store.read().revision()
    }

    /// One stored object.
    pub fn get<'a, K>(&self, namespace: impl Into<Option<&'a str>>, name: &str) -> Option<K>
    where
        K: kube::Resource<DynamicType = ()> + DeserializeOwned,
    {
        let kind = self.kind_for::<K>().ok()?;
        let key = storage_key(namespace.into(), name);
        let store = self.state.store.read();
        let object = store
            .collection(&ServerState::collection_of(&kind))?
            .get(&key)?
            .value();
        drop(store);
        serde_json::from_value(object).ok()
    }

    /// One stored object, by resource (`pods`, `deployments.apps`) and key (`namespace/name`, or `name`).
    pub fn object(&self, resource: &str, key: &str) -> Option<Value> {
        let kind = self.resource(resource).ok()?;
        let key = match key.split_once('/') {
            Some((namespace, name)) => crate::storage::storage_key(Some(namespace), name),
            None => crate::storage::storage_key(None, key),
        };
        let store = self.state.store.read();
        let object = store
            .collection(&ServerState::collection_of(&kind))?
            .get(&key)?
            .value();
        Some(object)
    }

    /// The kinds the server serves now; a snapshot.
    pub fn kinds(&self) -> crate::kinds::Registry {
        self.state.registry.read().clone()
    }

    /// The server's current time, as in `creationTimestamp`. It follows tokio's clock.
    pub fn timestamp(&self) -> String {
        self.state.clock.timestamp()
    }

    /// All objects of a resource (`pods`, `deployments.apps`), sorted by key.
    pub fn objects(&self, resource: &str) -> Vec<Value> {
        let Ok(kind) = self.resource(resource) else {
            return Vec::new();
        };
        let store = self.state.store.read();
        let collection = store.collection(&ServerState::collection_of(&kind));
        collection
            .map(|collection| collection.objects().map(|object| object.value()).collect())
            .unwrap_or_default()
    }

    /// The keys of all objects of a resource, sorted.
    pub(crate) fn keys(&self, resource: &str) -> Vec<Arc<str>> {
        let Ok(kind) = self.resource(resource) else {
            return Vec::new();
        };
        let store = self.state.store.read();
        let collection = store.collection(&ServerState::collection_of(&kind));
        collection
            .map(|collection| collection.objects().map(|object| object.key.clone()).collect())
            .unwrap_or_default()
    }

    /// The number of objects of a resource.
    pub fn count(&self, resource: &str) -> usize {
        let Ok(kind) = self.resource(resource) else {
            return 0;
        };
        let store = self.state.store.read();
        store
            .collection(&ServerState::collection_of(&kind))
            .map_or(0, Collection::len)
    }

    pub(super) fn kind_of(&self, object: &Value) -> Result<Arc<Kind>, ApiError> {
        self.state.registry.read().kind_of(object).ok_or_else(|| {
            let (api_version, kind) = (text_at(object, "/apiVersion"), text_at(object, "/kind"));
            ApiError::bad_request(format!(
                "unknown kind {kind:?} in {api_version:?}: set apiVersion and kind, or declare the kind \
                 with TestServer::builder().kind(..) or a CustomResourceDefinition"
            ))
        })
    }

    fn kind_for<K: kube::Resource<DynamicType = ()>>(&self) -> Result<Arc<Kind>, ApiError> {
        let (group, version, plural) = (K::group(&()), K::version(&()), K::plural(&()));
        self.state
            .registry
            .read()
            .resource(&group, &version, &plural)
            .ok_or_else(|| ApiError::bad_request(format!("unknown resource {plural} in {group}/{version}")))
    }

    pub(super) fn resource(&self, resource: &str) -> Result<Arc<Kind>, ApiError> {
        let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
        let registry = self.state.registry.read();
        let version = registry
            .versions(group)
            .into_iter()
            .find(|version| registry.resource(group, version, plural).is_some());
        version
            .and_then(|version| registry.resource(group, &version, plural))
            .ok_or_else(|| ApiError::bad_request(format!("unknown resource {resource:?}")))
    }
}

/// What runs in a cluster besides its API server.
impl TestServer {
    /// Sets where a service (`shop/operator`) that webhook configurations name really is: `https://127.0.0.1:9443`, or
    /// `http://…` for an endpoint without TLS. With TLS the certificate must be valid for `operator.shop.svc`, and be signed by an
    /// authority in the `caBundle` of the configuration.
    ///
    /// Calls over sockets need real time: do not pause the clock in such a test.
    pub fn webhook_service(&self, service: &str, url: impl Into<String>) {
        self.state.config.services.set(service, url.into());
    }

    /// Sets the log of a container of a pod (`shop/cart`), which clients can then read.
    pub fn set_log(&self, pod: &str, container: &str, text: impl Into<String>) {
        self.state.logs.set(pod, container, text.into());
    }

    /// Decides how pods run on their nodes, on a server with a [kubelet](crate::Controllers::kubelet). The latest rule that
    /// matches a pod counts, also for pods that run already.
    pub fn pod_rule(&self, rule: PodRule) {
        self.state.add_pod_rule(rule);
    }
}

#[track_caller]
pub(super) fn expect<T>(what: &str, result: Result<T, ApiError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("cannot {what}: {error}"),
    }
}

fn to_value(object: impl Serialize) -> Result<Value, ApiError> {
    serde_json::to_value(object)
        .map_err(|error| ApiError::bad_request(format!("the object is not JSON: {error}")))
}

fn from_value<K: DeserializeOwned>(value: Value) -> Result<K, ApiError> {
    serde_json::from_value(value).map_err(|error| {
        ApiError::internal(format!(
            "the stored object cannot be decoded as its type: {error}"
        ))
    })
}

fn text_at(object: &Value, pointer: &str) -> String {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

pub(super) fn namespace_of(kind: &Kind, object: &Value) -> Option<String> {
    let own = text_at(object, "/metadata/namespace");
    kind.namespaced
        .then(|| if own.is_empty() { "default".to_owned() } else { own })
}
