//! The errors of stores.

use std::fmt;

/// The store has no index of this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown index {name:?}: {}", list(known))]
pub struct UnknownIndexError {
    /// The requested name.
    pub name: String,
    /// The names of the existing indexes.
    pub known: Vec<String>,
}

fn list(known: &[String]) -> String {
    if known.is_empty() {
        return "this store has none; add it with `add_index`".to_owned();
    }
    let names: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
    format!("this store has {}; add others with `add_index`", names.join(", "))
}

/// The store already has an index of this name.
#[doc(alias = "indexer conflict")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the index {name:?} already exists: use it with `index({name:?})`, or choose another name")]
pub struct DuplicateIndexError {
    /// The name.
    pub name: String,
}

/// An index function panicked on a value, which was not stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the function of index {index:?} panicked on the value: it was not stored")]
pub struct IndexPanicError {
    /// The name of the index.
    pub index: String,
}

/// Some writes of a transaction failed. The source is the error of the first of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionError {
    /// The positions of the writes that were carried out, from 0.
    #[doc(alias = "SuccessfulIndices")]
    pub successful: Vec<usize>,
    /// The positions of the failed writes, and their errors.
    pub failed: Vec<(usize, IndexPanicError)>,
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
