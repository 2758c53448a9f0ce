//! Writing: create, update, delete and their consequences, as an API server and its controllers perform them.
//! Accepts JSON objects, returns stored ones or the error to respond with. Independent of HTTP.

mod admit;
mod change;
mod commit;
mod create;
mod definition;
mod delete;
mod finalizers;
mod garbage;
mod mirror;
mod own_status;
pub(crate) mod request;
mod review;
mod sent;
mod subresource;
mod unknown;
mod update;

use std::sync::Arc;

use kube_api_protocol::field_error::FieldError;
use kube_api_protocol::nesting::{DEEPEST, is_deeper};
use kube_api_protocol::status::ApiError;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::admission::metadata;
use crate::auth::escalation::{self, Grant};
use crate::kinds::Kind;
use crate::kinds::structural::{self, Patterns};
use crate::patch::Manager;
use crate::select::corrupt;
use crate::select::lens::Lens;
use crate::state::ServerState;
use crate::storage::{Store, Stored, storage_key};
use crate::typed;
use crate::user::User;
use crate::webhooks::{self, Webhooks};

pub(crate) use admit::{create_admitted, delete_admitted, delete_collection};
pub(crate) use change::{Made, Part};
pub(crate) use create::{NewObject, create};
pub(crate) use delete::{DeleteOptions, Deleted, Propagation, delete};
pub(crate) use garbage::{follow_deferred, kind_of, settle};
pub(crate) use mirror::{mirror, mirror_deletion};
pub(crate) use review::review;
pub(crate) use subresource::{apply_scale, bind, get_scale, issue_token, write_scale};
pub(crate) use update::{update, update_now};

/// The origin of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client: the rules for subresources and server-owned fields apply.
    Client,
    /// The test itself: objects are stored as given, status included.
    Test,
}

/// The target of a write, and its origin.
#[derive(Clone, Debug)]
pub(crate) struct Place<'a> {
    pub(crate) kind: &'a Arc<Kind>,
    /// The kind in its storage version.
    pub(crate) stored_as: &'a Arc<Kind>,
    pub(crate) namespace: Option<&'a str>,
    /// Empty for a create, where the object has the name.
    pub(crate) name: &'a str,
    pub(crate) origin: Origin,
    /// Whether built-in objects are completed by their types, and those of clients checked.
    pub(crate) conformant: bool,
    pub(crate) dry_run: bool,
    /// The field manager; without one, managed fields are not recorded.
    pub(crate) manager: Option<Manager<'a>>,
    /// The webhooks that decide on the write.
    pub(crate) webhooks: Option<&'a Webhooks<'a>>,
    /// The user whose permissions limit what the object can grant.
    pub(crate) grantor: Option<&'a User>,
    /// Receives warnings for the client.
    pub(crate) warnings: Option<&'a Warnings>,
}

/// Warnings for the client, about a write that succeeds or fails.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    /// About the body of the request.
    of_body: Mutex<Vec<String>>,
    /// About the object that would be stored.
    of_object: Mutex<Vec<String>>,
}

impl Warnings {
    fn into_texts(self) -> Vec<String> {
        let mut texts = self.of_body.into_inner();
        texts.extend(self.of_object.into_inner());
        texts
    }
}

impl<'a> Place<'a> {
    /// The target of a write by the test itself or by a controller: stored as given, without a field manager.
    pub(crate) fn of_test(
        kind: &'a Arc<Kind>,
        stored_as: &'a Arc<Kind>,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> Place<'a> {
        Place {
            kind,
            stored_as,
            namespace,
            name,
            origin: Origin::Test,
            conformant: false,
            dry_run: false,
            manager: None,
            webhooks: None,
            grantor: None,
            warnings: None,
        }
    }
}

impl Place<'_> {
    pub(crate) fn collection(&self) -> Arc<str> {
        ServerState::collection_of(self.kind)
    }

