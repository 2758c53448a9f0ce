//! One scenario suite, two servers. Each scenario is a function over a server; it becomes two tests with the same
//! assertions, one on the embedded server, one on a real kube-apiserver (see `e2e/README.md` for when that runs).

mod support;

mod connections;
mod custom;
mod kinds;
mod lives;
mod namespaces;
mod overload;
mod pages;
mod refusals;
mod requests;
mod restarts;
mod selections;
mod shards;
mod storms;
mod versions;
mod writes;
