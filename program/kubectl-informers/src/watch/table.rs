//! The table of the initial objects of a kind, printed when its list is complete.

use std::collections::BTreeMap;

use kube_informers::ObjectKey;

use crate::objects::columns::{self, Columns};
use crate::objects::item::Tree;
use crate::objects::kinds::Kind;
use crate::output::style::{Colours, HEAD};
use crate::text::safe::SafeText;
use crate::view::server_columns::ServerColumns;

/// Collects rows until they are printed.
pub struct Table {
    wide: bool,
    namespaces: bool,
    colours: Colours,
    /// By kind, with the key of the object.
    rows: BTreeMap<String, Vec<(ObjectKey, Vec<SafeText>)>>,
    /// The columns of kinds that have none of ours.
    pub server: ServerColumns,
}

impl Table {
    /// The columns: wide or not, with or without namespaces.
    pub fn new(wide: bool, namespaces: bool, colours: Colours) -> Self {
        Self {
            wide,
            namespaces,
            colours,
            rows: BTreeMap::new(),
            server: ServerColumns::default(),
        }
    }

    fn columns(&self, kind: &Kind) -> Columns {
        columns::of(kind, self.wide, self.namespaces && kind.namespaced)
    }

    /// Adds an object.
    pub fn add(&mut self, kind: &Kind, object: &Tree) {
        let columns = self.columns(kind);
        let mut row = columns.row(object);
        let key = ObjectKey::new(
            object.text("/metadata/namespace"),
            object.text("/metadata/name").unwrap_or_default(),
        );
        let version = object.text("/metadata/resourceVersion");
        columns.insert(&mut row, self.server.row(kind, &key, version, self.wide));
        let row = row.iter().map(|cell| SafeText::line(cell).shortened()).collect();
        self.rows.entry(kind.full_name()).or_default().push((key, row));
    }

    /// Takes the table of a kind; empty if there are no rows.
    pub fn take(&mut self, kind: &Kind) -> SafeText {
        let Some(mut rows) = self.rows.remove(&kind.full_name()) else {
            return SafeText::default();
        };
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        let columns = self.columns(kind);
        let mut head = columns.head();
        columns.insert(&mut head, self.server.head(kind, self.wide));
        let head_line: Vec<SafeText> = head.iter().map(|name| SafeText::line(name).shortened()).collect();
        let mut widths: Vec<usize> = head.iter().map(|name| name.chars().count()).collect();
        for (_, row) in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width());
            }
        }
        let mut text = self.colours.paint(HEAD, line(&head_line, &widths));
        for (_, row) in &rows {
            text.push("\n");
            text.push(line(row, &widths));
        }
        text
    }
}

/// Cells side by side, three spaces between them, nothing after the last.
fn line(cells: &[SafeText], widths: &[usize]) -> SafeText {
    let mut text = SafeText::default();
    for (cell, width) in cells.iter().zip(widths) {
        text.push(cell.clone().padded(*width + 3));
    }
    text.trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One cell of 100 kB padded every other row to that width.
    #[test]
    fn a_long_cell_is_cut_and_does_not_widen_the_table() {
        let kind = Kind::for_tests("example.com", "v1", "Widget", "widgets");
        let mut table = Table::new(true, false, Colours::new(false));
        for number in 0..3000 {
            let name = match number {
                7 => "w".repeat(100_000),
                _ => format!("w-{number}"),
            };
            let item = serde_json::json!({ "metadata": { "name": name } });
            table.add(&kind, &Tree(item));
        }

        let text = table.take(&kind).to_string();

        assert!(text.len() < 1_000_000, "{} bytes", text.len());
        assert!(text.contains("… (100000 characters)"));
    }
}
