//! Queues with two ends.

use super::brand::Brand;
use super::guard::Guard;
use super::tx::TypedTx;
use super::type_hash;
use super::value::{CellValue, value_at, with_values};
use crate::bits::{bits_from, bytes_of};
use crate::error::HeapError;
use crate::persist::{Word, offset_of, place_of};
use crate::read_set::Reread;
use crate::tx::Tx;
use lode_layout::{PoolOffset, WORD};
use lode_pmem::Medium;
use std::fmt;
use std::marker::PhantomData;
use zerocopy::IntoBytes;

/// Number of elements for which the first buffer has room.
const ROOM_MIN: u64 = 4;

/// A queue that grows, with elements put and taken at both ends. Its elements are any [`CellValue`], read and stored by copy.
///
/// The elements lie in a buffer, and continue at its start after its end. A transaction that changes a queue has its lock
/// until it is over. A transaction that reads an element, the length, or all is validated at its commit. Readers outside of
/// transactions take no lock.
#[repr(C)]
pub struct PDeque<T, B> {
    buffer: Word,
    /// Number of elements for which the buffer has room.
    room: Word,
    /// Index of the first element in the buffer.
    first: Word,
    len: Word,
    element: PhantomData<fn() -> (T, B)>,
}

/// The words of a queue.
#[derive(Clone, Copy, Default)]
pub(super) struct State {
    pub(super) buffer: PoolOffset,
    pub(super) room: u64,
    pub(super) first: u64,
    pub(super) len: u64,
}

impl State {
    /// Returns the state that `load` finds in the words with these indexes.
    pub(super) fn read(load: impl Fn(u64) -> u64) -> State {
        let [buffer, room, first, len] = [0, 1, 2, 3].map(load);
        // A queue that was freed with its owner keeps its length, and has no buffer.
        if buffer == 0 {
            return State::default();
        }
        State { buffer: PoolOffset::new(buffer), room, first, len }
    }

    /// Returns true if the elements of `size` bytes can lie in a pool of `pool_len` bytes.
    fn is_sound(&self, size: u64, pool_len: u64) -> bool {
        let bytes = self.room.checked_mul(size.max(1));
        let end = bytes.and_then(|bytes| self.buffer.get().checked_add(bytes));
        let fits = end.is_some_and(|end| end <= pool_len);
        fits && self.len <= self.room && (self.first < self.room || self.buffer.is_null())
    }

    /// Returns the offset of an element. The state is sound, and has the element or room for it.
    #[inline]
    fn element(&self, index: u64, size: u64) -> PoolOffset {
        self.buffer.plus(self.slot(index) * size)
    }

    /// Returns the index in the buffer of element number `index`, which is less than the room.
    #[inline]
    fn slot(&self, index: u64) -> u64 {
        let slot = self.first + index;
        if slot < self.room { slot } else { slot - self.room }
    }

    fn damage(&self) -> HeapError {
        HeapError::Corrupt { what: "the queue whose buffer", at: self.buffer }
    }
}

impl<T, B> PDeque<T, B> {
    /// Makes an empty queue. It takes no space of its own.
    pub const fn new() -> PDeque<T, B> {
        let [buffer, room, first, len] = [Word::new(0), Word::new(0), Word::new(0), Word::new(0)];
        PDeque { buffer, room, first, len, element: PhantomData }
    }

    pub(crate) fn buffer(&self) -> &Word {
        &self.buffer
    }
}

impl<T, B> Default for PDeque<T, B> {
    fn default() -> PDeque<T, B> {
        PDeque::new()
    }
}

impl<T: CellValue, B: Brand> PDeque<T, B> {
    const SIZE: u64 = size_of::<T::Bits>() as u64;
    pub(crate) const BUFFER_TYPE: u64 = with_values::<T>(type_hash::of_name("PDeque buffer"));

    /// Returns the queue with the same bytes as elements of another type, for the [migration](crate::Migrate) of the object that
    /// has it: an enum that got a variant more is such a type. Elements whose bytes are no value of it are errors where they are
    /// read, after the migration.
    pub fn recast<New: CellValue>(self) -> PDeque<New, B> {
        const { assert!(size_of::<T::Bits>() == size_of::<New::Bits>(), "elements of another size") };
        let PDeque { buffer, room, first, len, .. } = self;
        PDeque { buffer, room, first, len, element: PhantomData }
    }

