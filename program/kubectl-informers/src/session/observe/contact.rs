//! Contact with the server: sees the responses of one informer before the informer does, and knows from them whether
//! its cache is live.
//!
//! An informer counts as watching as soon as it has sent the request. What counts here is the response: a watch is live
//! once the server has accepted it, and lost once a request fails or a response breaks off.

use std::cmp::Ordering as Order;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_util::{Stream, StreamExt};
use kube_informers::shard::Shard;
use kube_informers::source::{
    Known, ListItem, ListRequest, ListStream, ListerWatcher, ObjectIdentity, ResourceType, SourceError,
    WatchItem, WatchListSupport, WatchRequest, WatchStream,
};
use kube_informers::{ListWatch, ObjectKey};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::objects::item::Item;

/// Whether a cache is current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The server has accepted the watch, and nothing is known to be missing.
    Live,
    /// The objects are being listed, for the first time or again.
    CatchingUp,
    /// The server does not answer or rejects the requests. The cache shows the state of that time.
    Disconnected {
        /// Since when.
        since: Instant,
    },
}

impl Health {
    /// `live`, `catching up`, `disconnected`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::CatchingUp => "catching up",
            Self::Disconnected { .. } => "disconnected",
        }
    }
}

/// The worst is the greatest: live, then catching up, then whatever has been disconnected longest.
impl Ord for Health {
    fn cmp(&self, other: &Self) -> Order {
        let rank = |health: &Self| match health {
            Self::Live => 0,
            Self::CatchingUp => 1,
            Self::Disconnected { .. } => 2,
        };
        match (self, other) {
            (Self::Disconnected { since: a }, Self::Disconnected { since: b }) => b.cmp(a),
            (a, b) => rank(a).cmp(&rank(b)),
        }
    }
}

impl PartialOrd for Health {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

/// The contact of one informer: of each of its watches.
pub(super) struct Contact {
    members: Box<[Member]>,
    nameless: AtomicU64,
}

struct Member {
    health: Mutex<Health>,
}

impl Contact {
    /// Of an informer with this many watches, which has not sent a request yet.
    pub(super) fn new(members: usize) -> Arc<Self> {
        let member = || Member {
            health: Mutex::new(Health::CatchingUp),
        };
        Arc::new(Self {
            members: std::iter::repeat_with(member).take(members).collect(),
            nameless: AtomicU64::new(0),
        })
    }

    /// The health of the worst watch.
    pub(super) fn health(&self) -> Health {
        let members = self.members.iter().map(|member| *member.health.lock());
        members.max().unwrap_or(Health::Live)
    }

    /// Items without a name received so far. They are in no cache and no quarantine.
    pub(super) fn nameless(&self) -> u64 {
        self.nameless.load(Ordering::Relaxed)
    }

    fn set(&self, member: usize, health: Health) {
        if let Some(member) = self.members.get(member) {
            let mut known = member.health.lock();
            *known = match (*known, health) {
                // It has been so since the first failure.
                (known @ Health::Disconnected { .. }, Health::Disconnected { .. }) => known,
                (_, health) => health,
            };
        }
    }
}

/// A source that reports what it sees to a [`Contact`].
pub(super) struct Observed {
    source: ListWatch<Item>,
    contact: Arc<Contact>,
    member: usize,
}

impl Observed {
    /// The sources of an informer, observed.
    pub(super) fn of(list_watch: ListWatch<Item>) -> (Vec<Arc<dyn ListerWatcher<Item>>>, Arc<Contact>) {
        let sources = list_watch.members();
        let contact = Contact::new(sources.len());
        let observed = sources
            .into_iter()
            .enumerate()
            .map(|(member, source)| {
                let contact = contact.clone();
                Arc::new(Self {
                    source,
                    contact,
                    member,
                }) as Arc<dyn ListerWatcher<Item>>
            })
            .collect();
        (observed, contact)
    }

    fn tap<T>(&self, stream: Pin<Box<dyn Stream<Item = T> + Send>>, accepted: Health) -> Tapped<T> {
        Tapped {
            stream,
            contact: self.contact.clone(),
            member: self.member,
            accepted,
            ended: false,
        }
    }
}

impl ListerWatcher<Item> for Observed {
    fn list(&self, request: ListRequest, known: Known<Item>) -> ListStream<Item> {
        let stream = self.source.list(request, known);
        Box::pin(self.tap(stream, Health::CatchingUp))
    }

