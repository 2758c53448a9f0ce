//! How much memory a store occupies, without its objects.

use super::read::Store;
use super::table::Table;
use crate::key::ObjectKey;

/// The allocation of an `Arc` besides its content.
const ARC: usize = 16;

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
    texts.sum::<usize>() + table.objects().bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreWriter;
    use crate::store::keyed_objects::SlotEntry;

    #[test]
    fn the_memory_of_keys_is_that_of_their_texts_and_of_the_arrays_with_their_room() {
        let mut writer = StoreWriter::with_key(|name: &String| ObjectKey::cluster(name));
        for number in 0..1024 {
            writer.insert(format!("{number:04}")).unwrap();
        }

        let (keys, indexes) = writer.store().table_bytes();

        let texts = 1024 * ("0000".len() + 16);
        // 16 leaves of 64 slots each, with a pointer to each leaf.
        let slots = 1024 * (size_of::<Option<SlotEntry<ObjectKey>>>() + 8) + 16 * 2 * 8;
        let map = keys - texts - slots;
        // A number and a control byte per key, with room for at most three times as many, and 16 headers.
        assert!((1024 * 5..1024 * 15 + 16 * 64).contains(&map), "{map}");
        assert_eq!(indexes, 0);
    }
}
