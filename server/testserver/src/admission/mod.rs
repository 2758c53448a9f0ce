//! Checks on an object before it is stored: metadata, immutable fields. Custom resources are also
//! checked against their schema, see [`crate::kinds`].
//!
//! Pure functions from JSON to a list of [`FieldError`](kube_api_protocol::field_error::FieldError)s, in the wording of a real API server.

pub(crate) mod immutable;
pub(crate) mod metadata;
