//! Write-backs: the changes that the entries of a durable record make in the pool.

use crate::dirty::DirtyLines;
use lode_layout::{CoverEntry, Entries, Entry, PoolOffset, WORD, checked, unchecked};
use lode_pmem::{Medium, Readable};
use zerocopy::IntoBytes;

/// A range outside of the rings that holds whole entries of a record: offset and length in bytes. An
/// [`Entry::Continue`] leads to it.
pub type ContinuedRange = (PoolOffset, u64);

/// Applies every entry of `body` in order, except [`Entry::Payload`] and [`Entry::Continue`]. Notes the touched lines
/// in `dirty` where the medium has lines to flush. `memory` is the medium's. `exclusive`: no other thread writes back
/// meanwhile.
///
/// Stops at an entry that can't be parsed. Bodies come from a [`Record`](lode_layout::Record), verified by its
/// checksum.
#[inline]
pub(crate) fn apply<M: Medium>(
    medium: &M,
    memory: &Readable,
    body: &[u64],
    mut dirty: Option<&mut DirtyLines>,
    exclusive: bool,
) {
    let mut entries = Entries::new(body);
    loop {
        entries.skip_payload();
        while let Some((at, word)) = entries.next_word() {
            medium.store8(at, word);
            if let Some(dirty) = &mut dirty {
                dirty.add(at, WORD);
            }
        }
        if let Some((at, words)) = entries.next_words() {
            medium.store(at, words.as_bytes());
            if let Some(dirty) = &mut dirty
                && !words.is_empty()
            {
                dirty.add(at, words.len() as u64 * WORD);
            }
            continue;
        }
        if let Some((at, set, clear)) = entries.next_bits() {
            change_bits(medium, memory, at, exclusive, |bits| bits & !clear | set);
            if let Some(dirty) = &mut dirty {
                dirty.add(at, WORD);
            }
            continue;
        }
        if entries.rest().is_empty() {
            return;
        }
        // On a copy: the words that are left stay in registers as long as no other entry comes.
        let mut others = entries.clone();
        let Some(Ok(entry)) = others.next() else { return };
        entries = others;
        let (at, len) = apply_entry(medium, memory, entry, exclusive);
        if let Some(dirty) = &mut dirty
            && len > 0
        {
            dirty.add(at, len);
        }
    }
}

/// Applies the entries of `body` and those in `continued`, as [`apply`] does.
#[inline]
pub(crate) fn apply_all<M: Medium>(
    medium: &M,
    memory: &Readable,
    body: &[u64],
    continued: &[ContinuedRange],
    mut dirty: Option<&mut DirtyLines>,
    exclusive: bool,
) {
    apply(medium, memory, body, dirty.as_deref_mut(), exclusive);
    for range in continued {
        let entries = continued_entries(memory, *range);
        apply(medium, memory, &entries, dirty.as_deref_mut(), exclusive);
    }
}

/// Returns the entries in a continued range.
pub(crate) fn continued_entries(memory: &Readable, (at, len): ContinuedRange) -> Vec<u64> {
    let mut words = vec![0u64; (len / WORD) as usize];
    memory.read(at, words.as_mut_bytes());
    words
}

/// Applies one entry, and returns the range that it stored to: offset and length in bytes. `memory` is the medium's.
/// `exclusive`: no other thread changes the same words meanwhile.
#[inline]
pub fn apply_entry<M: Medium>(
    medium: &M,
    memory: &Readable,
    entry: Entry<'_>,
    exclusive: bool,
) -> (PoolOffset, u64) {
    match entry {
        Entry::Words { at, words } => {
            medium.store(at, words.as_bytes());
            (at, words.len() as u64 * WORD)
        }
        Entry::SetBits { at, mask } => {
            change_bits(medium, memory, at, exclusive, |bits| bits | mask);
            (at, WORD)
        }
        Entry::ClearBits { at, mask } => {
            change_bits(medium, memory, at, exclusive, |bits| bits & !mask);
            (at, WORD)
        }
        Entry::Bytes { at, len, words } => {
            medium.store(at, &words.as_bytes()[..len as usize]);
            (at, len)
        }
        Entry::Zero { at, len } => {
            zero(medium, at, len);
            (at, len)
        }
        Entry::Payload { at, .. } | Entry::Continue { at, .. } => (at, 0),
        Entry::Cover(entry) => apply_cover(medium, memory, entry, exclusive),
    }
}

