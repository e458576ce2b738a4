//! The medium of a pool that a C library maps for a program.
//!
//! It differs from [`Mapping`](crate::Mapping) as a program for PMDK expects: no signal handler stands behind it, so a fault is a
//! signal to the program; a child of a fork may use it; it keeps no descriptor, since programs close those that they do not
//! know; and it takes media that keep nothing. The lock of flock(2) stays as long as the mapping does.

use crate::mapping::map_sync_accepted;
use crate::memory::Content;
use crate::reservation::{Reservation, page};
use crate::{
    ByAddress, CopyPath, DaxDevice, Fault, FaultKind, MappedPart, Medium, Memory, SyncError, bugs,
    msync_program,
};
use lode_layout::{BLOCK, Durability, LINE, PoolOffset, WORD};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicI32, Ordering};

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// The relation between the stores to a [`ProgramMedium`] and its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramShare {
    /// Stores go to the file.
    Shared,
    /// Stores stay in the process.
    CopyOnWrite,
    /// As `CopyOnWrite`, and engines refuse changes: a private view.
    ReadOnly,
}

/// A file or a device-DAX node, or several of them back to back, mapped until drop.
///
/// # Durability
/// `line` where a flush makes stores durable, `byte` where the flushes are left out, `commit` where a sync does, and `none`
/// for a mapping that is not shared.
#[derive(Debug)]
pub struct ProgramMedium {
    memory: Memory,
    instructions: ByAddress,
    durability: Durability,
    /// True if the kernel maps all of it directly.
    is_synced: bool,
    share: ProgramShare,
    /// Error number of the first failed sync; later syncs are refused. 0 before a failure.
    failed: AtomicI32,
}

