//! The objects that a list or watch covers: namespace, selectors and shard combined.

use std::borrow::Cow;
use std::sync::Arc;

use kube_api_protocol::request::ListOptions;
use kube_api_protocol::selector::ShardSelector;
use kube_api_protocol::selector::{FieldSelector, LabelSelector};
use kube_api_protocol::status::ApiError;
use kube_api_protocol::watch::EventType;

use crate::kinds::Kind;
use crate::select::lens::Lens;
use crate::state::ServerState;
use crate::storage::{Change, Stored};

/// An event with its object in the requested version.
pub(crate) type Event<'a> = (EventType, Cow<'a, Arc<Stored>>);

/// The scope of one list or watch.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    kind: Arc<Kind>,
    lens: Lens,
    pub(crate) namespace: Option<String>,
    labels: LabelSelector,
    fields: FieldSelector,
    shard: Option<ShardSelector>,
}

impl Selection {
    pub(crate) fn new(
        kind: &Arc<Kind>,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<Selection, ApiError> {
        let fields = kind
            .check_fields(&options.fields)
            .map_err(|error| ApiError::bad_request(error.to_string()))?;
        Ok(Selection {
            kind: kind.clone(),
            lens: Lens::new(kind),
            namespace: namespace.map(str::to_owned),
            labels: options.labels.clone(),
            fields,
            shard: None,
        })
    }

    /// Narrows the selection to a shard.
    pub(crate) fn in_shard(mut self, selector: &str) -> Result<Selection, ApiError> {
        if !selector.is_empty() {
            self.shard = Some(ShardSelector::parse(selector).map_err(ApiError::unknown)?);
        }
        Ok(self)
    }

    /// The requested shard.
    pub(crate) fn shard(&self) -> Option<&str> {
        self.shard.as_ref().map(ShardSelector::text)
    }

    /// Whether every object in the namespace is selected.
    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty() && self.shard.is_none()
    }

    /// The common key prefix of the selected objects.
    pub(crate) fn key_prefix(&self) -> String {
        self.namespace
            .as_ref()
            .map(|namespace| format!("{namespace}/"))
            .unwrap_or_default()
    }

    /// The version in which objects are selected and shown.
    pub(crate) fn lens(&self) -> &Lens {
        &self.lens
    }

    /// The collection of the objects.
    pub(crate) fn collection(&self) -> Arc<str> {
        ServerState::collection_of(&self.kind)
    }

    /// The selected ones of stored objects, in the requested version; or those that webhooks must convert first.
    pub(crate) fn select<'a>(
        &self,
        objects: impl Iterator<Item = &'a Arc<Stored>>,
    ) -> Result<Vec<Arc<Stored>>, Vec<Arc<Stored>>> {
        let (mut selected, mut unconverted) = (Vec::new(), Vec::new());
        for object in objects {
            match self.lens.see(object) {
                Some(seen) if self.matches(&seen) => selected.push(seen.into_owned()),
                Some(_) => {}
                None => unconverted.push(object.clone()),
            }
        }
        if unconverted.is_empty() {
            Ok(selected)
        } else {
            Err(unconverted)
        }
    }

    /// Whether an object in the requested version is selected.
    pub(crate) fn matches(&self, object: &Stored) -> bool {
        let in_scope = self.namespace.is_none() || self.namespace == object.meta.namespace;
        in_scope
            && (self.labels.is_empty()
                || self
                    .labels
                    .matches(|key| object.meta.labels.get(key).map(String::as_str)))
            && (self.fields.is_empty() || self.fields.matches(|field| self.field(object, field)))
            && self
                .shard
                .as_ref()
                .is_none_or(|shard| shard.matches(&object.meta.uid, object.meta.namespace.as_deref()))
    }

    fn field<'a>(&self, object: &'a Stored, field: &str) -> Cow<'a, str> {
        match field {
            "metadata.name" => Cow::Borrowed(&object.meta.name),
            "metadata.namespace" => Cow::Borrowed(object.meta.namespace.as_deref().unwrap_or_default()),
            _ => Cow::Owned(object.with_field(
                field,
                |value| self.kind.field_value(value, field).into_owned(),
                str::to_owned,
            )),
        }
    }

    /// The event of a change within this scope: ADDED on entering, MODIFIED on staying, DELETED with the previous
    /// object at the new version on leaving. The error is an object that a webhook must convert first.
    pub(crate) fn event<'a>(&self, change: &'a Change) -> Result<Option<Event<'a>>, &'a Arc<Stored>> {
        let see = |object: &'a Arc<Stored>| self.lens.see(object).ok_or(object);
        let old = change.old.as_ref().map(see).transpose()?;
        let new = change.new.as_ref().map(see).transpose()?;
        let was_in = old.is_some_and(|object| self.matches(&object));
        let new = new.filter(|object| self.matches(object));
        let Some(event) = EventType::of_change(was_in, new.is_some()) else {
            return Ok(None);
        };
        let object = match new {
            Some(object) => Some(object),
            None => change.last_known().map(see).transpose()?,
        };
        Ok(object.map(|object| (event, object)))
    }
}
