//! What happens to the cluster while the controller runs: a list of named steps.

use std::fmt;
use std::sync::Arc;

use kube_testserver::kinds::Kind;
use kube_testserver::{ApiError, TestServer, manifest};
use serde::Serialize;
use serde_json::{Value, json};

type Apply = dyn Fn(&TestServer) -> Result<(), String> + Send + Sync;

/// One change to the cluster.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) name: String,
    apply: Arc<Apply>,
}

impl Step {
    pub(crate) fn apply(&self, server: &TestServer) -> Result<(), String> {
        (self.apply)(server)
    }
}

/// The initial objects and the steps of a test, as a user of the cluster would perform them.
///
/// A step is performed when the controller has finished its reaction to the previous one.
///
/// ```
/// use kube_perturb::Scenario;
/// use serde_json::json;
///
/// Scenario::new()
///     .given("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
///     .apply("create the settings", "{apiVersion: v1, kind: ConfigMap, metadata: {name: web, namespace: shop}}")
///     .patch("change them", "configmaps", "shop/web", json!({"data": {"color": "red"}}))
///     .delete("delete them", "configmaps", "shop/web");
/// ```
#[derive(Clone, Default)]
#[must_use = "pass it to `perturb`"]
pub struct Scenario {
    pub(crate) kinds: Vec<Kind>,
    pub(crate) given: Vec<Step>,
    pub(crate) steps: Vec<Step>,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.steps.iter().map(|step| &step.name);
        f.debug_list().entries(names).finish()
    }
}

impl Scenario {
    /// A scenario without steps.
    pub fn new() -> Scenario {
        Scenario::default()
    }

    /// Serves a custom kind. A CustomResourceDefinition among the [given](Self::given) objects does the same.
    pub fn kind(mut self, kind: Kind) -> Scenario {
        self.kinds.push(kind);
        self
    }

    /// Objects that exist before the controller starts: a manifest in YAML or JSON, of any number of documents.
    pub fn given(mut self, manifest: impl Into<String>) -> Scenario {
        let manifest = manifest.into();
        self.given.push(Step {
            name: "the given objects".to_owned(),
            apply: Arc::new(move |server| apply_manifest(server, &manifest)),
        });
        self
    }

    /// Like [`given`](Self::given), for a typed object.
    ///
    /// # Panics
    ///
    /// If the object cannot be represented as JSON.
    pub fn given_object(self, object: &impl Serialize) -> Scenario {
        self.given(to_json(object))
    }

    /// A step that creates or replaces the objects of a manifest.
    pub fn apply(self, name: impl Into<String>, manifest: impl Into<String>) -> Scenario {
        let manifest = manifest.into();
        self.step(name, move |server| apply_manifest(server, &manifest))
    }

    /// A step that creates or replaces a typed object.
    ///
    /// # Panics
    ///
    /// If the object cannot be represented as JSON.
    pub fn apply_object(self, name: impl Into<String>, object: &impl Serialize) -> Scenario {
        self.apply(name, to_json(object))
    }

    /// A step that merges fields into an object: `patch("scale", "deployments.apps", "shop/web", json!({"spec": ..}))`. A status
    /// can be set as well, as another controller would.
    pub fn patch(
        self,
        name: impl Into<String>,
        resource: impl Into<String>,
        key: impl Into<String>,
        fields: Value,
    ) -> Scenario {
        let (resource, key) = (resource.into(), key.into());
        self.step(name, move |server| {
            let mut object = server
                .object(&resource, &key)
                .ok_or_else(|| format!("there is no {resource} {key}"))?;
            merge(&mut object, &fields);
            server.try_update(object).map(drop).map_err(text)
        })
    }

    /// A step that deletes an object. With finalizers it is only marked for deletion.
    pub fn delete(
        self,
        name: impl Into<String>,
        resource: impl Into<String>,
        key: impl Into<String>,
    ) -> Scenario {
        let (resource, key) = (resource.into(), key.into());
        self.step(name, move |server| {
            server.try_delete_key(&resource, &key).map_err(text)
        })
    }

    /// A step in code. It must not depend on anything but the server, because it runs again for every plan.
    pub fn step(
        mut self,
        name: impl Into<String>,
        apply: impl Fn(&TestServer) -> Result<(), String> + Send + Sync + 'static,
    ) -> Scenario {
        self.steps.push(Step {
            name: name.into(),
            apply: Arc::new(apply),
        });
        self
    }
}

fn text(error: ApiError) -> String {
    error.to_string()
}

#[track_caller]
fn to_json(object: &impl Serialize) -> String {
    match serde_json::to_string(object) {
        Ok(json) => json,
        Err(error) => panic!("the object of a scenario is not JSON: {error}"),
    }
}

fn apply_manifest(server: &TestServer, manifest: &str) -> Result<(), String> {
    let objects = manifest::objects(manifest).map_err(|error| error.to_string())?;
    for object in objects {
        match server.try_update(object.clone()) {
            Err(error) if error.code() == 404 => server.try_create(object),
            updated => updated,
        }
        .map_err(text)?;
    }
    Ok(())
}

/// A JSON merge patch.
fn merge(object: &mut Value, fields: &Value) {
    let Value::Object(fields) = fields else {
        *object = fields.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    let Value::Object(object) = object else { return };
    for (name, value) in fields {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_replaces_adds_and_removes_fields() {
        let mut object = json!({"a": {"b": 1, "c": 2}, "d": [1]});
        merge(&mut object, &json!({"a": {"b": null, "e": {"f": 3}}, "d": [2]}));
        assert_eq!(object, json!({"a": {"c": 2, "e": {"f": 3}}, "d": [2]}));
    }
}
