//! Before-images: the words that transactions have replaced since a snapshot was opened.

use hashbrown::HashMap;
use lode_layout::{LINE, PoolOffset, WORD, align_down};
use lode_pmem::Readable;
use lode_pmem::sync::{Mutex, MutexGuard};
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{OnceLock, PoisonError};
use zerocopy::{FromBytes, IntoBytes};

/// Number of maps, each with a lock of its own.
const SHARDS: usize = 64;
/// Words of the filter for each map: together a bit for each of a million lines, or a false hit.
const FILTER_WORDS: usize = (1 << 14) / SHARDS;
/// Private memory in bytes below half of which no image is looked for that could be dropped.
const BYTES_UNLOOKED: u64 = 512 << 10;
const WORDS_IN_LINE: usize = (LINE / WORD) as usize;
/// The index in place of that of an older image if there is none.
const NO_OLDER: u32 = u32::MAX;

/// Words of one line that a transaction has replaced.
#[derive(Clone, Copy, Debug)]
struct Image {
    /// The number of that transaction.
    number: u64,
    /// The words, a bit each.
    mask: u8,
    words: [u64; WORDS_IN_LINE],
    line: PoolOffset,
    /// Index of the line's image before this one.
    older: u32,
}

/// The images of some lines.
#[derive(Debug, Default)]
struct Shard {
    /// Index of the last image of each line.
    last: HashMap<PoolOffset, u32>,
    /// In the order in which they were made. Those of one word are in the order of their numbers.
    images: Vec<Image>,
}

/// Replaced words, by line.
#[derive(Debug, Default)]
pub(super) struct BeforeImages {
    shards: Box<[Mutex<Shard>]>,
    /// A bit is set if a line with that hash has images. A part for each shard, changed with its lock held. Made for the
    /// first image.
    filter: OnceLock<Box<[AtomicU64]>>,
    hasher: hashbrown::DefaultHashBuilder,
    /// Private memory of all shards.
    bytes: AtomicU64,
    /// The same, when the unneeded images were dropped last.
    bytes_needed: AtomicU64,
}

impl BeforeImages {
    pub(super) fn new() -> BeforeImages {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        BeforeImages { shards, ..BeforeImages::default() }
    }

