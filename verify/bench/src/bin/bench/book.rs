//! The measurements of all runs and their medians.

use std::collections::BTreeMap;

use crate::opponent::Peer;

/// Measurements by figure and peer.
#[derive(Default)]
pub struct Book {
    figures: BTreeMap<(&'static str, Peer), Vec<f64>>,
}

impl Book {
    /// Records one measurement.
    pub fn add(&mut self, figure: &'static str, peer: Peer, value: f64) {
        self.figures.entry((figure, peer)).or_default().push(value);
    }

    /// All figures and peers with a measurement.
    pub fn measured(&self) -> impl Iterator<Item = (&'static str, Peer)> {
        self.figures.keys().copied()
    }

    /// The median of the measurements, if any.
    #[must_use]
    pub fn median(&self, figure: &'static str, peer: Peer) -> Option<f64> {
        let mut values = self.figures.get(&(figure, peer))?.clone();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = values.get(middle).copied()?;
        let lower = values.get((values.len() - 1) / 2).copied()?;
        Some(f64::midpoint(lower, upper))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlier_does_not_affect_the_median() {
        let mut book = Book::default();
        for value in [3.0, 100.0, 2.0] {
            book.add("cpu", Peer::Ours, value);
        }

        assert_eq!(book.median("cpu", Peer::Ours), Some(3.0));
        assert_eq!(book.median("cpu", Peer::ClientGo), None);
        book.add("cpu", Peer::Ours, 4.0);
        assert_eq!(book.median("cpu", Peer::Ours), Some(3.5));
    }
}
