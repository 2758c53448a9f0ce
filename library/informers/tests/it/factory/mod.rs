//! `SharedInformerFactory` on the embedded server.

mod accessors;
mod custom;
mod for_resource;
mod identity;
mod life;
mod options;
mod sync;

use kube_informers::FactoryBuilder;
use kube_informers::SharedInformerFactory;
use kube_informers::reflector::{Jitter, ReflectorConfig};
use kube_testserver::TestServer;

/// A factory with reproducible jitter.
pub fn builder(server: &TestServer) -> FactoryBuilder {
    SharedInformerFactory::builder(server.client()).config(ReflectorConfig {
        jitter: Jitter::Seeded(7),
        ..Default::default()
    })
}

pub fn factory(server: &TestServer) -> SharedInformerFactory {
    builder(server).build()
}
