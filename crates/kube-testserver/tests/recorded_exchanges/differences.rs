//! What is known to differ from a real server, and why it stays.

use super::Known;

pub(crate) const KNOWN: &[Known] = &[];
