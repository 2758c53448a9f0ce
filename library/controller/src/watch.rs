//! `Watch`: an informer, and the mapping of its events to keys. Adds keys to a queue; knows nothing about workers.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use kube_informers::error::{StoppedError, SyncError};
use kube_informers::handler::HandlerOptions;
use kube_informers::{Cause, Event, Informer, Object, ObjectKey, Registration};
use kube_workqueue::{AddOptions, Key, Priority, WorkQueue};

use crate::loops::LoopDetector;
use crate::owner::OwnerKeys;

/// Maps the events of an informer to keys.
///
/// Without predicates every event counts, with one exception: an object that still exists but has left the scope of the
/// informer ([`Cause::LeftScope`]) is ignored, because the reconciler would mistake its absence from the cache for a
/// deletion. [`with_left_scope`](Self::with_left_scope) includes these events.
///
/// Events are not coalesced on the way to the queue. Otherwise a deletion could be lost: an object is added, a
/// reconcile for another reason finds it in the cache and acts on it, the object is deleted, and the two events in the
/// backlog cancel each other out, so the deletion is never reconciled.
#[must_use = "a watch does nothing until it is given to a controller"]
pub struct Watch<K: Object, T: Key = ObjectKey> {
    informer: Informer<K>,
    keys: Mapping<K, T>,
    predicates: Vec<Predicate<K>>,
    resync: Option<Duration>,
    left_scope: bool,
    slow_down: Option<SlowDown<K>>,
}

type Mapping<K, T> = Box<dyn FnMut(&Event<K>, &mut dyn FnMut(T)) + Send>;
type Predicate<K> = Box<dyn FnMut(&Event<K>) -> bool + Send>;
/// The delay of an event's keys, if they are to be delayed.
type SlowDown<K> = Box<dyn FnMut(&Event<K>) -> Option<Duration> + Send>;

impl<K: Object> Watch<K, ObjectKey> {
    /// Maps each event to the key of its object.
    #[doc(alias = "TypedEnqueueRequestForObject")]
    #[doc(alias = "For")]
    #[doc(alias = "EnqueueRequestForObject")]
    pub fn object(informer: &Informer<K>) -> Self {
        // The key of the old state is that of the new one.
        Self::new(informer, |event, add| add(event.key()))
    }

    /// Maps each event to the `O` that controls the object, if any: the old and the new one if it changed.
    #[doc(alias = "OnlyControllerOwner")]
    #[doc(alias = "Owns")]
    #[doc(alias = "EnqueueRequestForOwner")]
    pub fn owner<O: kube::Resource<DynamicType: Default> + 'static>(informer: &Informer<K>) -> Self {
        let owners = OwnerKeys::of::<O>();
        Self::mapped(informer, move |object| owners.keys(object))
    }

    /// Maps each event to every `O` that owns the object, controlling or not.
    #[doc(alias = "TypedEnqueueRequestForOwner")]
    #[doc(alias = "OwnerOption")]
    pub fn any_owner<O: kube::Resource<DynamicType: Default> + 'static>(informer: &Informer<K>) -> Self {
        let owners = OwnerKeys::of::<O>().any();
        Self::mapped(informer, move |object| owners.keys(object))
    }
}

