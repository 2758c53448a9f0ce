//! The rows of one kind, by object and version.

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::wire::{Definition, Row, Table};

/// Objects with rows.
const MOST_OBJECTS: usize = 10_000;
/// Versions of one object: the reader of the changes may be a little behind.
const VERSIONS: usize = 4;
/// Objects that are deleted and whose last row is still known.
const MOST_DELETED: usize = 1000;

/// One column.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    /// Only part of the wide output.
    wide: bool,
    /// An age: it differs at every moment, and is no change.
    is_age: bool,
    /// Its place in the rows of the server.
    place: usize,
}

type Key = (String, String);

/// The cells of one version of an object.
struct Cells {
    version: String,
    cells: Vec<String>,
}

/// The columns of one kind, and the cells of its objects.
#[derive(Default)]
pub(super) struct Rows {
    columns: Vec<Column>,
    /// The last versions of each object, by namespace and name; the latest comes last.
    rows: HashMap<Key, VecDeque<Cells>>,
    deleted: VecDeque<Key>,
    /// The latest version that was received.
    pub latest: u64,
}

impl Rows {
    /// Adds the rows of a table.
    pub fn add(&mut self, table: Table) {
        if let Some(definitions) = &table.column_definitions {
            self.define(definitions);
        }
        self.reach(&table.metadata.resource_version);
        for row in table.rows {
            let (key, cells) = self.read(row);
            self.reach(&cells.version);
            if !self.rows.contains_key(&key) && self.rows.len() >= MOST_OBJECTS {
                continue;
            }
            let versions = self.rows.entry(key).or_default();
            versions.retain(|known| known.version != cells.version);
            versions.push_back(cells);
            if versions.len() > VERSIONS {
                versions.pop_front();
            }
        }
    }

    /// Remembers that the objects of these rows are deleted.
    pub fn delete(&mut self, table: Table) {
        self.reach(&table.metadata.resource_version);
        for row in table.rows {
            let (key, cells) = self.read(row);
            self.reach(&cells.version);
            self.deleted.push_back(key);
            if self.deleted.len() > MOST_DELETED
                && let Some(oldest) = self.deleted.pop_front()
                && !self.deleted.contains(&oldest)
            {
                self.rows.remove(&oldest);
            }
        }
    }

    /// Forgets the objects of a namespace, or of all of them, that are not in a list.
    pub fn retain(&mut self, namespace: Option<&str>, listed: &HashSet<Key>) {
        self.rows
            .retain(|key, _| namespace.is_some_and(|namespace| namespace != key.0) || listed.contains(key));
    }

    fn define(&mut self, definitions: &[Definition]) {
        // Every table has both.
        let is_ours = |definition: &Definition| matches!(definition.name.as_str(), "Name" | "Age");
        let columns: Vec<Column> = definitions
            .iter()
            .enumerate()
            .filter(|(_, definition)| !is_ours(definition))
            .map(|(place, definition)| Column {
                name: definition.name.to_uppercase(),
                wide: definition.priority > 0,
                is_age: definition.r#type == "date",
                place,
            })
            .collect();
        if columns != self.columns {
            self.columns = columns;
            self.rows.clear();
        }
    }

    fn read(&self, row: Row) -> (Key, Cells) {
        let cells = self
            .columns
            .iter()
            .map(|column| text(row.cells.get(column.place)));
        let cells = Cells {
            cells: cells.collect(),
            version: row.object.metadata.resource_version,
        };
        ((row.object.metadata.namespace, row.object.metadata.name), cells)
    }

    /// Everything up to this version has been received.
    pub fn reach(&mut self, version: &str) {
        self.latest = self.latest.max(number(version));
    }

    /// The names of the columns.
    pub fn head(&self, wide: bool) -> Vec<String> {
        let columns = self.columns.iter().filter(|column| wide || !column.wide);
        columns.map(|column| column.name.clone()).collect()
    }

    /// The cells of an object in this version or a later one; empty if they are not known.
    pub fn row(&self, key: &Key, version: &str, wide: bool) -> Vec<String> {
        let cells = self.exactly(key, version).or_else(|| {
            let last = self.rows.get(key)?.back();
            last.filter(|cells| number(&cells.version) >= number(version))
        });
        self.columns
            .iter()
            .enumerate()
            .filter(|(_, column)| wide || !column.wide)
            .map(|(index, _)| cells.and_then(|cells| cells.cells.get(index)).cloned())
            .map(Option::unwrap_or_default)
            .collect()
    }

    /// Whether the cells of an object in this version are not known yet, and will be.
    pub fn is_late(&self, key: &Key, version: &str) -> bool {
        let last = self.rows.get(key).and_then(VecDeque::back);
        !self.columns.is_empty()
            && match last {
                Some(last) => number(&last.version) < number(version),
                None => self.rows.len() < MOST_OBJECTS,
            }
    }

