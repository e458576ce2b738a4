//! Loading a tree with the sorted entries of another, in as many transactions as they need.

use crate::error::IndexError;
use crate::range::Entry;
use crate::tree::Tree;
use lode_pmem::Medium;

/// Maximum number of entries of a transaction.
const BATCH_KEYS: usize = 1 << 16;
/// Bytes of keys and values from which on a transaction takes no more.
const BATCH_LEN: usize = 1 << 20;

impl<M: Medium> Tree<'_, M> {
    /// Gives each key its value, as [`insert_sorted_in`](Tree::insert_sorted_in) does. Calls `before` with the number of
    /// entries of each transaction before it begins. Returns the number of entries.
    ///
    /// # Errors
    /// As [`insert_sorted_in`](Tree::insert_sorted_in), and those of the entries and of `before`. The transactions before
    /// the error stay.
    ///
    /// # Durability
    /// Each transaction is durable before the next one begins.
    ///
    /// # Cost
    /// A transaction for every 65,536 entries or 1 MiB.
    pub fn load_sorted<E: From<IndexError>>(
        &self,
        entries: impl IntoIterator<Item = Result<Entry, E>>,
        mut before: impl FnMut(usize) -> Result<(), E>,
    ) -> Result<u64, E> {
        let (mut entries, mut count) = (entries.into_iter(), 0);
        loop {
            let (mut batch, mut len): (Vec<Entry>, usize) = (Vec::new(), 0);
            while batch.len() < BATCH_KEYS
                && len < BATCH_LEN
                && let Some(entry) = entries.next()
            {
                let entry = entry?;
                len += entry.key.len() + entry.value.len();
                batch.push(entry);
            }
            before(batch.len())?;
            if batch.is_empty() {
                return Ok(count);
            }
            let pairs: Vec<(&[u8], &[u8])> =
                batch.iter().map(|entry| (entry.key.as_slice(), entry.value.as_bytes())).collect();
            self.heap().run(|tx| self.insert_sorted_in(tx, &pairs))?;
            count += batch.len() as u64;
        }
    }
}
