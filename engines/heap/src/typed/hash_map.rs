//! Hash maps.

use super::brand::Brand;
use super::guard::Guard;
use super::hash_table::{SlotForm, Table, all_bytes, hash_in, len_bytes, slot_bytes, table_bytes};
use super::tx::TypedTx;
use super::type_hash;
use super::value::{CellValue, value_at, with_values};
use crate::bits::{Pair, bits_from, bytes_of};
use crate::error::HeapError;
use crate::persist::{Word, offset_of, place_of};
use crate::tx::Tx;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::{Medium, Readable};
use std::fmt;
use std::marker::PhantomData;
use zerocopy::IntoBytes;

/// A map that finds a value by its key in one or two cache misses, and has no order. Keys and values are any [`CellValue`], read and
/// stored by copy. Keys are equal if their bytes are.
///
/// `PMap` of the crate `lode-index` has keys that are text, and their order.
///
/// An entry takes 8 bytes and those of its key and value, up to a whole word. Of the slots for entries up to three quarters are
/// used; a map that is fuller moves to a table of twice as many. An empty map has 32 bytes.
///
/// A transaction that changes a map has its lock until it is over. A transaction that reads an entry, finds none, or reads the
/// length or all is validated at its commit. Readers outside of transactions take no lock.
#[repr(C)]
pub struct PHashMap<K, V, B> {
    buffer: Word,
    room: Word,
    len: Word,
    seed: Word,
    entry: PhantomData<fn() -> (K, V)>,
    brand: PhantomData<fn() -> B>,
}

impl<K, V, B> PHashMap<K, V, B> {
    /// Makes an empty map. It takes no space of its own.
    pub const fn new() -> PHashMap<K, V, B> {
        let [buffer, room, len, seed] = [Word::new(0), Word::new(0), Word::new(0), Word::new(0)];
        PHashMap { buffer, room, len, seed, entry: PhantomData, brand: PhantomData }
    }

    pub(crate) fn buffer(&self) -> &Word {
        &self.buffer
    }
}

impl<K, V, B> Default for PHashMap<K, V, B> {
    fn default() -> PHashMap<K, V, B> {
        PHashMap::new()
    }
}

/// A key that is searched: where it lies, or its hash and the free slot where the search ended.
enum Search {
    Found(u64),
    Free { hash: u64, index: u64 },
}

impl<K: CellValue, V: CellValue, B: Brand> PHashMap<K, V, B> {
    const FORM: SlotForm = SlotForm {
        key: size_of::<K::Bits>() as u64,
        value: size_of::<V::Bits>() as u64,
        buffer: Self::BUFFER_TYPE,
    };
    pub(crate) const BUFFER_TYPE: u64 =
        with_values::<V>(with_values::<K>(type_hash::of_name("PHashMap buffer")));

    /// Returns the map with the same bytes as keys and values of other types, for the [migration](crate::Migrate) of the object that
    /// has it: an enum that got a variant more is such a type. Bytes that are no value of it are errors where they are read, after
    /// the migration, and such an entry stays until the map is cleared. Keys are equal if their bytes are, also after it.
    pub fn recast<K2: CellValue, V2: CellValue>(self) -> PHashMap<K2, V2, B> {
        const { assert!(size_of::<K::Bits>() == size_of::<K2::Bits>(), "keys of another size") };
        const { assert!(size_of::<V::Bits>() == size_of::<V2::Bits>(), "values of another size") };
        let PHashMap { buffer, room, len, seed, .. } = self;
        PHashMap { buffer, room, len, seed, entry: PhantomData, brand: PhantomData }
    }

    /// Returns the offset of the map.
    fn at<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<PoolOffset, HeapError> {
        place_of(tx.heap().memory(), &self.buffer)
    }

    /// Locks the map, and returns its table as the transaction sees it.
    #[inline]
    fn lock<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<Table, HeapError> {
        let at = self.at(tx)?;
        tx.lock(at)?;
        let words: [u64; 4] = tx.words(at);
        let table = Table::read(|word| words[word as usize]);
        // A store beyond the buffer would reach another object.
        table.check(Self::FORM, tx.heap().memory().len())?.check_buffer(tx, Self::FORM)
    }

    /// Stores the words of the map, which is locked.
    fn store_table<M: Medium>(&self, tx: &Tx<'_, M>, table: Table) {
        tx.store_words(offset_of(tx.heap().memory(), &self.buffer), &table.words());
    }

