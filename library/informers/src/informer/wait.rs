//! Waiting until the cache has reached a version: reading your own writes.

use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::Informer;
use super::errors::WaitError;
use crate::key::ObjectKey;
use crate::object::Object;
use crate::store::Store;
use crate::time::{FAR, after};
use crate::version::ResourceVersion;

impl<K: Object> Informer<K> {
    /// Waits until the cache has reached a resource version, such as the one returned by a write you want to read back.
    ///
    /// The events of all changes up to this version are then in the backlogs of the handlers;
    /// [`Registration::pending`](crate::Registration::pending) counts them.
    ///
    /// Every watch of the informer must reach it. A watch that has nothing to deliver, because the write was outside its
    /// scope, reaches it with its next bookmark (about a minute). If the object is known,
    /// [`wait_for_object`](Self::wait_for_object) is faster.
    ///
    /// # Errors
    ///
    /// The version is not a number and cannot be compared, or the informer stopped.
    #[doc(alias = "LastStoreSyncResourceVersion")]
    pub async fn wait_for(&self, resource_version: &str) -> Result<(), WaitError> {
        self.wait_for_reached(None, resource_version, FAR).await
    }

    /// The same for at most `timeout`.
    ///
    /// # Errors
    ///
    /// The same, or the timeout elapsed.
    pub async fn wait_for_within(&self, resource_version: &str, timeout: Duration) -> Result<(), WaitError> {
        self.wait_for_reached(None, resource_version, timeout).await
    }

    /// Waits until the cache holds this state of an object or a newer one, or reflects a later deletion.
    ///
    /// Pass the object that a write returned; its type may differ from `K`, for example if the informer caches
    /// projections. Only the watch of the object's namespace matters, so this returns as soon as the change arrives,
    /// however many namespaces the informer covers.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube_informers::Informer;
    /// # use std::time::Duration;
    /// # async fn example(
    /// #     maps: Informer<ConfigMap>, api: kube::Api<ConfigMap>, map: ConfigMap,
    /// # ) -> Result<(), Box<dyn std::error::Error>> {
    /// let created = api.create(&Default::default(), &map).await?;
    /// maps.wait_for_object_within(&created, Duration::from_secs(5)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The object has no resource version that can be compared, its namespace is outside the informer's scope, or the
    /// informer stopped.
    pub async fn wait_for_object(&self, object: &impl Object) -> Result<(), WaitError> {
        self.wait_for_object_within(object, FAR).await
    }

    /// The same for at most `timeout`.
    ///
    /// # Errors
    ///
    /// The same, or the timeout elapsed.
    pub async fn wait_for_object_within(
        &self,
        object: &impl Object,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let version = object.object_version().unwrap_or_default();
        self.wait_for_key_within(&ObjectKey::of(object), version, timeout)
            .await
    }

    /// Like [`wait_for_object`](Self::wait_for_object), by key and resource version.
    ///
    /// # Errors
    ///
    /// The same.
    pub async fn wait_for_key(&self, key: &ObjectKey, resource_version: &str) -> Result<(), WaitError> {
        self.wait_for_reached(Some(key), resource_version, FAR).await
    }

    /// The same for at most `timeout`.
    ///
    /// # Errors
    ///
    /// The same, or the timeout elapsed.
    pub async fn wait_for_key_within(
        &self,
        key: &ObjectKey,
        resource_version: &str,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        self.wait_for_reached(Some(key), resource_version, timeout).await
    }

    /// Waits until the cache is synced and a condition on it holds. The condition is evaluated after each change. The events of
    /// what it saw are then in the backlogs of the handlers.
    ///
    /// ```no_run
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube_informers::Informer;
    /// # use std::time::Duration;
    /// # async fn example(pods: Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
    /// pods.wait_until_within(|pods| pods.len() >= 3, Duration::from_secs(60)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The informer stopped.
    #[doc(alias = "Until")]
    #[doc(alias = "UntilWithoutRetry")]
    #[doc(alias = "ConditionFunc")]
    #[doc(alias = "PreconditionFunc")]
    #[doc(alias = "UntilWithSync")]
    pub async fn wait_until(&self, condition: impl FnMut(&Store<K>) -> bool) -> Result<(), WaitError> {
        self.wait_until_within(condition, FAR).await
    }

    /// The same for at most `timeout`.
    ///
    /// # Errors
    ///
    /// The same, or the timeout elapsed.
    pub async fn wait_until_within(
        &self,
        mut condition: impl FnMut(&Store<K>) -> bool,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let mut applied = self.shared.applied.subscribe();
        let mut life = self.shared.life.subscribe();
        let deadline = after(Instant::now(), timeout);
        loop {
            applied.borrow_and_update();
            let now = *life.borrow_and_update();
            if now.synced && condition(&self.shared.store) {
                self.shared.wait_for_dispatch();
                return Ok(());
            }
            if now.stopped {
                return Err(WaitError::Stopped(self.shared.stopped_error()));
            }
            // Both branches are cancel-safe: a change that is missed here is seen in the next iteration.
            let changed = async {
                tokio::select! {
                    _ = applied.changed() => {}
                    _ = life.changed() => {}
                }
            };
            if timeout_at(deadline, changed).await.is_err() {
                return Err(WaitError::Condition {
                    informer: self.shared.name.clone(),
                    state: self.state(),
                    after: timeout,
                });
            }
        }
    }

    async fn wait_for_reached(
        &self,
        key: Option<&ObjectKey>,
        resource_version: &str,
        timeout: Duration,
    ) -> Result<(), WaitError> {
        let wanted: ResourceVersion = resource_version.parse().map_err(WaitError::NotComparable)?;
        let mut applied = self.shared.applied.subscribe();
        let mut life = self.shared.life.subscribe();
        let deadline = after(Instant::now(), timeout);
        loop {
            applied.borrow_and_update();
            // Checked each time: the namespace may be removed meanwhile.
            if let Some(key) = key.filter(|key| self.shared.is_outside(key)) {
                return Err(WaitError::OutsideScope {
                    key: key.clone(),
                    informer: self.shared.name.clone(),
                });
            }
            if self.shared.has_reached(&wanted, key)? {
                self.shared.wait_for_dispatch();
                return Ok(());
            }
            if life.borrow_and_update().stopped {
                return Err(WaitError::Stopped(self.shared.stopped_error()));
            }
            // Both branches are cancel-safe: a change that is missed here is seen in the next iteration.
            let changed = async {
                tokio::select! {
                    _ = applied.changed() => {}
                    _ = life.changed() => {}
                }
            };
            if timeout_at(deadline, changed).await.is_err() {
                return Err(WaitError::Version {
                    wanted: resource_version.to_owned(),
                    reached: self.shared.store.resource_version(),
                    after: timeout,
                });
            }
        }
    }
}
