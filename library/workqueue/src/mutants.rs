//! Planted bugs, to prove that the simulator finds them. As in `kube-informers`: compiled only with the feature `mutants`.

/// Whether a planted bug is active.
macro_rules! mutant {
    ($name:ident) => {{
        #[cfg(feature = "mutants")]
        let active = $crate::mutants::is_active($crate::mutants::Mutant::$name);
        #[cfg(not(feature = "mutants"))]
        let active = false;
        active
    }};
}

#[cfg(all(feature = "mutants", not(debug_assertions)))]
compile_error!("the feature `mutants` plants bugs for the simulator and must not be part of a release build");

#[cfg(feature = "mutants")]
pub(crate) use selection::is_active;
#[cfg(feature = "mutants")]
pub use selection::{Mutant, activate};

#[cfg(feature = "mutants")]
mod selection {
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A planted bug.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Mutant {
        /// F43: an add during a run is lost.
        AddDuringRunLost,
        /// F43: a drain does not wait for queued keys.
        DrainIgnoresQueued,
        /// F43: keys are accepted after the shutdown.
        AddedAfterShutdown,
        /// F44: of two delays the first one wins.
        LaterDelayWins,
        /// F44: a delayed key is early.
        DelayedEarly,
        /// F44: a failure count outlives its key.
        FailureCountKept,
        /// F45: priorities are ignored.
        PriorityIgnored,
    }

    impl Mutant {
        /// All of them.
        pub const ALL: &[Self] = &[
            Self::AddDuringRunLost,
            Self::DrainIgnoresQueued,
            Self::AddedAfterShutdown,
            Self::LaterDelayWins,
            Self::DelayedEarly,
            Self::FailureCountKept,
            Self::PriorityIgnored,
        ];
    }

    /// 0, or the position of the active mutant plus one.
    static ACTIVE: AtomicUsize = AtomicUsize::new(0);

    /// Plants a bug, or removes the planted one, in the whole process.
    pub fn activate(mutant: Option<Mutant>) {
        ACTIVE.store(mutant.map_or(0, |mutant| mutant as usize + 1), Ordering::SeqCst);
    }

    /// Whether this bug is planted.
    pub(crate) fn is_active(mutant: Mutant) -> bool {
        ACTIVE.load(Ordering::Relaxed) == mutant as usize + 1
    }
}
