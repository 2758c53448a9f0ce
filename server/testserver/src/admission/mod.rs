//! Checks on an object before it is stored: metadata, names, nesting, immutable fields. Custom resources are also
//! checked against their schema, see [`crate::kinds`].
//!
//! Pure functions from JSON to a list of [`field_error::FieldError`]s, in the wording of a real API server.

pub(crate) mod field_error;
pub(crate) mod immutable;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod nesting;