impl<K: Object, T: Key> Watch<K, T> {
    /// Maps each event to keys by a function of the object. For an update it is called with the old and the new state, so
    /// that keys of the old state are reconciled as well.
    ///
    /// The function should be fast; it may read caches and indexes.
    #[doc(alias = "TypedEnqueueRequestsFromMapFunc")]
    #[doc(alias = "MapFunc")]
    #[doc(alias = "TypedMapFunc")]
    #[doc(alias = "Watches")]
    #[doc(alias = "EnqueueRequestsFromMapFunc")]
    pub fn mapped<I>(informer: &Informer<K>, mut keys: impl FnMut(&K) -> I + Send + 'static) -> Self
    where
        I: IntoIterator<Item = T>,
    {
        Self::new(informer, move |event, add| {
            if let Event::Updated { old, new, .. } = event
                && !Arc::ptr_eq(old, new)
            {
                keys(old).into_iter().for_each(&mut *add);
            }
            keys(event.object()).into_iter().for_each(add);
        })
    }

    /// Maps each event to keys by a function of the event. This is the most general form; note that an update may concern
    /// keys of the old state as well.
    #[doc(alias = "handler.EventHandler")]
    #[doc(alias = "TypedEventHandler")]
    #[doc(alias = "handler.Funcs")]
    #[doc(alias = "handler.TypedFuncs")]
    pub fn events<I>(informer: &Informer<K>, mut keys: impl FnMut(&Event<K>) -> I + Send + 'static) -> Self
    where
        I: IntoIterator<Item = T>,
    {
        Self::new(informer, move |event, add| {
            keys(event).into_iter().for_each(add);
        })
    }

    fn new(informer: &Informer<K>, keys: impl FnMut(&Event<K>, &mut dyn FnMut(T)) + Send + 'static) -> Self {
        Self {
            informer: informer.clone(),
            keys: Box::new(keys),
            predicates: Vec::new(),
            resync: None,
            left_scope: false,
            slow_down: None,
        }
    }

    /// Ignores events for which the predicate is false. All predicates must hold; see [`predicates`](crate::predicates).
    #[doc(alias = "Predicate")]
    #[doc(alias = "TypedPredicate")]
    #[doc(alias = "predicate.Funcs")]
    #[doc(alias = "predicate.TypedFuncs")]
    #[doc(alias = "NewPredicateFuncs")]
    #[doc(alias = "NewTypedPredicateFuncs")]
    #[doc(alias = "WithEventFilter")]
    #[doc(alias = "WithPredicates")]
    pub fn when(mut self, predicate: impl FnMut(&Event<K>) -> bool + Send + 'static) -> Self {
        self.predicates.push(Box::new(predicate));
        self
    }

    /// Reconciles every object periodically, even if nothing changed; see [`HandlerOptions::resync`].
    pub fn resync(mut self, period: Duration) -> Self {
        self.resync = Some(period);
        self
    }

    /// Observes the objects for loops and fights, before any predicate; see [`LoopDetector`]. With an interval, keys of
    /// objects in a loop are added with this delay, so that they are reconciled at most that often.
    pub fn detect_loops(mut self, detector: &LoopDetector, interval: Option<Duration>) -> Self
    where
        K: kube::Resource + serde::Serialize,
    {
        let detector = detector.clone();
        self.slow_down = Some(Box::new(move |event| {
            detector.observe(event);
            interval.filter(|_| detector.is_looping(&event.key()))
        }));
        self
    }

    /// Includes events of objects that left the scope of the informer but still exist.
    pub fn with_left_scope(mut self) -> Self {
        self.left_scope = true;
        self
    }

    /// Converts each key, for example for a controller that distinguishes several kinds.
    ///
    /// ```
    /// # use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
    /// use kube_controller::{Controller, Watch};
    /// # use kube_informers::{Informer, ObjectKey};
    ///
    /// #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    /// enum Target {
    ///     Deployment(ObjectKey),
    ///     Pod(ObjectKey),
    /// }
    ///
    /// # fn example(deployments: &Informer<Deployment>, pods: &Informer<Pod>) -> Controller<Target> {
    /// Controller::new("both")
    ///     .watches(Watch::object(deployments).with_key(Target::Deployment))
    ///     .watches(Watch::object(pods).with_key(Target::Pod))
    /// # }
    /// ```
    pub fn with_key<U: Key>(self, mut key: impl FnMut(T) -> U + Send + 'static) -> Watch<K, U> {
        let mut keys = self.keys;
        Watch {
            informer: self.informer,
            keys: Box::new(move |event, add| keys(event, &mut |inner| add(key(inner)))),
            predicates: self.predicates,
            resync: self.resync,
            left_scope: self.left_scope,
            slow_down: self.slow_down,
        }
    }
}

/// The informer only: mappings and predicates are code.
impl<K: Object, T: Key> fmt::Debug for Watch<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch")
            .field("informer", &self.informer)
            .finish_non_exhaustive()
    }
}

/// A watch of any `K`.
pub(crate) trait Feed<T: Key>: Send {
    /// Starts feeding the queue.
    fn attach(self: Box<Self>, controller: &str, queue: WorkQueue<T>) -> Result<Feeding, StoppedError>;
}

/// A watch that feeds a queue.
pub(crate) struct Feeding {
    pub(crate) registration: Registration,
    /// Why the informer's initial list is not complete; `None` if it is.
    pub(crate) obstacle: Box<dyn Fn() -> BoxFuture<'static, Option<SyncError>> + Send + Sync>,
}

impl<K: Object, T: Key> Feed<T> for Watch<K, T> {
    fn attach(self: Box<Self>, controller: &str, queue: WorkQueue<T>) -> Result<Feeding, StoppedError> {
        let Watch {
            informer,
            mut keys,
            mut predicates,
            resync,
            left_scope,
            mut slow_down,
        } = *self;
        let mut options = HandlerOptions::default().name(format!("{controller}/{}", informer.name()));
        if let Some(period) = resync {
            options = options.resync(period);
        }
        let registration = informer.add_event_handler_with(options, move |event: Event<K>| {
            let left = matches!(
                event,
                Event::Deleted {
                    cause: Cause::LeftScope,
                    ..
                }
            );
            let delay = slow_down.as_mut().and_then(|delay| delay(&event));
            if (left && !left_scope) || !predicates.iter_mut().all(|holds| holds(&event)) {
                return;
            }
            // The initial list and resyncs must not delay changes.
            let priority = match event.is_initial() || event.is_resync() {
                true => Priority::LOW,
                false => Priority::NORMAL,
            };
            let options = match delay {
                Some(delay) => AddOptions::from(priority).after(delay),
                None => priority.into(),
            };
            keys(&event, &mut |key| queue.add_with(key, options));
        })?;
        Ok(Feeding {
            registration,
            obstacle: Box::new(move || {
                let informer = informer.clone();
                Box::pin(async move { informer.synced_within(Duration::ZERO).await.err() })
            }),
        })
    }
}