    /// Rejects an object that grants permissions which its writer does not have.
    fn check_grants(
        &self,
        state: &ServerState,
        new: &Map<String, Value>,
        old: Option<&Map<String, Value>>,
    ) -> Result<(), ApiError> {
        let Some(user) = self.grantor else { return Ok(()) };
        let grant = Grant {
            user,
            kind: self.kind,
            namespace: self.namespace,
            name: self.name,
            new,
            old,
        };
        escalation::check(&state.store.read(), &grant)
    }

    /// Warns the client about the object.
    fn warn(&self, texts: impl IntoIterator<Item = String>) {
        if let Some(warnings) = self.warnings {
            warnings.of_object.lock().extend(texts);
        }
    }

    /// Warns the client about the body of its request. Those of the last attempt count.
    fn warn_of_body(&self, texts: Vec<String>) {
        if let Some(warnings) = self.warnings {
            *warnings.of_body.lock() = texts;
        }
    }

    /// Forgets the warnings about the object of an attempt that is repeated.
    fn clear_warnings(&self) {
        if let Some(warnings) = self.warnings {
            warnings.of_object.lock().clear();
        }
    }

    fn key(&self) -> String {
        storage_key(self.namespace, self.name)
    }

    /// The current object.
    pub(crate) fn current(&self, store: &Store) -> Result<Arc<Stored>, ApiError> {
        let found = store
            .collection(&self.collection())
            .and_then(|objects| objects.get(&self.key()));
        found.cloned().ok_or_else(|| self.not_found())
    }

    pub(crate) fn not_found(&self) -> ApiError {
        ApiError::not_found(&self.kind.group, &self.kind.plural, self.name)
    }

    pub(crate) fn invalid(&self, name: &str, errors: &[FieldError]) -> ApiError {
        ApiError::invalid(&self.kind.group, &self.kind.kind, name, errors)
    }

    /// Whether this object is checked by its type.
    fn is_typed(&self) -> bool {
        self.is_completed() && self.origin == Origin::Client
    }

    /// Whether this object is completed with the defaults of its type.
    fn is_completed(&self) -> bool {
        self.conformant && !self.kind.custom
    }

    fn is(&self, group: &str, kind: &str) -> bool {
        self.kind.group == group && self.kind.kind == kind
    }

    /// The schema and patterns that a client's write must satisfy, for custom kinds. Writes by the test itself are not
    /// validated.
    fn schema(&self) -> Option<(&Value, &Patterns)> {
        let schema = self.kind.schema.as_deref()?;
        (self.origin == Origin::Client).then(|| (schema, self.kind.patterns()))
    }

    fn same_version(&self) -> bool {
        self.kind.version == self.stored_as.version && self.kind.group == self.stored_as.group
    }

    /// Whether a webhook converts between the requested and the stored version.
    fn converts(&self) -> bool {
        self.kind.conversion.is_some() && !self.same_version()
    }

    /// A stored object in the requested version.
    pub(crate) async fn show(&self, state: &ServerState, stored: &Arc<Stored>) -> Result<Value, ApiError> {
        if self.kind.custom {
            let shown = Lens::new(self.kind).convert(state, stored).await?;
            return Ok(shown.value());
        }
        Ok(self.show_now(stored))
    }

    /// The same for a write by the test itself, which cannot wait for a webhook: such an object stays in its own version.
    pub(crate) fn show_now(&self, stored: &Stored) -> Value {
        let value = stored.value();
        let same = if self.kind.custom {
            self.kind.conversion.is_some() || stored.api_version() == self.kind.api_version()
        } else {
            self.same_version()
        };
        if same {
            value
        } else {
            self.kind.convert_from(self.stored_as, value)
        }
    }

    /// An object in its storage version that is not stored yet, in the requested version.
    fn shown(&self, object: &Map<String, Value>) -> Value {
        let object = Value::Object(object.clone());
        if self.same_version() {
            object
        } else {
            self.kind.convert_from(self.stored_as, object)
        }
    }

    /// Converts an object from the requested to the stored version.
    async fn keep(&self, state: &ServerState, object: Value) -> Result<Map<String, Value>, ApiError> {
        match &self.kind.conversion {
            Some(conversion) if !self.same_version() => {
                let kept = webhooks::convert(conversion, state, object, self.stored_as).await?;
                Ok(self.fit(into_map(self.kind, kept)?))
            }
            _ => self.keep_now(object),
        }
    }

