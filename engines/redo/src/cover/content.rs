//! The content of a range without the stores of open transactions.

use super::open_transactions::OpenTransactions;
use crate::bugs;
use lode_pmem::Medium;

/// Reads the content of a range, with the old bytes of open transactions.
///
/// A transaction that ends between a load of the content and the question for its old bytes leaves bytes that are neither. So the first
/// such end makes all further loads happen while no transaction can end, or add a range: however many end elsewhere, the content is
/// loaded twice.
#[derive(Debug)]
pub(super) struct Content<'o> {
    open: &'o OpenTransactions,
    /// True if the caller's record is durable only with those of the transactions that are committing.
    passes_committing: bool,
    /// True if transactions are held while the content is loaded.
    holds: bool,
}

impl<'o> Content<'o> {
    pub(super) fn new(open: &'o OpenTransactions, passes_committing: bool) -> Content<'o> {
        Content { open, passes_committing, holds: false }
    }

    /// Loads the content from `at` on by `load`, and puts the old bytes in. Returns false if it is to be loaded again: a transaction has
    /// ended meanwhile, or has begun in a new place, or one that has some of the bytes is committing.
    pub(super) fn load<M: Medium>(
        &mut self,
        medium: &M,
        at: u64,
        bytes: &mut [u8],
        load: impl FnOnce(&mut [u8]),
    ) -> bool {
        if self.holds {
            let held = self.open.hold_all(medium);
            load(bytes);
            // ORDER: asked after the content is loaded: a transaction whose store it has took its place before, and is held or counted.
            return held.overlay(at, bytes, self.passes_committing) && held.are_all();
        }
        let ended = self.open.ended();
        load(bytes);
        if bugs::END_NOT_NOTICED.is_active() && !self.passes_committing {
            medium.relax(0);
        }
        // ORDER: the old bytes are asked for after the content is loaded: a transaction that adds the range meanwhile has kept
        // this content. One that ends meanwhile is found by the count, and one that commits is waited for.
        let is_settled = bugs::PERSIST_OF_OPEN_BYTES.is_active()
            || self.open.overlay(medium, at, bytes, self.passes_committing);
        self.holds = self.open.ended() != ended && !bugs::END_NOT_NOTICED.is_active();
        is_settled && !self.holds
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_testing::memory::volatile;

    /// A transaction ends elsewhere whenever none is held.
    #[test]
    fn content_is_loaded_twice_beside_any_number_of_ends() {
        let medium = volatile(4096);
        let open = OpenTransactions::new(4, 256);
        let place = open.take(&medium).expect("it is free");
        let mut content = Content::new(&open, false);
        let mut loads = 0;
        let mut load = |bytes: &mut [u8]| {
            loads += 1;
            assert!(loads <= 2, "the content is loaded again and again");
            bytes.fill(loads);
            if !open.is_held(place) {
                open.leave(place, &medium, |_| ());
                assert_eq!(open.take(&medium), Some(place));
            }
        };
        let mut bytes = [0; 8];
        while !content.load(&medium, 0, &mut bytes, &mut load) {}
        assert_eq!(bytes, [2; 8]);
    }

    #[test]
    fn transaction_in_a_new_place_makes_a_held_content_void() {
        let medium = volatile(4096);
        let open = OpenTransactions::new(4, 256);
        let place = open.take(&medium).expect("it is free");
        let mut content = Content::new(&open, false);
        let mut bytes = [0; 8];
        assert!(!content.load(&medium, 0, &mut bytes, |_| open.leave(place, &medium, |_| ())));
        assert!(open.take(&medium).is_some());
        assert!(!content.load(&medium, 0, &mut bytes, |_| assert!(open.take(&medium).is_some())));
        assert!(content.load(&medium, 0, &mut bytes, |_| ()));
    }
}
