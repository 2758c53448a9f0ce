//! The only module that spawns tasks and threads, through `kube-informers-core`.

pub use kube_informers_core::tasks::TaskPanicError;
pub(crate) use kube_informers_core::tasks::{Spawner, spawn};