    /// The same without a webhook: an object of the test stays in its own version.
    fn keep_now(&self, object: Value) -> Result<Map<String, Value>, ApiError> {
        let kept = if self.same_version() || self.kind.conversion.is_some() {
            object
        } else {
            self.stored_as.convert_from(self.kind, object)
        };
        Ok(self.fit(into_map(self.kind, kept)?))
    }

    /// Prunes what the schema of the storage version does not have, in an object that a client sent in another version.
    fn fit(&self, mut object: Map<String, Value>) -> Map<String, Value> {
        if let Some(schema) = &self.stored_as.schema
            && self.origin == Origin::Client
            && !self.same_version()
        {
            structural::prune(schema, &mut object);
        }
        object
    }

    /// The error for an object that cannot be converted to the requested version.
    fn corrupt(&self, stored: &Stored, why: &ApiError) -> ApiError {
        let Kind { group, plural, .. } = &**self.kind;
        corrupt::object(&format!("/{group}/{plural}/{}", stored.key), stored.revision, why)
    }

    /// The version in which an object is stored: that of its kind, or its own if webhooks convert it.
    fn version_of(&self, object: &Map<String, Value>) -> String {
        let own = object.get("apiVersion").and_then(Value::as_str);
        match own.filter(|own| !own.is_empty() && self.kind.conversion.is_some()) {
            Some(own) => own.to_owned(),
            None => self.stored_as.api_version(),
        }
    }

    /// An object as it would be stored at this version.
    fn encoded(&self, object: &Map<String, Value>, revision: u64) -> Arc<Stored> {
        let (api_version, kind) = (self.version_of(object), &self.stored_as.kind);
        Arc::new(Stored::encode(&api_version, kind, object, revision))
    }

    /// Stores an object; a dry run only encodes it, at the version that it has.
    fn put(&self, store: &mut Store, object: &Map<String, Value>) -> Arc<Stored> {
        if self.dry_run {
            let version = object
                .get("metadata")
                .and_then(|metadata| metadata.get("resourceVersion"));
            let version = version
                .and_then(Value::as_str)
                .and_then(|version| version.parse().ok());
            return self.encoded(object, version.unwrap_or_default());
        }
        let (api_version, kind_name) = (self.version_of(object), self.stored_as.kind.as_str());
        let collection = self.collection();
        let stored = store.put(&collection, |revision| {
            Stored::encode(&api_version, kind_name, object, revision)
        });
        if own_status::is_of(&collection) {
            store.report_written(&collection, stored.clone());
        }
        stored
    }
}

fn no_object(kind: &Kind) -> ApiError {
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {}): it is no JSON object",
        kind.kind
    ))
}

/// The fields of an object, or the error for any other value.
fn into_map(kind: &Kind, value: Value) -> Result<Map<String, Value>, ApiError> {
    match value {
        Value::Object(map) => Ok(map),
        _ => Err(no_object(kind)),
    }
}

/// Sets the name of an object regardless of its previous metadata.
pub(crate) fn set_name(object: &mut Value, name: &str) {
    if let Some(object) = object.as_object_mut() {
        metadata::metadata_mut(object).insert("name".to_owned(), name.into());
    }
}

/// Rejects objects that are nested too deep to be parsed again.
fn check_depth(value: &Value) -> Result<(), ApiError> {
    if is_deeper(value, DEEPEST) {
        return Err(too_deep());
    }
    Ok(())
}

fn too_deep() -> ApiError {
    ApiError::bad_request(format!("the object is nested deeper than {DEEPEST} levels"))
}

/// Rejects an object with values of the wrong type, with the error of Go's decoder.
fn check_decodes(kind: &Kind, object: &Map<String, Value>) -> Result<(), ApiError> {
    match typed::decode(kind, object).error {
        None => Ok(()),
        Some(error) => Err(ApiError::bad_request(format!(
            "{kind} in version \"{version}\" cannot be handled as a {kind}: {error}",
            kind = kind.kind,
            version = kind.version,
        ))),
    }
}