/// Applies an entry of memory that programs store to in place, as [`apply_entry`] does. Images and bytes at home are there
/// already. The bytes are to be flushed with the next checkpoint; an image is not, because it is no change.
fn apply_cover<M: Medium>(
    medium: &M,
    memory: &Readable,
    entry: CoverEntry<'_>,
    exclusive: bool,
) -> (PoolOffset, u64) {
    match entry {
        CoverEntry::Image { at, .. } => return (at, 0),
        CoverEntry::AtHome { .. } | CoverEntry::Pending { .. } | CoverEntry::Settled { .. } => {}
        CoverEntry::SetBits { at, mask } => {
            change_word(medium, memory, at, exclusive, |word| Some(word | mask));
        }
        CoverEntry::ClearBits { at, mask } => {
            change_word(medium, memory, at, exclusive, |word| Some(word & !mask));
        }
    }
    entry.range()
}

/// Stores the images in `body`, and notes their lines in `dirty` where the medium has lines to flush.
pub(crate) fn store_images<M: Medium>(medium: &M, body: &[u64], mut dirty: Option<&mut DirtyLines>) {
    for entry in cover_entries(body) {
        if let CoverEntry::Image { at, words } = entry {
            medium.store(at, words.as_bytes());
            note(&mut dirty, entry.range());
        }
    }
}

/// Stores the bytes in `body` that their writer had stored itself, as [`store_images`] does.
pub(crate) fn store_at_home<M: Medium>(medium: &M, body: &[u64], mut dirty: Option<&mut DirtyLines>) {
    for entry in cover_entries(body) {
        if let CoverEntry::AtHome { at, len, words } = entry {
            medium.store(at, &words.as_bytes()[..len as usize]);
            note(&mut dirty, entry.range());
        }
    }
}

fn cover_entries(body: &[u64]) -> impl Iterator<Item = CoverEntry<'_>> {
    Entries::new(body).map_while(Result::ok).filter_map(|entry| match entry {
        Entry::Cover(entry) => Some(entry),
        _ => None,
    })
}

fn note(dirty: &mut Option<&mut DirtyLines>, (at, len): (PoolOffset, u64)) {
    if let Some(dirty) = dirty
        && len > 0
    {
        dirty.add(at, len);
    }
}

/// Changes the bits of a checked word. Does so atomically if other threads may change other bits of it meanwhile.
/// Otherwise a plain store is faster: a locked instruction would wait for the write-backs before it, and for the
/// fence before those.
///
/// A word that is not intact stays as it is. During replay it may hold the content of a later record. If it is
/// damaged, `check` must still find it.
#[inline]
fn change_bits<M: Medium>(
    medium: &M,
    memory: &Readable,
    at: PoolOffset,
    exclusive: bool,
    change: impl Fn(u64) -> u64,
) {
    change_word(medium, memory, at, exclusive, |word| unchecked(word).map(|bits| checked(change(bits))));
}

/// Replaces a word by what `change` returns, atomically unless `exclusive`. Without a result it stays as it is.
#[inline]
fn change_word<M: Medium>(
    medium: &M,
    memory: &Readable,
    at: PoolOffset,
    exclusive: bool,
    change: impl Fn(u64) -> Option<u64>,
) {
    let mut word = memory.load8(at);
    while let Some(new) = change(word) {
        if exclusive {
            return medium.store8(at, new);
        }
        match medium.compare_exchange8(at, word, new) {
            Ok(_) => return,
            Err(found) => word = found,
        }
    }
}

fn zero<M: Medium>(medium: &M, at: PoolOffset, len: u64) {
    const ZEROS: [u8; 4096] = [0; 4096];
    // A damaged length must not keep the CPU busy beyond the end of the medium.
    let len = len.min(medium.memory().len().saturating_sub(at.get()));
    let mut done = 0;
    while done < len {
        let step = (len - done).min(ZEROS.len() as u64);
        medium.store(at.plus(done), &ZEROS[..step as usize]);
        done += step;
    }
}
