//! One scenario suite for two servers. Each scenario is a function of a server and becomes two tests with the same
//! assertions: one on the embedded server, one on a real kube-apiserver (see `verify/scenarios/README.md`).

mod support;

/// A webhook server; also used by the tests of the embedded server.
#[path = "../../../../../server/testserver/tests/it/endpoint.rs"]
mod endpoint;

mod connections;
mod conversion;
mod custom;
mod encodings;
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
mod webhooks;
mod writes;
