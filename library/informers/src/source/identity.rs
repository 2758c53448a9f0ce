//! `ObjectIdentity`: the part of an object that is compared to verify a cache.

use std::fmt;

use serde::Deserialize;

use crate::object::Object;

/// The key, UID and version of an object, decoded from its metadata alone.
#[derive(Clone, Deserialize, PartialEq, Eq)]
pub struct ObjectIdentity {
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Clone, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

impl ObjectIdentity {
    /// The identity of an object.
    pub fn of<K: Object + ?Sized>(object: &K) -> Self {
        Self {
            metadata: Metadata {
                name: object.object_name().to_owned(),
                namespace: object.object_namespace().map(str::to_owned),
                uid: object.object_uid().map(str::to_owned),
                resource_version: object.object_version().map(str::to_owned),
            },
        }
    }
}

impl Object for ObjectIdentity {
    fn object_name(&self) -> &str {
        &self.metadata.name
    }

    fn object_namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }

    fn object_uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    fn object_version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }
}

impl fmt::Debug for ObjectIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectIdentity")
            .field("namespace", &self.metadata.namespace)
            .field("name", &self.metadata.name)
            .field("uid", &self.metadata.uid)
            .field("version", &self.metadata.resource_version)
            .finish()
    }
}
