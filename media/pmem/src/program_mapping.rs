//! Mappings that a program gets as an address and a length, and keeps: the way of C libraries.
//!
//! The kernel hands them to a child of a fork as any shared mapping, and a fault in one is a signal to the program. Media
//! that keep nothing are taken, too.

use crate::reservation::page;
use crate::sysfs::{Device, Sysfs};
use crate::{DurabilityEvidence, DurabilityReport};
use lode_layout::Durability;
use rustix::fs as rfs;
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, MsyncFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);
const LARGE_PAGE: usize = 2 << 20;
const HUGE_PAGE: usize = 1 << 30;
/// End of a process's addresses on the widest CPU: x86-64 with five levels of page tables.
const ADDRESS_END: usize = 1 << 56;

/// The addresses that the program unmapped last, which are likely free: a hint that saves a search.
static FREED_START: AtomicUsize = AtomicUsize::new(0);
static FREED_LEN: AtomicUsize = AtomicUsize::new(0);

/// A shared mapping of a file or of a device-DAX node, which the program owns from now on.
#[derive(Clone, Debug)]
pub struct ProgramMapping {
    /// The mapped addresses.
    pub addresses: Range<usize>,
    /// The durability and its evidence. `None` for files in the page cache: they need a sync, or keep nothing.
    pub report: Option<DurabilityReport>,
    /// The attribute of the device's region whose store empties the memory controller's queues. `None` if the mapping is
    /// no device-DAX node, or if no region is below it.
    pub deep_flush: Option<PathBuf>,
}

/// A device-DAX node.
#[derive(Clone, Debug)]
pub struct DaxDevice {
    device: Device,
    len: u64,
    align: usize,
}

impl DaxDevice {
    /// Returns the device-DAX node with the device number `rdev`; `None` if it is another kind of device.
    pub fn numbered(sysfs: &Sysfs, rdev: u64) -> Option<DaxDevice> {
        let device = sysfs.char_device(rdev)?;
        let (len, align) = crate::mapping::device_size(&device)?;
        Some(DaxDevice { device, len, align })
    }

    /// Returns the alignment of its mappings, in bytes.
    pub fn align(&self) -> usize {
        self.align
    }

    /// Returns the length of the node, in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns false: the kernel has no empty nodes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl ProgramMapping {
    /// Maps the first `len` bytes of `file` for loads and stores, at an address that allows large pages. With `above`,
    /// at the first free address from there on, so that runs can be compared.
    ///
    /// # Errors
    /// The error of mmap(2).
    ///
    /// # Cost
    /// Two or three system calls, and for memory that the kernel maps directly some reads of sysfs.
    pub fn of_file(
        file: &File,
        len: usize,
        above: Option<usize>,
        sysfs: &Sysfs,
    ) -> io::Result<ProgramMapping> {
        let (start, is_synced) = map(file, len, above)?;
        let report = if is_synced {
            let devices = sysfs.block_devices(file.metadata()?.dev());
            let backing = devices.iter().map(Device::backing).collect();
            Some(DurabilityReport::of_direct(backing, DurabilityEvidence::MapSync))
        } else {
            None
        };
        Ok(ProgramMapping { addresses: start..start + len, report, deep_flush: None })
    }

    /// Maps the whole of a device-DAX node, as [`of_file`](ProgramMapping::of_file) does.
    ///
    /// # Errors
    /// The error of mmap(2).
    pub fn of_device(file: &File, device: &DaxDevice, above: Option<usize>) -> io::Result<ProgramMapping> {
        let len = usize::try_from(device.len).map_err(|_| io::Error::from(Errno::NOMEM))?;
        let (start, _) = map(file, len, above)?;
        let region = device.device.region.as_ref();
        let report = if region.is_some() {
            DurabilityReport::of_direct(vec![device.device.backing()], DurabilityEvidence::DeviceDax)
        } else {
            let name = device.device.name.clone();
            DurabilityReport::plain(Durability::None, DurabilityEvidence::VolatileDevice { name })
        };
        let deep_flush = region.map(|region| region.path().join("deep_flush"));
        Ok(ProgramMapping { addresses: start..start + len, report: Some(report), deep_flush })
    }
}

