//! Requests of pmem_map_file(3): arguments are checked in PMDK's order, so that the same call gets the same errno.

use crate::failure::Failure;
use lode_pmem::{DaxDevice, ProgramMapping, Sysfs, allocate_program_file};
use rustix::fs::{self as rfs, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// PMEM_FILE_CREATE.
const CREATE: i32 = 1 << 0;
/// PMEM_FILE_EXCL.
const EXCL: i32 = 1 << 1;
/// PMEM_FILE_SPARSE.
const SPARSE: i32 = 1 << 2;
/// PMEM_FILE_TMPFILE.
const TMPFILE: i32 = 1 << 3;
const ALL: i32 = CREATE | EXCL | SPARSE | TMPFILE;
/// Flags that a device-DAX node allows, and that have no effect there.
const OF_DEVICE: i32 = CREATE | SPARSE;
/// Names that are tried for a temporary file.
const ATTEMPTS: u32 = 100;

/// The arguments of pmem_map_file(3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) path: &'a Path,
    pub(crate) len: usize,
    pub(crate) flags: i32,
    pub(crate) mode: u32,
    /// The address above which the mapping is placed.
    pub(crate) above: Option<usize>,
}

impl Request<'_> {
    /// Opens or creates the file, and maps it.
    pub(crate) fn map(&self, sysfs: &Sysfs) -> Result<ProgramMapping, Failure> {
        let device = self.device(sysfs)?;
        if self.flags & !ALL != 0 {
            return Err(Failure::invalid(format!(
                "invalid flag specified {:x}; pass PMEM_FILE_* flags",
                self.flags
            )));
        }
        match device {
            Some(device) => self.map_device(&device),
            None => self.map_file(sysfs),
        }
    }

    /// Returns the device-DAX node that the path names; `None` for anything that can be opened as a file.
    fn device(&self, sysfs: &Sysfs) -> Result<Option<DaxDevice>, Failure> {
        let path = self.path;
        let stat = match rfs::stat(path) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => {
                let words = format!("os_access \"{}\"", path.display());
                return Err(Failure::of_call("access", &words, &errno.into()));
            }
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile | FileType::Directory => Ok(None),
            FileType::CharacterDevice => match DaxDevice::numbered(sysfs, stat.st_rdev) {
                Some(device) => Ok(Some(device)),
                None => Err(Failure::invalid(format!(
                    "{} is not device DAX; map a file, or a device-DAX node",
                    path.display()
                ))),
            },
            _ => Err(Failure::invalid(
                format!(
                    "file type {:#o} not supported; map a file, or a device-DAX node",
                    stat.st_mode & 0o170_000
                )
                .replacen("0o", "0", 1),
            )),
        }
    }

    fn map_device(&self, device: &DaxDevice) -> Result<ProgramMapping, Failure> {
        if self.flags & !OF_DEVICE != 0 {
            return Err(Failure::invalid(format!(
                "flag unsupported for Device DAX {:x}; pass PMEM_FILE_CREATE, PMEM_FILE_SPARSE or none",
                self.flags
            )));
        }
        if self.len != 0 && self.len as u64 != device.len() {
            return Err(Failure::invalid(format!(
                "Device DAX length must be either 0 or the exact size of the device: {}; pass 0",
                device.len()
            )));
        }
        let file = self.open(OFlags::RDWR)?;
        ProgramMapping::of_device(&file, device, self.above)
            .map_err(|error| Failure::of_call("mmap", &format!("mmap {} bytes", device.len()), &error))
    }

    fn map_file(&self, sysfs: &Sysfs) -> Result<ProgramMapping, Failure> {
        let has = |flag: i32| self.flags & flag != 0;
        if has(CREATE) && i64::try_from(self.len).is_err() {
            return Err(Failure::invalid(format!("invalid file length {}; choose a smaller one", self.len)));
        }
        if self.len != 0 && !has(CREATE) {
            return Err(Failure::invalid(
                "non-zero 'len' not allowed without PMEM_FILE_CREATE; pass 0 to map the whole file",
            ));
        }
        if self.len == 0 && has(CREATE) {
            return Err(Failure::invalid(
                "zero 'len' not allowed with PMEM_FILE_CREATE; pass the bytes of the file",
            ));
        }
        if has(TMPFILE) && !has(CREATE) {
            return Err(Failure::invalid(
                "PMEM_FILE_TMPFILE not allowed without PMEM_FILE_CREATE; pass both",
            ));
        }
        let file = if has(TMPFILE) { self.temporary()? } else { self.open(self.open_flags())? };
        self.map_open(&file, sysfs).inspect_err(|_| {
            if has(CREATE) && has(EXCL) && !has(TMPFILE) {
                // Report the first error. A file that stays does no harm.
                let _ = std::fs::remove_file(self.path);
            }
        })
    }

    fn open_flags(&self) -> OFlags {
        let mut flags = OFlags::RDWR;
        flags.set(OFlags::CREATE, self.flags & CREATE != 0);
        flags.set(OFlags::EXCL, self.flags & EXCL != 0);
        flags
    }

    fn open(&self, flags: OFlags) -> Result<File, Failure> {
        let opened = open(self.path, flags, Mode::from_bits_truncate(self.mode));
        let words = || format!("open {}", self.path.display());
        opened.map_err(|errno| Failure::of_call("open", &words(), &errno.into()))
    }

    /// Creates a file without a name in the folder: by O_TMPFILE, or where the file system has none, by a name that is
    /// removed at once.
    fn temporary(&self) -> Result<File, Failure> {
        let mode = Mode::RUSR | Mode::WUSR;
        let mut flags = OFlags::RDWR | OFlags::TMPFILE;
        flags.set(OFlags::EXCL, self.flags & EXCL != 0);
        // The words are PMDK's, which makes its temporary files by mkstemp(3).
        let failed = |errno: Errno| Failure::of_call("mkstemp", "mkstemp", &errno.into());
        match open(self.path, flags, mode) {
            Ok(file) => return Ok(file),
            Err(Errno::OPNOTSUPP | Errno::ISDIR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        for attempt in 0..ATTEMPTS {
            let name = format!("pmem.{}.{attempt}", std::process::id());
            let path = self.path.join(name);
            match open(&path, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode) {
                Ok(file) => {
                    rfs::unlink(&path).map_err(failed)?;
                    return Ok(file);
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        Err(failed(Errno::EXIST))
    }

    /// Gives the file its length, and maps it.
    fn map_open(&self, file: &File, sysfs: &Sysfs) -> Result<ProgramMapping, Failure> {
        let failed = |call: &str, error: &io::Error| Failure::of_call(call, call, error);
        let len = if self.flags & CREATE != 0 {
            let len = self.len as u64;
            rfs::ftruncate(file, len).map_err(|errno| failed("ftruncate", &errno.into()))?;
            if self.flags & SPARSE == 0 {
                allocate_program_file(file, len).map_err(|error| failed("posix_fallocate", &error))?;
            }
            self.len
        } else {
            let stat = rfs::fstat(file).map_err(|errno| failed("fstat", &errno.into()))?;
            usize::try_from(stat.st_size).map_err(|_| {
                Failure::invalid(format!(
                    "stat {}: negative size; check the file system",
                    self.path.display()
                ))
            })?
        };
        ProgramMapping::of_file(file, len, self.above, sysfs)
            .map_err(|error| Failure::of_call("mmap", &mmap_words(len, &error), &error))
    }
}

/// Opens a file that a program which another thread executes now does not inherit.
fn open(path: &Path, flags: OFlags, mode: Mode) -> rustix::io::Result<File> {
    Ok(rfs::open(path, flags | OFlags::CLOEXEC, mode)?.into())
}

/// Returns PMDK's words for a refused mapping: it looks for free addresses by an anonymous mapping first.
fn mmap_words(len: usize, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOMEM) => "mmap MAP_ANONYMOUS".into(),
        _ => format!("mmap {len} bytes"),
    }
}

/// Returns the path that a C string names.
pub(crate) fn path(name: &std::ffi::CStr) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()))
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_pmem::Durability;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// Bytes of the emulated device.
    const LEN: usize = 4 << 20;

    /// A tree in which /dev/zero is a device-DAX node, in a region if `has_region` says so.
    fn tree(has_region: bool) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().unwrap();
        let region = root.path().join("devices").join(if has_region { "region3" } else { "hmem" });
        let device = region.join("dax3.0");
        fs::create_dir_all(&device).unwrap();
        fs::create_dir_all(root.path().join("dev/char")).unwrap();
        for (name, value) in [("size", LEN.to_string()), ("align", (2 << 20).to_string())] {
            fs::write(device.join(name), value).unwrap();
        }
        for (name, value) in [("mappings", "1\n"), ("persistence_domain", "memory_controller\n")] {
            fs::write(region.join(name), value).unwrap();
        }
        // Device 1:5 is /dev/zero on every Linux. Its shared mapping is memory.
        symlink(&device, root.path().join("dev/char/1:5")).unwrap();
        let sysfs = Sysfs::at(root.path());
        (root, sysfs)
    }

    fn request(len: usize, flags: i32) -> Request<'static> {
        Request { path: Path::new("/dev/zero"), len, flags, mode: 0, above: None }
    }

    #[test]
    fn executed_programs_inherit_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let new = Request { path: &path, mode: 0o600, ..request(0, CREATE) };
        let of_folder = Request { path: folder.path(), ..new };
        for file in [new.open(new.open_flags()).unwrap(), of_folder.temporary().unwrap()] {
            assert!(rustix::io::fcntl_getfd(&file).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn devices_take_their_own_length_and_two_flags() {
        let (_root, sysfs) = tree(true);
        for (len, flags) in [(0, 0), (LEN, 0), (0, CREATE), (LEN, CREATE | SPARSE)] {
            let mapping = request(len, flags).map(&sysfs).unwrap();
            assert_eq!(mapping.addresses.len(), LEN);
            assert_eq!(mapping.report.unwrap().durability, Durability::Line);
            let attribute = mapping.deep_flush.unwrap();
            assert!(attribute.ends_with("region3/deep_flush"), "{}", attribute.display());
        }
        for (len, flags, words) in [
            (
                LEN - 1,
                0,
                "Device DAX length must be either 0 or the exact size of the device: 4194304; pass 0",
            ),
            (
                LEN + 1,
                CREATE,
                "Device DAX length must be either 0 or the exact size of the device: 4194304; pass 0",
            ),
            (0, EXCL, "flag unsupported for Device DAX 2; pass PMEM_FILE_CREATE, PMEM_FILE_SPARSE or none"),
            (
                0,
                CREATE | TMPFILE,
                "flag unsupported for Device DAX 9; pass PMEM_FILE_CREATE, PMEM_FILE_SPARSE or none",
            ),
            (0, 16, "invalid flag specified 10; pass PMEM_FILE_* flags"),
        ] {
            assert_eq!(request(len, flags).map(&sysfs).unwrap_err(), Failure::invalid(words));
        }
    }

    #[test]
    fn devices_without_region_are_taken() {
        let (_root, sysfs) = tree(false);
        let mapping = request(0, 0).map(&sysfs).unwrap();
        assert_eq!((mapping.report.unwrap().durability, mapping.deep_flush), (Durability::None, None));
        let other = Request { path: Path::new("/dev/null"), ..request(0, 0) };
        assert_eq!(
            other.map(&sysfs).unwrap_err(),
            Failure::invalid("/dev/null is not device DAX; map a file, or a device-DAX node")
        );
    }
}
