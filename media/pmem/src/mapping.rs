//! Real media: a mapped file, device or anonymous memory.

use crate::chunks::PrivateChunks;
use crate::memory::Content;
use crate::memory_limit::memory_limit;
use crate::network::network_file_system;
use crate::reservation::{Reservation, page};
use crate::sysfs::{Device, Sysfs};
use crate::{
    Cpu, Durability, DurabilityEvidence, DurabilityReport, Fault, FaultKind, Medium, Memory, PmemError,
    SyncError, allocate, badblocks, bugs, punch_hole,
};
use lode_layout::{BLOCK, LINE, PoolOffset, WORD};
use rustix::fs::{self as rfs, FileType};
use rustix::io::{Errno, ReadWriteFlags, retry_on_intr};
use rustix::mm::{self, MapFlags, ProtFlags};
use std::fs::File;
use std::io::{self, IoSlice};
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Alignment of the base of a mapping, in bytes, so that the kernel can use its large pages.
const LARGE_PAGE: usize = 2 << 20;
/// Least address space reserved for growth, in bytes, unless the user sets another value.
const RESERVE_MIN: u64 = 64 << 30;
const RESERVE_FACTOR: u64 = 16;
const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// Options of a mapping. Made by [`Mapping::options`].
#[derive(Clone, Debug, Default)]
pub struct MappingOptions {
    durability: Option<Durability>,
    reserve: Option<u64>,
    private: bool,
    in_children: bool,
    sysfs: Sysfs,
}

/// A real medium: a file, a device-DAX node, or anonymous memory, mapped until drop.
///
/// # Durability
/// Stores are durable as [`durability`](Medium::durability) states; [`report`](Mapping::report) gives the evidence.
///
/// # Forks
/// A child must not use the handle. MADV_DONTFORK keeps every shared mapping out of the child, so a fork copies no page
/// tables. A handler of pthread_atfork(3) replaces the mapping with inaccessible memory, so that no other mapping can
/// take its addresses. An access of the child raises [`FaultKind::Forked`]; a log write or a sync fails with EPERM.
/// This costs nothing until a fork. At durability `commit`, a child made by the bare system call is not detected.
#[derive(Debug)]
pub struct Mapping {
    memory: Memory,
    cpu: Cpu,
    durability: Durability,
    /// Error number of the first failed sync; later syncs are refused. 0 before a failure.
    failed: AtomicI32,
    report: DurabilityReport,
    path: PathBuf,
    backing: Option<Backing>,
    dirty_shutdowns: Option<u64>,
    /// Held by the thread that grows it: a failed growth cuts the file back to the length that it began with.
    growing: Mutex<()>,
}

/// The mapped file or device; absent for anonymous memory.
#[derive(Debug)]
struct Backing {
    file: Arc<File>,
    /// A second open file description of the same file, or the same one if it can't be opened again. The kernel reports
    /// a failed write-back once to each description. With two descriptions, a log write and a drain can't consume each
    /// other's error. The locks prevent this between two log writes, and between two drains.
    drained: File,
    log_lock: Mutex<()>,
    drain_lock: Mutex<()>,
    flags: MapFlags,
    fixed_size: bool,
    devices: Vec<Device>,
    /// The parts after the first file, in their order; see [`MappingOptions::map_parts`].
    others: Vec<OtherPart>,
}

/// A file or a device-DAX node that is one of several parts of a medium.
#[derive(Debug)]
pub struct MappedPart {
    /// The open file, which others may hold, too: a process has a limited number of descriptors.
    pub file: Arc<File>,
    /// Its path, for messages.
    pub path: PathBuf,
    /// Bytes at its start that are left out, whole pages. 0 for the first part.
    pub skip: u64,
    /// Bytes of it that are a part of the medium, whole pages.
    pub len: u64,
    /// The kernel maps multiples of so many bytes of it: a page, or the alignment of a node. Only the last part may have a length in between.
    pub unit: u64,
}

impl MappedPart {
    /// Returns the bytes that are mapped.
    pub(crate) fn mapped_len(&self) -> Option<usize> {
        usize::try_from(self.len.checked_next_multiple_of(self.unit.max(1))?).ok()
    }
}

/// A mapped part after the first one.
#[derive(Debug)]
struct OtherPart {
    file: Arc<File>,
    /// As [`Backing::drained`].
    drained: File,
    /// Offset of its first mapped byte in the medium.
    start: u64,
    skip: u64,
}

/// Properties of a file, found before it is mapped.
struct FileProperties {
    report: DurabilityReport,
    flags: MapFlags,
    len: u64,
    align: usize,
    devices: Vec<Device>,
    fixed_size: bool,
    /// `Some` for a private view of a mapping that the kernel can't make private: the bytes that it can replace at a
    /// time.
    chunk: Option<usize>,
}