impl ProgramMedium {
    /// Maps the first `len` bytes of the file, or of the node that `device` describes. `forced` tells whether a file that the kernel does not
    /// map directly is persistent memory. As with PMDK, it changes nothing for a node, which has no msync(2), and for a file that is mapped
    /// directly.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn map(
        file: &File,
        device: Option<&DaxDevice>,
        len: u64,
        share: ProgramShare,
        forced: Option<bool>,
        instructions: ByAddress,
    ) -> io::Result<ProgramMedium> {
        let part = Part { file, skip: 0, len, unit: device.map_or(0, DaxDevice::align) };
        ProgramMedium::map_all(&[part], 0, device, share, forced, instructions)
    }

    /// Maps the parts of a pool back to back, as [`map`](ProgramMedium::map) does one file. All parts are nodes, or none is;
    /// `device` describes the one with the largest alignment. The memory can [`grow`](ProgramMedium::grow) to `reserved` bytes.
    ///
    /// # Errors
    /// The error of mmap(2); EINVAL if a part but the last one does not end with a page.
    pub fn map_parts(
        parts: &[MappedPart],
        reserved: u64,
        device: Option<&DaxDevice>,
        share: ProgramShare,
        forced: Option<bool>,
        instructions: ByAddress,
    ) -> io::Result<ProgramMedium> {
        let parts: Vec<Part<'_>> = parts.iter().map(Part::of).collect();
        ProgramMedium::map_all(&parts, reserved, device, share, forced, instructions)
    }

    fn map_all(
        parts: &[Part<'_>],
        reserved: u64,
        device: Option<&DaxDevice>,
        share: ProgramShare,
        forced: Option<bool>,
        instructions: ByAddress,
    ) -> io::Result<ProgramMedium> {
        // The last part alone may end inside of a page.
        let is_whole = |part: &Part<'_>| (part.skip | part.len).is_multiple_of(page() as u64);
        if parts.split_last().is_some_and(|(last, others)| {
            !others.iter().all(is_whole) || !last.skip.is_multiple_of(page() as u64)
        }) {
            return Err(Errno::INVAL.into());
        }
        let len = parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(part.len)).ok_or(Errno::NOMEM)?;
        let lens: Option<Vec<usize>> = parts.iter().map(Part::mapped_len).collect();
        let mapped = lens.and_then(|lens| lens.into_iter().try_fold(0_usize, usize::checked_add));
        let size = usize::try_from(reserved).ok().zip(mapped).map(|(reserved, mapped)| mapped.max(reserved));
        let size = size.and_then(|size| size.checked_next_multiple_of(page()));
        let size = size.ok_or(Errno::NOMEM)?;
        let align = crate::program_align(size, device.map_or(0, DaxDevice::align));
        let reservation = Reservation::inaccessible(size, align)?;
        let (mut start, mut is_synced) = (0, true);
        for part in parts {
            let pages = start..start + part.mapped_len().unwrap_or(0);
            start = pages.end;
            // The kernel maps a node directly in any case, and would log that it refuses a page of one.
            is_synced &= open(&reservation, pages, part, share, device.map(|_| false))?;
        }
        let is_pmem = is_synced || device.is_some() || forced == Some(true);
        let durability = match share {
            ProgramShare::Shared if !is_pmem => Durability::Commit,
            ProgramShare::Shared if instructions.flushes() => Durability::Line,
            ProgramShare::Shared => Durability::Byte,
            ProgramShare::CopyOnWrite | ProgramShare::ReadOnly => Durability::None,
        };
        if durability == Durability::Commit {
            expect_single_pages(&reservation, 0..start);
        }
        // An engine may store to a copy, and nothing of it reaches the file.
        let content = match share {
            ProgramShare::ReadOnly => Content::PrivateView,
            ProgramShare::Shared | ProgramShare::CopyOnWrite => Content::Shared { in_children: true },
        };
        let memory = Memory::of_program(reservation, len, content);
        let failed = AtomicI32::new(0);
        Ok(ProgramMedium { memory, instructions, durability, is_synced, share, failed })
    }

    /// Makes the memory longer, in place, by a part after its end. The part is mapped as the others are.
    ///
    /// # Errors
    /// ENOMEM beyond the addresses that were reserved; the error of mmap(2): EOPNOTSUPP if the kernel does not map the part directly, as it
    /// does all others. The memory has its old length then.
    pub fn grow(&self, part: &MappedPart) -> io::Result<()> {
        let part = Part::of(part);
        if !(self.memory.len() | part.skip | part.len).is_multiple_of(page() as u64) {
            return Err(Errno::INVAL.into());
        }
        let len = self.memory.len().checked_add(part.len).ok_or(Errno::NOMEM)?;
        self.memory.grow_with(len, |reservation, pages| {
            open(reservation, pages.clone(), &part, self.share, Some(self.is_synced))?;
            if self.durability == Durability::Commit {
                expect_single_pages(reservation, pages);
            }
            Ok(())
        })
    }

    /// Copies bytes by this path. Raises a fault, and copies none, if the range is not all inside of the memory.
    #[inline]
    fn copy_by(&self, at: PoolOffset, bytes: &[u8], path: CopyPath) {
        if let Some(into) = self.memory.range_address(at, bytes.len()) {
            // SAFETY: - `range_address` checked the range, and `bytes` is a reference.
            unsafe { self.instructions.copy(into.as_ptr(), bytes.as_ptr(), bytes.len(), path) };
        }
    }

    /// Makes the stores to `len` bytes at `at` durable by one msync(2) of their pages. It fails, too, if the kernel has failed to
    /// write another page of the file back.
    #[cold]
    fn msync(&self, at: PoolOffset, len: usize) -> Result<(), SyncError> {
        // ORDER: pairs with the store below: a sync after a failure is refused.
        match self.failed.load(Ordering::Acquire) {
            0 => {}
            errno => return Err(SyncError { errno }),
        }
        // The memory raises a fault for a range outside of it.
        let Some(start) = self.memory.range_address(at, len) else { return Ok(()) };
        msync_program(start.addr().get(), len).map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EIO);
            // ORDER: the next sync sees it. The first failure counts.
            let first = self.failed.compare_exchange(0, errno, Ordering::AcqRel, Ordering::Acquire);
            SyncError { errno: first.err().unwrap_or(errno) }
        })
    }
}

/// A file that is mapped, or a part of one.
#[derive(Clone, Copy, Debug)]
struct Part<'a> {
    file: &'a File,
    /// Bytes at its start that are left out.
    skip: u64,
    len: u64,
    /// The alignment of a node's mappings, or less.
    unit: usize,
}

