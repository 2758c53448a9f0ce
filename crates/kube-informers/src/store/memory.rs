//! How much memory a store occupies, without its objects.

use super::read::Store;
use super::table::Table;
use crate::key::ObjectKey;

/// The allocation of an `Arc` besides its content.
const ARC: usize = 16;
/// The control byte of a slot in a hash table.
const CONTROL: usize = 1;

impl<V> Store<V, ObjectKey> {
    /// The memory of keys and slots, and of indexes. Reads every key and index value once.
    pub(crate) fn table_bytes(&self) -> (usize, usize) {
        let table = self.table();
        let indexes = table.indexes().iter().map(|index| index.postings.bytes());
        (key_bytes(&table), indexes.sum())
    }
}

fn key_bytes<V>(table: &Table<V, ObjectKey>) -> usize {
    let texts = table.iter().map(|(_, entry, _)| ARC + entry.key.as_str().len());
    texts.sum::<usize>() + table.fixed_bytes()
}

impl<V, Q> Table<V, Q> {
    /// The memory of the arrays.
    fn fixed_bytes(&self) -> usize {
        let (entries, map, slots) = self.capacities();
        entries * size_of::<Option<super::table::SlotEntry<Q>>>()
            + map * (size_of::<u32>() + CONTROL)
            + slots * size_of::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreWriter;
    use crate::store::table::SlotEntry;

    #[test]
    fn the_memory_of_keys_is_that_of_their_texts_and_of_the_arrays_with_their_room() {
        let mut writer = StoreWriter::with_key(|name: &String| ObjectKey::cluster(name));
        for number in 0..1024 {
            writer.insert(format!("{number:04}")).unwrap();
        }

        let (keys, indexes) = writer.store().table_bytes();

        // Arrays double when they are full; of a hash table with 2,048 places, seven eighths can be used.
        let (entries, map, slots) = (1024, 1792, 1024);
        assert_eq!(writer.store().table().capacities(), (entries, map, slots));
        let arrays = entries * size_of::<Option<SlotEntry<ObjectKey>>>() + map * (4 + 1) + slots * 8;
        assert_eq!(keys, 1024 * ("0000".len() + 16) + arrays);
        assert_eq!(indexes, 0);
    }
}