    fn watch(&self, request: WatchRequest, known: Known<Item>) -> WatchStream<Item> {
        let accepted = match request.initial_events {
            true => Health::CatchingUp,
            false => Health::Live,
        };
        let stream = self.source.watch(request, known);
        Box::pin(self.tap(stream, accepted))
    }

    fn watch_list(&self) -> WatchListSupport {
        self.source.watch_list()
    }

    fn identities(
        &self,
        request: ListRequest,
        only: Option<&ObjectKey>,
    ) -> Option<ListStream<ObjectIdentity>> {
        self.source.identities(request, only)
    }

    fn describe(&self) -> String {
        ListerWatcher::describe(&self.source)
    }

    fn namespace(&self) -> Option<String> {
        ListerWatcher::namespace(&self.source)
    }

    fn resource(&self) -> Option<ResourceType> {
        ListerWatcher::resource(&self.source)
    }

    fn shard(&self) -> Option<Shard> {
        ListerWatcher::shard(&self.source)
    }
}

/// A response that is observed while it is read.
struct Tapped<T> {
    stream: Pin<Box<dyn Stream<Item = T> + Send>>,
    contact: Arc<Contact>,
    member: usize,
    /// The health once the server has accepted the request.
    accepted: Health,
    ended: bool,
}

/// What an item of a response says about the contact.
trait Observe {
    /// The health from then on; `None` if the item says nothing new.
    fn health(&self) -> Option<Health>;
    /// Whether it is an object without a name.
    fn is_nameless(&self) -> bool;
    /// Whether the response is complete with it.
    fn is_last(&self) -> bool;
}

impl Observe for ListItem<Item> {
    fn health(&self) -> Option<Health> {
        None
    }

    fn is_nameless(&self) -> bool {
        matches!(self, Self::Unreadable(object) if object.key.is_none())
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::End(_))
    }
}

impl Observe for WatchItem<Item> {
    fn health(&self) -> Option<Health> {
        match self {
            Self::Bookmark {
                initial_events_end: true,
                ..
            } => Some(Health::Live),
            Self::Error(error) => Some(refused(error.code)),
            _ => None,
        }
    }

    fn is_nameless(&self) -> bool {
        matches!(self, Self::Unreadable { object, .. } if object.key.is_none())
    }

    fn is_last(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// An expired version or a rejected form of the request is followed by a list at once; other errors are an outage.
fn refused(code: u16) -> Health {
    match code {
        400 | 410 | 422 => Health::CatchingUp,
        _ => Health::Disconnected {
            since: Instant::now(),
        },
    }
}

impl<T: Observe> Stream for Tapped<Result<T, SourceError>> {
    type Item = Result<T, SourceError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let Poll::Ready(item) = self.stream.poll_next_unpin(context) else {
            return Poll::Pending;
        };
        let this = &mut *self;
        match &item {
            Some(Ok(item)) => {
                if let Some(health) = item.health() {
                    this.accepted = health;
                }
                if item.is_nameless() {
                    this.contact.nameless.fetch_add(1, Ordering::Relaxed);
                }
                this.ended |= item.is_last();
                this.contact.set(this.member, this.accepted);
            }
            Some(Err(error)) => {
                this.ended = true;
                let health = match error {
                    SourceError::Api(error) => refused(error.code),
                    _ => Health::Disconnected {
                        since: Instant::now(),
                    },
                };
                this.contact.set(this.member, health);
            }
            // The regular end: the next watch follows at once.
            None => this.ended = true,
        }
        Poll::Ready(item)
    }
}

impl<T> Drop for Tapped<T> {
    fn drop(&mut self) {
        // Dropped before its end: the informer gave up waiting, or stops.
        if !self.ended {
            let since = Instant::now();
            self.contact.set(self.member, Health::Disconnected { since });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_worst_watch_decides_and_the_first_failure_counts() {
        let contact = Contact::new(2);
        assert_eq!(contact.health(), Health::CatchingUp);
        contact.set(0, Health::Live);
        assert_eq!(contact.health(), Health::CatchingUp);
        contact.set(1, Health::Live);
        assert_eq!(contact.health(), Health::Live);
        let since = Instant::now();
        contact.set(1, Health::Disconnected { since });
        tokio::time::advance(Duration::from_secs(5)).await;
        contact.set(
            0,
            Health::Disconnected {
                since: Instant::now(),
            },
        );
        contact.set(
            1,
            Health::Disconnected {
                since: Instant::now(),
            },
        );
        assert_eq!(contact.health(), Health::Disconnected { since });
        contact.set(1, Health::Live);
        assert_ne!(contact.health(), Health::Live);
    }
}
