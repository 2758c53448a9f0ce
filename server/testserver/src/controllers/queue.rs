//! The work of the controllers: objects to reconcile now, and others at a later time. Without I/O and clock.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use tokio::time::Instant;

use super::Controller;

/// An object that a controller reconciles.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    pub(crate) controller: Controller,
    /// `namespace/name`, or `name`.
    pub(crate) key: String,
}

impl Request {
    pub(crate) fn new(controller: Controller, key: impl Into<String>) -> Request {
        Request {
            controller,
            key: key.into(),
        }
    }
}

/// A FIFO queue without duplicates, and timers: the earliest one for each request.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    ready: VecDeque<Request>,
    queued: HashSet<Request>,
    timers: BTreeMap<(Instant, u64), Request>,
    timed: HashMap<Request, (Instant, u64)>,
    /// Orders timers of the same time.
    numbers: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, request: Request) {
        if self.queued.insert(request.clone()) {
            self.ready.push_back(request);
        }
    }

    /// Queues a request at a later time, or earlier if it already has an earlier timer.
    pub(crate) fn push_at(&mut self, at: Instant, request: Request) {
        if let Some(timer) = self.timed.get(&request).copied() {
            if timer.0 <= at {
                return;
            }
            self.timers.remove(&timer);
        }
        self.numbers += 1;
        let timer = (at, self.numbers);
        self.timed.insert(request.clone(), timer);
        self.timers.insert(timer, request);
    }

    pub(crate) fn pop(&mut self) -> Option<Request> {
        let request = self.ready.pop_front()?;
        self.queued.remove(&request);
        Some(request)
    }

    /// The number of requests that can be processed now.
    pub(crate) fn len(&self) -> usize {
        self.ready.len()
    }

    /// The time of the earliest timer.
    pub(crate) fn next_timer(&self) -> Option<Instant> {
        self.timers.keys().next().map(|(at, _)| *at)
    }

    /// Queues the requests whose time has come.
    pub(crate) fn expire(&mut self, now: Instant) {
        while let Some(entry) = self.timers.first_entry() {
            if entry.key().0 > now {
                return;
            }
            let request = entry.remove();
            self.timed.remove(&request);
            self.push(request);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn request(key: &str) -> Request {
        Request::new(Controller::Jobs, key)
    }

    #[tokio::test(start_paused = true)]
    async fn requests_are_processed_in_order_and_once() {
        let mut queue = Queue::default();
        for key in ["a", "b", "a"] {
            queue.push(request(key));
        }

        assert_eq!(queue.pop(), Some(request("a")));
        queue.push(request("a"));
        assert_eq!(queue.pop(), Some(request("b")));
        assert_eq!(queue.pop(), Some(request("a")));
        assert_eq!(queue.pop(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn earliest_timer_of_a_request_wins() {
        let now = Instant::now();
        let second = Duration::from_secs(1);
        let mut queue = Queue::default();
        queue.push_at(now + 3 * second, request("a"));
        queue.push_at(now + second, request("a"));
        queue.push_at(now + 2 * second, request("a"));
        queue.push_at(now + 2 * second, request("b"));

        assert_eq!(queue.next_timer(), Some(now + second));
        queue.expire(now + second);
        assert_eq!((queue.pop(), queue.len()), (Some(request("a")), 0));
        queue.expire(now + 9 * second);
        assert_eq!((queue.pop(), queue.pop()), (Some(request("b")), None));
        assert_eq!(queue.next_timer(), None);
    }
}
