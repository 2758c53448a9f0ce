//! The locks of what several threads share: those of `parking_lot`, or with the feature `sim` the ones that a test of
//! interleavings controls.

#[cfg(feature = "sim")]
pub(crate) use kube_informers_core::tasks::lock::Mutex;
#[cfg(not(feature = "sim"))]
pub(crate) use parking_lot::Mutex;
