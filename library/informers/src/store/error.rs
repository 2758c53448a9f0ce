//! The errors of stores.

use std::fmt;

use kube_protobuf::path::PathError;

/// An index does not exist, exists already, or cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The store has no index of this name.
    #[error("unknown index {name:?}: {}", list(known))]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the existing indexes.
        known: Vec<String>,
    },
    /// The store already has an index of this name.
    #[doc(alias = "indexer conflict")]
    #[error("the index {name:?} already exists: use it with `index({name:?})`, or choose another name")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The index function panicked on a value, which was not stored.
    #[error("the function of index {name:?} panicked on the value: it was not stored")]
    Panicked {
        /// The name of the index.
        name: String,
    },
    /// The path of an index by a field is invalid, or the kind has no such field.
    #[error("cannot index by {path:?}")]
    Path {
        /// The path.
        path: String,
        /// The reason.
        source: PathError,
    },
}

impl IndexError {
    /// Whether an index of that name exists already.
    pub fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate { .. })
    }
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        return "this store has none; add it with `add_index`".to_owned();
    }
    let names: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
    format!("this store has {}; add others with `add_index`", names.join(", "))
}

/// Some writes of a transaction failed. The source is the error of the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionError {
    /// The positions of the writes that were carried out, from 0.
    #[doc(alias = "SuccessfulIndices")]
    pub successful: Vec<usize>,
    /// The positions of the failed writes, and their errors.
    pub failed: Vec<(usize, IndexError)>,
}

impl fmt::Display for TransactionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let failed = self.failed.len();
        write!(f, "{failed} of {} writes failed", failed + self.successful.len())
    }
}

impl std::error::Error for TransactionError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.failed.first().map(|(_, error)| error as _)
    }
}
