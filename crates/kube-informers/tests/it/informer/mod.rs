//! The informer end to end, from the client to the handler.

mod adapters;
mod freshness;
mod kinds;
mod quarantine;
mod reading;
mod scopes;
mod secrecy;
mod stats;
mod transform;
