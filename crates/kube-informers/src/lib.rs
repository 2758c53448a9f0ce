//! client-go's informers for Rust.
#![forbid(unsafe_code)]

mod key;
mod object;
mod quarantine;
mod scope;
mod selector;
mod version;

pub use key::{ObjectKey, ParseKeyError};
pub use object::{Object, OwnerRef};
pub use quarantine::{BadObject, Problem};
pub use scope::Scope;
pub use selector::{ParseSelectorError, Selector};
pub use version::{ParseVersionError, ResourceVersion};
