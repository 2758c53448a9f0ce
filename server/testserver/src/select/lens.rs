//! Shows stored objects of custom resources in the requested version.
//!
//! An object is stored in the version that was the storage version when it was written. Versions without a webhook differ in
//! their name and schema; what a webhook has converted is kept with the object, as in the watch cache of a real server, so that
//! lists and watches can select and encode it without waiting.

use std::borrow::Cow;
use std::sync::Arc;

use futures_util::future::join_all;
use kube_api_protocol::status::ApiError;
use serde_json::Value;

use super::corrupt;
use crate::kinds::{Kind, structural};
use crate::state::ServerState;
use crate::storage::{Change, Stored};
use crate::webhooks;

/// The number of objects that a webhook converts at the same time.
const CONCURRENT: usize = 16;

/// The view of a collection in one version.
#[derive(Clone, Debug)]
pub(crate) struct Lens {
    kind: Arc<Kind>,
    api_version: String,
}

impl Lens {
    pub(crate) fn new(kind: &Arc<Kind>) -> Lens {
        Lens {
            kind: kind.clone(),
            api_version: kind.api_version(),
        }
    }

    /// Whether the version is still served: the definition of a custom resource can change while a watch is open.
    pub(crate) fn is_served(&self, state: &ServerState) -> bool {
        let Kind {
            custom,
            group,
            version,
            plural,
            ..
        } = &*self.kind;
        !custom || state.registry.read().resource(group, version, plural).is_some()
    }

    /// Whether the objects of a change are stored in this version.
    pub(crate) fn is_version_of(&self, change: &Change) -> bool {
        let mut objects = [&change.old, &change.new].into_iter().flatten();
        objects.all(|object| object.api_version() == self.api_version)
    }

    /// The object in this version; `None` if a webhook has to convert it first. Built-in kinds are converted when they are
    /// encoded.
    pub(crate) fn see<'a>(&self, object: &'a Arc<Stored>) -> Option<Cow<'a, Arc<Stored>>> {
        if !self.kind.custom || object.api_version() == self.api_version {
            return Some(Cow::Borrowed(object));
        }
        match &self.kind.conversion {
            Some(conversion) => object.converted(conversion.id, &self.api_version).map(Cow::Owned),
            None => Some(Cow::Owned(self.encode(object.value(), object.revision))),
        }
    }

    /// The object in this version.
    pub(crate) async fn convert(
        &self,
        state: &ServerState,
        object: &Arc<Stored>,
    ) -> Result<Arc<Stored>, ApiError> {
        if let Some(seen) = self.see(object) {
            return Ok(seen.into_owned());
        }
        let Some(conversion) = &self.kind.conversion else {
            return Ok(object.clone());
        };
        let converted = webhooks::convert(conversion, state, object.value(), &self.kind).await?;
        let converted = self.encode(converted, object.revision);
        object.keep_converted(conversion.id, &self.api_version, converted.clone());
        Ok(converted)
    }

    /// Has webhooks convert objects, so that [`see`](Self::see) finds them. The error is that of a list, and names all objects
    /// that cannot be converted.
    pub(crate) async fn prepare(
        &self,
        state: &ServerState,
        objects: Vec<Arc<Stored>>,
    ) -> Result<(), ApiError> {
        let mut failed = Vec::new();
        for some in objects.chunks(CONCURRENT) {
            let converted = some.iter().map(|object| self.convert(state, object));
            for (object, converted) in some.iter().zip(join_all(converted).await) {
                if let Err(why) = converted {
                    failed.push((object.clone(), why));
                }
            }
        }
        if failed.is_empty() {
            return Ok(());
        }
        let Kind { group, plural, .. } = &*self.kind;
        let corrupt = failed.iter().map(|(object, why)| {
            let key = format!("/registry/{group}/{plural}/{}", object.key);
            let why = corrupt::text(&key, object.revision, why);
            (key, why)
        });
        let corrupt: Vec<_> = corrupt.collect();
        Err(ApiError::storage_read(group, plural, &corrupt))
    }

    /// A converted object: as the schema of this version has it.
    fn encode(&self, object: Value, revision: u64) -> Arc<Stored> {
        let mut object = match object {
            Value::Object(object) => object,
            _ => serde_json::Map::new(),
        };
        if let Some(schema) = &self.kind.schema {
            structural::settle(schema, &mut object);
        }
        let encoded = Stored::encode(&self.api_version, &self.kind.kind, &object, revision);
        Arc::new(encoded)
    }
}
