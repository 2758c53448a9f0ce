//! The state of an informer: versions, the least healthy watch, why it is not synced.

use std::time::Duration;

use super::errors::WaitError;
use super::process::{InformerInner, Lifecycle};
use crate::errors::StoppedError;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::reflector::{ReflectorState, SyncError};
use crate::version::ResourceVersion;

impl<K: Object> InformerInner<K> {
    /// Whether every member watch that may hold the key, or every one without a key, has reached the version.
    pub(super) fn has_reached(
        &self,
        wanted: &ResourceVersion,
        key: Option<&ObjectKey>,
    ) -> Result<bool, WaitError> {
        if let Some(key) = key {
            let cached = self.store.get(key);
            let version = cached.as_deref().and_then(Object::object_version);
            if let Some(Ok(version)) = version.map(str::parse::<ResourceVersion>)
                && version >= *wanted
            {
                return Ok(true);
            }
        }
        for member in self.members().iter() {
            // An empty shard is the same at every version.
            if member.shard.is_empty() || !key.is_none_or(|key| member.may_hold(key)) {
                continue;
            }
            let Some(version) = self.store.version_of(member.id) else {
                return Ok(false);
            };
            let version: ResourceVersion = version.parse().map_err(WaitError::NotComparable)?;
            if version < *wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether no member watch can hold the key.
    pub(super) fn is_outside(&self, key: &ObjectKey) -> bool {
        !self.members().iter().any(|member| member.may_hold(key))
    }

    /// The state of the least healthy watch.
    pub(super) fn state(&self) -> ReflectorState {
        let rank = |state: &ReflectorState| match state {
            ReflectorState::BackingOff { .. } => 4,
            ReflectorState::Listing { .. } => 3,
            ReflectorState::Idle => 2,
            ReflectorState::Watching { .. } => 1,
            ReflectorState::Resting | ReflectorState::Stopped => 0,
        };
        let members = self.members();
        let states = members.iter().map(|member| member.reflector.state());
        // Without members there is nothing to watch.
        let none = match *self.life.borrow() {
            Lifecycle { stopped: true, .. } => ReflectorState::Stopped,
            Lifecycle { started: true, .. } => ReflectorState::Resting,
            _ => ReflectorState::Idle,
        };
        states.max_by_key(rank).unwrap_or(none)
    }

    pub(super) fn stopped_error(&self) -> StoppedError {
        StoppedError::informer(&self.name)
    }

    pub(super) fn not_synced(&self, after: Duration) -> SyncError {
        let members = self.members();
        let failed = members.iter().filter_map(|member| member.reflector.last_error());
        let failed = failed.max_by_key(|(_, attempts)| *attempts);
        SyncError::list("informer", &self.name, after, self.state(), failed)
    }
}
