//! The state of an informer: versions, the least healthy watch, why it is not synced.

use std::time::Duration;

use super::errors::{StoppedError, SyncError, WaitForVersionError};
use super::process::InformerInner;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::reflector::{ReflectorHandle, ReflectorState};
use crate::version::ResourceVersion;

impl<K: Object> InformerInner<K> {
    /// Whether every member watch that may hold the key, or every one without a key, has reached the version.
    pub(super) fn has_reached(
        &self,
        wanted: &ResourceVersion,
        key: Option<&ObjectKey>,
    ) -> Result<bool, WaitForVersionError> {
        if let Some(key) = key {
            let cached = self.store.get(key);
            let version = cached.as_deref().and_then(Object::object_version);
            if let Some(Ok(version)) = version.map(str::parse::<ResourceVersion>)
                && version >= *wanted
            {
                return Ok(true);
            }
        }
        for (member, (version, shard)) in self.versions().into_iter().zip(&self.shards).enumerate() {
            // An empty shard is the same at every version.
            if shard.is_empty() || !key.is_none_or(|key| self.may_hold(member, key)) {
                continue;
            }
            let Some(version) = version else { return Ok(false) };
            let version: ResourceVersion = version.parse().map_err(WaitForVersionError::NotComparable)?;
            if version < *wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the namespace of a member watch is that of the key, as far as its source tells.
    fn may_hold(&self, member: usize, key: &ObjectKey) -> bool {
        match self.namespaces.get(member) {
            Some(Some(namespace)) => key.namespace() == Some(namespace.as_str()),
            _ => true,
        }
    }

    /// Whether no member watch can hold the key.
    pub(super) fn is_outside(&self, key: &ObjectKey) -> bool {
        !(0..self.queues.len()).any(|member| self.may_hold(member, key))
    }

    /// The version of each member watch; the store knows only those that have delivered something.
    pub(super) fn versions(&self) -> Vec<Option<String>> {
        let mut versions = self.store.resource_versions();
        versions.resize(self.queues.len(), None);
        versions
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
        let states = self.reflectors.iter().map(ReflectorHandle::state);
        states.max_by_key(rank).unwrap_or(ReflectorState::Idle)
    }

    pub(super) fn stopped_error(&self) -> StoppedError {
        StoppedError {
            informer: self.name.clone(),
        }
    }

    pub(super) fn not_synced(&self, after: Duration) -> SyncError {
        let failed = self.reflectors.iter().filter_map(ReflectorHandle::last_error);
        let (last_error, attempts) = failed
            .max_by_key(|(_, attempts)| *attempts)
            .map_or((None, 0), |(error, n)| (Some(error), n));
        SyncError {
            informer: self.name.clone(),
            after,
            state: self.state(),
            last_error,
            attempts,
        }
    }
}