impl MappingOptions {
    /// Uses this durability instead of the detected one. A private view ignores it: its durability is `none`, since no
    /// store of it is kept.
    pub fn durability(mut self, durability: Durability) -> MappingOptions {
        self.durability = Some(durability);
        self
    }

    /// Reserves address space for growth up to `bytes`.
    pub fn reserve(mut self, bytes: u64) -> MappingOptions {
        self.reserve = Some(bytes);
        self
    }

    /// Maps a private view: stores change this process's copy of a page and never reach the file. The file may be open
    /// for reading only. The kernel maps a device-DAX node only as a whole. So the first store to a chunk of it copies
    /// the chunk, as large as the device's alignment.
    pub fn private_view(mut self) -> MappingOptions {
        self.private = true;
        self
    }

    /// Lets the children of a fork use the mapping, as programs of PMDK do. A fork then copies page tables. Without that, see
    /// [`Mapping`]. A child of a thread that forks while another one waits for a sync can't sync itself.
    pub fn in_children(mut self) -> MappingOptions {
        self.in_children = true;
        self
    }

    /// Reads the kernel's information from this tree instead of /sys.
    pub fn sysfs(mut self, sysfs: Sysfs) -> MappingOptions {
        self.sysfs = sysfs;
        self
    }

    /// Maps the whole file or device-DAX node at `path`.
    ///
    /// # Errors
    /// The errors of [`map_file`](MappingOptions::map_file), and `Io` if the file can't be opened.
    pub fn open(self, path: impl AsRef<Path>) -> Result<Mapping, PmemError> {
        let path = path.as_ref();
        // A named pipe opens at once, and is refused.
        let flags = rfs::OFlags::NONBLOCK.bits().cast_signed();
        let file = File::options().read(true).write(!self.private).custom_flags(flags).open(path);
        let file = file.map_err(|error| PmemError::io("open", path, &error))?;
        self.map_file(file, path)
    }

    /// Maps the whole of an open file, memfd or device-DAX node. Errors and messages call it `path`.
    ///
    /// # Errors
    /// `NotMappable`, `Empty`; `Volatile` if it can't keep data and no durability was requested; `NoFlush` if the CPU
    /// can't flush; `UnknownCpuFeature`; `Io` if the kernel refuses a call.
    pub fn map_file(self, file: File, path: impl AsRef<Path>) -> Result<Mapping, PmemError> {
        let path = path.as_ref();
        let cpu = Cpu::detect()?;
        let found = self.find(&file, path)?;
        let report = self.decide(found.report.clone(), cpu, path)?;
        if report.durability == Durability::Commit && found.fixed_size {
            return Err(PmemError::FixedSize { path: path.to_owned() });
        }
        let memory = self.map(&found, &file, path)?;
        memory.set_bad(known_bad(&found.devices, found.fixed_size, found.len, &file));
        let dirty_shutdowns = match &found.devices[..] {
            [] => None,
            devices => devices.iter().map(|device| self.sysfs.dirty_shutdowns(device)).sum(),
        };
        let drained = reopened(&file).map_err(|error| PmemError::io("dup", path, &error))?;
        let (log_lock, drain_lock) = Default::default();
        let (flags, fixed_size) = (found.flags, found.fixed_size || self.private);
        let devices = found.devices;
        let others = Vec::new();
        let file = Arc::new(file);
        let backing = Backing { file, drained, log_lock, drain_lock, flags, fixed_size, devices, others };
        let backing = Some(backing);
        let (durability, failed, path) = (report.durability, AtomicI32::new(0), path.to_owned());
        Ok(Mapping {
            memory,
            cpu,
            durability,
            failed,
            report,
            path,
            backing,
            dirty_shutdowns,
            growing: Mutex::default(),
        })
    }

