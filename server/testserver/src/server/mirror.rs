//! Copies of objects of another server, for replays and caches in front of a real one.

use kube_api_protocol::status::ApiError;
use serde_json::Value;

use super::TestServer;
use super::objects::namespace_of;
use crate::write::{self, Place};

/// Copies of objects of another server.
impl TestServer {
    /// Stores an object of another server, given as JSON with `apiVersion` and `kind`: uid, times, generation, finalizers,
    /// managed fields and status are kept, and only the resource version is this server's own. Nothing is checked or
    /// completed, and nothing follows from it: a namespace that is being deleted keeps its objects until their deletions are
    /// copied.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), kube_testserver::ApiError> {
    /// use kube_testserver::TestServer;
    /// use serde_json::json;
    ///
    /// let copy = TestServer::new();
    /// copy.mirror(json!({
    ///     "apiVersion": "v1", "kind": "Pod",
    ///     "metadata": { "name": "cart", "namespace": "shop", "uid": "5f0c", "generation": 7 },
    /// }))?;
    /// assert_eq!(copy.object("pods", "shop/cart").unwrap()["metadata"]["uid"], "5f0c");
    /// assert!(copy.mirror_deletion("pods", "shop/cart")?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The kind is unknown, or the object has no name.
    pub fn mirror(&self, object: Value) -> Result<(), ApiError> {
        let kind = self.kind_of(&object)?;
        let namespace = namespace_of(&kind, &object);
        let name = object.pointer("/metadata/name").and_then(Value::as_str);
        let Some(name) = name.filter(|name| !name.is_empty()).map(str::to_owned) else {
            return Err(ApiError::bad_request("the object has no metadata.name"));
        };
        let stored_as = self.state.registry.read().stored(&kind);
        let place = Place::of_test(&kind, &stored_as, namespace.as_deref(), &name);
        self.state
            .write(|store| write::mirror(&self.state, store, &place, object))
    }

    /// Removes the copy of an object that the other server has deleted, by resource (`pods`, `deployments.apps`) and key
    /// (`namespace/name`, or `name`); returns whether there was one.
    ///
    /// # Errors
    ///
    /// The resource is unknown.
    pub fn mirror_deletion(&self, resource: &str, key: &str) -> Result<bool, ApiError> {
        let kind = self.resource(resource)?;
        let (namespace, name) = match key.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, key),
        };
        let stored_as = self.state.registry.read().stored(&kind);
        let place = Place::of_test(&kind, &stored_as, namespace, name);
        Ok(self
            .state
            .write(|store| write::mirror_deletion(&self.state, store, &place)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_copy_keeps_everything_but_its_version() {
        let server = TestServer::builder().garbage_collection().build();
        let mut object = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "cart", "namespace": "shop", "uid": "u1", "generation": 7, "resourceVersion": "900",
                "creationTimestamp": "2020-01-01T00:00:00Z", "deletionTimestamp": "2020-01-02T00:00:00Z",
                "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "u0" }],
                "managedFields": [{ "manager": "kubelet", "operation": "Update" }],
            },
            "status": { "phase": "Running" },
        });
        server.mirror(object.clone()).unwrap();

        let mut stored = server.object("pods", "shop/cart").unwrap();
        assert_ne!(stored["metadata"]["resourceVersion"], "900");
        for value in [&mut object, &mut stored] {
            value["metadata"]
                .as_object_mut()
                .unwrap()
                .remove("resourceVersion");
        }
        assert_eq!(stored, object, "it is neither collected nor removed");
        assert!(server.mirror_deletion("pods", "shop/cart").unwrap());
        assert!(!server.mirror_deletion("pods", "shop/cart").unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_that_is_being_deleted_keeps_its_objects() {
        let server = TestServer::new();
        server
            .mirror(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "shop" } }))
            .unwrap();
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": "shop", "deletionTimestamp": "2020-01-02T00:00:00Z" },
        });
        server.mirror(namespace).unwrap();
        assert_eq!(server.count("configmaps"), 1);
        assert!(server.mirror_deletion("namespaces", "shop").unwrap());
        assert_eq!(server.count("configmaps"), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn unknown_kinds_and_objects_without_a_name_are_refused() {
        let server = TestServer::new();
        let object = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": "a" } });
        assert!(
            server
                .mirror(object)
                .unwrap_err()
                .to_string()
                .contains("unknown kind")
        );
        let nameless = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": {} });
        assert!(
            server
                .mirror(nameless)
                .unwrap_err()
                .to_string()
                .contains("metadata.name")
        );
        assert!(server.mirror_deletion("widgets.example.com", "a").is_err());
    }
}
