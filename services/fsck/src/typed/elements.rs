//! Removal of lost elements from vectors of boxes, whose elements are never null.

use lode_heap::HeapError;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{FaultScope, Medium};
use std::collections::BTreeSet;

/// Removes the elements with these indexes, at least one, from the vector at `vector`. Those after them move up. Returns the number of
/// words that were stored.
///
/// # Errors
/// [`HeapError::InDoubt`], [`HeapError::Fault`].
///
/// # Durability
/// Durable on return. If it is killed before, or the power fails, an element that moved up may lie in the vector twice: the next repair
/// removes it where it was.
///
/// # Cost
/// A drain for each line of the buffer from the first lost element on.
pub(super) fn remove_elements<M: Medium>(
    medium: &M,
    vector: PoolOffset,
    indexes: &BTreeSet<u64>,
) -> Result<u64, HeapError> {
    let length_at = vector.plus(WORD);
    let (buffer, len) = FaultScope::run(|| {
        let words = |memory: &lode_pmem::Readable| (memory.load8(vector), memory.load8(length_at));
        medium.memory().reading(words)
    })??;
    let word_at = |index: u64| PoolOffset::new(buffer).plus(index * WORD);
    let first = indexes.first().copied().unwrap_or(len);
    let kept = (first..len).filter(|index| !indexes.contains(index));
    let mut end = first;
    FaultScope::run(|| {
        for index in kept {
            let (word, to) = (medium.memory().reading(|memory| memory.load8(word_at(index)))?, word_at(end));
            if end > first && to.line() != word_at(end - 1).line() {
                // ORDER: what the words of this line held lies in lines before it, durably, or in the same line, before they are
                // overwritten. Stop here: every element that stays is in the vector.
                medium.drain()?;
            }
            medium.store8(to, word);
            medium.flush(to, WORD);
            end += 1;
        }
        Ok::<_, HeapError>(())
    })??;
    // ORDER: every element that stays lies below the new length, durably, before the length is durable. Stop here: some lie there twice.
    medium.drain()?;
    FaultScope::run(|| {
        medium.store8(length_at, end);
        medium.flush(length_at, WORD);
    })?;
    // ORDER: the length is durable before the objects beyond it are freed.
    medium.drain()?;
    Ok(end - first + 1)
}