    /// Maps parts of files, or of device-DAX nodes, back to back. The medium can't grow. Its durability is that of the
    /// weakest part.
    ///
    /// # Errors
    /// As [`map_file`](MappingOptions::map_file). `NotMappable` without a part, and for a private view of a device-DAX node;
    /// `Io` of mmap with EINVAL if a part is not of whole pages, or not of the device's alignment.
    pub fn map_parts(self, parts: Vec<MappedPart>) -> Result<Mapping, PmemError> {
        let cpu = Cpu::detect()?;
        let path = parts.first().map(|part| part.path.clone()).unwrap_or_default();
        let found = parts.iter().map(|part| self.find(&part.file, &part.path));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let weakest = found.iter().map(|found| &found.report).min_by_key(|report| report.durability);
        let weakest = weakest.ok_or_else(|| PmemError::NotMappable { path: path.clone() })?.clone();
        let report = self.decide(weakest, cpu, &path)?;
        if report.durability == Durability::Commit && found.iter().any(|found| found.fixed_size) {
            return Err(PmemError::FixedSize { path });
        }
        if let Some(at) = found.iter().position(|found| found.chunk.is_some()) {
            return Err(PmemError::NotMappable { path: parts[at].path.clone() });
        }
        let memory = self.map_all(&found, &parts)?;
        let starts = parts.iter().scan(0, |next, part| Some(std::mem::replace(next, *next + part.len)));
        let bad = found.iter().zip(&parts).zip(starts).flat_map(|((found, part), start)| {
            let bad = known_bad(&found.devices, found.fixed_size, found.len, &part.file).into_iter();
            let (skip, end) = (part.skip, part.skip + part.len);
            let inside = bad.map(move |range| range.start.max(skip)..range.end.min(end));
            let inside = inside.filter(|range| range.start < range.end);
            inside.map(move |range| range.start - skip + start..range.end - skip + start)
        });
        memory.set_bad(bad.collect());
        let counts =
            found.iter().flat_map(|found| &found.devices).map(|device| self.sysfs.dirty_shutdowns(device));
        let dirty_shutdowns =
            if found.iter().any(|found| found.devices.is_empty()) { None } else { counts.sum() };
        let backing = Some(Backing::of_parts(parts, found)?);
        let (durability, failed, growing) = (report.durability, AtomicI32::new(0), Mutex::default());
        Ok(Mapping { memory, cpu, durability, failed, report, path, backing, dirty_shutdowns, growing })
    }

    /// Reserves address space, and maps all parts.
    fn map_all(&self, found: &[FileProperties], parts: &[MappedPart]) -> Result<Memory, PmemError> {
        let refused = |path: &Path, error: io::Error| PmemError::io("mmap", path, &error);
        let [first, ..] = parts else { return Err(PmemError::NotMappable { path: PathBuf::new() }) };
        let whole_pages = |part: &MappedPart| (part.skip | part.len).is_multiple_of(page() as u64);
        if let Some(part) = parts.iter().find(|part| !whole_pages(part)) {
            return Err(refused(&part.path, Errno::INVAL.into()));
        }
        let lens: Option<Vec<usize>> = parts.iter().map(MappedPart::mapped_len).collect();
        let mapped = lens.and_then(|lens| lens.into_iter().try_fold(0_usize, usize::checked_add));
        let Some(mapped) = mapped else {
            return Err(refused(&first.path, Errno::NOMEM.into()));
        };
        let len = parts.iter().map(|part| part.len).sum::<u64>() as usize;
        let wide = usize::try_from(self.reserve.unwrap_or(0)).unwrap_or(usize::MAX).max(mapped);
        let wide = wide.checked_next_multiple_of(page()).unwrap_or(mapped);
        let align = found.iter().map(|found| found.align).max().unwrap_or(LARGE_PAGE);
        let reservation = Reservation::inaccessible(wide, align)
            // As for one file: without the addresses to grow, the medium can be used.
            .or_else(|_| Reservation::inaccessible(mapped, align))
            .map_err(|error| refused(&first.path, error))?;
        let mut start = 0;
        for (found, part) in found.iter().zip(parts) {
            let pages = start..start + part.mapped_len().unwrap_or(0);
            start = pages.end;
            reservation
                .open_file(pages, part.file.as_fd(), part.skip, READ_WRITE, found.flags)
                .map_err(|error| refused(&part.path, error))?;
        }
        let advice = |error: io::Error| PmemError::io("madvise", &first.path, &error);
        expect_reads(&reservation, len).map_err(advice)?;
        if self.content().is_left_out_of_children() {
            reservation.exclude_from_fork().map_err(advice)?;
        }
        // Only then a byte of the medium is at the same offset of the file.
        let file = (parts.len() == 1 && first.skip == 0).then(|| first.file.as_fd());
        Ok(Memory::from_reservation(reservation, len as u64, self.content(), Some((file, &first.path))))
    }

    /// Maps `len` bytes of zeroed anonymous memory. The caller must request a durability, `none` or another one.
    ///
    /// # Errors
    /// `Volatile` if no durability was requested; `NotMappable` for durability `commit`, which needs a file; `Io` if
    /// the kernel refuses a call.
    pub fn map_anonymous(self, len: u64) -> Result<Mapping, PmemError> {
        let path = PathBuf::from("anonymous memory");
        let cpu = Cpu::detect()?;
        let report = self.decide(
            DurabilityReport::plain(Durability::None, DurabilityEvidence::Anonymous),
            cpu,
            &path,
        )?;
        if report.durability == Durability::Commit {
            return Err(PmemError::NotMappable { path });
        }
        let memory = match self.reserve {
            Some(reserve) => Memory::anonymous_reserving(len, reserve),
            None => Memory::anonymous(len),
        };
        let memory = memory.map_err(|error| PmemError::io("mmap", &path, &error))?;
        let (durability, failed) = (report.durability, AtomicI32::new(0));
        let (backing, dirty_shutdowns, growing) = (None, None, Mutex::default());
        Ok(Mapping { memory, cpu, durability, failed, report, path, backing, dirty_shutdowns, growing })
    }

