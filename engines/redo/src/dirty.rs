//! The lines that a checkpoint has to flush.

use lode_layout::{LINE, PoolOffset};

/// Lines of a bitmap: one for each bit of its words.
const BITMAP_LINES: u64 = 64 * 64;

/// The dirty lines of a range of the pool, one bit each.
#[derive(Clone, Debug)]
struct LineBitmap {
    /// The bitmap's number: that of its first line, divided by [`BITMAP_LINES`].
    number: u64,
    /// Mask of the words that are not zero.
    touched: u64,
    words: [u64; 64],
}

/// A set of cache lines with write-backs that no flush has followed yet. Each line is flushed once, however often it
/// was stored to. The set has a bitmap for each 256 KiB with such lines.
#[derive(Debug, Default)]
pub struct DirtyLines {
    /// For each 256 KiB of the pool, the index in `bitmaps` plus one, or 0.
    directory: Vec<u32>,
    bitmaps: Vec<LineBitmap>,
}

impl DirtyLines {
    /// Returns an empty set. It takes no memory before its first use.
    pub fn new() -> DirtyLines {
        DirtyLines::default()
    }

    /// Notes the lines that hold the range.
    #[inline]
    pub fn add(&mut self, at: PoolOffset, len: u64) {
        let last = at.plus(len.saturating_sub(1)).line();
        let mut line = at.line();
        while line <= last {
            let bitmap = self.bitmap(line / BITMAP_LINES);
            let word = line / 64 % 64;
            bitmap.touched |= 1 << word;
            bitmap.words[word as usize] |= 1 << (line % 64);
            line += 1;
        }
    }

    #[inline]
    fn bitmap(&mut self, number: u64) -> &mut LineBitmap {
        let place = match self.directory.get(number as usize) {
            Some(place) if *place > 0 => *place as usize - 1,
            _ => self.add_bitmap(number),
        };
        &mut self.bitmaps[place]
    }

    #[cold]
    fn add_bitmap(&mut self, number: u64) -> usize {
        let place = self.bitmaps.len();
        if self.directory.len() <= number as usize {
            self.directory.resize(number as usize + 1, 0);
        }
        self.directory[number as usize] = place as u32 + 1;
        self.bitmaps.push(LineBitmap { number, touched: 0, words: [0; 64] });
        place
    }

    /// Adds all lines of `other`, and empties it.
    pub(crate) fn merge(&mut self, other: &mut DirtyLines) {
        if self.bitmaps.is_empty() {
            std::mem::swap(self, other);
            return;
        }
        for bitmap in &other.bitmaps {
            let mine = self.bitmap(bitmap.number);
            mine.touched |= bitmap.touched;
            for (word, lines) in mine.words.iter_mut().zip(bitmap.words) {
                *word |= lines;
            }
        }
        other.clear();
    }

    /// Removes all lines.
    pub(crate) fn clear(&mut self) {
        for bitmap in self.bitmaps.drain(..) {
            self.directory[bitmap.number as usize] = 0;
        }
    }

    /// Returns the ranges to flush. Each line is in one of them; neighbours in one word share a range.
    pub fn ranges(&self) -> impl Iterator<Item = (PoolOffset, u64)> {
        self.bitmaps.iter().flat_map(|bitmap| {
            let words = bits(bitmap.touched).map(|word| (word, bitmap.words[word as usize]));
            words.flat_map(|(word, lines)| {
                let first = bitmap.number * BITMAP_LINES + word * 64;
                runs(lines).map(move |(line, count)| (PoolOffset::new((first + line) * LINE), count * LINE))
            })
        })
    }
}

/// Returns the numbers of the bits that are set.
fn bits(mut word: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| u64::from(word.trailing_zeros()))?;
        word &= word - 1;
        Some(bit)
    })
}

/// Returns the runs of bits that are set: the first bit and the length of each.
fn runs(mut word: u64) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        let first = (word != 0).then(|| word.trailing_zeros())?;
        let count = (word >> first).trailing_ones();
        word &= u64::MAX.checked_shl(first + count).unwrap_or(0);
        Some((u64::from(first), u64::from(count)))
    })
}

#[cfg(test)]
mod test {
    use super::*;

    fn ranges(dirty: &DirtyLines) -> Vec<(u64, u64)> {
        dirty.ranges().map(|(at, len)| (at.get(), len)).collect()
    }

    fn dirty_set(notes: &[(u64, u64)]) -> DirtyLines {
        let mut dirty = DirtyLines::new();
        for (at, len) in notes {
            dirty.add(PoolOffset::new(*at), *len);
        }
        dirty
    }

    #[test]
    fn each_dirty_line_once() {
        assert_eq!(ranges(&dirty_set(&[(0, 1)])), [(0, 64)]);
        assert_eq!(ranges(&dirty_set(&[(63, 2)])), [(0, 128)]);
        assert_eq!(ranges(&dirty_set(&[(64, 64), (0, 64), (64, 8)])), [(0, 128)]);
        assert_eq!(ranges(&dirty_set(&[(1 << 40, 65), (1 << 40, 1)])), [(1 << 40, 128)]);
        assert_eq!(ranges(&dirty_set(&[(0, 64 * 64)])), [(0, 64 * 64)]);
        assert_eq!(ranges(&dirty_set(&[(63 * 64, 128)])), [(63 * 64, 64), (64 * 64, 64)]);
        assert_eq!(ranges(&dirty_set(&[(0, 64), (128, 64)])), [(0, 64), (128, 64)]);
    }

    #[test]
    fn distant_lines_are_kept() {
        let notes: Vec<(u64, u64)> = (0..5000).map(|i| ((i * 7919 % 5000) * (LINE << 12), 8)).collect();
        let mut dirty = dirty_set(&notes);
        for (at, len) in &notes {
            dirty.add(PoolOffset::new(*at), *len);
        }
        let mut found: Vec<u64> = ranges(&dirty).iter().map(|range| range.0).collect();
        found.sort_unstable();
        assert_eq!(found, (0..5000).map(|i| i * (LINE << 12)).collect::<Vec<_>>());
    }

    #[test]
    fn sets_merge_and_clear() {
        let (mut all, mut one, mut two) =
            (DirtyLines::new(), dirty_set(&[(0, 64), (128, 64)]), dirty_set(&[(128, 128), (1 << 30, 8)]));
        all.merge(&mut one);
        all.merge(&mut two);
        assert_eq!(ranges(&all), [(0, 64), (128, 128), (1 << 30, 64)]);
        assert_eq!((ranges(&one), ranges(&two)), (vec![], vec![]));
        all.clear();
        all.add(PoolOffset::new(128), 8);
        assert_eq!(ranges(&all), [(128, 64)]);
    }
}
