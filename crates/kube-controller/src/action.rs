//! What a reconciler is, and what it may say when it is done. Knows nothing of queues.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

/// What comes after a run that went well. `()` is [`Done`](Self::Done).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[doc(alias = "Result")]
#[non_exhaustive]
pub enum Action {
    /// Nothing, until something changes.
    #[default]
    Done,
    /// Another run after this time, and earlier if something changes.
    ///
    /// A run that is already due at some time stays due: of two times the earlier counts, and a run in between does
    /// not cancel it.
    RequeueAfter(Duration),
}

impl From<()> for Action {
    fn from((): ()) -> Self {
        Action::Done
    }
}

/// Makes the world equal to what a key stands for.
///
/// A closure or function that takes the key and returns a future of `Result<Action, E>` or `Result<(), E>` is one. It
/// can be implemented for a struct, too:
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

    /// Looks into one key. Never called twice at a time for one key.
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
