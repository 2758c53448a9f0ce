//! `asynchronous` and `blocking`: handlers that are not quick.

use std::future::Future;

use tokio::runtime::Handle;

use super::{EventHandler, Runner, RunnerKind, name};
use crate::event::Event;

/// A handler whose every call is awaited before the next one is made.
///
/// The future runs on the handler's own task, so while it waits nobody else does. When the informer stops it is
/// cancelled at its next await; when the handler is removed it is awaited to its end.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::{Event, asynchronous};
///
/// # let (sender, _receiver) = tokio::sync::mpsc::channel(1);
/// let handler = asynchronous(move |event: Event<Pod>| {
///     let sender = sender.clone();
///     async move {
///         // Waits while the channel is full.
///         sender.send(event.key()).await.ok();
///     }
/// });
/// ```
pub fn asynchronous<K, F, Fut>(call: F) -> Asynchronous<F>
where
    F: FnMut(Event<K>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    Asynchronous { call }
}

/// What [`asynchronous`] returns.
#[derive(Clone, Debug)]
#[must_use = "handlers do nothing until they are added to an informer"]
pub struct Asynchronous<F> {
    call: F,
}

impl<K, F, Fut> EventHandler<K> for Asynchronous<F>
where
    K: 'static,
    F: FnMut(Event<K>) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send + 'static,
{
    /// Never called by an informer, which awaits the future instead.
    ///
    /// # Panics
    ///
    /// Always: a synchronous handler that calls this one has no way to wait for it.
    fn on_event(&mut self, _: Event<K>) {
        panic!(
            "handler {} is asynchronous and was called from a synchronous handler: \
             wrap the function given to `asynchronous`, not the handler it returns",
            name::of::<F>()
        );
    }

    fn name(&self) -> String {
        name::of::<F>()
    }

    fn into_runner(self) -> Runner<K> {
        let mut call = self.call;
        Runner::asynchronous(name::of::<F>(), move |event, _| Box::pin(call(event)))
    }
}

/// A handler that may block: it is called on a thread of its own, which lives as long as the handler.
///
/// The thread is inside the runtime, so [`Handle::current`] works there. A call cannot be interrupted: when the
/// informer stops, a call that takes longer than another 100 ms is reported and left alone. It does not hold up
/// the runtime either, and the process may end around it.
///
/// On a current-thread runtime a thread of the blocking pool is occupied as well while calls are made, so that a
/// paused clock waits for them.
///
/// An asynchronous handler given to it is driven on that thread.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::{Event, blocking};
///
/// let handler = blocking(|event: Event<Pod>| {
///     std::fs::write("last-event", event.to_string()).ok();
/// });
/// ```
pub fn blocking<K, H: EventHandler<K>>(handler: H) -> Blocking<H> {
    Blocking { handler }
}

/// What [`blocking`] returns.
#[derive(Clone, Debug)]
#[must_use = "handlers do nothing until they are added to an informer"]
pub struct Blocking<H> {
    handler: H,
}

impl<K, H> EventHandler<K> for Blocking<H>
where
    K: 'static,
    H: EventHandler<K>,
{
    fn on_event(&mut self, event: Event<K>) {
        self.handler.on_event(event);
    }

    fn name(&self) -> String {
        self.handler.name()
    }

    fn into_runner(self) -> Runner<K> {
        let Runner { name, kind } = self.handler.into_runner();
        match kind {
            RunnerKind::Inline(call) | RunnerKind::Blocking(call) => Runner {
                name,
                kind: RunnerKind::Blocking(call),
            },
            RunnerKind::Async(mut call) => Runner::blocking(name, move |event, told| {
                Handle::current().block_on(call(event, told));
            }),
        }
    }
}