    /// The names and cells of an object in exactly this version, or the last known one if there is none.
    pub fn essentials(&self, key: &Key, version: Option<&str>) -> Option<Vec<(String, String)>> {
        let cells = match version {
            Some(version) => self.exactly(key, version)?,
            None => self.rows.get(key)?.back()?,
        };
        let named = self.columns.iter().zip(&cells.cells);
        Some(
            named
                .filter(|(column, _)| !column.wide && !column.is_age)
                .map(|(column, cell)| (column.name.clone(), cell.clone()))
                .collect(),
        )
    }

    fn exactly(&self, key: &Key, version: &str) -> Option<&Cells> {
        self.rows.get(key)?.iter().find(|cells| cells.version == version)
    }
}

/// Versions are ordered numbers on every server that exists. A server for which they are not is never waited for.
pub(super) fn number(version: &str) -> u64 {
    version.parse().unwrap_or(0)
}

fn text(cell: Option<&Value>) -> String {
    match cell {
        None | Some(Value::Null) => "<none>".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(name: &str) -> Key {
        ("shop".to_owned(), name.to_owned())
    }

    fn table(name: &str, version: &str, size: i64) -> Table {
        serde_json::from_value(json!({
            "kind": "Table", "metadata": { "resourceVersion": version }, "columnDefinitions": [
                { "name": "Name", "type": "string" }, { "name": "Size", "type": "integer" },
                { "name": "Note", "type": "string", "priority": 1 }, { "name": "Checked", "type": "date" },
                { "name": "Age", "type": "date" },
            ],
            "rows": [{
                "cells": [name, size, null, "3s", "3d"],
                "object": { "metadata": { "name": name, "namespace": "shop", "resourceVersion": version } },
            }],
        }))
        .unwrap()
    }

    #[test]
    fn columns_and_cells_are_those_of_the_server_without_name_and_age() {
        let mut rows = Rows::default();
        rows.add(table("a", "7", 1));

        assert_eq!(rows.head(false), ["SIZE", "CHECKED"]);
        assert_eq!(rows.head(true), ["SIZE", "NOTE", "CHECKED"]);
        assert_eq!(rows.row(&key("a"), "7", true), ["1", "<none>", "3s"]);
        assert_eq!(rows.row(&key("new"), "7", false), ["", ""]);
    }

    #[test]
    fn cells_belong_to_a_version() {
        let mut rows = Rows::default();
        for (version, size) in [("7", 1), ("9", 2)] {
            let mut next = table("a", version, size);
            next.column_definitions = next.column_definitions.filter(|_| size == 1);
            rows.add(next);
        }
        let size = |version: Option<&str>| {
            let cells = rows.essentials(&key("a"), version)?;
            // Ages are no change.
            assert_eq!(cells.len(), 1);
            Some(cells.first()?.1.clone())
        };

        assert_eq!(size(Some("7")).as_deref(), Some("1"));
        assert_eq!(size(Some("9")).as_deref(), Some("2"));
        assert_eq!(size(Some("8")), None);
        assert_eq!(size(None).as_deref(), Some("2"));
        // A later row is shown, an earlier one would be wrong.
        assert_eq!(rows.row(&key("a"), "8", false)[0], "2");
        assert_eq!(rows.row(&key("a"), "10", false)[0], "");
        assert!(rows.is_late(&key("a"), "10") && rows.is_late(&key("new"), "10"));
        assert!(!rows.is_late(&key("a"), "9") && !rows.is_late(&key("a"), "7"));
    }

    #[test]
    fn rows_are_limited_in_versions_objects_and_deleted_objects() {
        let mut rows = Rows::default();
        for version in 1..100 {
            rows.add(table("a", &version.to_string(), version));
        }
        assert_eq!(rows.rows[&key("a")].len(), VERSIONS);
        for number in 0..MOST_OBJECTS + 10 {
            rows.add(table(&format!("b-{number}"), "200", 1));
        }
        assert_eq!(rows.rows.len(), MOST_OBJECTS);
        for number in 0..MOST_DELETED + 10 {
            rows.delete(table(&format!("b-{number}"), "300", 1));
        }
        assert_eq!(rows.rows.len(), MOST_OBJECTS - 10);
        assert_eq!(rows.latest, 300);

        rows.retain(Some("other"), &HashSet::new());
        assert_eq!(rows.rows.len(), MOST_OBJECTS - 10);
        rows.retain(Some("shop"), &HashSet::from([key("a")]));
        assert_eq!(rows.rows.len(), 1);
    }

    #[test]
    fn other_columns_replace_those_before() {
        let mut rows = Rows::default();
        rows.add(table("a", "7", 1));
        let mut other = table("b", "8", 5);
        if let Some(definitions) = &mut other.column_definitions {
            definitions[1].name = "Weight".to_owned();
        }
        rows.add(other);

        assert_eq!(rows.head(false), ["WEIGHT", "CHECKED"]);
        assert_eq!(rows.essentials(&key("a"), None), None);
    }
}
