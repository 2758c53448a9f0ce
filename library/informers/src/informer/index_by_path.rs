//! Indexes by a field.

use kube_protobuf::raw;
use kube_protobuf::schema;

use super::{Informer, InformerBuilder};
use crate::lazy::{FieldPath, Lazy};
use crate::source::ResourceType;
use crate::store::{Index, IndexError};

impl<K: Send + Sync + 'static> Informer<Lazy<K>> {
    /// Adds an index by a field, read from the bytes when an object arrives. The index has the name of the path.
    ///
    /// Strings, numbers and booleans are indexed as text, lists by each of their elements. Objects without the field
    /// have no value. Nor do objects whose field cannot be decoded; they are counted and logged like other failed
    /// accesses.
    ///
    /// # Errors
    ///
    /// The path is invalid, the kind has no such field, or an index of that name exists.
    pub fn index_by_path(&self, path: &str) -> Result<Index<Lazy<K>>, IndexError> {
        let path = checked(path, self.resource())?;
        let name = path.as_str().to_owned();
        self.add_index(&name, move |object| object.index_values(&path))
    }
}

impl<K: Send + Sync + 'static> InformerBuilder<Lazy<K>> {
    /// Adds an index by a field; see [`Informer::index_by_path`].
    ///
    /// # Errors
    ///
    /// The path is invalid, the kind has no such field, or an index of that name exists.
    pub fn index_by_path(self, path: &str) -> Result<Self, IndexError> {
        let path = checked(path, self.resource().as_ref())?;
        let name = path.as_str().to_owned();
        self.index(&name, move |object| object.index_values(&path))
    }
}

fn checked(path: &str, resource: Option<&ResourceType>) -> Result<FieldPath, IndexError> {
    let check = || {
        let parsed = FieldPath::parse(path)?;
        let kind = resource.map(ResourceType::expected);
        let schema = kind.and_then(|kind| schema::lookup(&kind.api_version, &kind.kind));
        if let Some(schema) = schema {
            raw::Path::new(schema, &parsed)?;
        }
        Ok(parsed)
    };
    check().map_err(|source| IndexError::Path {
        path: path.to_owned(),
        source,
    })
}