    /// Returns the durability to use, or the reason why none can be used.
    fn decide(&self, found: DurabilityReport, cpu: Cpu, path: &Path) -> Result<DurabilityReport, PmemError> {
        let path = path.to_owned();
        match self.durability {
            _ if self.private => {
                Ok(DurabilityReport::plain(Durability::None, DurabilityEvidence::PrivateView))
            }
            Some(Durability::None) if found.durability == Durability::None => Ok(found),
            Some(durability) => Ok(found.forced(durability)),
            None if found.durability == Durability::None => Err(PmemError::Volatile { path, report: found }),
            None if found.durability >= Durability::Line && !cpu.reaches_persistence() => {
                Err(PmemError::NoFlush { path, report: found })
            }
            None => Ok(found),
        }
    }

    /// Determines the properties of `file`.
    fn find(&self, file: &File, path: &Path) -> Result<FileProperties, PmemError> {
        let stat = rfs::fstat(file).map_err(|errno| PmemError::io("fstat", path, &errno.into()))?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => self.find_file(file, path, stat.st_dev, stat.st_size as u64),
            FileType::CharacterDevice => self.find_device(path, stat.st_rdev),
            _ => Err(PmemError::NotMappable { path: path.to_owned() }),
        }
    }

    fn find_file(&self, file: &File, path: &Path, dev: u64, len: u64) -> Result<FileProperties, PmemError> {
        if len == 0 {
            return Err(PmemError::Empty { path: path.to_owned() });
        }
        let statfs = rfs::fstatfs(file).map_err(|errno| PmemError::io("fstatfs", path, &errno.into()))?;
        if let Some(name) = network_file_system(statfs.f_type as u32).filter(|_| !self.private) {
            return Err(PmemError::NetworkFileSystem { path: path.to_owned(), name });
        }
        let (report, flags, devices) = if self.private {
            let devices = self.sysfs.block_devices(dev);
            (
                DurabilityReport::plain(Durability::None, DurabilityEvidence::PrivateView),
                MapFlags::PRIVATE,
                devices,
            )
        } else if let Some(name) = volatile_file_system(statfs.f_type as u32) {
            (
                DurabilityReport::plain(Durability::None, DurabilityEvidence::VolatileFileSystem { name }),
                MapFlags::SHARED,
                Vec::new(),
            )
        } else if map_sync_accepted(file, READ_WRITE, page(), 0)
            .map_err(|error| PmemError::io("mmap", path, &error))?
        {
            let devices = self.sysfs.block_devices(dev);
            let backing = devices.iter().map(Device::backing).collect();
            let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
            (DurabilityReport::of_direct(backing, DurabilityEvidence::MapSync), flags, devices)
        } else {
            let devices = self.sysfs.block_devices(dev);
            (
                DurabilityReport::plain(Durability::Commit, DurabilityEvidence::MapSyncRefused),
                MapFlags::SHARED,
                devices,
            )
        };
        Ok(FileProperties { report, flags, len, align: LARGE_PAGE, devices, fixed_size: false, chunk: None })
    }

    fn find_device(&self, path: &Path, dev: u64) -> Result<FileProperties, PmemError> {
        let not_mappable = || PmemError::NotMappable { path: path.to_owned() };
        let device = self.sysfs.char_device(dev).ok_or_else(not_mappable)?;
        let (len, align) = device_size(&device).ok_or_else(not_mappable)?;
        let report = if device.region.is_some() {
            DurabilityReport::of_direct(vec![device.backing()], DurabilityEvidence::DeviceDax)
        } else {
            DurabilityReport::plain(
                Durability::None,
                DurabilityEvidence::VolatileDevice { name: device.name.clone() },
            )
        };
        Ok(FileProperties {
            report,
            flags: MapFlags::SHARED,
            len,
            align: align.max(LARGE_PAGE),
            devices: vec![device],
            fixed_size: true,
            chunk: self.private.then_some(align),
        })
    }

    /// Returns the kind of the pages of a file.
    fn content(&self) -> Content {
        if self.private { Content::PrivateView } else { Content::Shared { in_children: self.in_children } }
    }

    /// Reserves address space, and maps the file at its start.
    fn map(&self, found: &FileProperties, file: &File, path: &Path) -> Result<Memory, PmemError> {
        let refused = |error: io::Error| PmemError::io("mmap", path, &error);
        let size = |len: u64| usize::try_from(len.next_multiple_of(page() as u64));
        let too_large = || refused(Errno::NOMEM.into());
        let needed = size(found.len).map_err(|_| too_large())?;
        let wanted = match self.reserve {
            _ if found.fixed_size || self.private => found.len,
            Some(bytes) => bytes.max(found.len),
            None => found.len.saturating_mul(RESERVE_FACTOR).clamp(RESERVE_MIN, 1 << 44).max(found.len),
        };
        let wide =
            size(wanted).map_err(|_| too_large()).map(|size| Reservation::inaccessible(size, found.align))?;
        // With limited address space (ulimit -v), reserve only the present length. Such a pool can't grow, but can be
        // used.
        let reservation =
            wide.or_else(|_| Reservation::inaccessible(needed, found.align)).map_err(refused)?;
        let protection = if found.chunk.is_some() { ProtFlags::READ } else { READ_WRITE };
        reservation.open_file(0..needed, file.as_fd(), 0, protection, found.flags).map_err(refused)?;
        expect_reads(&reservation, needed).map_err(|error| PmemError::io("madvise", path, &error))?;
        if let Some(size) = found.chunk {
            let chunks = PrivateChunks::new(size);
            return Ok(Memory::private_from_reservation(
                reservation,
                found.len,
                chunks,
                Some((Some(file.as_fd()), path)),
            ));
        }
        if self.content().is_left_out_of_children() {
            reservation.exclude_from_fork().map_err(|error| PmemError::io("madvise", path, &error))?;
        }
        Ok(Memory::from_reservation(reservation, found.len, self.content(), Some((Some(file.as_fd()), path))))
    }
}

