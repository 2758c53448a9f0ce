//! Tests of the public API. One binary.

mod bad_input;
mod bodies;
mod diagnostics;
mod exact;
mod extremes;
mod factory;
mod faults;
mod faults_page;
mod informer;
mod kube_rs_findings;
mod lazy;
mod lifecycle;
mod limits;
mod list_trace;
mod lister;
mod parity;
mod parity_page;
mod queue;
mod recovery;
mod reflector;
mod shards;
mod shutdown;
mod store;
mod support;
mod tidy;
mod vocabulary;
