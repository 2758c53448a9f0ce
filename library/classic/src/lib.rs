#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(missing_debug_implementations)]

mod batch;
mod controller;
mod delta;
mod delta_fifo;
mod fifo;
mod gate;
mod known;
mod overlay;
mod pop;
mod population;
mod retry_watch;
mod ttl_store;
mod with_handler;

use kube_informers::quarantine::BadObject;

pub use batch::Batch;
pub use controller::Controller;
pub use delta::{Delta, Tombstone};
pub use delta_fifo::DeltaFifo;
pub use fifo::Fifo;
pub use gate::QueueStats;
pub use known::KnownKeys;
pub use overlay::{Overlay, OverlayOptions};
pub use pop::{BoxError, Failure, PopError, PopInfo};
pub use retry_watch::{RetryWatch, StartVersionError};
pub use ttl_store::TtlStore;

/// The unreadable item of a list that may be an object which the list lacks: one without a readable name, unless its UID is
/// another one.
fn may_be_missing<'a>(unreadable: &'a [BadObject], missing_uid: Option<&str>) -> Option<&'a BadObject> {
    unreadable.iter().find(|bad| {
        let other = matches!((bad.uid.as_deref(), missing_uid), (Some(bad), Some(missing)) if bad != missing);
        bad.key.is_none() && !other
    })
}