/// Returns the addresses of the pages that hold `len` bytes at `start`, as munmap(2) takes them: `None` if `start` is not
/// the start of a page, if `len` is zero, or if the end is no address of a process.
pub fn program_pages(start: usize, len: usize) -> Option<Range<usize>> {
    let end = start.checked_add(len)?.checked_next_multiple_of(page())?;
    (start.is_multiple_of(page()) && len != 0 && end <= ADDRESS_END).then_some(start..end)
}

/// Removes the mappings of `len` bytes at `start`.
///
/// # Errors
/// The error of munmap(2): EINVAL if `start` is no page, or `len` is zero.
///
/// # Safety
/// The program uses none of these bytes any more.
pub unsafe fn unmap_program(start: usize, len: usize) -> io::Result<()> {
    // SAFETY: - the caller's promise.
    unsafe { mm::munmap(ptr::without_provenance_mut(start), len) }?;
    // ORDER: a hint, which the kernel checks.
    FREED_LEN.store(len, Ordering::Relaxed);
    // ORDER: as above.
    FREED_START.store(start, Ordering::Relaxed);
    Ok(())
}

/// Makes the pages that hold `len` bytes at `start` durable by msync(2).
///
/// # Errors
/// The error of msync(2): ENOMEM if a page is not mapped.
pub fn msync_program(start: usize, len: usize) -> io::Result<()> {
    let offset = start % page();
    let first = ptr::without_provenance_mut(start - offset);
    // SAFETY: - the call changes no byte, at any address.
    unsafe { mm::msync(first, len.wrapping_add(offset), MsyncFlags::SYNC) }?;
    Ok(())
}

