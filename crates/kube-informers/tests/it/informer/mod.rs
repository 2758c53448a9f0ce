//! The informer as a whole, from a client to a handler.

mod kinds;
mod quarantine;
mod reading;
mod scopes;
mod secrecy;
mod stats;
mod transform;
