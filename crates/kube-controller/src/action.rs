//! The reconciler trait and its results. Knows nothing about queues.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

/// What to do after a successful reconcile. `()` means [`Done`](Self::Done).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "Result")]
#[non_exhaustive]
pub enum Action {
    /// Nothing until the next change.
    #[default]
    Done,
    /// Reconcile again after this time, or earlier if something changes.
    ///
    /// If the key is already delayed, the earlier of the two times counts. A reconcile in between does not cancel the delay.
    RequeueAfter(Duration),
}

impl From<()> for Action {
    fn from((): ()) -> Self {
        Action::Done
    }
}

/// Reconciles the object of a key.
///
/// Implemented for closures and functions from the key to a future of `Result<Action, E>` or `Result<(), E>`, and can be
/// implemented for a struct:
///
/// ```
/// use kube_controller::{Action, Reconcile};
/// use kube_informers::{ObjectKey, Store};
/// # use k8s_openapi::api::core::v1::Pod;
///
/// struct Reaper {
///     pods: Store<Pod>,
/// }
///
/// impl Reconcile<ObjectKey> for Reaper {
///     type Error = kube::Error;
///
///     async fn reconcile(&self, key: ObjectKey) -> Result<Action, kube::Error> {
///         let Some(_pod) = self.pods.get(&key) else {
///             return Ok(Action::Done);
///         };
///         // …
///         Ok(Action::Done)
///     }
/// }
/// ```
#[doc(alias = "Reconciler")]
pub trait Reconcile<T>: Send + Sync + 'static {
    /// Why a run failed. It is logged with its chain of sources next to the key, so it must not quote objects. Any error
    /// type works, and so do `String`, `&str` and the boxed errors of `anyhow` and `eyre`.
    type Error: Into<Box<dyn Error + Send + Sync>>;

    /// Reconciles one key. Never called concurrently for one key.
    fn reconcile(&self, key: T) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

impl<T, F, R, A, E> Reconcile<T> for F
where
    T: Send,
    F: Fn(T) -> R + Send + Sync + 'static,
    R: Future<Output = Result<A, E>> + Send,
    A: Into<Action>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Error = E;

    async fn reconcile(&self, key: T) -> Result<Action, E> {
        self(key).await.map(Into::into)
    }
}
