//! The mappings and the reservations of the process.
//!
//! Mappings do not overlap. One of no bytes may be at the start of another one, but not inside it. One in a reservation knows the handle of the reservation, so walks over a reservation are walks
//! over the mappings.

use crate::code;
use crate::failure::Failure;
use crate::source::page;
use lode_capi_entry::Table;
use std::collections::BTreeMap;
use std::ops::Range;

/// The mappings and reservations of the process.
pub(crate) static REGISTRY: Table<Registry> = Table::new(Registry::new());

/// The owner of a mapping's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// The program mapped them itself.
    Program,
    /// The library mapped so many bytes.
    Mapping { len: usize },
    /// The reservation with this handle, of which the mapping takes so many bytes.
    Reservation { handle: usize, len: usize },
}

/// A mapping, by its handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) handle: usize,
    pub(crate) owner: Owner,
}

/// A range of addresses of the program, and the ones that are held for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) start: usize,
    pub(crate) len: usize,
    /// End of the addresses that are held: more than the program asked for, so that the reservation can grow.
    pub(crate) held_end: usize,
}

/// The first address; true if there are bytes; the handle. Mappings of no bytes may share an address, and come before the one
/// that has bytes there.
type Key = (usize, bool, usize);

/// All of them.
#[derive(Debug)]
pub(crate) struct Registry {
    /// In the order of their starts and of their ends.
    maps: BTreeMap<Key, Registered>,
    reservations: BTreeMap<usize, Reservation>,
}

impl Registry {
    /// Returns an empty registry.
    pub(crate) const fn new() -> Registry {
        Registry { maps: BTreeMap::new(), reservations: BTreeMap::new() }
    }

    /// Adds a mapping. Returns false if it overlaps another one.
    pub(crate) fn insert(&mut self, map: Registered) -> bool {
        if self.overlapping(map.start, map.end).next().is_some() {
            return false;
        }
        self.maps.insert(map.key(), map).is_none()
    }

    /// Removes the mapping with this handle, start and length.
    pub(crate) fn remove(&mut self, start: usize, len: usize, handle: usize) -> Result<Registered, Failure> {
        self.maps.remove(&(start, len != 0, handle)).ok_or_else(|| {
            let text = format!("Cannot find mapping {handle:#x} to delete; delete each mapping once");
            Failure::new(code::MAPPING_NOT_FOUND, text)
        })
    }

    /// Adds a reservation.
    pub(crate) fn insert_reservation(&mut self, handle: usize, reservation: Reservation) {
        self.reservations.insert(handle, reservation);
    }

    /// Returns the reservation with this handle.
    pub(crate) fn reservation(&self, handle: usize) -> Result<&Reservation, Failure> {
        self.reservations.get(&handle).ok_or_else(|| Failure::null("the reservation, or no reservation,"))
    }

    /// Returns the reservation with this handle, to be changed.
    pub(crate) fn reservation_mut(&mut self, handle: usize) -> Result<&mut Reservation, Failure> {
        self.reservations.get_mut(&handle).ok_or_else(|| Failure::null("the reservation, or no reservation,"))
    }

    /// Removes a reservation. Fails if a mapping is in it.
    pub(crate) fn remove_reservation(&mut self, handle: usize) -> Result<Reservation, Failure> {
        let reservation = self.reservation(handle)?;
        let all = reservation.start..reservation.start + reservation.len;
        if self.first_in(handle, &all).is_some() {
            let text = format!("vm reservation {handle:#x} isn't empty; delete its mappings first");
            return Err(Failure::new(code::VM_RESERVATION_NOT_EMPTY, text));
        }
        self.reservations.remove(&handle).ok_or_else(Failure::broken)
    }

    /// Returns the address of a mapping of `len` bytes, in whole pages, at `offset` of a reservation. The address has to
    /// be a multiple of `align`.
    pub(crate) fn place(
        &self,
        handle: usize,
        offset: usize,
        len: usize,
        align: usize,
    ) -> Result<usize, Failure> {
        let reservation = self.reservation(handle)?;
        if !offset.is_multiple_of(page()) {
            let text = format!(
                "virtual memory reservation offset {offset} is not a multiple of {}; align it",
                page()
            );
            return Err(Failure::new(code::OFFSET_UNALIGNED, text));
        }
        if offset.checked_add(len).is_none_or(|end| end > reservation.len) {
            let text = format!(
                "Reservation {handle:#x} has not enough space for the intended content: {len} bytes at {offset} of {}; \
                 extend it, or map less",
                reservation.len
            );
            return Err(Failure::new(code::LENGTH_OUT_OF_RANGE, text));
        }
        let start = reservation.start + offset;
        if !start.is_multiple_of(align) {
            let text = format!(
                "base mapping address {start:#x} (virtual memory reservation address + offset) is not a multiple of \
                 {align} required by device DAX; choose another offset"
            );
            return Err(Failure::new(code::ADDRESS_UNALIGNED, text));
        }
        if self.first_in(handle, &(start..start + len)).is_some() {
            let text = format!(
                "region of the reservation {handle:#x} at the offset {offset} and length {len} is at least partly \
                 occupied by other mapping; choose another offset"
            );
            return Err(Failure::new(code::MAPPING_EXISTS, text));
        }
        if let Some(existing) = self.overlapping(start, start + len).next() {
            let text = format!(
                "the addresses from {start:#x} on belong to mapping {:#x} of pmem2_map_from_existing; delete the \
                 mapping first",
                existing.handle
            );
            return Err(Failure::exists(-libc::EEXIST, text));
        }
        Ok(start)
    }

