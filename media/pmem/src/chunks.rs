//! Private copies of parts of a mapping for which the kernel has no private mapping: that of a device-DAX node.

use crate::access;
use crate::reservation::Reservation;
use std::alloc::{Layout, handle_alloc_error};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The chunks of a shared, read-only mapping that have been replaced by private copies. A store first makes its chunk
/// private. All other chunks show the content of the medium.
///
/// # Cost
/// The first store to a chunk copies all of it; every store takes a lock.
#[derive(Debug)]
pub(crate) struct PrivateChunks {
    size: usize,
    private: Mutex<HashSet<usize>>,
}

impl PrivateChunks {
    /// Creates the set for a mapping in which the kernel replaces only whole chunks of `size` bytes.
    pub(crate) fn new(size: usize) -> PrivateChunks {
        PrivateChunks { size, private: Mutex::default() }
    }

    /// Makes the chunks private that `range` touches. Returns false if some of their bytes can't be read, after raising
    /// a fault. A copy would turn those bytes into zeros, so none is made.
    pub(crate) fn make_private(&self, range: Range<usize>, reservation: &Reservation) -> bool {
        let mut private = self.private.lock().unwrap_or_else(PoisonError::into_inner);
        if range.is_empty() {
            return true;
        }
        (range.start / self.size..range.end.div_ceil(self.size)).all(|chunk| {
            let good = private.contains(&chunk) || self.replace(chunk, reservation);
            if good {
                private.insert(chunk);
            }
            good
        })
    }

    fn replace(&self, chunk: usize, reservation: &Reservation) -> bool {
        let start = chunk * self.size;
        let copy = Reservation::accessible(self.size).unwrap_or_else(|_| self.out_of_memory());
        let from = reservation.at(start);
        assert!(self.size <= reservation.size() - start);
        // SAFETY: - `from` is followed by a whole chunk of the reservation, as just checked.
        //         - the copy has the size of a chunk, and no other reference to it exists.
        let copied = unsafe { access::copy_out(from.as_ptr(), copy.base().as_ptr(), self.size) };
        if copied && reservation.replace(start, copy).is_err() {
            self.out_of_memory();
        }
        copied
    }

    /// Ends the process, as the kernel does when it finds no page for a private copy of its own.
    fn out_of_memory(&self) -> ! {
        handle_alloc_error(Layout::array::<u8>(self.size).unwrap_or(Layout::new::<u8>()))
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::reservation::page;
    use crate::{Fault, FaultKind, Memory};
    use lode_layout::PoolOffset;
    use rustix::mm::{MapFlags, ProtFlags};
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    const CHUNK: u64 = 16 << 10;

    fn at(bytes: u64) -> PoolOffset {
        PoolOffset::new(bytes)
    }

    /// Returns a file of four chunks in which each word is its own offset, and a view of it, mapped like a device-DAX
    /// node.
    fn view() -> (File, Memory) {
        let file = tempfile::tempfile().unwrap();
        let words: Vec<u8> = (0..4 * CHUNK).step_by(8).flat_map(u64::to_le_bytes).collect();
        file.write_all_at(&words, 0).unwrap();
        let reservation = Reservation::inaccessible(words.len(), page()).unwrap();
        let pages = 0..words.len();
        reservation.open_file(pages, file.as_fd(), 0, ProtFlags::READ, MapFlags::SHARED).unwrap();
        let chunks = PrivateChunks::new(CHUNK as usize);
        (file, Memory::private_from_reservation(reservation, 4 * CHUNK, chunks, None))
    }

    #[test]
    fn private_stores_never_reach_file() {
        let (file, view) = view();
        view.store8(at(8), 1);
        assert_eq!(view.compare_exchange8(at(CHUNK), CHUNK, 2), Ok(CHUNK));
        assert_eq!(view.compare_exchange8(at(CHUNK), CHUNK, 3), Err(2));
        view.store(at(2 * CHUNK - 4), &[0xff; 8]);
        assert_eq!(Fault::take(), None);
        assert_eq!((view.load8(at(8)), view.load8(at(16)), view.load8(at(CHUNK))), (1, 16, 2));
        assert_eq!(view.load8(at(2 * CHUNK)), (2 * CHUNK) | 0xffff_ffff);
        assert_eq!(view.load8(at(2 * CHUNK - 16)), 2 * CHUNK - 16);
        let mut word = [0; 8];
        for offset in [8, CHUNK, 2 * CHUNK - 8, 2 * CHUNK] {
            file.read_exact_at(&mut word, offset).unwrap();
            assert_eq!(u64::from_le_bytes(word), offset);
        }
        // Chunks without stores still show the file.
        file.write_all_at(&[7; 8], 3 * CHUNK).unwrap();
        assert_eq!(view.load8(at(3 * CHUNK)), 0x0707_0707_0707_0707);
    }

    #[test]
    fn out_of_range_private_stores_fault() {
        let (_file, view) = view();
        for (offset, len) in [(4 * CHUNK, 8), (4 * CHUNK - 4, 8), (4, 8), (u64::MAX - 7, 8)] {
            view.store8(at(offset), 1);
            let fault = Fault { kind: FaultKind::OutOfRange, at: at(offset), len };
            assert_eq!(Fault::take(), Some(fault));
        }
        view.store(at(4 * CHUNK - 4), &[1; 8]);
        assert_eq!(Fault::take().map(|fault| fault.kind), Some(FaultKind::OutOfRange));
        view.store(at(4 * CHUNK), &[]);
        assert_eq!(Fault::take(), None);
    }

    #[test]
    fn store_to_lost_chunk_faults() {
        let (file, view) = view();
        file.set_len(2 * CHUNK + page() as u64).unwrap();
        view.store8(at(2 * CHUNK), 1);
        let fault = Fault { kind: FaultKind::Poison, at: at(2 * CHUNK + page() as u64), len: page() as u64 };
        assert_eq!(Fault::take(), Some(fault));
        assert_eq!(view.load8(at(2 * CHUNK)), 2 * CHUNK, "what can be read is as it was");
        view.load8(at(3 * CHUNK - 8));
        assert_eq!(Fault::take().map(|fault| fault.kind), Some(FaultKind::Poison), "and what can't be, too");
        view.store8(at(8), 1);
        assert_eq!((view.load8(at(8)), Fault::take()), (1, None));
    }
}
