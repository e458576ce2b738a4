//! Lookups without locks.

use crate::descend::candidate_leaf;
use crate::error::IndexError;
use crate::leaf;
use crate::lookup::Lookup;
use crate::verified::Value;
use lode_heap::{Heap, Pin};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{Medium, Memory, Readable};

/// A pinned reader: for lookups and scans that take no lock.
#[derive(Debug)]
pub struct Reader<'h, M: Medium> {
    heap: &'h Heap<M>,
    root: PoolOffset,
    _pin: Pin<'h>,
}

/// The value of a key as [`get_unchecked`](Reader::get_unchecked) found it. It stays the same as long as the reader
/// lives. No checksum was verified.
#[derive(Clone, Copy, Debug)]
pub struct UncheckedValue<'r> {
    memory: &'r Memory,
    at: PoolOffset,
    len: u64,
    /// Copy of a value of up to 8 bytes, which may change on the medium.
    small: [u8; WORD as usize],
}

impl<'h, M: Medium> Reader<'h, M> {
    #[inline]
    pub(crate) fn new(heap: &'h Heap<M>, root: PoolOffset) -> Reader<'h, M> {
        Reader { heap, root, _pin: heap.pin() }
    }

    pub(crate) fn root(&self) -> PoolOffset {
        self.root
    }

    pub(crate) fn heap(&self) -> &'h Heap<M> {
        self.heap
    }

    pub(crate) fn memory(&self) -> &'h Memory {
        self.heap.memory()
    }

    /// Returns the value of `key`, which its checksum proves right, or an error.
    ///
    /// `None` means that the tree leads to no such key. It does not prove that the key is absent: if damage emptied a
    /// slot, the keys below that slot look absent. [`Tree::check`](crate::Tree::check) finds
    /// every damage, so a check without findings proves absence.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`] when a leaf that has the key, or would have it, has a wrong checksum or is not
    /// allocated. [`IndexError::Fault`]. [`IndexError::Heap`] when a checkpoint failed that was needed to tell damage
    /// from a writer at work.
    ///
    /// # Cost
    /// Two cache lines a node, or one if the node has 256 slots. Then the lines of the leaf, which is copied and
    /// verified, and three lines that tell what is allocated. Leaves of more than 128 bytes and values of more than
    /// 24 are copied to allocated memory. No store. A wrong checksum while the lock is held may cost a checkpoint.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, IndexError> {
        self.memory().try_reading(|memory| {
            Lookup { heap: self.heap, view: memory, memory, tx: None }.get(self.root, key)
        })
    }

    /// Returns the value of `key` as it lies in memory, unverified.
    ///
    /// Verifies neither checksum nor allocation. A damaged bit of the value is returned with it, and a damaged
    /// bit of the key makes the key look absent. [`get`](Reader::get) verifies both.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`].
    ///
    /// # Cost
    /// Two cache lines a node, or one if the node has 256 slots, and those of the leaf. No store.
    #[inline]
    pub fn get_unchecked(&self, key: &[u8]) -> Result<Option<UncheckedValue<'_>>, IndexError> {
        let all = self.memory();
        all.try_reading(|memory| match candidate_leaf(memory, self.root, key) {
            Ok(Some(leaf)) if leaf::has_key(memory, leaf, key) => {
                UncheckedValue::of(all, memory, leaf).map(Some)
            }
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        })
    }
}

impl<'r> UncheckedValue<'r> {
    /// Returns the value of the leaf at `leaf`, without a copy unless it is small.
    #[inline]
    fn of(all: &'r Memory, memory: &Readable, leaf: PoolOffset) -> Result<UncheckedValue<'r>, IndexError> {
        let (at, len) = leaf::value_range(memory, leaf, memory.len())?;
        // ORDER: one load, so that all bytes are of one value; see `leaf::change_in_place`.
        let small = if len <= WORD { memory.load8(at).to_le_bytes() } else { [0; WORD as usize] };
        Ok(UncheckedValue { memory: all, at, len, small })
    }

    /// Returns the length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the value has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the whole value if it has at most 8 bytes.
    #[inline]
    pub fn as_small(&self) -> Option<&[u8]> {
        self.small.get(..usize::try_from(self.len).ok()?)
    }

    /// Copies the bytes from number `from` on to `into`, as many as there are, and returns their number.
    ///
    /// # Errors
    /// [`IndexError::Fault`].
    #[inline]
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<usize, IndexError> {
        let rest = self.len.saturating_sub(from);
        let len = usize::try_from(rest).unwrap_or(usize::MAX).min(into.len());
        match self.as_small() {
            Some(small) => into[..len].copy_from_slice(&small[small.len() - rest as usize..][..len]),
            None => self.memory.reading(|memory| memory.read(self.at.plus(from), &mut into[..len]))?,
        }
        Ok(len)
    }

    /// Returns a copy of the value.
    ///
    /// # Errors
    /// [`IndexError::Fault`].
    pub fn to_vec(&self) -> Result<Vec<u8>, IndexError> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Returns true if the value equals `bytes`.
    ///
    /// # Errors
    /// [`IndexError::Fault`].
    #[inline]
    pub fn equals(&self, bytes: &[u8]) -> Result<bool, IndexError> {
        match self.as_small() {
            Some(small) => Ok(small == bytes),
            None if self.len != bytes.len() as u64 => Ok(false),
            None => Ok(self.memory.reading(|memory| memory.equals(self.at, bytes))?),
        }
    }
}