    /// Returns the first mapping in a reservation that has one of these addresses.
    pub(crate) fn first_in(&self, handle: usize, addresses: &Range<usize>) -> Option<&Registered> {
        self.overlapping(addresses.start, addresses.end).filter(|map| map.is_in(handle)).last()
    }

    /// Returns the last mapping in a reservation that ends at `address` or before.
    pub(crate) fn last_before(&self, handle: usize, address: usize) -> Option<&Registered> {
        let before = self.maps.range(..(address, false, 0)).rev().map(|(_, map)| map);
        before.filter(|map| map.is_in(handle)).find(|map| map.end <= address)
    }

    /// Returns the first mapping in a reservation that starts at `address` or after.
    pub(crate) fn first_after(&self, handle: usize, address: usize) -> Option<&Registered> {
        self.maps.range((address, false, 0)..).map(|(_, map)| map).find(|map| map.is_in(handle))
    }

    /// Returns the first part of a range that a mapping has.
    ///
    /// # Cost
    /// No allocation: a signal handler may have interrupted one.
    pub(crate) fn first_part(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let before = self.maps.range(..=(start, true, usize::MAX)).next_back().map(|(_, map)| map);
        let first = before.filter(|map| map.end > start).or_else(|| {
            let mut after = self.maps.range((start, true, usize::MAX)..).map(|(_, map)| map);
            after.find(|map| map.start != map.end)
        })?;
        let part = first.start.max(start)..first.end.min(end);
        (!part.is_empty()).then_some(part)
    }

    /// Returns the mappings with addresses of `start..end`, the last one first.
    fn overlapping(&self, start: usize, end: usize) -> impl Iterator<Item = &Registered> {
        let before = self.maps.range(..(end, false, 0)).rev().map(|(_, map)| map);
        before.take_while(move |map| map.end > start)
    }
}

impl Registered {
    fn key(&self) -> Key {
        (self.start, self.start != self.end, self.handle)
    }

