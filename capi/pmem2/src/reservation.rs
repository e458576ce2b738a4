//! Reservations: addresses of the program in which it places mappings.
//!
//! A reservation holds more addresses than the program asked for, up to large pages, so that it can grow in place. When it
//! grows beyond them, it reserves the next addresses, if they are free.

use crate::code;
use crate::failure::Failure;
use crate::registry::{Registry, Reservation};
use crate::source::page;
use lode_pmem::{program_align, reserve_program};
use std::io;

impl Reservation {
    /// Reserves `len` bytes at `start`, or anywhere if it is 0.
    pub(crate) fn new(start: usize, len: usize) -> Result<Reservation, Failure> {
        if !start.is_multiple_of(page()) {
            let text = format!("address {start:#x} is not a multiple of {:#x}; align it", page());
            return Err(Failure::new(code::ADDRESS_UNALIGNED, text));
        }
        check_len("reservation size", len)?;
        let align = program_align(len, page());
        let (at, held) = match start {
            0 => (None, len.checked_next_multiple_of(align).and_then(|whole| whole.checked_add(align))),
            start => (Some(start), Some(len.max(page()))),
        };
        let held = held.ok_or_else(|| failed(&io::Error::from_raw_os_error(libc::ENOMEM)))?;
        let start = reserve_program(at, held, align).map_err(|error| failed(&error))?;
        Ok(Reservation { start, len, held_end: start + held })
    }

    /// Adds `size` bytes at the end.
    pub(crate) fn extend(&mut self, size: usize) -> Result<(), Failure> {
        check_len("reservation extension size", size)?;
        let end = (self.start + self.len).checked_add(size);
        let end = end.ok_or_else(|| failed(&io::Error::from_raw_os_error(libc::ENOMEM)))?;
        if end > self.held_end {
            let more = end - self.held_end;
            reserve_program(Some(self.held_end), more, page()).map_err(|error| failed(&error))?;
            self.held_end = end;
        }
        self.len += size;
        Ok(())
    }

    /// Returns the reservation without a part at its start or its end, as [`Registry::check_shrink`] has checked.
    pub(crate) fn without(&self, offset: usize, size: usize) -> Reservation {
        let start = if offset == 0 { self.start + size } else { self.start };
        let len = self.len - size;
        let align = program_align(self.len, page());
        Reservation { start, len, held_end: self.held_end.min((start + len).next_multiple_of(align)) }
    }
}

impl Registry {
    /// Checks that a reservation can shrink by a part at its start or its end, which has no mapping.
    pub(crate) fn check_shrink(&self, handle: usize, offset: usize, size: usize) -> Result<(), Failure> {
        let reservation = self.reservation(handle)?;
        if !offset.is_multiple_of(page()) {
            let text =
                format!("reservation shrink offset {offset} is not a multiple of {}; align it", page());
            return Err(Failure::new(code::OFFSET_UNALIGNED, text));
        }
        check_len("reservation shrink size", size)?;
        let len = reservation.len;
        if offset >= len {
            let text =
                format!("reservation shrink offset {offset} is out of reservation range; it has {len} bytes");
            return Err(Failure::new(code::OFFSET_OUT_OF_RANGE, text));
        }
        let out_of_range = |text: String| Err(Failure::new(code::LENGTH_OUT_OF_RANGE, text));
        if size == 0 {
            return out_of_range("reservation shrink size 0 cannot be zero; pass whole pages".into());
        }
        let end = match offset.checked_add(size) {
            Some(end) if end <= len => end,
            _ => {
                return out_of_range(format!(
                    "reservation shrink size {size} stands out of reservation range; it has {} bytes from there on",
                    len - offset
                ));
            }
        };
        let refused = |text: &'static str| Err(Failure::new(code::NOSUPP, text));
        match (offset == 0, end == len) {
            (false, false) => {
                return refused(
                    "shrinking reservation from the middle is not supported; shrink it at its start or its end",
                );
            }
            (true, true) => {
                return refused("shrinking whole reservation is not supported; delete the reservation");
            }
            _ => {}
        }
        let addresses = reservation.start + offset..reservation.start + end;
        if self.first_in(handle, &addresses).is_some() {
            let text = format!(
                "reservation region (offset {offset}, size {size}) to be shrunk is occupied by a mapping; delete the \
                 mapping first"
            );
            return Err(Failure::new(code::VM_RESERVATION_NOT_EMPTY, text));
        }
        Ok(())
    }
}

/// Checks that a length is one of whole pages.
fn check_len(name: &str, len: usize) -> Result<(), Failure> {
    if len.is_multiple_of(page()) {
        return Ok(());
    }
    let text = format!("{name} {len} is not a multiple of {}; round it up", page());
    Err(Failure::new(code::LENGTH_UNALIGNED, text))
}

/// Returns the failure of a reservation that the kernel refused.
fn failed(error: &io::Error) -> Failure {
    match error.raw_os_error() {
        Some(libc::EEXIST) => {
            let remedy = "another mapping has these addresses: choose others, or none";
            Failure::of_call_with("mmap MAP_FIXED_NOREPLACE", error, remedy).with_code(code::MAPPING_EXISTS)
        }
        _ => Failure::of_call("mmap MAP_ANONYMOUS", error),
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const LARGE: usize = 2 << 20;

    #[test]
    fn lengths_and_addresses_are_whole_pages() {
        for (start, len, wanted) in [
            (0, 100, code::LENGTH_UNALIGNED),
            (1, 4096, code::ADDRESS_UNALIGNED),
            (0, 1usize.wrapping_neg() << 12, -libc::ENOMEM),
            (0, 1 << 62, -libc::ENOMEM),
        ] {
            assert_eq!(Reservation::new(start, len).unwrap_err().code, wanted, "{len} at {start}");
        }
    }

    #[test]
    fn reservations_grow_in_place() {
        let mut reservation = Reservation::new(0, page()).unwrap();
        assert!(reservation.start.is_multiple_of(LARGE));
        let (start, held_end) = (reservation.start, reservation.held_end);
        assert_eq!(held_end - start, 2 * LARGE);
        reservation.extend(LARGE).unwrap();
        assert_eq!((reservation.len, reservation.held_end), (LARGE + page(), held_end));
        assert_eq!(reservation.extend(1).unwrap_err().code, code::LENGTH_UNALIGNED);
        // The addresses of this reservation are taken.
        let taken = Reservation::new(start, page()).unwrap_err();
        assert_eq!(taken.code, code::MAPPING_EXISTS);
        assert_eq!(reservation.extend(usize::MAX - page() + 1).unwrap_err().code, -libc::ENOMEM);
        let without = reservation.without(0, page());
        assert_eq!(
            (without.start, without.len, without.held_end),
            (start + page(), LARGE, start + 2 * LARGE)
        );
        let without = reservation.without(page(), LARGE);
        assert_eq!((without.start, without.len, without.held_end), (start, page(), start + LARGE));
    }
}
