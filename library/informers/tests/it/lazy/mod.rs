//! Objects that keep their encoded bytes.

mod access;
mod compressed;
mod decoded;
mod edits;
mod every_kind;
mod validation;

use k8s_openapi::api::core::v1::Pod;
use kube_informers::lazy::Lazy;
use kube_informers::reflector::Jitter;
use kube_informers::source::{Encoding, SourceOptions};
use kube_informers::{Informer, InformerBuilder};
use kube_testserver::TestServer;

/// Both encodings, which must not differ in anything but cost.
const ENCODINGS: [Encoding; 2] = [Encoding::Protobuf, Encoding::Json];

fn encoded_as(encoding: Encoding) -> SourceOptions {
    SourceOptions {
        encoding,
        ..Default::default()
    }
}

/// An informer of all pods, with reproducible jitter.
fn lazy_pods(server: &TestServer, encoding: Encoding) -> InformerBuilder<Lazy<Pod>> {
    Informer::<Lazy<Pod>>::all(server.client())
        .configure(|config| config.jitter = Jitter::Seeded(7))
        .source(encoded_as(encoding))
        .unwrap()
}