/// Allocates space for the first `len` bytes of the file by posix_fallocate(3), which stores to each block where the file
/// system can't allocate.
///
/// # Errors
/// The error of posix_fallocate(3): ENOSPC if the file system is full.
pub fn allocate_program_file(file: &File, len: u64) -> io::Result<()> {
    let len = i64::try_from(len).map_err(|_| io::Error::from(Errno::FBIG))?;
    loop {
        // SAFETY: - the descriptor is open while `file` is borrowed.
        match unsafe { libc::posix_fallocate64(file.as_raw_fd(), 0, len) } {
            0 => return Ok(()),
            libc::EINTR => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// Empties the memory controller's queues by the region's attribute. Does nothing if it is absent, not permitted or not
/// needed.
pub fn deep_flush_region(attribute: &Path) {
    if std::fs::read(attribute).is_ok_and(|value| value != b"0\n") {
        // A region that refuses has no queues that software could empty.
        let _ = std::fs::write(attribute, "1");
    }
}

/// Maps the file with MAP_SYNC, or without it where the kernel refuses. Returns the address, and whether MAP_SYNC was
/// accepted.
fn map(file: &File, len: usize, above: Option<usize>) -> io::Result<(usize, bool)> {
    let align = if len >= 2 * HUGE_PAGE { HUGE_PAGE } else { LARGE_PAGE };
    let wanted = match above {
        Some(above) => free_addresses(above, len, align),
        None => freed_hint(len, align).or_else(|| aligned_hint(len, align)),
    };
    match map_at(file, len, align, wanted, MapFlags::SHARED_VALIDATE | MapFlags::SYNC) {
        Ok(start) => Ok((start, true)),
        // EINVAL: a kernel older than the flag.
        Err(Errno::OPNOTSUPP | Errno::INVAL) => {
            Ok((map_at(file, len, align, wanted, MapFlags::SHARED)?, false))
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Maps the file at `wanted`, or where the kernel likes. Another thread may take the addresses first: then looks for others.
fn map_at(
    file: &File,
    len: usize,
    align: usize,
    wanted: Option<usize>,
    flags: MapFlags,
) -> rustix::io::Result<usize> {
    let map = |hint: usize| {
        // SAFETY: - without MAP_FIXED the address is a hint, so no existing mapping is replaced.
        unsafe { mm::mmap(ptr::without_provenance_mut(hint), len, READ_WRITE, flags, file, 0) }
    };
    let start = map(wanted.unwrap_or(0))?;
    if start.addr().is_multiple_of(align) {
        return Ok(start.addr());
    }
    let Some(hint) = aligned_hint(len, align) else { return Ok(start.addr()) };
    // SAFETY: - this function made the mapping just now, and no reference to it exists.
    unsafe { mm::munmap(start, len) }?;
    Ok(map(hint)?.addr())
}

/// Returns the start of the addresses that the program unmapped last, if they are aligned and were as many: a shorter mapping
/// would break a large free range. A hint is used once.
fn freed_hint(len: usize, align: usize) -> Option<usize> {
    // ORDER: a hint, which the kernel checks.
    let (start, freed) = (FREED_START.swap(0, Ordering::Relaxed), FREED_LEN.load(Ordering::Relaxed));
    (start != 0 && start.is_multiple_of(align) && freed == len).then_some(start)
}

/// Returns an aligned address with `len` free bytes.
fn aligned_hint(len: usize, align: usize) -> Option<usize> {
    let wide = len.checked_add(align)?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: - a null hint lets the kernel choose, so no existing mapping is replaced.
    let place = unsafe { mm::mmap_anonymous(ptr::null_mut(), wide, ProtFlags::empty(), flags) }.ok()?;
    // SAFETY: - this function made the mapping just now, and no reference to it exists.
    unsafe { mm::munmap(place, wide) }.ok()?;
    place.addr().checked_next_multiple_of(align)
}

/// Returns the first free aligned address from `above` on that has `len` free bytes; `None` if there is none, or if the
/// kernel does not list the mappings.
fn free_addresses(above: usize, len: usize, align: usize) -> Option<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let mut candidate = above.max(page()).checked_next_multiple_of(align)?;
    for line in maps.lines() {
        let Some((start, end)) = line.split_once(' ').and_then(|(range, _)| range.split_once('-')) else {
            continue;
        };
        let Ok(start) = usize::from_str_radix(start, 16) else { continue };
        let Ok(end) = usize::from_str_radix(end, 16) else { continue };
        if start > candidate && start - candidate >= len {
            break;
        }
        if end > candidate {
            candidate = end.checked_next_multiple_of(align)?;
        }
    }
    candidate.checked_add(len).map(|_| candidate)
}

impl Sysfs {
    /// Returns true if the caches of every nd region's platform survive a power failure; false if there is no region.
    ///
    /// # Errors
    /// `Io` if a region's attribute can't be read, or is no line.
    pub fn keeps_caches(&self) -> io::Result<bool> {
        let folder = self.root().join("bus/nd/devices");
        let entries = match rfs::stat(&folder) {
            Ok(stat) if rfs::FileType::from_raw_mode(stat.st_mode).is_dir() => std::fs::read_dir(&folder)?,
            _ => return Ok(false),
        };
        let mut keeps = false;
        for entry in entries {
            let entry = entry?;
            if !entry.file_name().to_string_lossy().contains("region") || !entry.file_type()?.is_symlink() {
                continue;
            }
            let domain = match std::fs::read(entry.path().join("persistence_domain")) {
                Ok(domain) => domain,
                // An older kernel: nothing is known.
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            };
            match domain.strip_suffix(b"\n") {
                Some(b"cpu_cache") => keeps = true,
                Some(_) => return Ok(false),
                None => return Err(Errno::IO.into()),
            }
        }
        Ok(keeps)
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    fn file(len: u64) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(len).unwrap();
        file
    }

    #[test]
    fn mappings_are_aligned_for_large_pages() {
        let file = file(4 << 30);
        for len in [1, 4096, 2 << 20, (2 << 20) + 1, 64 << 20, 4 << 30] {
            let mapping = ProgramMapping::of_file(&file, len, None, &Sysfs::default()).unwrap();
            assert_eq!((mapping.addresses.len(), mapping.report.is_none()), (len, true));
            let align = if len < 2 * HUGE_PAGE { LARGE_PAGE } else { HUGE_PAGE };
            assert!(mapping.addresses.start.is_multiple_of(align), "{len}: {:#x}", mapping.addresses.start);
            msync_program(mapping.addresses.start + 1, 1).unwrap();
            // SAFETY: - nothing uses the mapping.
            unsafe { unmap_program(mapping.addresses.start, len) }.unwrap();
            let refused = msync_program(mapping.addresses.start, 1).unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::ENOMEM));
        }
    }

    #[test]
    fn pages_are_those_of_munmap() {
        let page = page();
        for (start, len, wanted) in [
            (page, 1, Some(page..2 * page)),
            (page, page, Some(page..2 * page)),
            (page, page + 1, Some(page..3 * page)),
            (page + 1, page, None),
            (page, 0, None),
            (page, usize::MAX, None),
            (page, usize::MAX - page, None),
            (page, ADDRESS_END - page, Some(page..ADDRESS_END)),
            (page, ADDRESS_END - page + 1, None),
        ] {
            assert_eq!(program_pages(start, len), wanted, "{len} at {start}");
        }
    }

    #[test]
    fn hint_gives_first_free_address() {
        let file = file(1 << 20);
        let base = 0x2000_0000_0000;
        let first = ProgramMapping::of_file(&file, 1 << 20, Some(base + 5), &Sysfs::default()).unwrap();
        let second = ProgramMapping::of_file(&file, 1 << 20, Some(base), &Sysfs::default()).unwrap();
        let third = ProgramMapping::of_file(&file, 1 << 20, Some(base), &Sysfs::default()).unwrap();
        let starts = [&first, &second, &third].map(|mapping| mapping.addresses.start);
        assert_eq!(starts, [base + LARGE_PAGE, base, base + 2 * LARGE_PAGE]);
        for start in starts {
            // SAFETY: - nothing uses the mapping.
            unsafe { unmap_program(start, 1 << 20) }.unwrap();
        }
    }

    #[test]
    fn every_region_decides_about_caches() {
        for (domains, wanted) in [
            (&[][..], Some(false)),
            (&[Some("cpu_cache\n")], Some(true)),
            (&[Some("cpu_cache\n"), Some("cpu_cache\n")], Some(true)),
            (&[Some("cpu_cache\n"), Some("memory_controller\n")], Some(false)),
            (&[Some("cpu_cache\n"), None], Some(false)),
            (&[Some("")], None),
            (&[Some("cpu_cache")], None),
        ] {
            let root = tempfile::tempdir().unwrap();
            let sysfs = Sysfs::at(root.path());
            assert!(!sysfs.keeps_caches().unwrap());
            let devices = root.path().join("bus/nd/devices");
            fs::create_dir_all(&devices).unwrap();
            fs::create_dir_all(root.path().join("namespace0")).unwrap();
            symlink(root.path().join("namespace0"), devices.join("namespace0.0")).unwrap();
            for (index, domain) in domains.iter().enumerate() {
                let region = root.path().join(format!("region{index}"));
                fs::create_dir_all(&region).unwrap();
                if let Some(domain) = domain {
                    fs::write(region.join("persistence_domain"), domain).unwrap();
                }
                symlink(&region, devices.join(format!("region{index}"))).unwrap();
            }
            assert_eq!(sysfs.keeps_caches().ok(), wanted, "{domains:?}");
        }
    }

    #[test]
    fn deep_flush_is_written_only_where_needed() {
        let root = tempfile::tempdir().unwrap();
        let attribute = root.path().join("deep_flush");
        deep_flush_region(&attribute);
        assert!(!attribute.exists());
        for (before, after) in [("0\n", "0\n"), ("1\n", "1")] {
            fs::write(&attribute, before).unwrap();
            deep_flush_region(&attribute);
            assert_eq!(fs::read_to_string(&attribute).unwrap(), after);
        }
    }
}
