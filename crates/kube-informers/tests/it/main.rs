//! Tests of the public API. One binary.

mod bad_input;
mod exact;
mod extremes;
mod factory;
mod faults;
mod faults_page;
mod informer;
mod kube_rs_findings;
mod lifecycle;
mod limits;
mod lister;
mod parity;
mod parity_page;
mod queue;
mod reflector;
mod shards;
mod shutdown;
mod store;
mod support;
mod tidy;
mod vocabulary;
