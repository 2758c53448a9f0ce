//! HTTP: [`socket`] accepts connections, [`service`] handles one request from its first byte to the last header of the
//! response.

pub(crate) mod service;
pub(crate) mod socket;
