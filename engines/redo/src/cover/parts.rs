//! The parts of a range that others leave.

use std::iter;
use std::ops::Range;

/// Returns the parts of a range that are in none of `known`, which are in the order of their offsets. Those that have no byte of the range
/// do not count.
pub fn parts_beside(
    range: Range<u64>,
    known: impl IntoIterator<Item = Range<u64>>,
) -> impl Iterator<Item = Range<u64>> {
    let (start, end) = (range.start, range.end);
    let inside = known.into_iter().filter(move |known| known.start < end && known.end > start);
    let between = inside.chain(iter::once(end..end)).scan(start, |from, known| {
        let part = *from..known.start;
        *from = known.end.max(*from);
        Some(part)
    });
    between.filter(|part| part.start < part.end)
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn parts_lie_beside_the_known_ranges() {
        let parts = |range| parts_beside(range, [10..25, 30..40, 50..60]).collect::<Vec<_>>();
        assert_eq!(parts(0..70), [0..10, 25..30, 40..50, 60..70]);
        assert_eq!(parts(12..45), [25..30, 40..45]);
        assert_eq!(parts(31..40), []);
        assert_eq!(parts(7..7), []);
    }
}