    /// Returns the offset of the queue.
    fn at<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<PoolOffset, HeapError> {
        place_of(tx.heap().memory(), &self.buffer)
    }

    /// Locks the queue, and returns its state as the transaction sees it.
    #[inline]
    fn lock<M: Medium>(&self, tx: &Tx<'_, M>) -> Result<State, HeapError> {
        let at = self.at(tx)?;
        tx.lock(at)?;
        let words: [u64; 4] = tx.words(at);
        let state = State::read(|word| words[word as usize]);
        let is_sound = state.is_sound(Self::SIZE, tx.heap().memory().len());
        // A store beyond the buffer would reach another object.
        let fits = |room| state.room.checked_mul(Self::SIZE).is_some_and(|size| size <= room);
        let is_sound = is_sound && (state.buffer.is_null() || fits(tx.usable_size(state.buffer)?));
        if is_sound { Ok(state) } else { Err(state.damage()) }
    }

    /// Stores the index of the first element and the length of the queue, which is locked.
    #[inline]
    fn store_ends<M: Medium>(&self, tx: &Tx<'_, M>, first: u64, len: u64) {
        tx.store_words(offset_of(tx.heap().memory(), &self.first), &[first, len]);
    }

    /// Stores the length of the queue, which is locked.
    #[inline]
    fn store_len<M: Medium>(&self, tx: &Tx<'_, M>, len: u64) {
        tx.store8(offset_of(tx.heap().memory(), &self.len), len);
    }

    /// Stores the words of the queue, which is locked.
    fn store_state<M: Medium>(&self, tx: &Tx<'_, M>, state: State) {
        let words = [state.buffer.get(), state.room, state.first, state.len];
        tx.store_words(offset_of(tx.heap().memory(), &self.buffer), &words);
    }

    /// Returns the number of elements as the transaction sees it. The read is validated.
    ///
    /// # Errors
    /// [`HeapError::Conflict`] when another transaction is changing the queue, or when the number does not go with what the
    /// transaction has read before.
    pub fn len<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<u64, HeapError> {
        let bytes =
            tx.raw().read_noted([self.at(tx.raw())?.get(), Self::SIZE, 0], len_bytes, |reread, read| {
                read.is_digest(&len_bytes(reread, read.noted_words()))
            })?;
        Ok(bits_from(|word| word.copy_from_slice(&bytes)))
    }

    /// Returns true if the transaction sees no elements.
    ///
    /// # Errors
    /// As [`len`](PDeque::len).
    pub fn is_empty<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<bool, HeapError> {
        self.len(tx).map(|len| len == 0)
    }

    /// Returns element number `index` from the front as the transaction sees it; `None` beyond the end. The read is validated.
    ///
    /// # Errors
    /// As [`len`](PDeque::len); [`HeapError::Corrupt`] when the queue is damaged, [`HeapError::InvalidValue`] when the bytes are
    /// no value.
    pub fn get<M: Medium>(&self, tx: &TypedTx<'_, B, M>, index: u64) -> Result<Option<T>, HeapError> {
        let raw = tx.raw();
        let at = self.at(raw)?;
        let bytes = raw.read_noted([at.get(), Self::SIZE, index], element_bytes, |reread, read| {
            read.is_digest(&element_bytes(reread, read.noted_words()))
        })?;
        let state = || State::read(|word| raw.load8(at.plus(word * WORD)));
        match bytes.split_first() {
            None => Ok(None),
            Some((&FOUND, element)) => {
                let bits = bits_from(|into| into.copy_from_slice(element));
                value_at(|| state().element(index, Self::SIZE), bits).map(Some)
            }
            Some(_) => Err(state().damage()),
        }
    }

    /// Appends an element at the back.
    ///
    /// # Errors
    /// [`HeapError::OutOfSpace`], with nothing changed; [`HeapError::Conflict`] as [`len`](PDeque::len);
    /// [`HeapError::Corrupt`] when the queue is damaged.
    ///
    /// # Cost
    /// The element's bytes and 24 more in the record; now and then those of a buffer twice as large.
    #[inline]
    pub fn push_back<M: Medium>(&self, tx: &TypedTx<'_, B, M>, value: T) -> Result<(), HeapError> {
        let state = self.with_room(tx.raw())?;
        tx.raw().store(state.element(state.len, Self::SIZE), bytes_of(&value.to_bits()));
        self.store_len(tx.raw(), state.len + 1);
        Ok(())
    }