/// Keeps the kernel from reading ahead in a file of `len` bytes that is larger than the memory that this process may use: a lookup
/// reads pages here and there, and those around them would drive others out of memory.
fn expect_reads(reservation: &Reservation, len: usize) -> io::Result<()> {
    if len as u64 > memory_limit() { reservation.expect_random_reads(0..len) } else { Ok(()) }
}

impl Mapping {
    /// Returns the default options: the detected durability, and address space for growth.
    pub fn options() -> MappingOptions {
        MappingOptions::default()
    }

    /// Returns the durability and the evidence for it.
    pub fn report(&self) -> &DurabilityReport {
        &self.report
    }

    /// Returns the CPU's chosen instructions, for reports.
    pub fn cpu(&self) -> Cpu {
        self.cpu
    }

    /// Returns true if the medium can [`grow`](Mapping::grow): a file, open for writing, with addresses for more.
    pub fn can_grow(&self) -> bool {
        let has_fixed_size = self.backing.as_ref().is_some_and(|backing| backing.fixed_size);
        !has_fixed_size && !self.memory.is_private_view() && self.memory.reserved() > self.memory.len()
    }

    /// Grows the medium to `len` bytes, file and mapping, in place. The new bytes are allocated, and zero.
    ///
    /// # Durability
    /// The new length and the space are durable on return. At durability `commit`, all other stores are durable, too.
    ///
    /// # Errors
    /// `Shrink`, `FixedSize`, `AddressSpace`, and `Io` with ENOSPC when the disk is full. Medium and file are then
    /// unchanged. `Io` of fsync: the medium refuses every sync after that.
    pub fn grow(&self, len: u64) -> Result<(), PmemError> {
        let path = || self.path.clone();
        if self.memory.is_forked() {
            return Err(PmemError::io("grow", path(), &Errno::PERM.into()));
        }
        let _alone = self.growing.lock().unwrap_or_else(PoisonError::into_inner);
        let (old, reserved) = (self.memory.len(), self.memory.reserved());
        match &self.backing {
            _ if len < old => Err(PmemError::Shrink { path: path(), len: old, asked: len }),
            Some(backing) if backing.fixed_size => Err(PmemError::FixedSize { path: path() }),
            _ if len > reserved => Err(PmemError::AddressSpace { path: path(), reserved, asked: len }),
            _ if len == old => Ok(()),
            None => self.memory.grow(len).map_err(|error| PmemError::io("mprotect", path(), &error)),
            Some(backing) => self.grow_file(backing, old, len),
        }
    }

