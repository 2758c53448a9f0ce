//! The informer end to end, from the client to the handler.

mod adapters;
mod freshness;
mod functions;
mod kinds;
mod namespaces;
mod quarantine;
mod reading;
mod scopes;
mod secrecy;
mod stats;
mod transform;
