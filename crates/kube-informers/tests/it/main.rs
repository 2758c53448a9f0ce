//! Tests of the public API. One binary.

mod bad_input;
mod diagnostics;
mod exact;
mod factory;
mod faults;
mod informer;
mod kube_rs_findings;
mod lifecycle;
mod lister;
mod parity;
mod parity_page;
mod queue;
mod reflector;
mod shards;
mod store;
mod support;
mod tidy;
mod vocabulary;
