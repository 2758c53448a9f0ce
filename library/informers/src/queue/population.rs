//! `Population`: counts the entries of the first list until all of them have been processed.

/// The initial population of a queue: the entries of the first list. Empty if a change arrives before any list.
#[derive(Debug, Default)]
pub(super) struct Population {
    /// A list or a change has arrived.
    populated: bool,
    /// The number of entries that have not been processed.
    pending: usize,
}

impl Population {
    /// Records a change.
    pub(super) fn changed(&mut self) {
        self.populated = true;
    }

    /// Whether the next list is the first.
    pub(super) fn is_awaited(&self) -> bool {
        !self.populated
    }

    /// Records the first list, with this number of entries.
    pub(super) fn begin(&mut self, entries: usize) {
        self.populated = true;
        self.pending = entries;
    }

    /// Records that this number of entries have been processed or dropped.
    pub(super) fn settle(&mut self, entries: usize) {
        self.pending = self.pending.saturating_sub(entries);
    }

    /// Whether the initial population has arrived and has been processed.
    pub(super) fn has_synced(&self) -> bool {
        self.populated && self.pending == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_before_any_list_makes_the_population_empty() {
        let mut population = Population::default();
        assert!(!population.has_synced());

        population.changed();

        assert!(population.has_synced());
        assert!(!population.is_awaited());
    }

    #[test]
    fn the_queue_is_synced_after_the_last_entry_of_the_first_list() {
        let mut population = Population::default();
        population.begin(3);
        population.settle(2);
        assert!(!population.has_synced());

        population.settle(1);

        assert!(population.has_synced());
    }

    #[test]
    fn an_empty_first_list_is_synced_immediately() {
        let mut population = Population::default();

        population.begin(0);

        assert!(population.has_synced());
    }
}
