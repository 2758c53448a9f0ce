//! A log of the events delivered to a handler, as text.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::Pod;
use kube_informers::Event;
use kube_informers::handler::EventHandler;
use tokio::sync::watch;

/// A log of events. Clones are handles to the same log.
#[derive(Clone)]
pub struct Delivered {
    events: Arc<Mutex<Vec<String>>>,
    changes: Arc<watch::Sender<u64>>,
}

impl Delivered {
    pub fn new() -> Self {
        Self {
            events: Arc::default(),
            changes: Arc::new(watch::Sender::new(0)),
        }
    }

    /// A handler that writes to this log.
    pub fn handler(&self) -> impl EventHandler<Pod> + use<> {
        self.handler_of(Event::to_string)
    }

    /// A handler that writes a custom text to this log.
    pub fn handler_of<F>(&self, text: F) -> impl EventHandler<Pod> + use<F>
    where
        F: Fn(&Event<Pod>) -> String + Send + 'static,
    {
        let log = self.clone();
        handler(move |event| log.note(text(&event)))
    }

    /// Adds a line.
    pub fn note(&self, line: String) {
        self.events.lock().unwrap().push(line);
        self.changes.send_modify(|count| *count += 1);
    }

    /// The lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.events.lock().unwrap().clone()
    }

    /// Waits for this number of lines, and removes and returns all lines.
    pub async fn take(&self, count: usize) -> Vec<String> {
        let mut changes = self.changes.subscribe();
        while self.events.lock().unwrap().len() < count {
            changes.changed().await.unwrap();
        }
        std::mem::take(&mut *self.events.lock().unwrap())
    }
}

/// Helps the compiler infer that a closure is a handler of pods.
fn handler(handler: impl FnMut(Event<Pod>) + Send + 'static) -> impl EventHandler<Pod> {
    handler
}
