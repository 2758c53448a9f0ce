//! HTTP: connections, requests and responses. Both ends of the request path.
//!
//! [`socket`] accepts connections, [`service`] handles one request from its first byte to the last header of the
//! response, [`response`] and [`body`] build what is sent back, [`compress`] compresses it. Nothing
//! here knows how objects are stored.

pub(crate) mod body;
pub(crate) mod compress;
pub(crate) mod journal;
pub(crate) mod response;
pub(crate) mod service;
pub(crate) mod socket;
#[cfg(feature = "tls")]
mod subject;
#[cfg(feature = "tls")]
pub(crate) mod tls;
