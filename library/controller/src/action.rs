//! The reconciler trait and its results. Knows nothing about queues.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
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
/// Closures can be given to a controller directly, see [`IntoReconcile`]. Implement this trait for a struct; an `Arc` of it
/// is a reconciler too.
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
#[doc(alias = "TypedReconciler")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reconcile `{T}`",
    label = "not a reconciler of `{T}`",
    note = "a closure becomes a reconciler with `reconcile_fn`; a struct implements `Reconcile<{T}>`"
)]
#[doc(alias = "ObjectReconciler")]
#[doc(alias = "AsReconciler")]
pub trait Reconcile<T>: Send + Sync + 'static {
    /// Why a run failed. It is logged with its chain of sources next to the key, so it must not quote objects. Any error
    /// type works, and so do `String`, `&str` and the boxed errors of `anyhow` and `eyre`.
    type Error: Into<Box<dyn Error + Send + Sync>>;

    /// Reconciles one key. Never called concurrently for one key.
    fn reconcile(&self, key: T) -> impl Future<Output = Result<Action, Self::Error>> + Send;
}

impl<T: Send, R: Reconcile<T>> Reconcile<T> for Arc<R> {
    type Error = R::Error;

    async fn reconcile(&self, key: T) -> Result<Action, R::Error> {
        R::reconcile(self, key).await
    }
}

/// Anything that a controller can run: a [`Reconcile`], or a closure or function from a key to a future of
/// `Result<Action, E>` or `Result<(), E>`.
///
/// An `async` closure may use what it captures, which is cloned for each run: a [`Store`](kube_informers::Store), a
/// `kube::Client`, an `Arc`.
///
/// ```
/// use kube_controller::{Controller, Watch};
/// use kube_informers::{Informer, ObjectKey};
/// # use k8s_openapi::api::core::v1::Pod;
///
/// # fn example(pods: Informer<Pod>) -> Result<(), Box<dyn std::error::Error>> {
/// let store = pods.store();
/// let controller = Controller::new("reaper")
///     .watches(Watch::object(&pods))
///     .start(async move |key: ObjectKey| {
///         if let Some(pod) = store.get(&key) {
///             println!("{key}: {:?}", pod.metadata.resource_version);
///         }
///         Ok::<(), kube::Error>(())
///     })?;
/// # Ok(())
/// # }
/// ```
///
/// `Kind` is inferred.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not reconcile `{T}`",
    label = "neither a `Reconcile<{T}>` nor a closure from `{T}` to a future",
    note = "a closure names the type of its key and returns a `Send` future of `Result<Action, E>` or `Result<(), E>`: \
            `async move |key: {T}| {{ ... Ok::<(), kube::Error>(()) }}`",
    note = "what it captures must be `Clone + Send + Sync`, and it must not change it: wrap other values in an `Arc`"
)]
pub trait IntoReconcile<T, Kind> {
    /// The reconciler.
    type Reconciler: Reconcile<T>;

    /// Converts it.
    fn into_reconcile(self) -> Self::Reconciler;
}

/// The kind of an [`IntoReconcile`] that implements [`Reconcile`].
#[derive(Clone, Copy, Debug)]
pub enum ByTrait {}

/// The kind of an [`IntoReconcile`] that is a closure or function.
#[derive(Clone, Copy, Debug)]
pub enum ByClosure {}

impl<T, R: Reconcile<T>> IntoReconcile<T, ByTrait> for R {
    type Reconciler = R;

    fn into_reconcile(self) -> R {
        self
    }
}

// `AsyncFn` rules out closures that change what they capture, whose changes would be lost with the clone. The call itself
// goes through `FnOnce`, because only there the future has a name, and with it a `Send` bound.
impl<T, F, R, A, E> IntoReconcile<T, ByClosure> for F
where
    T: Send + 'static,
    F: AsyncFn(T) -> Result<A, E> + FnOnce(T) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<A, E>> + Send,
    A: Into<Action>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Reconciler = ReconcileFn<F>;

    fn into_reconcile(self) -> ReconcileFn<F> {
        ReconcileFn(self)
    }
}

/// A closure as a [`Reconcile`]: [`reconcile_fn`].
#[derive(Clone)]
pub struct ReconcileFn<F>(F);

impl<F> fmt::Debug for ReconcileFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReconcileFn").finish_non_exhaustive()
    }
}

/// Makes a closure a [`Reconcile`], for code that returns or stores one.
///
/// ```
/// use kube_controller::{Reconcile, reconcile_fn};
/// use kube_informers::ObjectKey;
///
/// fn printer(prefix: String) -> impl Reconcile<ObjectKey> {
///     reconcile_fn(async move |key: ObjectKey| {
///         println!("{prefix}{key}");
///         Ok::<(), std::io::Error>(())
///     })
/// }
/// ```
#[doc(alias = "reconcile.TypedFunc")]
#[doc(alias = "reconcile.Func")]
pub fn reconcile_fn<T, F: IntoReconcile<T, ByClosure>>(closure: F) -> F::Reconciler {
    closure.into_reconcile()
}

impl<T, F, R, A, E> Reconcile<T> for ReconcileFn<F>
where
    T: Send + 'static,
    F: AsyncFn(T) -> Result<A, E> + FnOnce(T) -> R + Clone + Send + Sync + 'static,
    R: Future<Output = Result<A, E>> + Send,
    A: Into<Action>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Error = E;

    async fn reconcile(&self, key: T) -> Result<Action, E> {
        let run = self.0.clone();
        run(key).await.map(Into::into)
    }
}
