//! Entries that are added to a tree together, whose keys ascend.

use crate::error::{Error, Kind, Result};
use lode_index::IndexError;
use lode_layout::KEY_LEN_MAX;
use std::ops::Range;

/// Number of entries from which on a batch is full.
const BATCH: usize = 1024;
/// Bytes of keys and values from which on a batch is full.
const BATCH_LEN: usize = 256 << 10;

/// Encoded entries, whose keys ascend and come after all keys of their tree.
#[derive(Debug)]
pub(crate) struct SortedBatch {
    /// Keys and values, one after the other.
    bytes: Vec<u8>,
    /// The places of the key and of the value of each entry.
    entries: Vec<(Range<usize>, Range<usize>)>,
    /// The key before the first one.
    last: Option<Vec<u8>>,
}

impl SortedBatch {
    /// An empty batch, whose keys come after `last`.
    pub(crate) fn after(last: Option<Vec<u8>>) -> SortedBatch {
        SortedBatch { bytes: Vec::new(), entries: Vec::new(), last }
    }

    /// Adds an entry, whose key `encode_key` appends. An entry that is refused leaves the batch as it was.
    pub(crate) fn push(&mut self, encode_key: impl FnOnce(&mut Vec<u8>), value: &[u8]) -> Result<()> {
        let begin = self.bytes.len();
        encode_key(&mut self.bytes);
        let end = self.bytes.len();
        let (before, key) = self.bytes.split_at(begin);
        let last = match self.entries.last() {
            Some((key, _)) => Some(&before[key.clone()]),
            None => self.last.as_deref(),
        };
        let refused = if last.is_some_and(|last| last >= key) {
            Error::new(Kind::NotAscending)
        } else if key.len() > KEY_LEN_MAX {
            // The engine would refuse the whole batch.
            IndexError::KeyTooLong { len: key.len() }.into()
        } else {
            self.bytes.extend_from_slice(value);
            self.entries.push((begin..end, end..self.bytes.len()));
            return Ok(());
        };
        self.bytes.truncate(begin);
        Err(refused)
    }

    /// Returns true if the batch should be added to its tree.
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= BATCH || self.bytes.len() >= BATCH_LEN
    }

    /// Returns the entries.
    pub(crate) fn pairs(&self) -> Vec<(&[u8], &[u8])> {
        let pair = |(key, value): &(Range<usize>, Range<usize>)| {
            (&self.bytes[key.clone()], &self.bytes[value.clone()])
        };
        self.entries.iter().map(pair).collect()
    }

    /// Removes the entries, which the tree has now.
    pub(crate) fn clear(&mut self) {
        if let Some((key, _)) = self.entries.last() {
            self.last = Some(self.bytes[key.clone()].to_vec());
        }
        self.entries.clear();
        self.bytes.clear();
    }
}

#[cfg(test)]
mod test {
    use crate::{Durability, Error, Result, Store, TreeDef, WriteTree};

    const NUMBERS: TreeDef<u64, u8> = TreeDef::new("numbers");
    const COUNT: u64 = 10_000;

    /// Returns the changes that a transaction makes, a key, as the log counts them.
    fn changes_per_key(add: impl Fn(&WriteTree<'_, u64, u8>) -> Result<()>) -> Result<u64> {
        let folder = tempfile::tempdir().map_err(Error::other)?;
        let store = Store::options().durability(Durability::None).open(folder.path().join("store"))?;
        store.write(|tx| {
            let tree = tx.tree(NUMBERS)?;
            let before = tree.changes();
            add(&tree)?;
            Ok((tree.changes() - before) / COUNT)
        })
    }

    /// A node that is built in order is stored once. One that grows with each put is stored again and again.
    #[test]
    fn appended_entries_store_each_node_once() -> Result<()> {
        let put = changes_per_key(|tree| (0..COUNT).try_for_each(|key| tree.put(key, 1).map(drop)))?;
        let appended = changes_per_key(|tree| tree.append((0..COUNT).map(|key| (key, 1))).map(drop))?;
        assert!(appended <= 2 && put >= 4, "changes a key: {appended} appended, {put} put");
        Ok(())
    }
}
