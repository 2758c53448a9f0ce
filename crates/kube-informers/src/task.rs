//! The only module that spawns tasks and threads, through `kube-tasks`.

pub(crate) use kube_tasks::Spawner;
pub use kube_tasks::TaskPanicError;