    fn grow_file(&self, backing: &Backing, old: u64, len: u64) -> Result<(), PmemError> {
        let refused = |op| move |error: io::Error| PmemError::io(op, &self.path, &error);
        allocate(&backing.file, old, len).map_err(refused("fallocate"))?;
        // ORDER: the space is durable before any thread can store to it. Stop here: the file is longer than its header
        // says, and the rest is ignored.
        self.with_lock(&backing.drain_lock, || retry_on_intr(|| rfs::fsync(&backing.drained)))
            .map_err(|failed| refused("fsync")(io::Error::from_raw_os_error(failed.errno)))?;
        let grown = self.memory.grow_with(len, |reservation, pages| {
            let offset = pages.start as u64;
            let end = pages.end;
            reservation.open_file(pages, backing.file.as_fd(), offset, READ_WRITE, backing.flags)?;
            expect_reads(reservation, end)?;
            match self.memory.content().is_left_out_of_children() {
                true => reservation.exclude_from_fork(),
                false => Ok(()),
            }
        });
        grown.map_err(|error| {
            // Report the first error. A file that stays longer does no harm.
            let _ = backing.file.set_len(old);
            refused("mmap")(error)
        })?;
        self.memory.set_bad(known_bad(&backing.devices, backing.fixed_size, len, &backing.file));
        Ok(())
    }

    /// Gives the space of whole pages back to the file system. They read as zeros on return; a later store takes space
    /// again. Returns false where the medium can't do that: the bytes are then as before, or zeros.
    ///
    /// # Durability
    /// As a copy of zeros: durable after the next drain of this thread.
    ///
    /// # Errors
    /// Fails if a sync fails, now or before.
    ///
    /// # Cost
    /// A system call, and another one for its sync where a drain is a fence.
    ///
    /// # Panics
    /// Panics if an end is not a multiple of 4096.
    pub fn deallocate(&self, at: PoolOffset, len: u64) -> Result<bool, SyncError> {
        assert!((at.get() | len).is_multiple_of(BLOCK), "whole pages are given back");
        let Some(backing) = self.backing.as_ref().filter(|_| !self.memory.is_private_view()) else {
            return Ok(false);
        };
        self.check_sync_allowed()?;
        if self.memory.range_address(at, len as usize).is_none() || !backing.others.is_empty() {
            return Ok(false);
        }
        if punch_hole(&backing.file, at.get(), len).is_err() {
            return Ok(false);
        }
        if self.durability >= Durability::Line {
            // ORDER: the hole is durable before the caller's next drain, which is a fence and knows no metadata. Stop here:
            // each page is old or zeros. At `commit` the next drain syncs the hole with the data. A later store is never
            // lost to the hole: it has a page of its own, which the file system makes durable after it.
            self.with_lock(&backing.drain_lock, || retry_on_intr(|| rfs::fdatasync(&backing.drained)))?;
        }
        Ok(true)
    }

    /// Returns the end of the hole of the file that has the byte at `at`; `None` if the byte takes space, or if the medium
    /// can't tell. A hole may get data at any time.
    ///
    /// # Cost
    /// One or two system calls.
    pub fn hole_end(&self, at: PoolOffset) -> Option<PoolOffset> {
        let file = &self.backing.as_ref().filter(|backing| backing.others.is_empty())?.file;
        match rfs::seek(file, rfs::SeekFrom::Data(at.get())) {
            Ok(end) => (end > at.get()).then(|| PoolOffset::new(end)),
            // No data follows: a hole up to the end, or after the end of the file.
            Err(Errno::NXIO) => (at.get() < self.memory.len()).then(|| PoolOffset::new(self.memory.len())),
            Err(_) => None,
        }
    }

    /// Returns the start of the first hole of the file after `at`, a byte that takes space; the end of the medium if there is
    /// none.
    ///
    /// # Cost
    /// One system call.
    pub fn next_hole(&self, at: PoolOffset) -> PoolOffset {
        let file = self.backing.as_ref().map(|backing| &backing.file);
        let found = file.and_then(|file| rfs::seek(file, rfs::SeekFrom::Hole(at.get())).ok());
        PoolOffset::new(found.filter(|found| *found > at.get()).unwrap_or(self.memory.len()))
    }

    /// Refuses a sync after a failure, for good, and in the child of a fork.
    fn check_sync_allowed(&self) -> Result<(), SyncError> {
        // ORDER: pairs with `record_sync_failure`: a sync after a failure is refused.
        match self.failed.load(Ordering::Acquire) {
            0 if self.memory.is_forked() => {
                let len = self.memory.len();
                Fault { kind: FaultKind::Forked, at: PoolOffset::NULL, len }.raise();
                Err(SyncError { errno: libc::EPERM })
            }
            0 => Ok(()),
            errno => Err(SyncError { errno }),
        }
    }

    /// Records a failure for good. All callers get the first one.
    fn record_sync_failure(&self, errno: i32) -> SyncError {
        // ORDER: before the lock of the sync is released, so that the next sync sees it.
        match self.failed.compare_exchange(0, errno, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => SyncError { errno },
            Err(first) => SyncError { errno: first },
        }
    }