impl<'a> Part<'a> {
    fn of(part: &'a MappedPart) -> Part<'a> {
        Part { file: &part.file, skip: part.skip, len: part.len, unit: part.unit as usize }
    }

    /// Returns the bytes that are mapped.
    fn mapped_len(&self) -> Option<usize> {
        usize::try_from(self.len).ok()?.checked_next_multiple_of(self.unit.max(page()))
    }
}

/// Opens pages of the reservation as the bytes of the part. Returns true if the kernel maps persistent memory directly; `is_synced` asks
/// for that, or for the page cache.
fn open(
    reservation: &Reservation,
    pages: Range<usize>,
    part: &Part<'_>,
    share: ProgramShare,
    is_synced: Option<bool>,
) -> io::Result<bool> {
    let map = |flags: MapFlags| {
        reservation.open_file(pages.clone(), part.file.as_fd(), part.skip, READ_WRITE, flags)
    };
    if share != ProgramShare::Shared {
        map(MapFlags::PRIVATE | MapFlags::NORESERVE)?;
        return Ok(false);
    }
    let is_accepted =
        is_synced != Some(false) && map_sync_accepted(part.file, READ_WRITE, pages.len(), part.skip)?;
    if is_synced == Some(true) && !is_accepted {
        return Err(Errno::OPNOTSUPP.into());
    }
    let flags = if is_accepted { MapFlags::SHARED_VALIDATE | MapFlags::SYNC } else { MapFlags::SHARED };
    map(flags).map(|()| is_accepted)
}

/// Asks the kernel for pages one by one. Pages that it reads ahead it keeps in folios of up to 2 MiB, and a sync writes all of a folio in which a
/// byte was stored.
fn expect_single_pages(reservation: &Reservation, pages: Range<usize>) {
    // Without the advice syncs are slow, and nothing else is wrong.
    let _ = reservation.expect_random_reads(pages);
}

impl Medium for ProgramMedium {
    #[inline]
    fn memory(&self) -> &Memory {
        &self.memory
    }

    #[inline]
    fn durability(&self) -> Durability {
        self.durability
    }

    #[inline]
    fn log_block(&self) -> u64 {
        if self.durability == Durability::Commit { BLOCK } else { LINE }
    }

    #[inline]
    fn store8(&self, at: PoolOffset, value: u64) {
        self.memory.store8(at, value);
    }

    #[inline]
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.memory.store(at, bytes);
    }

