//! HTTP: connections, requests and responses. Both ends of the request path.
//!
//! [`socket`] accepts connections, [`service`] handles one request from its first byte to the last header of the
//! response, [`request`] parses the URL, [`response`] and [`body`] build what is sent back, [`compress`] compresses it. Nothing
//! here knows how objects are stored.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod compress;
pub(crate) mod go_json;
pub(crate) mod journal;
pub(crate) mod request;
pub(crate) mod response;
pub(crate) mod service;
pub(crate) mod socket;
pub(crate) mod status;
#[cfg(feature = "tls")]
mod subject;
#[cfg(feature = "tls")]
pub(crate) mod tls;
mod warning;
