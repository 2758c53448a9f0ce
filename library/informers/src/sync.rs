//! `wait_for_sync` and `wait_for_sync_within`: wait for several informers, handlers and factories at once.

use std::time::Duration;

use futures_core::future::BoxFuture;
use futures_util::future::join_all;
use tokio::time::Instant;

use crate::factory::SharedInformerFactory;
use crate::informer::Informer;
use crate::object::Object;
use crate::reflector::{ReflectorHandle, SyncError};
use crate::registration::Registration;
use crate::time::FAR;

/// Something that [`wait_for_sync`] can wait for: an [`Informer`], a [`Registration`], a [`SharedInformerFactory`], a
/// [`ReflectorHandle`], and tuples and slices of references to them.
pub trait Synced {
    /// Why it is not synced within the timeout: one error for each informer, handler or factory.
    #[doc(hidden)]
    fn obstacles(&self, timeout: Duration) -> BoxFuture<'_, Vec<SyncError>>;
}

/// Waits until all of these are synced, without a limit; [`wait_for_sync_within`] has one.
///
/// # Errors
///
/// One of them has stopped.
pub async fn wait_for_sync(all: impl Synced) -> Result<(), SyncError> {
    wait_for_sync_within(all, FAR).await
}

/// Waits until all of these are synced. They share the timeout.
///
/// ```no_run
/// # use k8s_openapi::api::core::v1::{ConfigMap, Pod};
/// # use kube_informers::{Informer, SharedInformerFactory, wait_for_sync_within};
/// # use std::time::Duration;
/// # async fn example(
/// #     pods: Informer<Pod>, maps: Informer<ConfigMap>, factory: SharedInformerFactory,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// wait_for_sync_within((&pods, &maps, &factory), Duration::from_secs(60)).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// Names those that are not synced, and why.
#[doc(alias = "WaitForCacheSync")]
#[doc(alias = "WaitForNamedCacheSyncWithContext")]
#[doc(alias = "WaitFor")]
pub async fn wait_for_sync_within(all: impl Synced, timeout: Duration) -> Result<(), SyncError> {
    let began = Instant::now();
    let missing = all.obstacles(timeout).await;
    match missing.is_empty() {
        true => Ok(()),
        false => Err(SyncError::several(missing, began.elapsed().min(timeout))),
    }
}

impl<K: Object> Synced for Informer<K> {
    fn obstacles(&self, timeout: Duration) -> BoxFuture<'_, Vec<SyncError>> {
        Box::pin(async move { self.synced_within(timeout).await.err().into_iter().collect() })
    }
}

impl Synced for SharedInformerFactory {
    fn obstacles(&self, timeout: Duration) -> BoxFuture<'_, Vec<SyncError>> {
        Box::pin(async move {
            self.wait_for_sync_within(timeout)
                .await
                .err()
                .into_iter()
                .collect()
        })
    }
}

impl Synced for ReflectorHandle {
    fn obstacles(&self, timeout: Duration) -> BoxFuture<'_, Vec<SyncError>> {
        Box::pin(async move { self.synced_within(timeout).await.err().into_iter().collect() })
    }
}

impl Registration {
    /// Waits until [`has_synced`](Self::has_synced), for at most `timeout`.
    ///
    /// # Errors
    ///
    /// The handler ended first, or has not received its initial objects in time.
    pub async fn synced_within(&self, timeout: Duration) -> Result<(), SyncError> {
        let began = Instant::now();
        let problem = match tokio::time::timeout(timeout, self.synced()).await {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(ended)) => ended.to_string(),
            Err(_) => format!(
                "handler {} has not received its initial objects after {timeout:?}; {} events are pending",
                self.name(),
                self.pending()
            ),
        };
        Err(SyncError::handler(
            self.name(),
            began.elapsed().min(timeout),
            problem,
        ))
    }
}

impl Synced for Registration {
    fn obstacles(&self, timeout: Duration) -> BoxFuture<'_, Vec<SyncError>> {
        Box::pin(async move { self.synced_within(timeout).await.err().into_iter().collect() })
    }
}

impl<S: Synced + ?Sized> Synced for &S {
    fn obstacles(&self, timeout: Duration) -> BoxFuture<'_, Vec<SyncError>> {
        (**self).obstacles(timeout)
    }
}

impl<S: Synced> Synced for [S] {
    fn obstacles(&self, timeout: Duration) -> BoxFuture<'_, Vec<SyncError>> {
        let all = join_all(self.iter().map(|one| one.obstacles(timeout)));
        Box::pin(async move { all.await.into_iter().flatten().collect() })
    }
}

macro_rules! tuples {
    ($($($name:ident)+;)+) => {$(
        impl<$($name: Synced),+> Synced for ($($name,)+) {
            fn obstacles(&self, timeout: Duration) -> BoxFuture<'_, Vec<SyncError>> {
                #[allow(non_snake_case, reason = "the names of the types")]
                let ($($name,)+) = self;
                let all = join_all([$($name.obstacles(timeout)),+]);
                Box::pin(async move { all.await.into_iter().flatten().collect() })
            }
        }
    )+};
}

tuples! {
    A;
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}
