//! Reading encoded objects without decoding them.
//!
//! All functions work on the bytes of one message: an item of a list, or [`Envelope::raw`](crate::Envelope::raw) of an
//! object. Those about metadata apply to messages with [`has_object_meta`](crate::schema::Message::has_object_meta).
//!
//! Fields may be in any order. A single message that occurs more than once, which no API server sends, is
//! an error of kind [`NotCanonical`](crate::ErrorKind::NotCanonical); [`canonical`] merges such occurrences.

mod metadata;
mod path;
mod set;

pub use crate::canonical::canonical;
pub use crate::path::PathError;
pub(crate) use metadata::next_of_prefix;
pub use metadata::{
    Header, OwnerReference, OwnerReferences, Strings, annotations, has_managed_fields, header,
    header_of_prefix, labels, managed_fields, owner_references, without_managed_fields,
};
pub use path::{Path, RawValue, changed};
pub use set::set;

use crate::error::Error;
use crate::wire;

/// The content of a single message field; `None` if it is absent.
fn single(mut message: &[u8], field: u32) -> Result<Option<&[u8]>, Error> {
    let mut found = None;
    while let Some(part) = wire::next(&mut message)? {
        if part.field == field {
            if found.is_some() {
                return Err(Error::not_canonical());
            }
            found = Some(part.message()?);
        }
    }
    Ok(found)
}
