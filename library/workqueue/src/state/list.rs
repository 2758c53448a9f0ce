//! Doubly linked lists of slots over one shared vector of links: push, remove and pop in constant time. Independent of
//! keys.

/// The index of a key in the table; small numbers, reused.
pub(super) type Slot = u32;

/// No slot: the end of a list.
pub(super) const NONE: Slot = Slot::MAX;

#[derive(Clone, Copy)]
struct Link {
    prev: Slot,
    next: Slot,
}

const UNLINKED: Link = Link {
    prev: NONE,
    next: NONE,
};

/// A kind of list: the order of processing, among the ready keys of a priority or among those in flight.
pub(super) const TURN: usize = 0;

/// A kind of list: the order of age among all ready keys.
pub(super) const AGE: usize = 1;

/// The links of every slot, both kinds next to each other: with many keys each access is a cache miss.
#[derive(Default)]
pub(super) struct Links(Vec<[Link; 2]>);

impl Links {
    /// The link of a slot that was a member of a list before.
    #[inline]
    fn at<const KIND: usize>(&mut self, slot: Slot) -> &mut Link {
        &mut self.0[slot as usize][KIND]
    }

    /// The link of a slot that may be new.
    #[inline]
    fn at_new<const KIND: usize>(&mut self, slot: Slot) -> &mut Link {
        if slot as usize >= self.0.len() {
            self.grow(slot);
        }
        self.at::<KIND>(slot)
    }

    #[cold]
    fn grow(&mut self, slot: Slot) {
        self.0.resize(slot as usize + 1, [UNLINKED; 2]);
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Frees the memory. Every list over these links must be empty.
    pub(super) fn reset(&mut self) {
        self.0 = Vec::new();
    }
}

/// First, last and number of members of a list. A slot can be in one list of each kind.
#[derive(Clone, Copy)]
pub(super) struct List<const KIND: usize> {
    head: Slot,
    tail: Slot,
    len: usize,
}

impl<const KIND: usize> List<KIND> {
    pub(super) fn new() -> Self {
        List {
            head: NONE,
            tail: NONE,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(super) fn first(&self) -> Option<Slot> {
        (self.head != NONE).then_some(self.head)
    }

    #[inline]
    pub(super) fn push_back(&mut self, links: &mut Links, slot: Slot) {
        *links.at_new::<KIND>(slot) = Link {
            prev: self.tail,
            next: NONE,
        };
        match self.tail {
            NONE => self.head = slot,
            tail => links.at::<KIND>(tail).next = slot,
        }
        self.tail = slot;
        self.len += 1;
    }

    /// Removes a slot that is a member.
    #[inline]
    pub(super) fn remove(&mut self, links: &mut Links, slot: Slot) {
        // The link keeps its values: they are written before they are read again.
        let Link { prev, next } = *links.at::<KIND>(slot);
        match prev {
            NONE => self.head = next,
            prev => links.at::<KIND>(prev).next = next,
        }
        match next {
            NONE => self.tail = prev,
            next => links.at::<KIND>(next).prev = prev,
        }
        self.len -= 1;
    }

    pub(super) fn iter<'a>(&self, links: &'a Links) -> impl Iterator<Item = Slot> + use<'a, KIND> {
        std::iter::successors(self.first(), move |slot| {
            let link = links.0.get(*slot as usize)?[KIND];
            (link.next != NONE).then_some(link.next)
        })
    }
}