    /// Returns true if the mapping is in the reservation with this handle.
    fn is_in(&self, reservation: usize) -> bool {
        matches!(self.owner, Owner::Reservation { handle, .. } if handle == reservation)
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const RESERVATION: usize = 7;
    const START: usize = 1 << 30;

    fn registry() -> Registry {
        let mut registry = Registry::new();
        let len = 16 * page();
        let reservation = Reservation { start: START, len, held_end: START + len };
        registry.insert_reservation(RESERVATION, reservation);
        registry
    }

    fn map(handle: usize, pages: Range<usize>) -> Registered {
        let (start, end) = (START + pages.start * page(), START + pages.end * page());
        let owner = Owner::Reservation { handle: RESERVATION, len: end - start };
        Registered { start, end, handle, owner }
    }

    #[test]
    fn mappings_do_not_overlap() {
        let mut registry = registry();
        assert!(registry.insert(map(1, 2..4)));
        for pages in [2..4, 1..3, 3..5, 0..16, 3..4] {
            assert!(!registry.insert(map(2, pages.clone())), "{pages:?}");
        }
        assert!(registry.insert(map(2, 4..5)) && registry.insert(map(3, 1..2)));
        let start = START + 2 * page();
        assert_eq!(registry.remove(start, 2 * page(), 2).unwrap_err().code, code::MAPPING_NOT_FOUND);
        registry.remove(start, 2 * page(), 1).unwrap();
        assert_eq!(registry.remove(start, 2 * page(), 1).unwrap_err().code, code::MAPPING_NOT_FOUND);
        assert!(registry.insert(map(2, 2..4)));
    }

    #[test]
    fn mappings_of_no_bytes_hide_none() {
        let mut registry = registry();
        let empty = |handle, at: usize| Registered { owner: Owner::Program, ..map(handle, at..at) };
        assert!(registry.insert(empty(8, 2)) && registry.insert(map(5, 2..6)));
        assert!(registry.insert(empty(9, 2)) && registry.insert(empty(1, 6)) && registry.insert(empty(2, 2)));
        assert!(
            !registry.insert(empty(3, 3)) && !registry.insert(map(3, 2..3)) && !registry.insert(map(3, 5..7))
        );
        let at = |page_number: usize| START + page_number * page();
        for start in [at(2), at(2) + 8, at(5)] {
            assert_eq!(registry.first_part(start, at(6)), Some(start..at(6)));
            assert_eq!(registry.first_part(start, start + 1), Some(start..start + 1));
        }
        assert_eq!(registry.first_in(RESERVATION, &(at(2)..at(3))).unwrap().handle, 5);
        assert_eq!(
            registry.place(RESERVATION, 2 * page(), page(), 1).unwrap_err().code,
            code::MAPPING_EXISTS
        );
        assert_eq!(
            registry.remove_reservation(RESERVATION).unwrap_err().code,
            code::VM_RESERVATION_NOT_EMPTY
        );
        assert_eq!(registry.remove(at(2), 0, 9).unwrap(), empty(9, 2));
        assert_eq!(registry.remove(at(2), 4 * page(), 5).unwrap().handle, 5);
    }

    #[test]
    fn walks_stay_in_the_reservation() {
        let mut registry = registry();
        for (handle, pages) in [(1, 2..4), (2, 4..5), (3, 9..12)] {
            registry.insert(map(handle, pages));
        }
        registry.insert(Registered { owner: Owner::Program, ..map(9, 6..7) });
        let handle = |found: Option<&Registered>| found.map_or(0, |map| map.handle);
        let at = |page_number: usize| START + page_number * page();
        for (pages, wanted) in
            [(0..2, 0), (0..3, 1), (3..16, 1), (4..16, 2), (5..9, 0), (6..16, 3), (0..16, 1)]
        {
            let found = registry.first_in(RESERVATION, &(at(pages.start)..at(pages.end)));
            assert_eq!(handle(found), wanted, "{pages:?}");
        }
        for (page_number, before, after) in
            [(0, 0, 1), (2, 0, 1), (3, 0, 2), (4, 1, 2), (8, 2, 3), (12, 3, 0)]
        {
            assert_eq!(handle(registry.last_before(RESERVATION, at(page_number))), before, "{page_number}");
            assert_eq!(handle(registry.first_after(RESERVATION, at(page_number))), after, "{page_number}");
        }
        assert_eq!(handle(registry.first_after(8, START)), 0);
        for (start, end, wanted) in [
            (at(3) + 5, at(7), Some(at(3) + 5..at(4))),
            (at(4), at(7), Some(at(4)..at(5))),
            (at(5), at(7), Some(at(6)..at(7))),
            (at(7), usize::MAX, Some(at(9)..at(12))),
            (at(9), at(9) + 1, Some(at(9)..at(9) + 1)),
            (at(3), at(3), None),
            (at(5), at(6), None),
            (0, at(2), None),
            (at(12), usize::MAX, None),
        ] {
            assert_eq!(registry.first_part(start, end), wanted, "{start:#x}..{end:#x}");
        }
        assert_eq!(
            registry.remove_reservation(RESERVATION).unwrap_err().code,
            code::VM_RESERVATION_NOT_EMPTY
        );
    }

    #[test]
    fn places_are_checked() {
        let mut registry = registry();
        registry.insert(map(1, 2..4));
        registry.insert(Registered { owner: Owner::Program, ..map(2, 12..13) });
        let (one, four) = (page(), 4 * page());
        for (offset, len, align, wanted) in [
            (1, one, one, Err(code::OFFSET_UNALIGNED)),
            (15 * one, 2 * one, one, Err(code::LENGTH_OUT_OF_RANGE)),
            (one, usize::MAX - one + 1, one, Err(code::LENGTH_OUT_OF_RANGE)),
            (one, usize::MAX, one, Err(code::LENGTH_OUT_OF_RANGE)),
            (5 * one, one, four, Err(code::ADDRESS_UNALIGNED)),
            (one, 2 * one, one, Err(code::MAPPING_EXISTS)),
            (11 * one, 2 * one, one, Err(-libc::EEXIST)),
            (8 * one, one, four, Ok(START + 8 * one)),
            (15 * one, one, one, Ok(START + 15 * one)),
        ] {
            let found = registry.place(RESERVATION, offset, len, align).map_err(|failure| failure.code);
            assert_eq!(found, wanted, "{len} at {offset}");
        }
        assert_eq!(registry.place(8, 0, one, one).unwrap_err().code, -libc::EINVAL);
    }
}
