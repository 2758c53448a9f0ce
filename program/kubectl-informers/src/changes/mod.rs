//! `Change`: a change of an object, ready to be displayed.

pub mod config;
pub mod diff;
pub mod json;
pub mod noise;

use std::sync::Arc;

use jiff::Timestamp;
use kube_informers::{Cause, Event, Object, ObjectKey};
use serde_json::Value;

use crate::changes::noise::Noise;
use crate::objects::fields::FieldChange;
use crate::objects::item::{Contents, Item};
use crate::objects::kinds::Kind;
use crate::objects::who::Written;

/// One change of one object, or the end of the initial list.
#[derive(Clone)]
pub struct Change {
    /// When this program received it.
    pub when: Timestamp,
    /// Of which kind.
    pub kind: Arc<Kind>,
    /// What happened.
    pub event: What,
    /// The object's key; `None` for [`What::Synced`].
    pub key: Option<ObjectKey>,
    /// The UID of the object.
    pub uid: Option<String>,
    /// The version of this state of the object; for [`What::Synced`] that of the collection.
    pub resource_version: Option<String>,
    /// The version before, of an update.
    pub old_resource_version: Option<String>,
    /// What changed, of an update.
    pub diff: Vec<FieldChange>,
    /// The object as it is now, or as it last was; `None` for [`What::Synced`].
    pub object: Option<Arc<Item>>,
    /// The object before an update, if they are compared.
    pub old: Option<Arc<Item>>,
    /// What is left out of its diff; `None` if it is not compared.
    pub noise: Option<Noise>,
    /// Who changed it; `None` if that cannot be known.
    pub by: Option<Vec<Written>>,
    /// How many earlier changes of the object were merged into this one, because the output was blocked.
    pub coalesced: u64,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An object appeared.
    Added {
        /// It is part of the initial list.
        initial: bool,
    },
    /// An object changed.
    Updated {
        /// A resync: nothing changed.
        resync: bool,
    },
    /// An object is gone.
    Deleted {
        /// How we know.
        cause: Cause,
    },
    /// The initial list is complete. Sent once per kind.
    Synced {
        /// How many objects there were.
        objects: usize,
    },
}

impl What {
    /// `added`, `updated`, `deleted`, `synced`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added { .. } => "added",
            Self::Updated { .. } => "updated",
            Self::Deleted { .. } => "deleted",
            Self::Synced { .. } => "synced",
        }
    }

    /// Whether it is part of the initial list.
    pub fn is_initial(self) -> bool {
        matches!(self, Self::Added { initial: true })
    }

    /// Whether nothing changed.
    pub fn is_resync(self) -> bool {
        matches!(self, Self::Updated { resync: true })
    }

    /// The cause of a deletion: `observed`, `missed`, `leftScope`.
    pub fn cause(self) -> Option<&'static str> {
        match self {
            Self::Deleted { cause } => Some(match cause {
                Cause::Missed => "missed",
                Cause::LeftScope => "leftScope",
                _ => "observed",
            }),
            _ => None,
        }
    }
}

impl Change {
    /// Converts an event of an informer. The diff is computed here, once for all views. Without `noise` there is no diff
    /// and no author: both need the decoded objects.
    pub fn of(event: &Event<Item>, kind: &Arc<Kind>, noise: Option<&Noise>) -> Self {
        let object = event.object();
        let (what, old, (diff, by)) = match event {
            Event::Added { initial, .. } => {
                let by = noise.and_then(|_| object.summary().managers.creators());
                (What::Added { initial: *initial }, None, (Vec::new(), by))
            }
            Event::Updated { old, new, resync } => {
                let compared = noise.map(|noise| diff::with_authors(old, new, noise));
                let what = What::Updated { resync: *resync };
                (what, Some(old), compared.unwrap_or_default())
            }
            Event::Deleted { cause, .. } => (What::Deleted { cause: *cause }, None, (Vec::new(), None)),
        };
        Self {
            when: Timestamp::now(),
            kind: kind.clone(),
            event: what,
            key: Some(event.key()),
            uid: object.object_uid().map(str::to_owned),
            resource_version: object.object_version().map(str::to_owned),
            old_resource_version: old.and_then(|old| old.object_version().map(str::to_owned)),
            diff,
            object: Some(object.clone()),
            old: old.filter(|_| noise.is_some()).cloned(),
            noise: noise.cloned(),
            by,
            coalesced: 0,
        }
    }

    /// The initial list is complete.
    pub fn synced(kind: &Arc<Kind>, objects: usize, resource_version: Option<String>) -> Self {
        Self {
            when: Timestamp::now(),
            kind: kind.clone(),
            event: What::Synced { objects },
            key: None,
            uid: None,
            resource_version,
            old_resource_version: None,
            diff: Vec::new(),
            object: None,
            old: None,
            noise: None,
            by: None,
            coalesced: 0,
        }
    }

    /// The reason and message of an Event; `None` for other kinds.
    pub fn story(&self) -> Option<String> {
        let object = self.object.as_ref().filter(|_| self.kind.kind == "Event")?;
        let text = |field: &str| object.text(field).ok().flatten();
        let reason = text("reason").unwrap_or_default();
        let message = text("message").or_else(|| text("note")).unwrap_or_default();
        Some(format!("{reason}: {message}"))
    }

    /// The kind and key of the object an Event is about; `None` for other kinds.
    pub fn about(&self) -> Option<(String, ObjectKey)> {
        let object = self.object.as_ref().filter(|_| self.kind.kind == "Event")?;
        let value = |field: &str| object.value(field).ok().flatten();
        let about = value("involvedObject").or_else(|| value("regarding"))?;
        let text = |field: &str| {
            about
                .get(field)
                .and_then(Value::as_str)
                .filter(|text| !text.is_empty())
        };
        Some((
            text("kind")?.to_owned(),
            ObjectKey::new(text("namespace"), text("name")?),
        ))
    }

    /// `shop/cart`, `node-1`; empty for [`What::Synced`].
    pub fn name(&self) -> &str {
        self.key.as_ref().map_or("", ObjectKey::as_str)
    }

    /// The approximate size in memory of its diff.
    pub fn weight(&self) -> usize {
        let value = |value: &Option<Value>| value.as_ref().map_or(0, size);
        self.diff
            .iter()
            .map(|field| 96 + field.path.len() + value(&field.old) + value(&field.new))
            .sum()
    }
}

fn size(value: &Value) -> usize {
    32 + match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| 24 + name.len() + size(value))
            .sum(),
        _ => 0,
    }
}
