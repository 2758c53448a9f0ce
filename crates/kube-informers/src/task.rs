//! The only place of the crate that starts tasks and threads, through `kube-tasks`.

pub(crate) use kube_tasks::Spawner;
pub use kube_tasks::TaskDied;
