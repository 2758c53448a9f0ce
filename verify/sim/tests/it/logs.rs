//! `L4`: the end of a request is logged once, and a series of failures at its first, second, fourth, eighth failure and so on.

use std::sync::Arc;

use kube_sim::campaign::profile_of;
use kube_sim::generate::tape;
use kube_sim::world;
use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{Subscriber, with_default};
use tracing::{Event, Level, Metadata};

/// The number of failures in each line about the end of a request.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<u64>>>);

impl Visit for Attempts {
    fn record_u64(&mut self, field: &Field, value: u64) {
        if field.name() == "attempts" {
            self.0.lock().push(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

impl Subscriber for Attempts {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("kube_informers::reflector")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn the_end_of_a_request_is_logged_once_and_a_series_of_failures_rarely() {
    let mut lines = 0;
    for seed in 0..200 {
        let attempts = Attempts::default();
        let outcome = with_default(attempts.clone(), || {
            world::run(&tape(seed, profile_of(seed)), false)
        });
        let attempts = std::mem::take(&mut *attempts.0.lock());
        assert!(
            attempts.len() <= outcome.requests,
            "seed {seed}: {} lines about {} requests",
            attempts.len(),
            outcome.requests
        );
        assert!(
            attempts.iter().all(|attempts| attempts.is_power_of_two()),
            "seed {seed}: {attempts:?}"
        );
        lines += attempts.len();
    }
    assert!(lines > 200, "{lines} lines: nothing was tested");
}