    /// Returns the private memory of all images in bytes.
    pub(super) fn bytes(&self) -> u64 {
        // ORDER: none: a number on its own.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Keeps the words from `at` to `end` that the transaction `number` is about to replace, unless each has an image that
    /// is newer than the newest snapshot. `load` returns a word as it is before. `newest` returns that snapshot, open or about to
    /// be opened, or `None` if all were closed meanwhile. The caller holds the locks of the words, or keeps the record from being
    /// written back.
    pub(super) fn keep(
        &self,
        load: &impl Fn(PoolOffset) -> u64,
        at: PoolOffset,
        end: PoolOffset,
        number: u64,
        newest: &impl Fn() -> Option<u64>,
    ) {
        let mut line = line_of(at);
        while line < end {
            let places = (0..WORDS_IN_LINE).map(|index| line.plus(index as u64 * WORD));
            let (mut mask, mut words) = (0, [0; WORDS_IN_LINE]);
            for (index, place) in
                places.enumerate().filter(|(_, place)| place.plus(WORD) > at && *place < end)
            {
                mask |= 1 << index;
                words[index] = load(place);
            }
            self.keep_line(line, mask, words, number, newest);
            line = line.plus(LINE);
        }
    }

    fn keep_line(
        &self,
        line: PoolOffset,
        mut mask: u8,
        words: [u64; WORDS_IN_LINE],
        number: u64,
        newest: &impl Fn() -> Option<u64>,
    ) {
        let hash = self.hasher.hash_one(line);
        let mut shard = self.shard(hash);
        // Asked with the lock held: the thread that closes the last snapshot takes the lock after that, and drops images.
        let Some(newest) = newest() else { return };
        let covered = shard.images_of(line).filter(|image| image.number > newest);
        mask &= !covered.fold(0, |covered, image| covered | image.mask);
        if mask == 0 {
            return;
        }
        self.change(&mut shard, |shard| shard.push(Image { number, mask, words, line, older: NO_OLDER }));
        let (word, bit) = filter_place(hash);
        // ORDER: none: the write-back of the words, which stores with release ordering, comes after it: in this thread, or in one
        // that takes the lock of the batches after it.
        self.filter()[shard_of(hash) * FILTER_WORDS + word].fetch_or(bit, Ordering::Relaxed);
    }

    /// Returns the word at `at` as the snapshot `number` sees it.
    #[inline]
    pub(super) fn load8(&self, memory: &Readable, at: PoolOffset, number: u64) -> u64 {
        let mut words = [memory.load8(at)];
        self.restore(at, number, &mut words);
        words[0]
    }

    /// Loads the words from `at` on, each as [`load8`](BeforeImages::load8) does.
    #[inline]
    pub(super) fn load_words(&self, memory: &Readable, at: PoolOffset, words: &mut [u64], number: u64) {
        for (index, word) in (0..).zip(&mut *words) {
            *word = memory.load8(at.plus(index * WORD));
        }
        self.restore(at, number, words);
    }

    /// Copies the bytes at `at` to `into`, as the snapshot `number` sees them.
    pub(super) fn read(&self, memory: &Readable, at: PoolOffset, into: &mut [u8], number: u64) {
        memory.read(at, into);
        self.restore(at, number, into);
    }

    /// Replaces those words that transactions after `number` have changed in `found`: the words, or whole words as bytes,
    /// from `at` on, as they were loaded just now.
    #[inline]
    fn restore<T: FromBytes + IntoBytes>(&self, at: PoolOffset, number: u64, found: &mut [T]) {
        // ORDER: the words are loaded before the images are looked up. A transaction keeps a word before it replaces it.
        fence(Ordering::Acquire);
        let Some(filter) = self.filter.get() else { return };
        let found = found.as_mut_bytes();
        let end = at.plus(found.len() as u64);
        let mut line = line_of(at);
        while line < end {
            let hash = self.hasher.hash_one(line);
            if may_have(filter, hash) {
                let (from, to) = (line.max(at), line.plus(LINE).min(end));
                let within = (from.get() - line.get()) as usize..(to.get() - line.get()) as usize;
                let mut words = [0; WORDS_IN_LINE];
                let part = &mut found[(from.get() - at.get()) as usize..(to.get() - at.get()) as usize];
                words.as_mut_bytes()[within.clone()].copy_from_slice(part);
                self.restore_from(hash, line, number, &mut words);
                part.copy_from_slice(&words.as_bytes()[within]);
            }
            line = line.plus(LINE);
        }
    }

    /// Replaces those of `words`, the words of `line` as they are now, that transactions after `number` have changed.
    #[inline(never)]
    fn restore_from(&self, hash: u64, line: PoolOffset, number: u64, words: &mut [u64; WORDS_IN_LINE]) {
        // From the last one to the first, which is the one that counts.
        for image in self.shard(hash).images_of(line).filter(|image| image.number > number) {
            for index in (0..WORDS_IN_LINE).filter(|index| image.mask >> index & 1 != 0) {
                words[index] = image.words[index];
            }
        }
    }

    /// Drops the words that no snapshot needs. `numbers` are those of the open snapshots, ascending; none is opened
    /// meanwhile.
    pub(super) fn drop_unneeded(&self, numbers: &[u64]) {
        let Some(filter) = self.filter.get() else { return };
        for (shard, filter) in self.shards.iter().zip(filter.chunks(FILTER_WORDS)) {
            let mut shard = lock(shard);
            let mut bits = [0; FILTER_WORDS];
            self.change(&mut shard, |shard| {
                *shard = shard.needed_by(numbers);
                for line in shard.last.keys() {
                    let (word, bit) = filter_place(self.hasher.hash_one(line));
                    bits[word] |= bit;
                }
            });
            for (word, bits) in filter.iter().zip(bits) {
                // ORDER: releases the end of a snapshot: its reader, if it finds no bit, acquires it, and fails. The bits
                // of images that other snapshots need stay set.
                word.store(bits, Ordering::Release);
            }
        }
        // ORDER: none: a number on its own.
        self.bytes_needed.store(self.bytes(), Ordering::Relaxed);
    }

    /// Returns true if it is time to look for words that no snapshot needs: the images take twice the memory that they
    /// took after the last time.
    pub(super) fn have_doubled(&self) -> bool {
        // ORDER: none: as above.
        self.bytes() > 2 * self.bytes_needed.load(Ordering::Relaxed).max(BYTES_UNLOOKED)
    }

    /// Returns true if a quarter of the images, or more, are older than the snapshot `number`.
    pub(super) fn many_are_before(&self, number: u64) -> bool {
        let (mut before, mut all) = (0, 0);
        for shard in &self.shards {
            let shard = lock(shard);
            // They are almost in the order of their numbers.
            before += shard.images.partition_point(|image| image.number <= number);
            all += shard.images.len();
        }
        before * 4 >= all
    }

    /// Adds the private memory of each image to that of the snapshot which needs it first. `numbers` are those of the
    /// snapshots, ascending, and the result is in their order.
    pub(super) fn bytes_by_snapshot(&self, numbers: &[u64]) -> Vec<u64> {
        let mut bytes = vec![0; numbers.len()];
        for shard in &self.shards {
            let shard = lock(shard);
            let each = shard.bytes() / shard.images.len().max(1) as u64;
            for image in &shard.images {
                let newer = numbers.partition_point(|number| *number < image.number);
                if let Some(bytes) = newer.checked_sub(1).and_then(|last| bytes.get_mut(last)) {
                    *bytes += each;
                }
            }
        }
        bytes
    }

    fn filter(&self) -> &[AtomicU64] {
        self.filter.get_or_init(|| (0..SHARDS * FILTER_WORDS).map(|_| AtomicU64::new(0)).collect())
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.shards[shard_of(hash)])
    }

