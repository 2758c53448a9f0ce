//! How objects are held that stay encoded: options and counters.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// When [`Lazy`](crate::lazy::Lazy) objects are validated by decoding them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Validate {
    /// When they arrive. An object that cannot be decoded is quarantined, as with any other type: the cache keeps the last
    /// good version, and [`Lazy::get`](crate::lazy::Lazy::get) fails only if a transform has broken the object. The default.
    ///
    /// This costs one decode per received object. The decoded object is dropped at once.
    #[default]
    OnArrival,
    /// Never. Objects whose metadata can be read are cached, and accesses to parts that cannot be decoded fail. The
    /// error is counted in [`InformerStats::access_errors`](crate::stats::InformerStats::access_errors) and logged once
    /// per object.
    ///
    /// Use this if little of the cache is ever decoded.
    OnAccess,
}

/// How objects are held.
#[derive(Clone, Copy, Debug, Default)]
#[doc(hidden)]
pub struct LazyOptions {
    pub(crate) validate: Validate,
    pub(crate) decoded_cache: usize,
    pub(crate) compressed: bool,
}

/// Counters of the objects of one source.
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct LazyCounters {
    /// Failed accesses.
    access_errors: AtomicU64,
    /// The memory of all objects that exist, in the cache or elsewhere.
    bytes: AtomicUsize,
}

impl LazyCounters {
    pub(crate) fn add_error(&self) {
        self.access_errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn access_errors(&self) -> u64 {
        self.access_errors.load(Ordering::Relaxed)
    }

    pub(crate) fn hold(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }
}
