//! The medians of a run as a file, for scripts.

use serde_json::{Map, Value, json};

use crate::book::Book;

/// The medians by figure and peer, as JSON.
#[must_use]
pub fn json(book: &Book, objects: usize, heading: &str) -> String {
    let mut figures = Map::new();
    for (figure, peer) in book.measured() {
        let peers = figures.entry(figure).or_insert_with(|| json!({}));
        peers[peer.argument()] = book.median(figure, peer).into();
    }
    let results = json!({ "run": heading, "objects": objects, "medians": Value::Object(figures) });
    format!("{results:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opponent::Peer;

    #[test]
    fn medians_are_written_by_figure_and_peer() {
        let mut book = Book::default();
        book.add("cpu", Peer::Packed, 1.0);
        book.add("cpu", Peer::Packed, 3.0);
        book.add("cpu", Peer::ClientGo, 5.0);

        let results: Value = serde_json::from_str(&json(&book, 7, "a run")).unwrap();

        assert_eq!(
            results,
            json!({ "run": "a run", "objects": 7, "medians": { "cpu": { "packed": 2.0, "client-go": 5.0 } } })
        );
    }
}