    #[inline]
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.memory.compare_exchange8(at, current, new)
    }

    #[inline]
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        if !(at.get() | bytes.len() as u64).is_multiple_of(WORD) {
            return Fault { kind: FaultKind::OutOfRange, at, len: bytes.len() as u64 }.raise();
        }
        let is_flushed = self.durability == Durability::Line;
        self.copy_by(at, bytes, if is_flushed { CopyPath::WriteCombining } else { CopyPath::Unflushed });
    }

    #[inline]
    fn flush(&self, at: PoolOffset, len: u64) {
        if self.durability != Durability::Line {
            return;
        }
        if let Some(start) = self.memory.range_address(at, len as usize) {
            // SAFETY: - `range_address` checked the range, which is mapped.
            unsafe { self.instructions.flush(start.as_ptr(), len as usize) };
        }
    }

    #[inline]
    fn drain(&self) -> Result<(), SyncError> {
        match self.durability {
            Durability::Commit if bugs::DRAIN_NOT_SYNCED.is_active() => Ok(()),
            Durability::Commit => self.msync(PoolOffset::NULL, self.memory.len() as usize),
            Durability::None => Ok(()),
            Durability::Line | Durability::Byte => {
                self.instructions.drain();
                Ok(())
            }
        }
    }

    /// As the default, without a cancellation point of pthread_cancel(3).
    fn relax(&self, round: u32) {
        match round {
            0..64 => std::hint::spin_loop(),
            64..256 => std::thread::yield_now(),
            _ => {
                let time = libc::timespec { tv_sec: 0, tv_nsec: 20_000 };
                // SAFETY: - the time is valid for a load, and the null pointer asks for no rest.
                unsafe {
                    libc::syscall(
                        libc::SYS_nanosleep,
                        &raw const time,
                        std::ptr::null_mut::<libc::timespec>(),
                    )
                };
            }
        }
    }

    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        if let Some(into) = self.memory.range_address(at, bytes.len()) {
            // SAFETY: - `range_address` checked the range, `bytes` is a reference, and both are whole lines.
            unsafe { self.instructions.copy_record(into.as_ptr(), bytes.as_ptr(), bytes.len()) };
        }
        // ORDER: the bytes are durable before the caller is told. Stop here: the record is whole, or its checksum shows that it is not.
        match self.durability {
            Durability::Commit if bugs::LOG_WRITE_NOT_SYNCED.is_active() => Ok(()),
            // The pages with the homes wait for a checkpoint.
            Durability::Commit => self.msync(at, bytes.len()),
            _ => self.drain(),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{Cpu, FaultScope, Sysfs};
    use std::io::Read;
    use std::os::unix::fs::FileExt;

    const LEN: u64 = 3 * 4096;

    fn medium(share: ProgramShare, forced: Option<bool>) -> (File, ProgramMedium) {
        let file = tempfile::tempfile().unwrap();
        file.set_len(LEN + 5).unwrap();
        let instructions = ByAddress::new(Cpu::without("").unwrap());
        let medium = ProgramMedium::map(&file, None, LEN, share, forced, instructions).unwrap();
        (file, medium)
    }

    #[test]
    fn shared_stores_alone_reach_the_file() {
        for (share, forced, durability) in [
            (ProgramShare::Shared, Some(true), Durability::Line),
            (ProgramShare::Shared, Some(false), Durability::Commit),
            (ProgramShare::CopyOnWrite, Some(true), Durability::None),
            (ProgramShare::ReadOnly, None, Durability::None),
        ] {
            let (file, medium) = medium(share, forced);
            assert_eq!((medium.durability(), medium.memory().len()), (durability, LEN));
            assert_eq!(medium.memory().is_private_view(), share == ProgramShare::ReadOnly);
            medium.store8(PoolOffset::new(8), 7);
            medium.copy(PoolOffset::new(4096), &[5; 200]);
            medium.store(PoolOffset::new(LEN - 3), b"abc");
            medium.flush(PoolOffset::new(LEN - 3), 3);
            medium.drain().unwrap();
            let mut bytes = Vec::new();
            (&file).read_to_end(&mut bytes).unwrap();
            let is_shared = share == ProgramShare::Shared;
            assert_eq!(bytes[8] == 7 && bytes[4096..4296] == [5; 200], is_shared);
            assert_eq!(&bytes[LEN as usize - 3..] == b"abc\0\0\0\0\0", is_shared);
            let (word, byte) = medium
                .memory()
                .reading(|memory| (memory.load8(PoolOffset::new(8)), memory.load1(PoolOffset::new(LEN - 1))))
                .unwrap();
            assert_eq!((word, byte), (7, b'c'));
        }
    }

    /// The kernel refuses msync(2) on a node.
    #[test]
    fn node_is_never_synced() {
        let root = tempfile::tempdir().unwrap();
        let node = root.path().join("dev/char/1:5");
        std::fs::create_dir_all(&node).unwrap();
        for (name, value) in [("size", LEN.to_string()), ("align", "4096".to_owned())] {
            std::fs::write(node.join(name), value).unwrap();
        }
        let device = DaxDevice::numbered(&Sysfs::at(root.path()), rustix::fs::makedev(1, 5)).unwrap();
        let file = tempfile::tempfile().unwrap();
        file.set_len(LEN).unwrap();
        let instructions = ByAddress::new(Cpu::without("").unwrap());
        for forced in [None, Some(true), Some(false)] {
            let share = ProgramShare::Shared;
            let medium = ProgramMedium::map(&file, Some(&device), LEN, share, forced, instructions).unwrap();
            assert_eq!(medium.durability(), Durability::Line, "{forced:?}");
        }
    }

    /// Parts without their headers follow each other, and a sync reaches them all.
    #[test]
    fn parts_lie_back_to_back() {
        let part = |skip, len| {
            let file = tempfile::tempfile().unwrap();
            file.set_len(LEN).unwrap();
            MappedPart { file: file.into(), path: "part".into(), skip, len, unit: 4096 }
        };
        let map = |parts: &[MappedPart], forced| {
            let instructions = ByAddress::new(Cpu::oldest());
            ProgramMedium::map_parts(parts, 4 * LEN, None, ProgramShare::Shared, forced, instructions)
        };
        for forced in [Some(true), Some(false)] {
            let parts = [part(0, LEN), part(4096, LEN - 4096), part(4096, 4096)];
            let medium = map(&parts, forced).unwrap();
            assert_eq!(medium.memory().len(), 2 * LEN);
            let at = PoolOffset::new(LEN - 64);
            let bytes: Vec<u8> = (0..8192 + 128).map(|at: u32| (at % 251) as u8).collect();
            medium.copy(at, &bytes);
            medium.drain().unwrap();
            let read = |index: usize, at: u64, len: usize| {
                let mut bytes = vec![0; len];
                parts[index].file.read_exact_at(&mut bytes, at).unwrap();
                bytes
            };
            assert_eq!(read(0, LEN - 64, 64), bytes[..64]);
            assert_eq!(read(1, 4096, 8192), bytes[64..8256]);
            assert_eq!(read(2, 4096, 64), bytes[8256..]);
            assert_eq!(read(1, 0, 4096), [0; 4096]);
        }
        // As a node whose mappings have a larger alignment: more of it is mapped, and no more is memory.
        let medium = map(&[part(0, LEN), MappedPart { unit: LEN, ..part(0, 4096) }], Some(true)).unwrap();
        assert_eq!(medium.memory().len(), LEN + 4096);
        assert!(medium.memory().reserved() >= 2 * LEN);
        let medium = map(&[part(0, LEN)], Some(false)).unwrap();
        let more = part(4096, LEN - 4096);
        medium.grow(&more).unwrap();
        medium.copy(PoolOffset::new(LEN - 8), &[7; 16]);
        medium.drain().unwrap();
        let mut bytes = [0; 9];
        more.file.read_exact_at(&mut bytes, 4096).unwrap();
        assert_eq!((medium.memory().len(), bytes), (2 * LEN - 4096, [7, 7, 7, 7, 7, 7, 7, 7, 0]));
        assert!(medium.grow(&part(0, 3 * LEN)).is_err() && medium.grow(&part(0, 100)).is_err());
        assert_eq!(medium.memory().len(), 2 * LEN - 4096);
        let error = map(&[part(0, LEN - 8), part(0, LEN)], None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    #[test]
    fn bytes_outside_are_refused() {
        let (file, medium) = medium(ProgramShare::Shared, Some(true));
        for at in [LEN, LEN - 8, u64::MAX - 7] {
            assert!(FaultScope::run(|| medium.copy(PoolOffset::new(at), &[1; 16])).is_err(), "{at}");
        }
        assert!(FaultScope::run(|| medium.copy(PoolOffset::new(4), &[1; 8])).is_err());
        let mut last = [0; 8];
        file.read_exact_at(&mut last, LEN - 8).unwrap();
        assert_eq!(last, [0; 8]);
    }

    /// The lock of the file is the mapping's, also without a descriptor.
    #[test]
    fn lock_stays_with_the_mapping() {
        use rustix::fs::{FlockOperation, flock};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool");
        let open =
            || File::options().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let file = open();
        file.set_len(LEN).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        let instructions = ByAddress::new(Cpu::oldest());
        let medium = ProgramMedium::map(&file, None, LEN, ProgramShare::Shared, None, instructions).unwrap();
        drop(file);
        let other = open();
        assert_eq!(flock(&other, FlockOperation::NonBlockingLockExclusive), Err(Errno::AGAIN));
        drop(medium);
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
    }

    #[test]
    fn child_of_a_fork_uses_the_mapping() {
        let (_file, medium) = medium(ProgramShare::Shared, Some(true));
        // SAFETY: - the child stores and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            medium.store8(PoolOffset::NULL, 9);
            // SAFETY: - ends the child at once.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: - the null pointer asks for no status.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
        assert_eq!(medium.memory().reading(|memory| memory.load8(PoolOffset::NULL)), Ok(9));
    }
}
