//! Locks with a hook, for tests of interleavings. Unstable: exempt from semantic versioning.
//!
//! The crates that share data between threads use `parking_lot`, and with their feature `sim` these instead. A test that controls the
//! schedule sets a hook that lets another thread run. What happens under a lock is one step to all others, so the moments
//! before it is taken are all that a schedule can choose from.

use std::cell::Cell;

use parking_lot::{MutexGuard, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

thread_local! {
    static HOOK: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// Sets what this thread does before it takes a lock, and while it waits for one.
pub fn before_lock(hook: Option<fn()>) {
    HOOK.set(hook);
}

/// Takes a lock, without ever blocking a thread that has a hook: the holder may be a task of the same thread.
fn acquire<G>(try_lock: impl Fn() -> Option<G>, lock: impl FnOnce() -> G) -> G {
    let Some(hook) = HOOK.get() else {
        return lock();
    };
    loop {
        hook();
        if let Some(guard) = try_lock() {
            return guard;
        }
    }
}

/// A mutex.
#[derive(Debug, Default)]
pub struct Mutex<T>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// Waits for the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        acquire(|| self.0.try_lock(), || self.0.lock())
    }
}

/// A lock of many readers or one writer.
#[derive(Debug, Default)]
pub struct RwLock<T>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    /// Wraps a value.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }

    /// Waits for the writer.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        acquire(|| self.0.try_read(), || self.0.read())
    }

    /// Waits for readers and the writer.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        acquire(|| self.0.try_write(), || self.0.write())
    }

    /// Waits for the writer and for others who may become it.
    pub fn upgradable_read(&self) -> RwLockUpgradableReadGuard<'_, T> {
        acquire(|| self.0.try_upgradable_read(), || self.0.upgradable_read())
    }
}
