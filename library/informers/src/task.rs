//! The only module that spawns tasks and threads, through `kube-tasks`.

pub use kube_tasks::TaskPanicError;
pub(crate) use kube_tasks::{Spawner, spawn};
