//! The slots of a hash map, as bytes.
//!
//! An entry lies in the first free slot from its *home* on, which its hash says; after the last slot comes the first. No slot between
//! an entry and its home is free: a removal moves later entries up. So a search ends at the key or at a free slot.

use crate::error::HeapError;
use crate::read_set::Reread;
use crate::tx::Tx;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Number of slots of the first table.
const ROOM_MIN: u64 = 8;

/// The form of the slots: a word with the hash, which is 0 in a free slot, then the key, then the value, filled up to whole words.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotForm {
    /// Bytes of a key.
    pub(super) key: u64,
    /// Bytes of a value.
    pub(super) value: u64,
    /// Type number of the buffer.
    pub(super) buffer: u64,
}

impl SlotForm {
    /// Bytes of a slot.
    pub(super) const fn size(self) -> u64 {
        WORD + (self.key + self.value).next_multiple_of(WORD)
    }

    /// Returns the form of slots with keys and values of these sizes; `None` if one would be longer than `max` bytes.
    pub(super) fn bounded(key: u64, value: u64, buffer: u64, max: u64) -> Option<SlotForm> {
        let entry = key.checked_add(value)?.checked_add(2 * WORD)?;
        (entry <= max).then_some(SlotForm { key, value, buffer })
    }

    /// Place of the key in a slot.
    pub(super) const fn key(self) -> Range<usize> {
        let start = WORD as usize;
        start..start + self.key as usize
    }

    /// Place of the value in a slot.
    pub(super) const fn value(self) -> Range<usize> {
        let start = (WORD + self.key) as usize;
        start..start + self.value as usize
    }
}

/// Returns the hash in a slot.
pub(super) fn hash_in(slot: &[u8]) -> u64 {
    slot.first_chunk().map_or(0, |hash| u64::from_le_bytes(*hash))
}

/// The words of a hash map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) buffer: PoolOffset,
    /// Number of slots, a power of two; 0 without a buffer.
    pub(super) room: u64,
    /// Number of entries.
    pub(super) len: u64,
    /// The seed of the hashes.
    pub(super) seed: u64,
}

impl Table {
    /// Returns the table that `load` finds in the words with these indexes.
    #[inline]
    pub(super) fn read(load: impl Fn(u64) -> u64) -> Table {
        let [buffer, room, len, seed] = [0, 1, 2, 3].map(load);
        // A map that was freed with its owner keeps its length, and has no buffer.
        if buffer == 0 {
            return Table::default();
        }
        Table { buffer: PoolOffset::new(buffer), room, len, seed }
    }

    /// Returns the words.
    pub(super) fn words(self) -> [u64; 4] {
        [self.buffer.get(), self.room, self.len, self.seed]
    }

    /// Returns an error if the slots can't lie in a pool of `pool_len` bytes.
    #[inline]
    pub(super) fn check(self, form: SlotForm, pool_len: u64) -> Result<Table, HeapError> {
        let bytes = self.room.checked_mul(form.size());
        let end = bytes.and_then(|bytes| self.buffer.get().checked_add(bytes));
        let fits = end.is_some_and(|end| end <= pool_len);
        let is_sound =
            self.buffer.is_null() || (self.room.is_power_of_two() && self.len <= self.room / 4 * 3);
        if fits && is_sound { Ok(self) } else { Err(self.damage()) }
    }

    /// Returns an error unless the buffer is one of such slots, and holds them, as the transaction sees it.
    #[inline]
    pub(super) fn check_buffer<M: Medium>(self, tx: &Tx<'_, M>, form: SlotForm) -> Result<Table, HeapError> {
        if self.buffer.is_null() {
            return Ok(self);
        }
        let (size, number) = tx.object(self.buffer)?;
        let fits =
            number == form.buffer && self.room.checked_mul(form.size()).is_some_and(|slots| slots <= size);
        if fits { Ok(self) } else { Err(self.damage()) }
    }

    pub(super) fn damage(self) -> HeapError {
        HeapError::Corrupt { what: "the hash map whose buffer", at: self.buffer }
    }

