//! A run in DRAM: which of its blocks are taken, reserved, or being freed.

use super::class::RunKey;
use lode_layout::PmdkRun;

/// Bits of a word of a bitmap.
const BITS: u32 = 64;

/// A run whose bitmap was read.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) key: RunKey,
    pub(super) places: PmdkRun,
    words: Box<[RunWord]>,
    /// Blocks that are not taken.
    free: u32,
    /// Words before this one have no free block.
    first_free: u32,
    /// Number of the arena that has it; 0 for none.
    pub(super) owner: u32,
    /// The longest piece of free blocks by which it is on the list of its kind; 0 if it is on none.
    pub(super) listed: u32,
    /// True if it is on the list of empty runs.
    pub(super) is_listed_as_empty: bool,
}

/// The bits of a word of the bitmap.
#[derive(Clone, Copy, Debug)]
struct RunWord {
    /// Blocks that can't be given away: all but the free ones.
    taken: u64,
    /// Taken blocks that no record has made an object of.
    reserved: u64,
    /// Taken blocks of objects that a publication is freeing.
    freeing: u64,
}

/// Blocks of a run: index of the first one and number.
pub(super) type Units = (u32, u32);

fn mask((unit, count): Units) -> (usize, u64) {
    let bits = if count >= BITS { u64::MAX } else { (1 << count) - 1 };
    ((unit / BITS) as usize, bits << (unit % BITS))
}

/// Returns the first of `count` consecutive zero bits of a word.
fn find(taken: u64, count: u32) -> Option<u32> {
    let mut free = !taken;
    let mut found = 1;
    while found < count {
        let step = found.min(count - found);
        free &= free >> step;
        found += step;
    }
    (free != 0).then(|| free.trailing_zeros())
}

/// Returns the length of the longest piece of zero bits of a word.
fn longest(taken: u64) -> u32 {
    // For each power of two, the bits at which so many zero bits begin.
    let mut starts = [!taken; 7];
    for power in 1..starts.len() {
        let half = starts[power - 1];
        starts[power] = half & half >> (1 << (power - 1));
    }
    let (mut found, mut len) = (u64::MAX, 0);
    for power in (0..starts.len()).rev() {
        let longer = found & starts[power].checked_shr(len).unwrap_or(0);
        if longer != 0 {
            found = longer;
            len += 1 << power;
        }
    }
    len
}

impl Run {
    /// Returns a run with this bitmap, whose words are as they lie on the medium.
    pub(super) fn new(key: RunKey, places: PmdkRun, bitmap: impl Iterator<Item = u64>) -> Run {
        let words: Box<[RunWord]> = bitmap
            .zip(0..)
            .map(|(word, index)| RunWord { taken: word | !places.block_bits(index), reserved: 0, freeing: 0 })
            .collect();
        let free = words.iter().map(|word| word.taken.count_zeros()).sum();
        Run { key, places, words, free, first_free: 0, owner: 0, listed: 0, is_listed_as_empty: false }
    }

    /// Returns true if all blocks are free.
    pub(super) fn is_empty(&self) -> bool {
        u64::from(self.free) == self.places.usable_count()
    }

    /// Returns the number of free blocks in the longest piece that an object can have.
    pub(super) fn longest(&self) -> u32 {
        self.words.iter().map(|word| longest(word.taken)).max().unwrap_or(0)
    }

