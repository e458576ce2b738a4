//! Ranges whose stores another library makes durable: pools of objects, whose log has to know of each persist.
//!
//! The recovery of a log stores anew what the log covers, so a flush of the line alone would be lost. The owner of such a range registers it,
//! and each call that would flush a part of it calls the owner instead.

use lode_capi_entry::{AddressRange, AddressTable};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The ranges. `number` is the owner's function, `word` its argument.
static OWNERS: AddressTable = AddressTable::new();
/// Number of ranges: while there is none, no call looks for one.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Returns true if any range has an owner.
#[inline(always)]
pub(crate) fn any() -> bool {
    // ORDER: a thread that got an address of a range sees the number, which counted it before.
    COUNT.load(Ordering::Relaxed) != 0
}

/// Adds a range. Returns false in a signal handler that interrupted the same call.
pub(crate) fn insert(range: AddressRange) -> bool {
    let is_inserted = OWNERS.insert(range);
    if is_inserted {
        // ORDER: the range is in the table before it counts.
        COUNT.fetch_add(1, Ordering::Release);
    }
    is_inserted
}

/// Removes the range that begins at `start`.
pub(crate) fn remove(start: usize) {
    if OWNERS.remove(start).is_some() {
        // ORDER: the range is out of the table before it counts no more.
        COUNT.fetch_sub(1, Ordering::Release);
    }
}

/// Divides `len` bytes at `start`: calls `owned` with each part that has an owner, and `free` with the others.
pub(crate) fn divide(
    start: usize,
    len: usize,
    mut owned: impl FnMut(&AddressRange, usize, usize),
    mut free: impl FnMut(usize, usize),
) {
    let end = start.saturating_add(len);
    let mut at = start;
    while at < end {
        let Some(range) = OWNERS.first_in(at, end - at) else { return free(at, end - at) };
        if range.start > at {
            free(at, range.start - at);
            at = range.start;
        }
        let part = (end - at).min(range.start + range.len - at);
        owned(&range, at, part);
        at += part;
    }
}

/// Takes the table's lock, so that a child finds it whole.
pub(crate) fn before_fork() {
    OWNERS.before_fork();
}

/// Releases the lock, in the parent and in the child.
pub(crate) fn after_fork() {
    OWNERS.after_fork();
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn parts_go_to_their_owners() {
        let range = |start, word| AddressRange { start, len: 100, number: 0, word };
        assert!(!any());
        assert!(insert(range(1000, 1)) && insert(range(1200, 2)));
        assert!(any());
        for (start, len, wanted) in [
            (900, 100, vec![(0, 900, 100)]),
            (900, 101, vec![(0, 900, 100), (1, 1000, 1)]),
            (1050, 10, vec![(1, 1050, 10)]),
            (1099, 102, vec![(1, 1099, 1), (0, 1100, 100), (2, 1200, 1)]),
            (1000, 0, vec![]),
            (950, 500, vec![(0, 950, 50), (1, 1000, 100), (0, 1100, 100), (2, 1200, 100), (0, 1300, 150)]),
        ] {
            let found = std::cell::RefCell::new(Vec::new());
            let add = |word, start, len| found.borrow_mut().push((word, start, len));
            divide(
                start,
                len,
                |range, start, len| add(range.word, start, len),
                |start, len| add(0, start, len),
            );
            assert_eq!(found.into_inner(), wanted);
        }
        remove(1000);
        remove(1000);
        assert!(any());
        remove(1200);
        assert!(!any());
    }
}