    fn store_len<M: Medium>(&self, tx: &Tx<'_, M>, len: u64) {
        tx.store8(offset_of(tx.heap().memory(), &self.len), len);
    }

    /// Searches a key in the map, which is locked and has a buffer.
    #[inline]
    fn search<M: Medium>(&self, tx: &Tx<'_, M>, table: Table, key: &[u8]) -> Result<Search, HeapError> {
        let hash = table.hash(key);
        for index in table.slots(hash) {
            let slot = table.slot(Self::FORM, index);
            match tx.load8(slot) {
                0 => return Ok(Search::Free { hash, index }),
                found if found == hash => {
                    let bits: K::Bits = bits_from(|into| tx.read(slot.plus(WORD), into));
                    if bytes_of(&bits) == key {
                        return Ok(Search::Found(index));
                    }
                }
                _ => {}
            }
        }
        Err(table.damage())
    }

    /// Offset of the value in a slot.
    fn value_in(table: Table, index: u64) -> PoolOffset {
        table.slot(Self::FORM, index).plus(WORD + Self::FORM.key)
    }

    /// Returns the number of entries as the transaction sees it. The read is validated.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction is changing the map, or when the number does not go with what the
    /// transaction has read before.
    pub fn len<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<u64, HeapError> {
        let at = self.at(tx.raw())?.get();
        let bytes = tx.raw().read_noted([at, 0, 0], len_bytes, |reread, read| {
            read.is_digest(&len_bytes(reread, read.noted_words()))
        })?;
        Ok(bits_from(|word| word.copy_from_slice(&bytes)))
    }

    /// Returns true if the transaction sees no entries.
    ///
    /// # Errors
    /// As [`len`](PHashMap::len).
    pub fn is_empty<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<bool, HeapError> {
        self.len(tx).map(|len| len == 0)
    }

