//! `Handlers`: one closure per kind of event.

use std::fmt;
use std::sync::Arc;

use super::{EventHandler, name};
use crate::event::{Cause, Event};

/// A handler made of up to three closures; events without a closure are ignored.
///
/// ```
/// use k8s_openapi::api::core::v1::Pod;
/// use kube_informers::handler::Handlers;
/// use kube_informers::ObjectKey;
///
/// let handler = Handlers::<Pod>::default()
///     .on_add(|pod, initial| println!("{} is here (initial: {initial})", ObjectKey::of(&*pod)))
///     .on_update(|_old, new| println!("{} changed", ObjectKey::of(&*new)))
///     .on_delete(|pod, cause| println!("{} is gone ({cause:?})", ObjectKey::of(&*pod)));
/// ```
#[doc(alias = "ResourceEventHandlerFuncs")]
#[doc(alias = "ResourceEventHandlerDetailedFuncs")]
#[doc(alias = "TypedResourceEventHandlerFuncs")]
#[doc(alias = "TypedResourceEventHandlerDetailedFuncs")]
#[must_use = "handlers do nothing until they are added to an informer"]
pub struct Handlers<K> {
    add: Option<NamedClosure<OnAdd<K>>>,
    update: Option<NamedClosure<OnUpdate<K>>>,
    delete: Option<NamedClosure<OnDelete<K>>>,
}

type OnAdd<K> = dyn FnMut(Arc<K>, bool) + Send;
type OnUpdate<K> = dyn FnMut(Arc<K>, Arc<K>) + Send;
type OnDelete<K> = dyn FnMut(Arc<K>, Cause) + Send;

/// A closure and its name.
struct NamedClosure<F: ?Sized> {
    name: String,
    call: Box<F>,
}

impl<K> Handlers<K> {
    /// Called with each added object, and whether it is part of the initial list or snapshot.
    #[doc(alias = "AddFunc")]
    pub fn on_add<F>(mut self, call: F) -> Self
    where
        F: FnMut(Arc<K>, bool) + Send + 'static,
    {
        self.add = Some(NamedClosure {
            name: name::of::<F>(),
            call: Box::new(call),
        });
        self
    }

    /// Called with the last delivered and the current state. In a resync both are the same `Arc`.
    #[doc(alias = "UpdateFunc")]
    pub fn on_update<F>(mut self, call: F) -> Self
    where
        F: FnMut(Arc<K>, Arc<K>) + Send + 'static,
    {
        self.update = Some(NamedClosure {
            name: name::of::<F>(),
            call: Box::new(call),
        });
        self
    }

    /// Called with the last state of each deleted object, and how the deletion became known.
    #[doc(alias = "DeleteFunc")]
    pub fn on_delete<F>(mut self, call: F) -> Self
    where
        F: FnMut(Arc<K>, Cause) + Send + 'static,
    {
        self.delete = Some(NamedClosure {
            name: name::of::<F>(),
            call: Box::new(call),
        });
        self
    }
}

impl<K> Default for Handlers<K> {
    fn default() -> Self {
        Self {
            add: None,
            update: None,
            delete: None,
        }
    }
}

impl<K> fmt::Debug for Handlers<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handlers")
            .field("on_add", &self.add.is_some())
            .field("on_update", &self.update.is_some())
            .field("on_delete", &self.delete.is_some())
            .finish()
    }
}

impl<K: 'static> EventHandler<K> for Handlers<K> {
    fn on_event(&mut self, event: Event<K>) {
        match event {
            Event::Added { object, initial } => {
                if let Some(closure) = &mut self.add {
                    (closure.call)(object, initial);
                }
            }
            Event::Updated { old, new, .. } => {
                if let Some(closure) = &mut self.update {
                    (closure.call)(old, new);
                }
            }
            Event::Deleted { object, cause } => {
                if let Some(closure) = &mut self.delete {
                    (closure.call)(object, cause);
                }
            }
        }
    }

    fn name(&self) -> String {
        let names = [
            self.add.as_ref().map(|closure| closure.name.as_str()),
            self.update.as_ref().map(|closure| closure.name.as_str()),
            self.delete.as_ref().map(|closure| closure.name.as_str()),
        ];
        name::joined(names.into_iter().flatten()).unwrap_or_else(name::of::<Self>)
    }
}
