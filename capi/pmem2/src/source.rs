//! Sources: what a program maps.

use crate::code;
use crate::failure::Failure;
use lode_pmem::{ProgramBacking, ProgramContent, Sysfs};
use rustix::fs::{self as rfs, FileType, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};

/// The object behind `struct pmem2_source`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    /// Memory of the process.
    Anonymous { len: usize },
    /// A descriptor of the program.
    Open(OpenSource),
}

/// A regular file or a device-DAX node that the program has opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSource {
    pub(crate) file: BorrowedFd<'static>,
    pub(crate) is_node: bool,
    dev: u64,
    rdev: u64,
}

impl Source {
    /// Examines a descriptor.
    pub(crate) fn of_descriptor(file: BorrowedFd<'static>, sysfs: &Sysfs) -> Result<Source, Failure> {
        let invalid = |words: &str, errno: Errno| {
            let failure = Failure::of_call(words, &errno.into());
            if errno == Errno::BADF { failure.with_code(code::INVALID_FILE_HANDLE) } else { failure }
        };
        let flags = rfs::fcntl_getfl(file).map_err(|errno| invalid("fcntl", errno))?;
        if flags & OFlags::RWMODE == OFlags::WRONLY {
            let text = "fd must be open with O_RDONLY or O_RDWR; this one is open with O_WRONLY";
            return Err(Failure::new(code::INVALID_FILE_HANDLE, text));
        }
        let stat = rfs::fstat(file).map_err(|errno| invalid("fstat", errno))?;
        let refused = |text: String| Err(Failure::new(code::INVALID_FILE_TYPE, text));
        let source = OpenSource { file, is_node: false, dev: stat.st_dev, rdev: stat.st_rdev };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok(Source::Open(source)),
            FileType::Directory => {
                refused("cannot set fd to directory in pmem2_source_from_fd; open a file in it".into())
            }
            FileType::CharacterDevice => {
                let node = OpenSource { is_node: true, ..source };
                if node.backing(sysfs).is_dax_node() {
                    return Ok(Source::Open(node));
                }
                refused(format!(
                    "{} is not device DAX; use a regular file, or a device-DAX node",
                    source.name()
                ))
            }
            _ => {
                let text = format!(
                    "file type {:#o} not supported; use a regular file, or a device-DAX node",
                    stat.st_mode & 0o170_000
                );
                refused(text.replacen("0o", "0", 1))
            }
        }
    }

    /// Returns the length, in bytes.
    pub(crate) fn len(&self, sysfs: &Sysfs) -> Result<usize, Failure> {
        let open = match self {
            Source::Anonymous { len } => return Ok(*len),
            Source::Open(open) => open,
        };
        let stat = rfs::fstat(open.file).map_err(|errno| match errno {
            Errno::BADF => {
                let remedy = "keep the descriptor open while the source is in use";
                Failure::of_call_with("fstat", &errno.into(), remedy).with_code(code::INVALID_FILE_HANDLE)
            }
            _ => Failure::of_call("fstat", &errno.into()),
        })?;
        if !open.is_node {
            return usize::try_from(stat.st_size).map_err(|_| {
                let text = format!(
                    "kernel says size of regular file is negative ({}); check the file system",
                    stat.st_size
                );
                Failure::new(code::INVALID_FILE_HANDLE, text)
            });
        }
        let text = open.node_text("size", sysfs)?;
        number(&text).and_then(|len| usize::try_from(len).ok()).ok_or_else(|| {
            Failure::new(
                code::INVALID_SIZE_FORMAT,
                format!("invalid device size format '{text}'; the kernel shows no number of bytes"),
            )
        })
    }

    /// Returns the alignment that mappings of the source need, in bytes.
    pub(crate) fn alignment(&self, sysfs: &Sysfs) -> Result<usize, Failure> {
        let open = match self {
            Source::Open(open) if open.is_node => open,
            _ => return Ok(page()),
        };
        let text = open.node_text("align", sysfs)?;
        let alignment = number(&text).and_then(|len| usize::try_from(len).ok()).ok_or_else(|| {
            let text = format!("invalid device alignment format {text}; the kernel shows no number of bytes");
            Failure::new(code::INVALID_ALIGNMENT_FORMAT, text)
        })?;
        if !alignment.is_power_of_two() {
            let text =
                format!("alignment ({alignment}) has to be a power of two; the kernel shows another number");
            return Err(Failure::new(code::INVALID_ALIGNMENT_VALUE, text));
        }
        Ok(alignment)
    }

    /// Returns the identities of the modules below, one after the other.
    pub(crate) fn device_id(&self, sysfs: &Sysfs) -> Result<String, Failure> {
        let open =
            self.needed("Anonymous source does not have device id; use a file or a device-DAX node")?;
        open.backing(sysfs).module_ids().ok_or_else(|| {
            let text = format!(
                "Device id is not supported for this source: {} is on no known module; use a file on persistent memory",
                open.name()
            );
            Failure::new(code::NOSUPP, text)
        })
    }

    /// Returns the number of power failures with data in flight of the modules below.
    pub(crate) fn dirty_shutdowns(&self, sysfs: &Sysfs) -> Result<u64, Failure> {
        let open = self.needed(
            "Anonymous source does not support unsafe shutdown count; use a file or a device-DAX node",
        )?;
        open.backing(sysfs).dirty_shutdowns().ok_or_else(|| {
            let text = format!(
                "Unsafe shutdown count is not supported for this source: no module below {} tells it; use a file on \
                 persistent memory",
                open.name()
            );
            Failure::new(code::NOSUPP, text)
        })
    }

    /// Returns the NUMA node of the memory below.
    pub(crate) fn numa_node(&self, sysfs: &Sysfs) -> Result<i32, Failure> {
        let open =
            self.needed("Anonymous sources are not bound to numa nodes.; use a file or a device-DAX node")?;
        open.backing(sysfs).numa_node().ok_or_else(|| {
            let text =
                format!("unknown region: {} is not on persistent memory; use a file that is", open.name());
            Failure::new(code::DAX_REGION_NOT_FOUND, text)
        })
    }

    /// Checks an access of pmem2_source_pread_mcsafe(3) and its relative.
    pub(crate) fn transfer(&self, size: usize, offset: usize, sysfs: &Sysfs) -> Result<&OpenSource, Failure> {
        let open = self.open().ok_or_else(|| {
            let text = "operation doesn't support provided source type, only sources created from file descriptor or \
                        file handle are supported; use pmem2_source_from_fd";
            Failure::new(code::SOURCE_TYPE_NOT_SUPPORTED, text)
        })?;
        let len = self.len(sysfs)?;
        let left = len.saturating_sub(offset);
        if size > left || offset > len {
            let text = format!(
                "size of read {size} from offset {offset} goes beyond the file length {left}; the file has {len} bytes"
            );
            return Err(Failure::new(code::LENGTH_OUT_OF_RANGE, text));
        }
        Ok(open)
    }

    /// Returns the descriptor, or a failure with these words.
    fn needed(&self, words: &'static str) -> Result<&OpenSource, Failure> {
        self.open().ok_or_else(|| Failure::new(code::NOSUPP, words))
    }

    /// Returns the descriptor.
    pub(crate) fn open(&self) -> Option<&OpenSource> {
        match self {
            Source::Anonymous { .. } => None,
            Source::Open(open) => Some(open),
        }
    }

    /// Returns the content of a mapping from `off` bytes on.
    pub(crate) fn content(&self, off: u64) -> ProgramContent<'static> {
        match self {
            Source::Anonymous { .. } => ProgramContent::Anonymous,
            Source::Open(open) => ProgramContent::File { file: open.file, off },
        }
    }
}

impl OpenSource {
    /// Returns the memory below.
    pub(crate) fn backing(&self, sysfs: &Sysfs) -> ProgramBacking {
        if self.is_node {
            ProgramBacking::of_node(sysfs, self.rdev)
        } else {
            ProgramBacking::of_file(sysfs, self.dev)
        }
    }

    /// Returns the path of the file, for messages.
    pub(crate) fn name(&self) -> String {
        let number = self.file.as_raw_fd();
        let path = std::fs::read_link(format!("/proc/self/fd/{number}"));
        path.map_or_else(|_| format!("descriptor {number}"), |path| path.display().to_string())
    }

    fn node_text(&self, name: &str, sysfs: &Sysfs) -> Result<String, Failure> {
        let missing = |()| {
            Failure::new(
                -libc::ENOENT,
                format!(
                    "the kernel does not tell the {name} of {}; look for its driver in the kernel's log",
                    self.name()
                ),
            )
        };
        self.backing(sysfs).node_text(name).ok_or(()).map_err(missing)
    }
}

/// Returns the size of a page, in bytes.
pub(crate) fn page() -> usize {
    rustix::param::page_size()
}

/// Returns a number of sysfs: decimal, or hexadecimal with `0x`.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
