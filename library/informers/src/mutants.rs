//! Planted bugs, each like one that client-go or kube-rs had, to prove that the simulator finds them.
//!
//! Compiled only with the feature `mutants`. Without it `mutant!` is `false`, and the branches behind it are removed. At
//! most one mutant is active in a process, selected by [`activate`].

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

    macro_rules! mutants {
        ($($(#[doc = $doc:literal])* $name:ident,)*) => {
            /// A planted bug.
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum Mutant {
                $($(#[doc = $doc])* $name,)*
            }

            impl Mutant {
                /// All of them.
                pub const ALL: &[Self] = &[$(Self::$name),*];
            }
        };
    }

    mutants! {
        /// F01: the first list may be older than the newest state.
        StaleFirstList,
        /// F02: a list older than requested is used.
        OlderListAccepted,
        /// F03: after a restore, the only list the server has is refused for ever.
        RewindRefused,
        /// F03: a list at a version that the server does not know is repeated for ever.
        StickyListVersion,
        /// F05: an object that is missing from a list stays.
        MissedDeleteLost,
        /// F05: an addition that is still queued survives a list without the object.
        QueuedAddLeaks,
        /// F06: an object replaced by another of the same name is an update.
        UpdateAcrossUids,
        /// F09: the version of an initial event is a version to resume at.
        InitialEventsAreProgress,
        /// F10: a bookmark moves the version back.
        OldBookmarkAccepted,
        /// F11: a repeated event is delivered as an update.
        RepeatedEventNotified,
        /// F11: an older state replaces a newer one.
        OlderEventApplied,
        /// F11: a repeated addition brings a deleted object back.
        DeletedObjectReturns,
        /// F11: a late deletion of an earlier object deletes its successor.
        LateDeleteApplied,
        /// F13: a key stays in quarantine although it can be decoded again.
        QuarantineKept,
        /// F14: an event that cannot be decoded is skipped.
        UnreadableEventSkipped,
        /// F14: a deletion that cannot be decoded is skipped.
        UnreadableDeleteSkipped,
        /// An unreadable object of a list is treated as a watch event.
        ListedUnreadableAsEvent,
        /// F15: a silent watch is never given up.
        SilentWatchKept,
        /// F16: a watch-list without an end marker is never given up.
        EndMarkerAwaitedForEver,
        /// F18: the objects of a broken watch-list stay for the next one.
        PartialInitialKept,
        /// F19: an expired version in an `ERROR` event leads to the same watch again.
        ErrorEventIgnored,
        /// F20: an expired version in an HTTP status leads to the same watch again.
        ExpiredStatusIgnored,
        /// F21: requests are not paced.
        NoPacing,
        /// F23: pages of different versions form a list.
        PagesOfDifferentVersions,
        /// F24: Retry-After is ignored.
        RetryAfterIgnored,
        /// F27: a panic ends the handler.
        PanicEndsHandler,
        /// F28: an update leaves the old value in the index.
        IndexNotUpdated,
        /// F28: a deletion leaves the object in the index.
        IndexNotCleared,
        /// F29: a pause does not end when the informer stops.
        StopIgnored,
        /// F30: a late handler does not receive the snapshot.
        LateHandlerMissesSnapshot,
        /// F30: a removed handler receives the rest of its batch.
        CalledAfterRemoval,
        /// F31: the informer is synced when the first list arrives, not when it is applied.
        SyncedTooEarly,
        /// F31: a handler is synced before it has received the initial events.
        HandlerSyncedTooEarly,
        /// F32: a slow handler that coalesces keeps every event.
        CoalescingKeepsAll,
        /// F32: merged updates carry an `old` that the handler never received.
        CoalescedOldIsWrong,
        /// F32: an object that was created and deleted meanwhile is delivered as a deletion.
        CoalescedDeleteOfUnknown,
        /// F33: a full queue drops deltas.
        FullQueueDrops,
        /// F35: a change overtakes a resync, which then repeats an older state.
        ResyncRevertsChange,
        /// A requeued batch is lost.
        RequeueLosesDeltas,
        /// A bookmark overtakes the events before it.
        BookmarkOvertakes,
        /// The deltas of a batch are applied in reverse.
        BatchReversed,
        /// Initial events are not marked.
        InitialFlagLost,
        /// F39: a list that ends early is taken for complete.
        TruncatedListAccepted,
        /// A range of hashes that a shard gains is not fetched.
        GainedRangeNotFetched,
        /// A range that a shard gives up stays in the cache.
        GivenUpRangeStays,
        /// A list that was queued counts for a range that was given up and regained since.
        RegainedRangeIsEarly,
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
