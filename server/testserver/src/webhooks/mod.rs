//! Calls webhooks: functions of the test, and endpoints of stored objects.
//!
//! A [`Webhooks`] holds the webhooks of one write request. `write/` calls it where a real server calls them: mutating webhooks after
//! decoding and defaulting, validating ones after validation, both without a lock of the store.
//! [`convert`] converts the objects of a custom resource between its versions.

mod call;
mod configuration;
mod connection;
mod conversion;
mod dispatch;
mod post;
mod send;

pub(crate) use connection::admit_connection;
pub(crate) use conversion::convert;
pub(crate) use dispatch::{Attributes, Incoming, Webhooks};