    /// Returns the value of a key as the transaction sees it, if it has one. The read is validated, also that of a key that is not
    /// there; it does not depend on other keys, unless the table moves.
    ///
    /// # Errors
    /// As [`len`](PHashMap::len); [`HeapError::Corrupt`] when the map is damaged, [`HeapError::InvalidValue`] when the bytes are no
    /// value.
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>, key: K) -> Result<Option<V>, HeapError> {
        let (raw, bits) = (tx.raw(), key.to_bits());
        let key = bytes_of(&bits);
        let at = self.at(raw)?.get();
        let words = raw.read_noted([at, 0, 0], table_bytes, |reread, read| {
            read.is_digest(&table_bytes(reread, read.noted_words()))
        })?;
        let word = |index: u64| bits_from(|word| word.copy_from_slice(&words[index as usize * 8..][..8]));
        let table = Table::read(word).check(Self::FORM, raw.heap().memory().len())?;
        if table.buffer.is_null() {
            return Ok(None);
        }
        let hash = table.hash(key);
        for index in table.slots(hash) {
            let bytes = raw.read_noted([at, Self::FORM.size(), index], slot_bytes, |reread, read| {
                read.is_digest(&slot_bytes(reread, read.noted_words()))
            })?;
            let slot = bytes.get(WORD as usize..).filter(|slot| slot.len() as u64 == Self::FORM.size());
            let slot = slot.ok_or_else(|| table.damage())?;
            match hash_in(slot) {
                0 => return Ok(None),
                found if found == hash && &slot[Self::FORM.key()] == key => {
                    let value = bits_from(|into| into.copy_from_slice(&slot[Self::FORM.value()]));
                    return value_at(|| Self::value_in(table, index), value).map(Some);
                }
                _ => {}
            }
        }
        Err(table.damage())
    }

    /// Returns true if the transaction sees the key.
    ///
    /// # Errors
    /// As [`get`](PHashMap::get).
    pub fn contains_key<M: Medium>(&self, tx: &TypedTx<'_, B, M>, key: K) -> Result<bool, HeapError> {
        self.get(tx, key).map(|value| value.is_some())
    }

    /// Gives a key a value, and returns the one that it had.
    ///
    /// # Errors
    /// [`HeapError::OutOfSpace`], with nothing changed; others as [`get`](PHashMap::get).
    ///
    /// # Cost
    /// The bytes of the entry and 40 more in the record; now and then those of a table twice as large.
    pub fn insert<M: Medium>(
        &self,
        tx: &TypedTx<'_, B, M>,
        key: K,
        value: V,
    ) -> Result<Option<V>, HeapError> {
        let (raw, key, value) = (tx.raw(), key.to_bits(), value.to_bits());
        let mut table = self.lock(raw)?;
        if table.buffer.is_null() {
            table = self.grow(raw, table)?;
        }
        let (mut hash, mut index) = match self.search(raw, table, bytes_of(&key))? {
            Search::Found(index) => {
                let at = Self::value_in(table, index);
                let old = value_at(|| at, bits_from(|into| raw.read(at, into)))?;
                raw.store(at, bytes_of(&value));
                return Ok(Some(old));
            }
            Search::Free { hash, index } => (hash, index),
        };
        if table.is_full() {
            table = self.grow(raw, table)?;
            let Search::Free { hash: new_hash, index: new_index } =
                self.search(raw, table, bytes_of(&key))?
            else {
                return Err(table.damage());
            };
            (hash, index) = (new_hash, new_index);
        }
        let slot = Pair::new(hash, Pair::new(key, value));
        raw.store_padded(table.slot(Self::FORM, index), bytes_of(&slot));
        self.store_len(raw, table.len + 1);
        Ok(None)
    }

    /// Moves the entries to a table of twice as many slots.
    #[cold]
    fn grow<M: Medium>(&self, tx: &Tx<'_, M>, old: Table) -> Result<Table, HeapError> {
        let too_large = || HeapError::OutOfSpace { wanted: u64::MAX };
        let room = old.next_room();
        let size = room.checked_mul(Self::FORM.size()).ok_or_else(too_large)?;
        let size = usize::try_from(size).map_err(|_| too_large())?;
        // The pool's own, so that keys with equal hashes can't be chosen from outside; another one in each table, as entries move in
        // the order of their hashes.
        let seed = tx.heap().hash_seed() ^ room;
        let new = Table { room, seed, ..old };
        let mut slots = vec![0; (old.room * Self::FORM.size()) as usize];
        tx.read(old.buffer, &mut slots);
        let mut content = vec![0u64; size / WORD as usize];
        new.fill(Self::FORM, &slots, content.as_mut_bytes())?;
        let buffer = tx.alloc_with(&content, WORD, Self::FORM.buffer)?;
        if !old.buffer.is_null() {
            tx.free(old.buffer).inspect_err(|_| tx.set_rollback_only())?;
        }
        let table = Table { buffer, ..new };
        self.store_table(tx, table);
        Ok(table)
    }

    /// Removes a key, and returns the value that it had.
    ///
    /// # Errors
    /// As [`get`](PHashMap::get).
    ///
    /// # Cost
    /// 32 bytes of the record, and those of one or two entries that move into the gap.
    pub fn remove<M: Medium>(&self, tx: &TypedTx<'_, B, M>, key: K) -> Result<Option<V>, HeapError> {
        let (raw, key) = (tx.raw(), key.to_bits());
        let table = self.lock(raw)?;
        if table.buffer.is_null() {
            return Ok(None);
        }
        let Search::Found(index) = self.search(raw, table, bytes_of(&key))? else { return Ok(None) };
        let len = table.len.checked_sub(1).ok_or_else(|| table.damage())?;
        let at = Self::value_in(table, index);
        let value = value_at(|| at, bits_from(|into| raw.read(at, into)))?;
        let slot = |index| table.slot(Self::FORM, index);
        let mut bytes = vec![0; Self::FORM.size() as usize];
        let gap = table.close_gap(
            index,
            |index| raw.load8(slot(index)),
            |from, to| {
                raw.read(slot(from), &mut bytes);
                raw.store(slot(to), &bytes);
            },
        );
        raw.store8(slot(gap), 0);
        self.store_len(raw, len);
        Ok(Some(value))
    }

    /// Removes all entries and frees their space.
    ///
    /// # Errors
    /// As [`len`](PHashMap::len), and [`HeapError::NoObject`] when the map is damaged.
    pub fn clear<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<(), HeapError> {
        let table = self.lock(tx.raw())?;
        if !table.buffer.is_null() {
            tx.raw().free(table.buffer)?;
            self.store_table(tx.raw(), Table::default());
        }
        Ok(())
    }

    /// Returns all entries as the transaction sees them, in no order. The read is validated.
    ///
    /// # Errors
    /// As [`get`](PHashMap::get).
    pub fn to_vec<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Vec<(K, V)>, HeapError> {
        let at = self.at(tx.raw())?.get();
        let bytes = tx.raw().read_noted([at, Self::FORM.size(), 0], all_bytes, |reread, read| {
            read.is_digest(&all_bytes(reread, read.noted_words()))
        })?;
        let (words, slots) = bytes.split_at(4 * WORD as usize);
        let word = |index: u64| bits_from(|word| word.copy_from_slice(&words[index as usize * 8..][..8]));
        let table = Table::read(word).check(Self::FORM, tx.raw().heap().memory().len())?;
        Self::entries(table, slots)
    }

    /// Returns all entries as they were last committed, in no order.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when they can't be read; [`HeapError::Corrupt`] and [`HeapError::InvalidValue`] as
    /// [`get`](PHashMap::get).
    pub fn load_all<M: Medium>(&self, guard: &Guard<'_, B, M>) -> Result<Vec<(K, V)>, HeapError> {
        let (table, slots) = guard.copy_consistent(place_of(guard.memory(), &self.buffer)?, |memory| {
            let table = self.committed(memory)?;
            let mut slots = vec![0; (table.room * Self::FORM.size()) as usize];
            memory.read(table.buffer, &mut slots);
            Ok::<_, HeapError>((table, slots))
        })??;
        Self::entries(table, &slots)
    }

    /// Returns the value of a key as it was last committed, if it has one.
    ///
    /// # Errors
    /// As [`load_all`](PHashMap::load_all).
    pub fn load<M: Medium>(&self, guard: &Guard<'_, B, M>, key: K) -> Result<Option<V>, HeapError> {
        let bits = key.to_bits();
        let key = bytes_of(&bits);
        let found = guard.copy_consistent(place_of(guard.memory(), &self.buffer)?, |memory| {
            let table = self.committed(memory)?;
            if table.buffer.is_null() {
                return Ok(None);
            }
            let hash = table.hash(key);
            for index in table.slots(hash) {
                let slot = table.slot(Self::FORM, index);
                match memory.load8(slot) {
                    0 => return Ok(None),
                    found if found == hash => {
                        let found: K::Bits = bits_from(|into| memory.read(slot.plus(WORD), into));
                        if bytes_of(&found) == key {
                            let at = Self::value_in(table, index);
                            return Ok(Some((at, bits_from(|into| memory.read(at, into)))));
                        }
                    }
                    _ => {}
                }
            }
            Err(table.damage())
        })??;
        found.map(|(at, bits)| value_at(|| at, bits)).transpose()
    }

    /// Returns the number of entries as it was last committed.
    ///
    /// # Panics
    /// Panics if the guard is one of another pool.
    pub fn load_len<M: Medium>(&self, guard: &Guard<'_, B, M>) -> u64 {
        guard.read_consistent(guard.place_of(&self.buffer), || self.words().len)
    }

    fn words(&self) -> Table {
        Table::read(|word| [&self.buffer, &self.room, &self.len, &self.seed][word as usize].load())
    }

    fn committed(&self, memory: &Readable) -> Result<Table, HeapError> {
        self.words().check(Self::FORM, memory.len())
    }

    /// Returns the entries in these slots.
    fn entries(table: Table, slots: &[u8]) -> Result<Vec<(K, V)>, HeapError> {
        let form = Self::FORM;
        if slots.len() as u64 != table.room * form.size() {
            return Err(table.damage());
        }
        let used = slots.chunks_exact(form.size() as usize).zip(0..).filter(|(slot, _)| hash_in(slot) != 0);
        let entry = |(slot, index): (&[u8], u64)| {
            let key = bits_from(|into| into.copy_from_slice(&slot[form.key()]));
            let value = bits_from(|into| into.copy_from_slice(&slot[form.value()]));
            let key = value_at(|| table.slot(form, index).plus(WORD), key)?;
            Ok((key, value_at(|| Self::value_in(table, index), value)?))
        };
        used.map(entry).collect()
    }
}

impl<K, V, B> fmt::Debug for PHashMap<K, V, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PHashMap").finish_non_exhaustive()
    }
}
