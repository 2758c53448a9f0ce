//! Computes the index values of objects. Runs user code, so never call it under a lock.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A named index function, which passes each value of an object to a callback.
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
            values: Box::new(move |object, emit| {
                for value in values(object) {
                    emit(value.as_ref());
                }
            }),
        }
    }

    /// Calls the index function. Its panics propagate.
    pub(super) fn values(&self, object: &V, emit: &mut dyn FnMut(&str)) {
        (self.values)(object, emit);
    }
}

/// The place of the index values of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IndexRow {
    /// Not computed, because they are not expected to be needed.
    Missing,
    /// In this row.
    At(usize),
    /// The index function of this column panicked.
    Panicked(usize),
}

/// Index values of many objects for one set of indexes: a row per object, a column per index, any number of values in a
/// cell. All text is in one buffer: most values exist already, so an allocation for each would be wasted.
pub(super) struct IndexValues<V> {
    defs: Vec<Arc<IndexDef<V>>>,
    text: String,
    /// End of each value in `text`.
    values: Vec<usize>,
    /// End of each cell in `values`, row after row.
    cells: Vec<usize>,
}

impl<V> IndexValues<V> {
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
    pub(super) fn add(&mut self, object: &V) -> IndexRow {
        let Self {
            defs,
            text,
            values,
            cells,
        } = self;
        let before = (text.len(), values.len(), cells.len());
        for (column, def) in defs.iter().enumerate() {
            // The buffers are truncated after a panic, so no partial row remains.
            let result = catch_unwind(AssertUnwindSafe(|| {
                def.values(object, &mut |value| {
                    text.push_str(value);
                    values.push(text.len());
                });
            }));
            if result.is_err() {
                text.truncate(before.0);
                values.truncate(before.1);
                cells.truncate(before.2);
                return IndexRow::Panicked(column);
            }
            cells.push(values.len());
        }
        IndexRow::At(before.2 / defs.len().max(1))
    }

    /// Removes all values.
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.values.clear();
        self.cells.clear();
    }

    /// The values of one cell, in the order of the index function.
    pub(super) fn get(&self, row: usize, column: usize) -> impl Iterator<Item = &str> {
        let cell = row * self.columns() + column;
        let range = range(&self.cells, cell);
        range.map(|value| &self.text[self::range(&self.values, value)])
    }
}

/// From the end of the previous item to the end of this one.
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
                assert_ne!(text, "bad", "on purpose");
                (text.len() > 1).then(|| text.clone())
            })),
        ]
    }

    #[test]
    fn a_row_holds_the_values_of_each_index() {
        let mut values = IndexValues::new(defs());

        let ab = values.add(&"ab".to_owned());
        let c = values.add(&"c".to_owned());

        assert_eq!((ab, c), (IndexRow::At(0), IndexRow::At(1)));
        assert_eq!(values.get(0, 0).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(values.get(0, 1).collect::<Vec<_>>(), ["ab"]);
        assert_eq!(values.get(1, 0).collect::<Vec<_>>(), ["c"]);
        assert_eq!(values.get(1, 1).count(), 0);
    }

    #[test]
    fn a_panic_does_not_affect_other_rows() {
        let mut values = IndexValues::new(defs());

        assert_eq!(values.add(&"bad".to_owned()), IndexRow::Panicked(1));
        assert_eq!(values.name(1), "long");
        assert_eq!(values.add(&"xy".to_owned()), IndexRow::At(0));

        assert_eq!(values.get(0, 0).collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(values.get(0, 1).collect::<Vec<_>>(), ["xy"]);
    }

    #[test]
    fn without_indexes_every_row_is_empty() {
        let mut values = IndexValues::<String>::new(Vec::new());

        assert!(matches!(values.add(&"a".to_owned()), IndexRow::At(_)));
        assert_eq!(values.columns(), 0);
    }
}
