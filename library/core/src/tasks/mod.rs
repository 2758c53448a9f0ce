//! Supervised tokio tasks and threads: named, traced, and their panics noticed.
//!
//! - [`Spawner`]: the tasks and threads of one owner. It waits for all of them and learns of the first one that panicked.
//! - [`spawn`]: one task whose caller keeps the handle.
//! - [`Task`]: one background task that is aborted when its handle is dropped.
//! - [`TaskSet`]: a changing number of tasks, one per connection for example.
//! - [`spawn_thread`], [`run_blocking`]: code that blocks.
//!
//! A panic never passes unnoticed: it is logged with the name of the task. The log does not contain the panic message,
//! which may quote anything.

#[cfg(feature = "sim")]
pub mod lock;
mod set;
mod spawner;

use std::future::Future;
use std::io;

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

/// Starts a thread for calls that may block forever. Nothing waits for it when the program exits.
///
/// # Errors
///
/// The system cannot start another thread.
pub fn spawn_thread(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // A thread name must not contain a NUL byte.
    let name = name.replace('\0', "");
    std::thread::Builder::new().name(name).spawn(run).map(drop)
}

/// The same with a stack of this many bytes, for recursive code whose depth depends on its input.
///
/// # Errors
///
/// The system cannot start another thread.
pub fn spawn_thread_with_stack(
    name: &str,
    bytes: usize,
    run: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let name = name.replace('\0', "");
    std::thread::Builder::new()
        .name(name)
        .stack_size(bytes)
        .spawn(run)
        .map(drop)
}

/// Runs a long computation off the runtime threads; `None` if it panicked.
///
/// # Panics
///
/// Outside a tokio runtime.
pub async fn run_blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(run).await.ok()
}
