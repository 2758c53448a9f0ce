//! Supervised tokio tasks and threads: named, traced, and their panics noticed.
//!
//! - [`Spawner`]: the tasks and threads of one owner. It waits for all of them and learns of the first one that panicked.
//! - [`spawn`]: one task whose caller keeps the handle.
//! - [`Task`]: one background task that is aborted when its handle is dropped.
//! - [`TaskSet`]: a changing number of tasks, one per connection for example.
//!
//! A panic never passes unnoticed: it is logged with the name of the task. The log does not contain the panic message,
//! which may quote anything.
#![forbid(unsafe_code)]

mod set;
mod spawner;

use std::future::Future;

use tokio::task::JoinHandle;
use tracing::{Instrument, Span};

pub use set::{Task, TaskSet};
pub use spawner::{ClockHold, Spawner, TaskPanicError};

/// Starts a task inside `span`. The caller keeps the handle, and so learns how the task ends.
///
/// # Panics
///
/// Outside a tokio runtime.
#[allow(clippy::disallowed_methods, reason = "this crate is where tasks are started")]
pub fn spawn<T: Send + 'static>(span: Span, task: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(task.instrument(span))
}

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