    /// Puts an element before the others.
    ///
    /// # Errors
    /// As [`push_back`](PDeque::push_back).
    ///
    /// # Cost
    /// The element's bytes and 32 more in the record; now and then those of a buffer twice as large.
    #[inline]
    pub fn push_front<M: Medium>(&self, tx: &TypedTx<'_, B, M>, value: T) -> Result<(), HeapError> {
        let state = self.with_room(tx.raw())?;
        let first = state.first.checked_sub(1).unwrap_or(state.room - 1);
        let state = State { first, len: state.len + 1, ..state };
        tx.raw().store(state.element(0, Self::SIZE), bytes_of(&value.to_bits()));
        self.store_ends(tx.raw(), state.first, state.len);
        Ok(())
    }

    /// Locks the queue, and moves its elements to a larger buffer if it has no room for another one.
    #[inline]
    fn with_room<M: Medium>(&self, raw: &Tx<'_, M>) -> Result<State, HeapError> {
        let state = self.lock(raw)?;
        if state.len < state.room { Ok(state) } else { self.grow(raw, state) }
    }

    /// Moves the elements of the queue, which is locked, to a buffer with twice the room.
    #[cold]
    fn grow<M: Medium>(&self, raw: &Tx<'_, M>, old: State) -> Result<State, HeapError> {
        let too_large = || HeapError::OutOfSpace { wanted: u64::MAX };
        let room = old.room.saturating_mul(2).max(ROOM_MIN);
        let size = room.checked_mul(Self::SIZE.max(1)).ok_or_else(too_large)?;
        let size = usize::try_from(size).map_err(|_| too_large())?;
        let mut content = vec![0u64; size.div_ceil(WORD as usize)];
        Self::copy_elements(old, content.as_mut_bytes(), |at, into| raw.read(at, into));
        let buffer = raw.alloc_with(&content, align_of::<T::Bits>() as u64, Self::BUFFER_TYPE)?;
        if !old.buffer.is_null() {
            raw.free(old.buffer).inspect_err(|_| raw.set_rollback_only())?;
        }
        let state = State { buffer, room, first: 0, len: old.len };
        self.store_state(raw, state);
        Ok(state)
    }

    /// Copies the bytes of all elements in their order to the start of `into`. The state is sound.
    fn copy_elements(state: State, into: &mut [u8], read: impl Fn(PoolOffset, &mut [u8])) {
        // Up to two runs: to the end of the buffer, and from its start on.
        let to_end = state.len.min(state.room - state.first);
        let (front, back) =
            into[..(state.len * Self::SIZE) as usize].split_at_mut((to_end * Self::SIZE) as usize);
        read(state.buffer.plus(state.first * Self::SIZE), front);
        read(state.buffer, back);
    }

    /// Removes the first element and returns it.
    ///
    /// # Errors
    /// As [`get`](PDeque::get).
    ///
    /// # Cost
    /// 24 bytes of the record.
    #[inline]
    pub fn pop_front<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Option<T>, HeapError> {
        let state = self.lock(tx.raw())?;
        let Some(len) = state.len.checked_sub(1) else { return Ok(None) };
        let value = self.taken(tx.raw(), state, 0)?;
        self.store_ends(tx.raw(), state.slot(1), len);
        Ok(Some(value))
    }

    /// Removes the last element and returns it.
    ///
    /// # Errors
    /// As [`get`](PDeque::get).
    ///
    /// # Cost
    /// 16 bytes of the record.
    #[inline]
    pub fn pop_back<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<Option<T>, HeapError> {
        let state = self.lock(tx.raw())?;
        let Some(len) = state.len.checked_sub(1) else { return Ok(None) };
        let value = self.taken(tx.raw(), state, len)?;
        self.store_len(tx.raw(), len);
        Ok(Some(value))
    }

    /// Returns an element of the queue, which is locked.
    fn taken<M: Medium>(&self, raw: &Tx<'_, M>, state: State, index: u64) -> Result<T, HeapError> {
        let at = state.element(index, Self::SIZE);
        value_at(|| at, bits_from(|into| raw.read(at, into)))
    }

