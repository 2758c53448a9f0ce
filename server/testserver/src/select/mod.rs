//! The objects that a list or watch covers, in the version in which they are shown.

pub(crate) mod corrupt;
pub(crate) mod lens;
pub(crate) mod selection;
