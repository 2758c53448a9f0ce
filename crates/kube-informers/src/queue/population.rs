//! `Population`: when has the initial list been worked off?
//!
//! Counts the queue entries of the first list until each of them has been processed.

/// The initial population of a queue: what the first list brought, unless a change came before any list.
#[derive(Debug, Default)]
pub(super) struct Population {
    /// A list or a change has come.
    populated: bool,
    /// Entries of the first list that have not been processed yet.
    pending: usize,
}

impl Population {
    /// A change came. If it is the first thing ever, the initial population is empty.
    pub(super) fn changed(&mut self) {
        self.populated = true;
    }

    /// Whether the next list is the first.
    pub(super) fn is_awaited(&self) -> bool {
        !self.populated
    }

    /// The first list came and made so many entries.
    pub(super) fn begin(&mut self, entries: usize) {
        self.populated = true;
        self.pending = entries;
    }

    /// So many entries of the initial population have been processed, or will never be.
    pub(super) fn settle(&mut self, entries: usize) {
        self.pending = self.pending.saturating_sub(entries);
    }

    /// Whether the initial population has come and has been processed.
    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.pending == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_before_any_list_leaves_nothing_to_wait_for() {
        let mut population = Population::default();
        assert!(!population.has_synced());

        population.changed();

        assert!(population.has_synced());
        assert!(!population.is_awaited());
    }

    #[test]
    fn a_first_list_is_waited_for_to_its_last_entry() {
        let mut population = Population::default();
        population.begin(3);
        population.settle(2);
        assert!(!population.has_synced());

        population.settle(1);

        assert!(population.has_synced());
    }

    #[test]
    fn an_empty_first_list_is_done_at_once() {
        let mut population = Population::default();

        population.begin(0);

        assert!(population.has_synced());
    }
}
