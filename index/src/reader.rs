//! Lookups without locks.

use crate::checked::Value;
use crate::descend::candidate;
use crate::error::IndexError;
use crate::leaf;
use crate::lookup::Lookup;
use lode_heap::{Heap, Pin};
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{Fault, Medium, Memory};

/// A pinned reader: for lookups and scans that take no lock.
#[derive(Debug)]
pub struct Reader<'h, M: Medium> {
    heap: &'h Heap<M>,
    root: PoolOffset,
    _pin: Pin<'h>,
}

/// The value that a key had when it was looked up by [`get_unchecked`](Reader::get_unchecked). It stays that for as
/// long as the reader lives. No checksum was verified.
#[derive(Clone, Copy, Debug)]
pub struct UncheckedValue<'r> {
    memory: &'r Memory,
    at: PoolOffset,
    len: u64,
    /// The whole of a value of up to 8 bytes: on the medium it may change.
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

    /// Returns the value of `key`: the right one, which its checksum proves, or an error.
    ///
    /// `None` means that the tree leads to no such key. A lookup does not prove that it should not: where damage
    /// emptied a slot, the keys behind it look absent. [`Store::get_proven`](crate::kv::Store::get_proven) proves
    /// absence, and [`Tree::check`](crate::Tree::check) finds every damage.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`]: a leaf that has the key, or would have it, has a wrong checksum, or is not allocated.
    /// [`IndexError::Fault`]. [`IndexError::Heap`] when a checkpoint failed that would have told damage from a writer
    /// at work.
    ///
    /// # Cost
    /// Two cache lines a node, one where the node has 256 slots, and those of the leaf, which is copied; then the
    /// checksum, and three lines by which the heap tells what is allocated. Leaves of more than 128 bytes and values of
    /// more than 24 are copied to allocated memory. No store; a checkpoint, perhaps, where a wrong checksum and a
    /// lock that is held meet.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Result<Option<Value>, IndexError> {
        Lookup { heap: self.heap, view: self.memory(), tx: None }.get(self.root, key)
    }

    /// Returns the value of `key` as it lies in memory.
    ///
    /// It does not prove that the value is the one that was stored: neither checksum nor allocation are looked at, so
    /// a damaged bit of the value is returned with it, and one of the key makes it look absent.
    /// [`get`](Reader::get) does.
    ///
    /// # Errors
    /// [`IndexError::Corrupt`], [`IndexError::Fault`].
    ///
    /// # Cost
    /// Two cache lines a node, one where the node has 256 slots, and those of the leaf. No store.
    #[inline]
    pub fn get_unchecked(&self, key: &[u8]) -> Result<Option<UncheckedValue<'_>>, IndexError> {
        let memory = self.heap.memory();
        let found = match candidate(memory, self.root, key) {
            Ok(Some(leaf)) if leaf::is_of(memory, leaf, key) => UncheckedValue::of(memory, leaf).map(Some),
            Ok(_) => Ok(None),
            Err(error) => Err(error),
        };
        Fault::take().map_or(found, |fault| Err(fault.into()))
    }
}

impl<'r> UncheckedValue<'r> {
    /// The value of the leaf at `leaf`.
    #[inline]
    fn of(memory: &'r Memory, leaf: PoolOffset) -> Result<UncheckedValue<'r>, IndexError> {
        let (at, len) = leaf::value_range(memory, leaf, memory.len())?;
        // ORDER: one load, so that all bytes are of one value; see `leaf::change`.
        let small = if len <= WORD { memory.load8(at).to_le_bytes() } else { [0; WORD as usize] };
        Ok(UncheckedValue { memory, at, len, small })
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All of it, if it has no more than 8 bytes.
    #[inline]
    pub fn as_small(&self) -> Option<&[u8]> {
        self.small.get(..usize::try_from(self.len).ok()?)
    }

    /// Copies the bytes from number `from` on to `into`, as many as there are; returns how many.
    ///
    /// # Errors
    /// [`IndexError::Fault`].
    #[inline]
    pub fn read(&self, from: u64, into: &mut [u8]) -> Result<usize, IndexError> {
        let rest = self.len.saturating_sub(from);
        let len = usize::try_from(rest).unwrap_or(usize::MAX).min(into.len());
        match self.as_small() {
            Some(small) => into[..len].copy_from_slice(&small[small.len() - rest as usize..][..len]),
            None => self.memory.read(self.at.plus(from), &mut into[..len]),
        }
        Fault::take().map_or(Ok(len), |fault| Err(fault.into()))
    }

    /// A copy.
    ///
    /// # Errors
    /// [`IndexError::Fault`].
    pub fn to_vec(&self) -> Result<Vec<u8>, IndexError> {
        let mut bytes = vec![0; self.len as usize];
        self.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// Whether it is `bytes`.
    ///
    /// # Errors
    /// [`IndexError::Fault`].
    #[inline]
    pub fn equals(&self, bytes: &[u8]) -> Result<bool, IndexError> {
        let equal = match self.as_small() {
            Some(small) => small == bytes,
            None => self.len == bytes.len() as u64 && self.memory.equals(self.at, bytes),
        };
        Fault::take().map_or(Ok(equal), |fault| Err(fault.into()))
    }
}