    /// Runs one sync of a description at a time, and none after a failure.
    fn with_lock(
        &self,
        lock: &Mutex<()>,
        sync: impl FnOnce() -> rustix::io::Result<()>,
    ) -> Result<(), SyncError> {
        // A child of a fork must not wait: the thread that holds the lock may not exist in it.
        self.check_sync_allowed()?;
        let _lock = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_sync_allowed()?;
        sync().map_err(|errno| self.record_sync_failure(errno.raw_os_error()))?;
        // A failure that the other description got meanwhile may concern this caller's bytes, too.
        self.check_sync_allowed()
    }

    /// Stores log bytes through the mapping. Waits for them on the durabilities on which a fence makes them durable.
    fn log_store(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.check_sync_allowed()?;
        let stored = match self.durability {
            Durability::Line => self.copy_record(at, bytes),
            _ => self.memory.store_all(at, bytes),
        };
        if self.durability >= Durability::Line {
            // ORDER: the log bytes, and all that this thread flushed before, are durable before the caller stores the
            // changes that they describe. Stop here: the record is whole, or its checksum shows that it is not.
            self.cpu.fence();
        }
        if stored { Ok(()) } else { Err(self.record_sync_failure(libc::EFAULT)) }
    }

    #[inline]
    fn copy_record(&self, at: PoolOffset, bytes: &[u8]) -> bool {
        // SAFETY: - `range_address` checks the range; `bytes` is a reference, and `log_write` checked that both are whole lines.
        self.memory
            .range_address(at, bytes.len())
            .is_some_and(|into| unsafe { self.cpu.copy_record(into.as_ptr(), bytes.as_ptr(), bytes.len()) })
    }
}

impl Backing {
    /// Takes over mapped parts, of which there is at least one.
    fn of_parts(parts: Vec<MappedPart>, found: Vec<FileProperties>) -> Result<Backing, PmemError> {
        let mut start = 0;
        let mut files = Vec::new();
        for MappedPart { file, path, skip, len, .. } in parts {
            let drained = reopened(&file).map_err(|error| PmemError::io("dup", &path, &error))?;
            files.push(OtherPart { file, drained, start, skip });
            start += len;
        }
        let flags = found.first().map_or(MapFlags::SHARED, |found| found.flags);
        let devices = found.into_iter().flat_map(|found| found.devices).collect();
        let others = files.split_off(1);
        let OtherPart { file, drained, .. } = files.remove(0);
        let (log_lock, drain_lock) = Default::default();
        Ok(Backing { file, drained, log_lock, drain_lock, flags, fixed_size: true, devices, others })
    }

    /// Waits until the files are durable, of all parts.
    fn write_back(&self) -> rustix::io::Result<()> {
        let others = self.others.iter().map(|part| &part.drained);
        std::iter::once(&self.drained)
            .chain(others)
            .try_for_each(|file| retry_on_intr(|| rfs::fdatasync(file)))
    }

    /// Writes bytes to the parts that have them. Each is durable when its call returns.
    fn write_synced(&self, at: u64, bytes: &[u8]) -> rustix::io::Result<()> {
        let first_end = self.others.first().map_or(u64::MAX, |part| part.start);
        let first = std::iter::once((&self.file, 0, 0, first_end));
        let ends = self.others.iter().skip(1).map(|part| part.start).chain([u64::MAX]);
        let others = self.others.iter().zip(ends).map(|(part, end)| (&part.file, part.start, part.skip, end));
        for (file, start, skip, end) in first.chain(others) {
            let (from, to) = (at.max(start), (at + bytes.len() as u64).min(end));
            if from < to {
                let bytes = &bytes[(from - at) as usize..(to - at) as usize];
                write_synced(file.as_fd(), from - start + skip, bytes)?;
            }
        }
        Ok(())
    }
}

