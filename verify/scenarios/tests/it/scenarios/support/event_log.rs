//! The event log of a handler, with consistency checks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube_informers::handler::EventHandler;
use kube_informers::{Cause, Event, Object, ObjectKey, ResourceVersion};
use kube_informers_e2e::TIMEOUT;
use tokio::sync::watch;
use tokio::time::timeout;

/// Identity of one state of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectState {
    pub uid: String,
    pub version: String,
}

impl ObjectState {
    pub fn of<K: Object>(object: &K) -> ObjectState {
        ObjectState {
            uid: object.object_uid().unwrap_or_default().to_owned(),
            version: object.object_version().unwrap_or_default().to_owned(),
        }
    }
}

/// One call of a handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandlerCall {
    Added { now: ObjectState, initial: bool },
    Updated { old: ObjectState, now: ObjectState },
    Deleted { last: ObjectState, cause: Cause },
}

/// A log of a handler's calls; clones share it.
#[derive(Clone, Debug)]
pub struct EventLog {
    calls: Arc<Mutex<Vec<(ObjectKey, HandlerCall)>>>,
    changes: Arc<watch::Sender<usize>>,
}

impl EventLog {
    pub fn new() -> EventLog {
        EventLog {
            calls: Arc::default(),
            changes: Arc::new(watch::Sender::new(0)),
        }
    }

    /// A handler that writes here.
    pub fn handler<K: Object>(&self) -> impl EventHandler<K> + use<K> {
        let log = self.clone();
        move |event: Event<K>| {
            let call = match &event {
                Event::Added { object, initial } => HandlerCall::Added {
                    now: ObjectState::of(&**object),
                    initial: *initial,
                },
                Event::Updated { old, new, .. } => HandlerCall::Updated {
                    old: ObjectState::of(&**old),
                    now: ObjectState::of(&**new),
                },
                Event::Deleted { object, cause } => HandlerCall::Deleted {
                    last: ObjectState::of(&**object),
                    cause: *cause,
                },
            };
            log.calls().push((event.key(), call));
            log.changes.send_modify(|count| *count += 1);
        }
    }

    fn calls(&self) -> MutexGuard<'_, Vec<(ObjectKey, HandlerCall)>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of calls so far.
    pub fn len(&self) -> usize {
        self.calls().len()
    }

    /// The calls after the first `first` ones, in short: `added cart`, `updated cart`, `deleted cart (missed)`.
    pub fn since(&self, first: usize) -> Vec<String> {
        let words = |(key, call): &(ObjectKey, HandlerCall)| {
            let what = match call {
                HandlerCall::Added { initial: true, .. } => "added (initial)".to_owned(),
                HandlerCall::Added { .. } => "added".to_owned(),
                HandlerCall::Updated { .. } => "updated".to_owned(),
                HandlerCall::Deleted {
                    cause: Cause::Observed,
                    ..
                } => "deleted".to_owned(),
                HandlerCall::Deleted { cause, .. } => format!("deleted ({cause:?})").to_lowercase(),
            };
            format!("{what} {}", key.name())
        };
        self.calls().iter().skip(first).map(words).collect()
    }

    /// The calls for one object.
    pub fn of(&self, name: &str) -> Vec<HandlerCall> {
        let calls = self.calls();
        let of_it = calls.iter().filter(|(key, _)| key.name() == name);
        of_it.map(|(_, call)| call.clone()).collect()
    }

    /// Waits until the log satisfies a condition.
    pub async fn wait_for(&self, what: &str, condition: impl Fn(&EventLog) -> bool) {
        let mut changes = self.changes.subscribe();
        let waited = timeout(TIMEOUT, async {
            loop {
                changes.borrow_and_update();
                if condition(self) {
                    return;
                }
                // The sender lives in `self`.
                let _ = changes.changed().await;
            }
        });
        if waited.await.is_err() {
            panic!(
                "{what}: not met after {TIMEOUT:?}; {} calls, the last of them {:?}",
                self.len(),
                self.last(5)
            );
        }
    }

    fn last(&self, count: usize) -> Vec<String> {
        self.since(self.len().saturating_sub(count))
    }

    /// The objects according to the log. Panics if a call contradicts those before it.
    pub fn believed(&self) -> BTreeMap<ObjectKey, ObjectState> {
        let mut there: BTreeMap<ObjectKey, ObjectState> = BTreeMap::new();
        let mut left: BTreeMap<ObjectKey, ObjectState> = BTreeMap::new();
        for (key, call) in self.calls().iter() {
            let known = there.get(key);
            match call {
                HandlerCall::Added { now, .. } => {
                    assert_eq!(known, None, "{key} was added twice");
                    if let Some(last) = left.get(key) {
                        assert!(
                            is_later(&last.version, &now.version),
                            "{key} returned older: {last:?}, {now:?}"
                        );
                    }
                    there.insert(key.clone(), now.clone());
                }
                HandlerCall::Updated { old, now } => {
                    assert_eq!(known, Some(old), "{key}: `old` is not the last delivered state");
                    assert_eq!(old.uid, now.uid, "{key}: an update merged two objects");
                    assert!(
                        is_later(&old.version, &now.version),
                        "{key} went back: {old:?}, {now:?}"
                    );
                    there.insert(key.clone(), now.clone());
                }
                HandlerCall::Deleted { last, cause } => {
                    let known =
                        known.unwrap_or_else(|| panic!("{key} was deleted without having been added"));
                    assert_eq!(known.uid, last.uid, "{key}: another object was deleted");
                    match cause {
                        Cause::Observed => {
                            assert!(
                                is_later(&known.version, &last.version),
                                "{key}: deleted at {last:?}, known {known:?}"
                            );
                        }
                        _ => assert_eq!(known, last, "{key}: this state was never delivered"),
                    }
                    left.insert(key.clone(), last.clone());
                    there.remove(key);
                }
            }
        }
        there
    }
}

fn is_later(old: &str, new: &str) -> bool {
    ResourceVersion::compare(old, new) == Some(std::cmp::Ordering::Less)
}