    /// Removes all elements and frees their space.
    ///
    /// # Errors
    /// As [`push_back`](PDeque::push_back), and [`HeapError::NoObject`] when the queue is damaged.
    pub fn clear<M: Medium>(&self, tx: &TypedTx<'_, B, M>) -> Result<(), HeapError> {
        let state = self.lock(tx.raw())?;
        if !state.buffer.is_null() {
            tx.raw().free(state.buffer)?;
            self.store_state(tx.raw(), State::default());
        }
        Ok(())
    }

    /// Returns all elements, the first one first, as they were last committed.
    ///
    /// # Errors
    /// [`HeapError::Fault`] when they can't be read; [`HeapError::Corrupt`] and [`HeapError::InvalidValue`] as
    /// [`get`](PDeque::get).
    pub fn load_all<M: Medium>(&self, guard: &Guard<'_, B, M>) -> Result<Vec<T>, HeapError> {
        let read = guard.copy_consistent(place_of(guard.memory(), &self.buffer)?, |memory| {
            let state = self.committed();
            if !state.is_sound(Self::SIZE, memory.len()) {
                return Err(state.damage());
            }
            let mut bytes = vec![0; (state.len * Self::SIZE) as usize];
            Self::copy_elements(state, &mut bytes, |at, into| memory.read(at, into));
            Ok((state, bytes))
        })?;
        let (state, bytes) = read?;
        let element = |index: u64| {
            let part = &bytes[(index * Self::SIZE) as usize..][..Self::SIZE as usize];
            value_at(|| state.element(index, Self::SIZE), bits_from(|into| into.copy_from_slice(part)))
        };
        (0..state.len).map(element).collect()
    }

    /// Returns the number of elements as it was last committed.
    ///
    /// # Panics
    /// Panics if the guard is one of another pool.
    pub fn load_len<M: Medium>(&self, guard: &Guard<'_, B, M>) -> u64 {
        guard.read_consistent(guard.place_of(&self.buffer), || self.committed().len)
    }

    /// Returns element number `index` from the front as it was last committed; `None` beyond the end.
    ///
    /// # Errors
    /// As [`load_all`](PDeque::load_all).
    pub fn load<M: Medium>(&self, guard: &Guard<'_, B, M>, index: u64) -> Result<Option<T>, HeapError> {
        let read = guard.copy_consistent(place_of(guard.memory(), &self.buffer)?, |memory| {
            let state = self.committed();
            if !state.is_sound(Self::SIZE, memory.len()) {
                return Err(state.damage());
            }
            let at = || state.element(index, Self::SIZE);
            Ok((index < state.len).then(|| (at(), bits_from(|bytes| memory.read(at(), bytes)))))
        })?;
        read?.map(|(at, bits)| value_at(|| at, bits)).transpose()
    }

    fn committed(&self) -> State {
        State::read(|word| [&self.buffer, &self.room, &self.first, &self.len][word as usize].load())
    }
}

/// The byte before an element that was read.
const FOUND: u8 = 1;
/// The only byte that is read of a damaged queue.
const DAMAGED: u8 = 0;

/// Returns the state of the queue at an offset.
fn state_at(reread: &Reread<'_>, at: u64) -> State {
    State::read(|word| reread.load8(PoolOffset::new(at).plus(word * WORD)))
}

fn len_bytes(reread: &Reread<'_>, [at, ..]: [u64; 3]) -> Vec<u8> {
    state_at(reread, at).len.to_le_bytes().to_vec()
}

/// Returns an element after [`FOUND`], nothing beyond the end, and [`DAMAGED`] for a damaged queue.
fn element_bytes(reread: &Reread<'_>, [at, size, index]: [u64; 3]) -> Vec<u8> {
    let state = state_at(reread, at);
    if !state.is_sound(size, reread.memory().len()) {
        return vec![DAMAGED];
    }
    if index >= state.len {
        return Vec::new();
    }
    let mut bytes = vec![FOUND; 1 + size as usize];
    reread.read(state.element(index, size), &mut bytes[1..]);
    bytes
}

impl<T, B> fmt::Debug for PDeque<T, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PDeque").finish_non_exhaustive()
    }
}