    /// Returns the hash of a key, which is not 0.
    #[inline]
    pub(super) fn hash(self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.seed) | 1
    }

    /// Returns the slots in which an entry with this hash may lie, its home first. The table has a buffer.
    #[inline]
    pub(super) fn slots(self, hash: u64) -> impl Iterator<Item = u64> {
        let (home, mask) = (self.home(hash), self.room - 1);
        (0..self.room).map(move |distance| (home + distance) & mask)
    }

    #[inline]
    fn home(self, hash: u64) -> u64 {
        // The lowest bit is the same in all.
        (hash >> 1) & (self.room - 1)
    }

    /// Returns the offset of a slot.
    #[inline]
    pub(super) fn slot(self, form: SlotForm, index: u64) -> PoolOffset {
        self.buffer.plus(index.wrapping_mul(form.size()))
    }

    /// Returns true if the table has no room for another entry.
    pub(super) fn is_full(self) -> bool {
        // Of four slots one is free, so that searches are short.
        (self.len + 1) * 4 > self.room * 3
    }

    /// Returns the number of slots of the next larger table.
    pub(super) fn next_room(self) -> u64 {
        self.room.saturating_mul(2).max(ROOM_MIN)
    }

    /// Puts the entries of `slots` into the slots of this table, which are free.
    pub(super) fn fill(self, form: SlotForm, slots: &[u8], into: &mut [u8]) -> Result<(), HeapError> {
        let size = form.size() as usize;
        for slot in slots.chunks_exact(size).filter(|slot| hash_in(slot) != 0) {
            let hash = self.hash(&slot[form.key()]);
            let is_free = |index: &u64| hash_in(&into[*index as usize * size..]) == 0;
            let free = self.slots(hash).find(is_free).ok_or_else(|| self.damage())?;
            let place = &mut into[free as usize * size..][..size];
            place.copy_from_slice(slot);
            place[..WORD as usize].copy_from_slice(&hash.to_le_bytes());
        }
        Ok(())
    }

    /// Returns true if a search for the key in a slot ends there, in a table with these bytes.
    pub(super) fn is_found(self, form: SlotForm, bytes: &[u8], index: u64) -> bool {
        let slot = |index: u64| &bytes[(index * form.size()) as usize..][..form.size() as usize];
        let key = &slot(index)[form.key()];
        let hash = self.hash(key);
        let ends = |at: &u64| {
            let found = hash_in(slot(*at));
            found == 0 || (found == hash && &slot(*at)[form.key()] == key)
        };
        self.slots(hash).find(ends) == Some(index)
    }

    /// Frees the slot with this index: moves later entries up so that none has a free slot before it. `hash_at` returns the hash in
    /// a slot, `copy` copies one slot to another. Returns the slot that is free in the end.
    pub(super) fn close_gap(
        self,
        index: u64,
        hash_at: impl Fn(u64) -> u64,
        mut copy: impl FnMut(u64, u64),
    ) -> u64 {
        let mask = self.room - 1;
        let (mut gap, mut next) = (index, (index + 1) & mask);
        while next != index {
            let hash = hash_at(next);
            if hash == 0 {
                break;
            }
            let (from_home, from_gap) = (next.wrapping_sub(self.home(hash)), next.wrapping_sub(gap));
            if from_home & mask >= from_gap & mask {
                copy(next, gap);
                gap = next;
            }
            next = (next + 1) & mask;
        }
        gap
    }
}

/// Returns the table of the map at an offset.
pub(super) fn table_at(reread: &Reread<'_>, at: u64) -> Table {
    Table::read(|word| reread.load8(PoolOffset::new(at).plus(word * WORD)))
}

/// Returns the words of a map but for its length.
pub(super) fn table_bytes(reread: &Reread<'_>, [at, ..]: [u64; 3]) -> Vec<u8> {
    let table = Table { len: 0, ..table_at(reread, at) };
    table.words().iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// Returns the length of a map.
pub(super) fn len_bytes(reread: &Reread<'_>, [at, ..]: [u64; 3]) -> Vec<u8> {
    table_at(reread, at).len.to_le_bytes().to_vec()
}

/// Returns the offset of the buffer, and the bytes of a slot of `size` bytes after it, if there is one.
pub(super) fn slot_bytes(reread: &Reread<'_>, [at, size, index]: [u64; 3]) -> Vec<u8> {
    let table = table_at(reread, at);
    let mut bytes = table.buffer.get().to_le_bytes().to_vec();
    if index < table.room {
        bytes.extend(reread.bytes(table.buffer.plus(index.wrapping_mul(size)), size));
    }
    bytes
}

/// Returns the words of a map, and the bytes of all slots of `size` bytes after them; no slots if so many can't be there.
pub(super) fn all_bytes(reread: &Reread<'_>, [at, size, _]: [u64; 3]) -> Vec<u8> {
    let table = table_at(reread, at);
    let mut bytes: Vec<u8> = table.words().iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.extend(reread.bytes(table.buffer, table.room.saturating_mul(size)));
    bytes
}
