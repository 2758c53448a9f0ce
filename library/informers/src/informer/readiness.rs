//! `Readiness`: whether all informers of a process are synced and current.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Informer;
use super::weak::WeakInformer;
use crate::object::Object;
use crate::reflector::ReflectorState;

/// The default limit. A healthy informer has a proof every 60 s, or every 90 s and a reconnect without bookmarks.
const MAX_AGE: Duration = Duration::from_secs(180);

/// Whether all informers of a process are synced and current, for a readiness endpoint.
///
/// Add informers and factories; a factory stands for the informers it has at the time of each check. Nothing is kept
/// alive: an informer that is dropped is no longer checked. Clones share the state.
///
/// ```no_run
/// use k8s_openapi::api::core::v1::{Node, Pod};
/// use kube_informers::readiness::Readiness;
/// use kube_informers::{Informer, SharedInformerFactory};
///
/// # async fn example(client: kube::Client) {
/// let readiness = Readiness::new();
/// let pods = Informer::<Pod>::all(client.clone()).start();
/// let factory = SharedInformerFactory::new(client);
/// let nodes = factory.informer::<Node>();
/// readiness.add(&pods);
/// readiness.add(&factory);
///
/// // In the handler of /readyz:
/// match readiness.check() {
///     Ok(age) => println!("ok: current as of {} s ago", age.as_secs()),
///     Err(not_ready) => println!("503: {not_ready}"),
/// }
/// # }
/// ```
#[derive(Clone)]
pub struct Readiness {
    max_age: Duration,
    watched: Arc<Mutex<Vec<Observer>>>,
}

type Observer = Box<dyn Fn() -> Option<Vec<InformerHealth>> + Send + Sync>;

/// Something with informers that [`Readiness`] can observe: an [`Informer`] or a
/// [`SharedInformerFactory`](crate::SharedInformerFactory).
pub trait Observed {
    /// Returns a function that reports on the informers, or `None` once they are no longer in use. It must not keep them
    /// alive.
    fn observer(&self) -> Box<dyn Fn() -> Option<Vec<InformerHealth>> + Send + Sync>;
}

/// The health of one informer.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InformerHealth {
    /// Its name.
    pub informer: String,
    /// Whether its initial list is in the cache.
    pub synced: bool,
    /// Whether it has stopped although it is in use.
    pub stopped: bool,
    /// The age of the last proof that its cache is current: [`Informer::freshness`].
    pub freshness: Option<Duration>,
    /// Its state.
    pub state: ReflectorState,
}

/// Some informers are not ready.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", self.describe())]
pub struct NotReadyError {
    /// One entry for each of them.
    pub problems: Vec<ReadinessProblem>,
}

/// Why an informer is not ready.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ReadinessProblem {
    /// Its initial list is not in the cache.
    NotSynced(InformerHealth),
    /// For too long there was no proof that its cache is current.
    Stale(InformerHealth),
    /// It has stopped.
    Stopped(InformerHealth),
}

impl fmt::Display for ReadinessProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotSynced(health) => write!(f, "{} is not synced: {}", health.informer, health.state),
            Self::Stale(health) => match health.freshness {
                Some(age) => {
                    let age = age.as_secs();
                    write!(
                        f,
                        "{} may be stale for {age} s: {}",
                        health.informer, health.state
                    )
                }
                None => write!(
                    f,
                    "a part of {} is not in the cache yet: {}",
                    health.informer, health.state
                ),
            },
            Self::Stopped(health) => write!(f, "{} has stopped", health.informer),
        }
    }
}

impl NotReadyError {
    fn describe(&self) -> String {
        let problems: Vec<String> = self.problems.iter().map(ReadinessProblem::to_string).collect();
        problems.join("; ")
    }
}

impl Readiness {
    /// Uses the default limit of 3 min. Ready as long as nothing has been added.
    pub fn new() -> Self {
        Self::with_max_age(MAX_AGE)
    }

    /// Sets the limit on the age of the last proof that a cache is current. Below two minutes, a healthy informer on a
    /// server without bookmarks is sometimes reported as stale.
    pub fn with_max_age(max_age: Duration) -> Self {
        Self {
            max_age,
            watched: Arc::default(),
        }
    }

    /// Adds an informer, or all informers of a factory.
    pub fn add(&self, observed: &impl Observed) {
        let observer = observed.observer();
        self.watched.lock().push(observer);
    }

    /// The health of each informer.
    pub fn health(&self) -> Vec<InformerHealth> {
        let mut health = Vec::new();
        self.watched.lock().retain(|observe| match observe() {
            Some(found) => {
                health.extend(found);
                true
            }
            None => false,
        });
        health
    }

    /// Checks all informers. Returns the age of the oldest proof that a cache is current.
    ///
    /// # Errors
    ///
    /// At least one informer is not synced, may be stale or has stopped. The error names each of them, with its state.
    pub fn check(&self) -> Result<Duration, NotReadyError> {
        let mut oldest = Duration::ZERO;
        let mut problems = Vec::new();
        for health in self.health() {
            let age = health.freshness.unwrap_or(Duration::MAX);
            if health.stopped {
                problems.push(ReadinessProblem::Stopped(health));
            } else if !health.synced {
                problems.push(ReadinessProblem::NotSynced(health));
            } else if age > self.max_age {
                problems.push(ReadinessProblem::Stale(health));
            } else {
                oldest = oldest.max(age);
            }
        }
        if problems.is_empty() {
            Ok(oldest)
        } else {
            Err(NotReadyError { problems })
        }
    }
}

impl Default for Readiness {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readiness")
            .field("max_age", &self.max_age)
            .field("health", &self.health())
            .finish()
    }
}

impl<K: Object> Observed for Informer<K> {
    fn observer(&self) -> Box<dyn Fn() -> Option<Vec<InformerHealth>> + Send + Sync> {
        let informer = self.downgrade();
        Box::new(move || informer.health().map(|health| vec![health]))
    }
}

impl<K: Object> WeakInformer<K> {
    /// How it is doing; `None` if no handle to it exists any more.
    pub(crate) fn health(&self) -> Option<InformerHealth> {
        let shared = self.shared.upgrade().filter(|_| self.alive.strong_count() > 0)?;
        let life = *shared.life.borrow();
        Some(InformerHealth {
            informer: shared.name.clone(),
            synced: life.synced,
            stopped: life.stopped,
            freshness: shared.freshness(),
            state: shared.state(),
        })
    }
}