    /// Takes `count` blocks. `None` if no word of the bitmap has as many.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        if count > self.free || count == 0 || count > BITS {
            return None;
        }
        let first = self.first_free as usize;
        let mut has_only_full = true;
        for (index, word) in self.words.iter_mut().enumerate().skip(first) {
            if word.taken == u64::MAX {
                if has_only_full {
                    self.first_free = index as u32 + 1;
                }
                continue;
            }
            has_only_full = false;
            if let Some(bit) = find(word.taken, count) {
                let unit = index as u32 * BITS + bit;
                let (_, bits) = mask((unit, count));
                word.taken |= bits;
                word.reserved |= bits;
                self.free -= count;
                return Some(unit);
            }
        }
        None
    }

    fn word(&mut self, units: Units) -> Option<(&mut RunWord, u64)> {
        let (unit, count) = units;
        if count == 0 || unit % BITS + count > BITS {
            return None;
        }
        let (index, bits) = mask(units);
        self.words.get_mut(index).map(|word| (word, bits))
    }

    /// Returns the bits of the units in the word of the bitmap, if all are as `is_as_wanted` says.
    fn change(
        &mut self,
        units: Units,
        is_as_wanted: impl Fn(&RunWord, u64) -> bool,
        change: impl Fn(&mut RunWord, u64),
    ) -> bool {
        match self.word(units) {
            Some((word, bits)) if is_as_wanted(word, bits) => {
                change(word, bits);
                true
            }
            _ => false,
        }
    }

    /// Notes that a publication makes objects of reserved blocks. False if they are not reserved.
    pub(super) fn publish(&mut self, units: Units) -> bool {
        self.change(units, |word, bits| word.reserved & bits == bits, |word, bits| word.reserved &= !bits)
    }

    /// Notes that the publication has failed.
    pub(super) fn unpublish(&mut self, units: Units) {
        self.change(units, |_, _| true, |word, bits| word.reserved |= bits);
    }

    /// Notes that a publication frees blocks. False if they are not those of an object, or being freed.
    pub(super) fn begin_free(&mut self, units: Units) -> bool {
        let is_object =
            |word: &RunWord, bits| word.taken & bits == bits && (word.reserved | word.freeing) & bits == 0;
        self.is_inside(units) && self.change(units, is_object, |word, bits| word.freeing |= bits)
    }

    /// Notes that the publication has failed.
    pub(super) fn keep(&mut self, units: Units) {
        self.change(units, |_, _| true, |word, bits| word.freeing &= !bits);
    }

    /// Gives blocks back that a durable record has freed. Returns the longest piece of free blocks around them.
    pub(super) fn end_free(&mut self, units: Units) -> u32 {
        self.give_back(units, |word, bits| word.freeing & bits == bits)
    }

    /// Gives reserved blocks back. Returns the longest piece of free blocks around them; 0 if they are not reserved.
    pub(super) fn cancel(&mut self, units: Units) -> u32 {
        self.give_back(units, |word, bits| word.reserved & bits == bits)
    }

    fn give_back(&mut self, units: Units, is_as_wanted: impl Fn(&RunWord, u64) -> bool) -> u32 {
        let Some((word, bits)) = self.word(units) else { return 0 };
        if !is_as_wanted(word, bits) {
            return 0;
        }
        word.taken &= !bits;
        word.reserved &= !bits;
        word.freeing &= !bits;
        let piece = longest(word.taken);
        self.free += units.1;
        self.first_free = self.first_free.min(units.0 / BITS);
        piece
    }

    /// Returns the bits of taken and of reserved blocks in the word of a block.
    pub(super) fn state(&self, unit: u32) -> Option<(bool, bool)> {
        let word = self.words.get((unit / BITS) as usize)?;
        let bit = 1 << (unit % BITS);
        (u64::from(unit) < self.places.usable_count())
            .then_some((word.taken & bit != 0, word.reserved & bit != 0))
    }

    fn is_inside(&self, (unit, count): Units) -> bool {
        u64::from(unit) + u64::from(count) <= self.places.usable_count()
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn run() -> Run {
        let key = RunKey { unit_size: 1088, alignment: 0, flags: 9, chunks: 1 };
        let places = key.places(0).expect("a run");
        Run::new(key, places, (0..places.bitmap_words).map(|_| 0))
    }

    #[test]
    fn pieces_of_a_word() {
        assert_eq!((longest(0), longest(u64::MAX), longest(0xFFFF_0000_FFFF_00FF)), (64, 0, 16));
        assert_eq!(find(0, 64), Some(0));
        assert_eq!(find(0b1011, 1), Some(2));
        assert_eq!(find(0b1011, 3), Some(4));
        assert_eq!(find(u64::MAX >> 1, 2), None);
        for count in 1..=64 {
            assert_eq!(find(!(u64::MAX << (64 - count)), count), Some(64 - count), "{count}");
        }
    }

    #[test]
    fn blocks_go_through_their_states() {
        let mut run = run();
        let count = run.places.usable_count() as u32;
        let unit = run.take(3).expect("free");
        assert!(!run.is_empty() && !run.begin_free((unit, 3)), "reserved");
        assert!(run.publish((unit, 3)) && !run.publish((unit, 3)), "once");
        assert_eq!(run.cancel((unit, 3)), 0, "an object");
        assert!(run.begin_free((unit, 3)) && !run.begin_free((unit, 1)), "once");
        assert_eq!(run.end_free((unit, 3)), 64);
        assert!(run.is_empty());
        let taken: Vec<u32> = (0..count).filter_map(|_| run.take(1)).collect();
        assert_eq!(taken, (0..count).collect::<Vec<u32>>());
        assert_eq!(run.take(1), None);
        assert!(!run.begin_free((count, 1)) && !run.begin_free((63, 2)) && !run.begin_free((0, 0)));
        assert_eq!(run.cancel((63, 1)), 1);
        assert_eq!((run.take(2), run.take(1)), (None, Some(63)));
    }
}