    /// Changes a shard, and counts its memory.
    fn change(&self, shard: &mut Shard, change: impl FnOnce(&mut Shard)) {
        let before = shard.bytes();
        change(shard);
        let added = shard.bytes().wrapping_sub(before);
        if added != 0 {
            // ORDER: none: a number on its own. It wraps below what others add.
            self.bytes.fetch_add(added, Ordering::Relaxed);
        }
    }
}

impl Shard {
    /// Returns the images of `line`, the last one first.
    fn images_of(&self, line: PoolOffset) -> impl Iterator<Item = &Image> {
        let image = |index: u32| self.images.get(index as usize);
        let last = self.last.get(&line).and_then(|index| image(*index));
        std::iter::successors(last, move |later| image(later.older))
    }

    fn push(&mut self, image: Image) {
        let index = u32::try_from(self.images.len()).expect("the limit of memory comes first");
        let older = self.last.insert(image.line, index).unwrap_or(NO_OLDER);
        self.images.push(Image { older, ..image });
    }

    /// Returns the images without the words that none of the snapshots with those `numbers`, ascending, needs.
    fn needed_by(&self, numbers: &[u64]) -> Shard {
        let mut needed = Shard::default();
        let mut replaced_at: HashMap<PoolOffset, [u64; WORDS_IN_LINE]> = HashMap::new();
        for image in &self.images {
            // A snapshot needs the first image of a word after its number.
            let newest = numbers.partition_point(|number| *number < image.number).checked_sub(1);
            let newest = newest.and_then(|index| numbers.get(index));
            let before = replaced_at.entry(image.line).or_default();
            let mut mask = image.mask;
            for index in (0..WORDS_IN_LINE).filter(|index| image.mask >> index & 1 != 0) {
                if newest.is_none_or(|newest| *newest < before[index]) {
                    mask &= !(1 << index);
                }
                before[index] = image.number;
            }
            if mask != 0 {
                needed.push(Image { mask, ..*image });
            }
        }
        needed
    }

    fn bytes(&self) -> u64 {
        let places = self.last.allocation_size() + self.images.capacity() * size_of::<Image>();
        places as u64
    }
}

fn lock(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns true if there may be an image of a line with that hash.
#[inline]
fn may_have(filter: &[AtomicU64], hash: u64) -> bool {
    let (word, bit) = filter_place(hash);
    // ORDER: acquires the end of the snapshot, see `drop_unneeded`. The caller has acquired the stores of the transactions
    // that it saw.
    filter[shard_of(hash) * FILTER_WORDS + word].load(Ordering::Acquire) & bit != 0
}

/// Returns the index of the shard of a line with that hash.
fn shard_of(hash: u64) -> usize {
    hash as usize % SHARDS
}

/// Returns the place of a line with that hash in its shard's part of the filter: the word, and the bit in it.
fn filter_place(hash: u64) -> (usize, u64) {
    ((hash >> 16) as usize % FILTER_WORDS, 1 << (hash >> 58))
}

fn line_of(at: PoolOffset) -> PoolOffset {
    PoolOffset::new(align_down(at.get(), LINE))
}
