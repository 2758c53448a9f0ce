//! `IntoHandler`: accepts either kind of handler and erases its type for the dispatcher.

use std::fmt;

use super::{AsyncEventHandler, Delivery, EventHandler};
use futures_core::future::BoxFuture;

/// Anything that can be added to an informer: an [`EventHandler`] or an [`AsyncEventHandler`].
///
/// `Kind` is inferred. A type that implements both traits is ambiguous; name the kind to choose one:
/// `informer.add_event_handler::<_, Synchronous>(handler)`.
///
/// Implemented for every handler; it cannot be implemented otherwise.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an event handler for `{K}`",
    label = "neither an `EventHandler<{K}>` nor an `AsyncEventHandler<{K}>`",
    note = "a closure is a handler if it accepts one `Event<{K}>`, by value and with its type written out, and returns `()` \
            or a `Send` future of `()`",
    note = "if the last expression of the closure has another type, end it with a semicolon"
)]
pub trait IntoHandler<K, Kind>: Send + 'static + sealed::Sealed<K, Kind> {}

/// The kind of an [`EventHandler`].
#[derive(Clone, Copy, Debug)]
pub enum Synchronous {}

/// The kind of an [`AsyncEventHandler`].
#[derive(Clone, Copy, Debug)]
pub enum Asynchronous {}

impl<K: 'static, H: EventHandler<K>> IntoHandler<K, Synchronous> for H {}
impl<K: 'static, H: AsyncEventHandler<K>> IntoHandler<K, Asynchronous> for H {}

/// A call of a synchronous handler.
pub(crate) type Call<K> = Box<dyn FnMut(Delivery<K>) + Send>;

/// An asynchronous handler.
pub(crate) type AsyncCall<K> = Box<dyn AsyncHandler<K>>;

/// [`AsyncEventHandler`] in a form that can be a trait object.
pub(crate) trait AsyncHandler<K>: Send {
    fn call(&mut self, delivery: Delivery<K>) -> BoxFuture<'_, ()>;
}

impl<K: 'static, H: AsyncEventHandler<K>> AsyncHandler<K> for H {
    fn call(&mut self, delivery: Delivery<K>) -> BoxFuture<'_, ()> {
        Box::pin(self.on_delivery(delivery))
    }
}

/// A handler as the dispatcher keeps it.
pub struct ErasedHandler<K> {
    pub(crate) name: String,
    pub(crate) kind: HandlerKind<K>,
}

/// How a handler is called.
pub(crate) enum HandlerKind<K> {
    /// On the handler's task; returns quickly.
    Inline(Call<K>),
    /// Awaited on the handler's task.
    Async(AsyncCall<K>),
    /// On a dedicated thread; may block.
    Blocking(Call<K>),
}

impl<K> fmt::Debug for ErasedHandler<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ErasedHandler")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

mod sealed {
    use super::{AsyncEventHandler, Asynchronous, ErasedHandler, EventHandler, HandlerKind, Synchronous};

    pub trait Sealed<K, Kind> {
        fn erase(self) -> ErasedHandler<K>;
    }

    impl<K: 'static, H: EventHandler<K>> Sealed<K, Synchronous> for H {
        fn erase(mut self) -> ErasedHandler<K> {
            let name = self.name();
            let may_block = self.may_block();
            let call = Box::new(move |delivery| self.on_delivery(delivery));
            let kind = match may_block {
                true => HandlerKind::Blocking(call),
                false => HandlerKind::Inline(call),
            };
            ErasedHandler { name, kind }
        }
    }

    impl<K: 'static, H: AsyncEventHandler<K>> Sealed<K, Asynchronous> for H {
        fn erase(self) -> ErasedHandler<K> {
            ErasedHandler {
                name: self.name(),
                kind: HandlerKind::Async(Box::new(self)),
            }
        }
    }
}

/// Erases the type of a handler.
pub(crate) fn erase<K, Kind>(handler: impl IntoHandler<K, Kind>) -> ErasedHandler<K> {
    sealed::Sealed::erase(handler)
}
