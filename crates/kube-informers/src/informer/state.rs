//! The state of an informer: versions, the least healthy watch, why it is not synced.

use std::time::Duration;

use super::errors::{StoppedError, SyncError, WaitForVersionError};
use super::process::InformerInner;
use crate::object::Object;
use crate::reflector::{ReflectorHandle, ReflectorState};
use crate::version::ResourceVersion;

impl<K: Object> InformerInner<K> {
    /// Whether every member watch has reached the version.
    pub(super) fn has_reached(&self, wanted: &ResourceVersion) -> Result<bool, WaitForVersionError> {
        for (version, shard) in self.versions().into_iter().zip(&self.shards) {
            // An empty shard is the same at every version.
            if shard.is_empty() {
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
