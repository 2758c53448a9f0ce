//! The cost of one initial load, and its limits. Pure.

use crate::wire::LimitExceeded;

/// The limits of fetching a whole collection, by list or watch-list. They protect the process from a server whose
/// response never ends. A fetch that exceeds one is discarded, reported as
/// [`SourceError::Limit`](crate::source::SourceError::Limit) and tried again after a pause; the cache keeps its
/// contents.
///
/// Objects that are cached need memory, and a list of endless distinct objects is not different from a very large
/// collection. So set [`objects`](Self::objects) or [`bytes`](Self::bytes) if the server is not trusted.
///
/// ```
/// # use kube_informers::source::ListerWatcher;
/// # use kube_informers::Informer;
/// # fn example(source: impl ListerWatcher<k8s_openapi::api::core::v1::Pod>) {
/// let builder = Informer::from_source(source).configure(|config| config.limits.objects = Some(500_000));
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadLimits {
    /// The bytes of a response that lead to no cached object: objects that cannot be decoded, repetitions of an object,
    /// and anything around the objects. An object that cannot be decoded counts for at least 512 bytes, and for 32
    /// if not even its name can be read. Objects
    /// outside the shard do not count. Default: 256 MiB.
    pub wasted_bytes: u64,
    /// The number of objects of the collection. Default: no limit.
    pub objects: Option<usize>,
    /// The bytes of the collection on the wire. Default: no limit.
    pub bytes: Option<u64>,
}

impl Default for LoadLimits {
    fn default() -> Self {
        Self {
            wasted_bytes: 256 << 20,
            objects: None,
            bytes: None,
        }
    }
}

/// The cost of the current fetch.
///
/// The sizes of single objects are not known here, only those of chunks. The bytes of a chunk are shared equally by the
/// items that end in it.
#[derive(Debug, Default)]
pub(super) struct Load {
    bytes: u64,
    wasted: u64,
    /// The bytes of the current chunk, and of earlier chunks in which no item ended.
    chunk: u64,
    items: u64,
    repeated: u64,
}

/// The least that an unreadable object counts for: about the memory of its entry, or the work of skipping it.
const MIN_KEPT: u64 = 512;
const MIN_SKIPPED: u64 = 32;
/// The least that a repeated object counts for.
const MIN_REPEATED: u64 = 64;

impl Load {
    pub(super) fn received(&mut self, bytes: usize) {
        if self.items > 0 {
            self.wasted = self.wasted();
            (self.chunk, self.items, self.repeated) = (0, 0, 0);
        }
        self.chunk = self.chunk.saturating_add(bytes as u64);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// An object was received; `is_new` unless it repeats a key.
    pub(super) fn object(&mut self, is_new: bool) {
        self.items += 1;
        if !is_new {
            self.repeated += 1;
            self.wasted = self.wasted.saturating_add(MIN_REPEATED);
        }
    }

    /// An object of this size was received that cannot be decoded; `is_kept` if its identity needs an entry.
    pub(super) fn unreadable(&mut self, size: usize, is_kept: bool) {
        let size = size as u64;
        let min = if is_kept { MIN_KEPT } else { MIN_SKIPPED };
        self.wasted = self.wasted.saturating_add(size.max(min));
        self.chunk = self.chunk.saturating_sub(size);
        // What is left of the chunk belongs to other items, or to none.
        self.items += u64::from(self.chunk == 0);
    }

    fn wasted(&self) -> u64 {
        let share = match self.items {
            0 => self.chunk,
            items => u64::try_from(u128::from(self.chunk) * u128::from(self.repeated) / u128::from(items))
                .unwrap_or(u64::MAX),
        };
        self.wasted.saturating_add(share)
    }

    pub(super) fn exceeded(&self, limits: &LoadLimits, objects: usize) -> Option<LimitExceeded> {
        if let Some(limit) = limits.objects.filter(|limit| objects > *limit) {
            return Some(LimitExceeded::Objects { limit });
        }
        if let Some(limit) = limits.bytes.filter(|limit| self.bytes > *limit) {
            return Some(LimitExceeded::Bytes { limit });
        }
        let limit = limits.wasted_bytes;
        (self.wasted() > limit).then_some(LimitExceeded::WastedBytes { limit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    fn wasted(events: impl IntoIterator<Item = fn(&mut Load)>) -> u64 {
        let mut load = Load::default();
        for event in events {
            event(&mut load);
        }
        load.wasted()
    }

    #[test]
    fn new_objects_cost_nothing_and_repeated_ones_their_share_of_the_chunk() {
        let new: [fn(&mut Load); 3] = [
            |load| load.received(64 * KIB),
            |load| load.object(true),
            |load| load.object(true),
        ];
        assert_eq!(wasted(new), 0);

        let half: [fn(&mut Load); 3] = [
            |load| load.received(64 * KIB),
            |load| load.object(true),
            |load| load.object(false),
        ];
        assert_eq!(wasted(half), 32 * 1024 + MIN_REPEATED);
    }

    #[test]
    fn bytes_without_an_item_count_until_an_item_ends() {
        let nothing: [fn(&mut Load); 2] = [|load| load.received(64 * KIB), |load| load.received(64 * KIB)];
        assert_eq!(wasted(nothing), 128 * 1024);

        let large: [fn(&mut Load); 3] = [
            |load| load.received(64 * KIB),
            |load| load.received(64 * KIB),
            |load| load.object(true),
        ];
        assert_eq!(wasted(large), 0);
    }

    #[test]
    fn a_chunk_is_settled_when_the_next_one_arrives() {
        let repeated_then_new: [fn(&mut Load); 4] = [
            |load| load.received(64 * KIB),
            |load| load.object(false),
            |load| load.received(KIB),
            |load| load.object(true),
        ];
        assert_eq!(wasted(repeated_then_new), 64 * 1024 + MIN_REPEATED);
    }

    #[test]
    fn an_unreadable_item_that_fills_its_chunk_is_its_only_item() {
        let unreadable_then_new: [fn(&mut Load); 4] = [
            |load| load.received(KIB),
            |load| load.unreadable(KIB, true),
            |load| load.received(64 * KIB),
            |load| load.object(true),
        ];
        assert_eq!(wasted(unreadable_then_new), 1024);
    }

    #[test]
    fn a_small_unreadable_item_counts_for_the_memory_of_its_entry() {
        let items: [fn(&mut Load); 4] = [
            |load| load.received(KIB),
            |load| load.unreadable(2, true),
            |load| load.unreadable(2, false),
            |load| load.object(true),
        ];
        assert_eq!(wasted(items), MIN_KEPT + MIN_SKIPPED);
    }

    #[test]
    fn each_limit_is_checked_and_named() {
        let mut load = Load::default();
        load.received(100);
        let limits = |change: fn(&mut LoadLimits)| {
            let mut limits = LoadLimits::default();
            change(&mut limits);
            limits
        };
        let exceeded = |change| load.exceeded(&limits(change), 3).map(|limit| limit.to_string());

        assert_eq!(exceeded(|_| {}), None);
        assert_eq!(exceeded(|limits| limits.objects = Some(3)), None);
        for (change, setting) in [
            (
                (|limits| limits.objects = Some(2)) as fn(&mut LoadLimits),
                "`limits.objects`",
            ),
            (|limits| limits.bytes = Some(99), "`limits.bytes`"),
            (|limits| limits.wasted_bytes = 99, "`limits.wasted_bytes`"),
        ] {
            let text = exceeded(change).unwrap();
            assert!(text.contains(setting), "{text}");
        }
    }
}