impl Medium for Mapping {
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
        if !aligned(at, bytes.len(), WORD) {
            return Fault { kind: FaultKind::OutOfRange, at, len: bytes.len() as u64 }.raise();
        }
        match self.durability {
            Durability::Line => self.copy_record(at, bytes),
            _ => self.memory.store_all(at, bytes),
        };
    }

    #[inline]
    fn flush(&self, at: PoolOffset, len: u64) {
        if self.durability != Durability::Line {
            return;
        }
        // A length beyond the address space lies outside of the memory in any case.
        if let Some(start) = self.memory.range_address(at, usize::try_from(len).unwrap_or(usize::MAX)) {
            // SAFETY: - `range_address` checked the range.
            unsafe { self.cpu.flush(start.as_ptr(), len as usize) };
        }
    }

    #[inline]
    fn drain(&self) -> Result<(), SyncError> {
        match self.durability {
            Durability::Line | Durability::Byte => {
                // ORDER: all that this thread flushed and copied is durable before the caller's next step.
                self.cpu.fence();
                Ok(())
            }
            Durability::Commit if bugs::DRAIN_NOT_SYNCED.is_active() => Ok(()),
            Durability::Commit => self
                .backing
                .as_ref()
                .map_or(Ok(()), |backing| self.with_lock(&backing.drain_lock, || backing.write_back())),
            Durability::None => Ok(()),
        }
    }

    #[inline]
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        if !aligned(at, bytes.len(), self.log_block()) || self.memory.range_address(at, bytes.len()).is_none()
        {
            Fault { kind: FaultKind::OutOfRange, at, len: bytes.len() as u64 }.raise();
            return Err(SyncError { errno: libc::EINVAL });
        }
        match &self.backing {
            Some(backing) if self.durability == Durability::Commit => {
                self.with_lock(&backing.log_lock, || {
                    // ORDER: the log bytes are durable before the caller stores the changes that they describe.
                    backing.write_synced(at.get(), bytes)
                })
            }
            _ => self.log_store(at, bytes),
        }
    }

    fn dirty_shutdowns(&self) -> Option<u64> {
        self.dirty_shutdowns
    }
}

fn aligned(at: PoolOffset, len: usize, unit: u64) -> bool {
    (at.get() | len as u64) & (unit - 1) == 0
}

/// Writes `bytes`. Each part is durable when its call returns.
fn write_synced(file: BorrowedFd<'_>, at: u64, bytes: &[u8]) -> rustix::io::Result<()> {
    let forgotten = bugs::LOG_WRITE_NOT_SYNCED.is_active();
    let flags = if forgotten { ReadWriteFlags::empty() } else { ReadWriteFlags::DSYNC };
    let mut done = 0;
    while done < bytes.len() {
        let part = [IoSlice::new(&bytes[done..])];
        match retry_on_intr(|| rustix::io::pwritev2(file, &part, at + done as u64, flags))? {
            0 => return Err(Errno::IO),
            count => done += count,
        }
    }
    Ok(())
}

/// Opens a second description of the same file, which gets reports of failed write-backs on its own. If the file can't
/// be opened again, returns another handle of the same description.
fn reopened(file: &File) -> io::Result<File> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).write(true).open(path).or_else(|_| file.try_clone())
}

/// Returns the name of a file system that keeps its files only in memory, by its number in linux/magic.h.
fn volatile_file_system(magic: u32) -> Option<&'static str> {
    match magic {
        0x0102_1994 => Some("tmpfs"),
        0x8584_58f6 => Some("ramfs"),
        0x9584_58f6 => Some("hugetlbfs"),
        _ => None,
    }
}

/// Returns true if the kernel accepts MAP_SYNC for `len` bytes of the file from `off` on: a page's metadata is then durable before a store
/// to it.
///
/// To be asked before a mapping at a fixed place. ext4 and XFS refuse the flag when the kernel has removed what was there: the addresses
/// are free for a moment then, and another thread may take them.
pub(crate) fn map_sync_accepted(
    file: impl AsFd,
    protection: ProtFlags,
    len: usize,
    off: u64,
) -> io::Result<bool> {
    let flags = MapFlags::SHARED_VALIDATE | MapFlags::SYNC;
    // A page first, since address space may be short; a device may have a larger unit.
    for len in [page(), len] {
        // SAFETY: - a null hint lets the kernel choose, so no existing mapping is replaced.
        match unsafe { mm::mmap(ptr::null_mut(), len, protection, flags, &file, off) } {
            Ok(place) => {
                // SAFETY: - this function made the mapping just now, and no reference to it exists.
                unsafe { mm::munmap(place, len) }?;
                return Ok(true);
            }
            Err(Errno::OPNOTSUPP) => return Ok(false),
            // Of a device, or of a kernel older than the flag.
            Err(Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(false)
}

/// Returns length and alignment of a device-DAX node, in bytes.
pub(crate) fn device_size(device: &Device) -> Option<(u64, usize)> {
    let (len, align) = (device.folder.number("size")?, device.folder.number("align")?);
    let align = usize::try_from(align).ok().filter(|align| align.is_power_of_two())?;
    (len > 0).then_some((len, align))
}

/// Returns the ranges of a medium on `devices` that the kernel reports as lost.
fn known_bad(devices: &[Device], device_dax: bool, len: u64, file: &File) -> Vec<Range<u64>> {
    match devices {
        [device] if device_dax => badblocks::of_device(device, len),
        // A list that can't be translated is not an error: a lost range shows as a fault.
        [device] => badblocks::of_file(device, file.as_fd()).unwrap_or_default(),
        _ => Vec::new(),
    }
}
