//! Index functions at work: objects in, index values out. Runs user code, so never under a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A named index function: tells each value of an object to the second argument.
pub(super) struct IndexDef<V> {
    pub(super) name: Arc<str>,
    values: Box<ValuesOf<V>>,
}

type ValuesOf<V> = dyn Fn(&V, &mut dyn FnMut(&str)) + Send + Sync;

impl<V> IndexDef<V> {
    pub(super) fn new<I>(name: &str, values: impl Fn(&V) -> I + Send + Sync + 'static) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        Self {
            name: name.into(),
            values: Box::new(move |object, tell| {
                for value in values(object) {
                    tell(value.as_ref());
                }
            }),
        }
    }

    /// Calls the index function; a panic of it goes to the caller.
    pub(super) fn values(&self, object: &V, tell: &mut dyn FnMut(&str)) {
        (self.values)(object, tell);
    }
}

/// Where the index values of an object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Not computed, because nobody expected to need them.
    Missing,
    /// In this row.
    At(usize),
    /// The index function of this column panicked.
    Panicked(usize),
}

/// Index values of many objects for one set of indexes: a row per object, a column per index, any number of
/// values in a cell. All text lies in one buffer, because most values are seen again and again and need no
/// allocation of their own.
pub(super) struct Rows<V> {
    defs: Vec<Arc<IndexDef<V>>>,
    text: String,
    /// End of each value in `text`.
    values: Vec<usize>,
    /// End of each cell in `values`, row after row.
    cells: Vec<usize>,
}

impl<V> Rows<V> {
    pub(super) fn new(defs: Vec<Arc<IndexDef<V>>>) -> Self {
        Self {
            defs,
            text: String::new(),
            values: Vec::new(),
            cells: Vec::new(),
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.defs.len()
    }

    /// The name of the index in a column.
    pub(super) fn name(&self, column: usize) -> &str {
        self.defs.get(column).map_or("", |def| &def.name)
    }

    /// Runs every index function on an object.
    pub(super) fn add(&mut self, object: &V) -> Row {
        let Self {
            defs,
            text,
            values,
            cells,
        } = self;
        let before = (text.len(), values.len(), cells.len());
        for (column, def) in defs.iter().enumerate() {
            // The buffers are cut back after a panic, so nothing half-written is ever seen.
            let told = catch_unwind(AssertUnwindSafe(|| {
                def.values(object, &mut |value| {
                    text.push_str(value);
                    values.push(text.len());
                });
            }));
            if told.is_err() {
                text.truncate(before.0);
                values.truncate(before.1);
                cells.truncate(before.2);
                return Row::Panicked(column);
            }
            cells.push(values.len());
        }
        Row::At(before.2 / defs.len().max(1))
    }

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.values.clear();
        self.cells.clear();
    }

    /// The values of one cell, as the index function told them.
    pub(super) fn get(&self, row: usize, column: usize) -> impl Iterator<Item = &str> {
        let cell = row * self.columns() + column;
        let range = range(&self.cells, cell);
        range.map(|value| &self.text[self::range(&self.values, value)])
    }
}

/// From the end of the one before to the end of this one.
fn range(ends: &[usize], at: usize) -> std::ops::Range<usize> {
    let start = if at == 0 { 0 } else { ends[at - 1] };
    start..ends[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn defs() -> Vec<Arc<IndexDef<String>>> {
        vec![
            Arc::new(IndexDef::new("letters", |text: &String| {
                text.chars().map(String::from).collect::<Vec<_>>()
            })),
            Arc::new(IndexDef::new("long", |text: &String| {
                assert_ne!(text, "bad", "as wanted");
                (text.len() > 1).then(|| text.clone())
            })),
        ]
    }

    #[test]
    fn a_row_holds_the_values_of_each_index() {
        let mut rows = Rows::new(defs());

        let ab = rows.add(&"ab".to_owned());
        let c = rows.add(&"c".to_owned());

        assert_eq!((ab, c), (Row::At(0), Row::At(1)));
        assert_eq!(rows.get(0, 0).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(rows.get(0, 1).collect::<Vec<_>>(), ["ab"]);
        assert_eq!(rows.get(1, 0).collect::<Vec<_>>(), ["c"]);
        assert_eq!(rows.get(1, 1).count(), 0);
    }

    #[test]
    fn a_panic_leaves_no_trace_in_other_rows() {
        let mut rows = Rows::new(defs());

        assert_eq!(rows.add(&"bad".to_owned()), Row::Panicked(1));
        assert_eq!(rows.name(1), "long");
        assert_eq!(rows.add(&"xy".to_owned()), Row::At(0));

        assert_eq!(rows.get(0, 0).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(rows.get(0, 1).collect::<Vec<_>>(), ["xy"]);
    }

    #[test]
    fn without_indexes_every_row_is_empty() {
        let mut rows = Rows::<String>::new(Vec::new());

        assert!(matches!(rows.add(&"a".to_owned()), Row::At(_)));
        assert_eq!(rows.columns(), 0);
    }
}
