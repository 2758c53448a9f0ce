//! Open watches and requests in flight: counting, waking and ending them.
//! Independent of the contents of a watch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use futures_util::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::storage::Touched;

/// How an open watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Stay open.
    None,
    /// Send pending events, then end normally.
    Finish,
    /// End normally, at once.
    Close,
    /// Break the connection.
    Break,
}

/// The server's side of one open watch.
#[derive(Debug)]
pub(crate) struct WatchHandle {
    id: u64,
    resource: Arc<str>,
    namespace: Option<String>,
    replica: usize,
    order: AtomicU8,
    waker: AtomicWaker,
}

impl WatchHandle {
    pub(crate) fn order(&self) -> Order {
        match self.order.load(Ordering::Acquire) {
            0 => Order::None,
            1 => Order::Finish,
            2 => Order::Close,
            _ => Order::Break,
        }
    }

    pub(crate) fn waker(&self) -> &AtomicWaker {
        &self.waker
    }

    fn give(&self, order: Order) {
        let code = match order {
            Order::None => 0,
            Order::Finish => 1,
            Order::Close => 2,
            Order::Break => 3,
        };
        self.order.store(code, Ordering::Release);
        self.waker.wake();
    }
}

// Sorted, so that the wake-up order is deterministic.
type ById = BTreeMap<u64, Arc<WatchHandle>>;

/// All open watches and requests.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    watches: Mutex<BTreeMap<Arc<str>, ById>>,
    next_id: AtomicU64,
    in_flight: AtomicUsize,
    /// Notified of every write, request, response and end of a watch; conditions of tests and waiting lists listen to
    /// it.
    changed: Notify,
}

impl Hub {
    /// Registers a watch; it counts as open until the guard is dropped.
    pub(crate) fn open(
        self: &Arc<Self>,
        resource: &Arc<str>,
        namespace: Option<&str>,
        replica: usize,
    ) -> OpenWatch {
        let handle = Arc::new(WatchHandle {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            resource: resource.clone(),
            namespace: namespace.map(str::to_owned),
            replica,
            order: AtomicU8::new(0),
            waker: AtomicWaker::new(),
        });
        self.watches
            .lock()
            .entry(resource.clone())
            .or_default()
            .insert(handle.id, handle.clone());
        self.changed.notify_waiters();
        OpenWatch {
            handle,
            hub: self.clone(),
        }
    }

    /// Counts a request until its response is read or dropped.
    pub(crate) fn enter(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_waiters();
        InFlight { hub: self.clone() }
    }

    /// The number of open watches of a resource, or of all.
    pub(crate) fn count(&self, resource: Option<&str>) -> usize {
        let watches = self.watches.lock();
        match resource {
            Some(resource) => watches.get(resource).map_or(0, BTreeMap::len),
            None => watches.values().map(BTreeMap::len).sum(),
        }
    }

    /// Describes the open watches for assertions: resource, namespace and replica of each.
    pub(crate) fn describe(&self) -> Vec<String> {
        let watches = self.watches.lock();
        let mut lines: Vec<(u64, String)> = watches
            .values()
            .flat_map(BTreeMap::values)
            .map(|watch| {
                let scope = watch.namespace.as_deref().unwrap_or("all namespaces");
                (
                    watch.id,
                    format!(
                        "watch of {} in {scope} (replica {})",
                        watch.resource, watch.replica
                    ),
                )
            })
            .collect();
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Acquire)
    }

    /// Ends the watches selected by `choose`; returns their number.
    pub(crate) fn end(&self, order: Order, choose: impl Fn(&str, usize) -> bool) -> usize {
        let chosen: Vec<_> = self
            .watches
            .lock()
            .values()
            .flat_map(BTreeMap::values)
            .filter(|watch| choose(&watch.resource, watch.replica))
            .cloned()
            .collect();
        for watch in &chosen {
            watch.give(order);
        }
        chosen.len()
    }

    /// Wakes the watches affected by a change.
    ///
    /// A watch of another namespace has nothing to send, but its position must not fall out of the window: it is woken
    /// every thousandth revision, and always if the window is small.
    pub(crate) fn wake(&self, touched: &[Touched], revision: u64, window: usize) {
        {
            let watches = self.watches.lock();
            let everyone = window < 4096 || touched.len() > 512 || revision.is_multiple_of(1024);
            for (resource, namespace) in touched {
                for watch in watches.get(resource).into_iter().flat_map(BTreeMap::values) {
                    if everyone || watch.namespace.is_none() || watch.namespace == *namespace {
                        watch.waker.wake();
                    }
                }
            }
        }
        self.changed.notify_waiters();
    }

    /// Wakes every watch after a change other than a write.
    pub(crate) fn wake_all(&self) {
        for watch in self.watches.lock().values().flat_map(BTreeMap::values) {
            watch.waker.wake();
        }
        self.changed.notify_waiters();
    }

    pub(crate) fn changed(&self) -> &Notify {
        &self.changed
    }
}

/// An open watch; dropping it ends the watch.
#[derive(Debug)]
pub(crate) struct OpenWatch {
    handle: Arc<WatchHandle>,
    hub: Arc<Hub>,
}

impl std::ops::Deref for OpenWatch {
    type Target = WatchHandle;

    fn deref(&self) -> &WatchHandle {
        &self.handle
    }
}

impl Drop for OpenWatch {
    fn drop(&mut self) {
        if let Some(watches) = self.hub.watches.lock().get_mut(&self.handle.resource) {
            watches.remove(&self.handle.id);
        }
        self.hub.changed.notify_waiters();
    }
}

/// A request in flight; dropping it ends the request.
#[derive(Debug)]
pub(crate) struct InFlight {
    hub: Arc<Hub>,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.hub.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.hub.changed.notify_waiters();
    }
}
