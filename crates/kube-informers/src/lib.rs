//! client-go's informers for Rust.
#![forbid(unsafe_code)]

mod key;
mod object;
mod quarantine;
mod version;

pub use key::{ObjectKey, ParseKeyError};
pub use object::{Object, OwnerRef};
pub use quarantine::{BadObject, Problem};
pub use version::{ParseVersionError, ResourceVersion};
