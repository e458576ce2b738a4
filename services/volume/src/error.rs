//! The errors of volumes.

use crate::block_error::BlockError;
use crate::format::VolumeFormat;
use crate::occupant::Occupant;
use lode_blocks::{BlockPoolError, BlocksError};
use lode_btt::BttError;
use lode_layout::{InvalidField, LayoutName, RawVolumeError};
use lode_nvdimm::InfoBlockError;
use lode_pmem::{Fault, FaultKind, PmemError, SyncError};
use lode_pool::{PoolError, SpaceLimit};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The reason why an operation on a volume failed. The message ends with the next step for the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The error of the volume at `path`: every error of a function that takes a path is wrapped in this one.
    #[error("{}: {error}", .path.display())]
    At {
        /// The file or device.
        path: PathBuf,
        /// The error itself.
        #[source]
        error: Box<VolumeError>,
    },
    /// A file exists at the path already.
    #[error("exists already; choose another name, or remove it first")]
    Exists,
    /// Content is recognised where the volume is to be made.
    #[error("there is {found} already; {}", if *.is_device { "choose another device, or overwrite it" } else { "choose another file" })]
    Occupied {
        /// The content.
        found: Occupant,
        /// True on a device, false in a file.
        is_device: bool,
    },
    /// The file has no bytes.
    #[error("the file is empty; give it the size of the volume first, or remove it")]
    Empty,
    /// The device or file has another size.
    #[error("a volume takes all of a device or file, here {len} bytes, not {size}; leave the size out")]
    Size {
        /// Size that was asked for, in bytes.
        size: u64,
        /// Size of the device or file in bytes.
        len: u64,
    },
    /// The file can't be opened, or another handle has it open.
    #[error(transparent)]
    File(#[from] PoolError),
    /// The file can't be mapped or made. The message names the path.
    #[error("{0}")]
    Medium(#[from] PmemError),
    /// The pool of atomic blocks can't be made or opened. The message names the path.
    #[error(transparent)]
    Pool(#[from] BlockPoolError),
    /// The pool of atomic blocks is damaged.
    #[error(transparent)]
    Blocks(#[from] BlocksError),
    /// The file is a pool with other content than blocks.
    #[error("there is no volume: this is a pool of layout {layout}; open it with the program that made it")]
    Layout {
        /// The layout of the pool.
        layout: LayoutName,
    },
    /// No format is recognised.
    #[error(
        "there is no volume: neither a block translation table, nor a pool of atomic blocks, nor a block pool of PMDK, nor a \
         raw volume"
    )]
    Absent,
    /// The table is unusable.
    #[error(transparent)]
    Table(#[from] BttError),
    /// The header of a raw volume is whole, and this program can't use it.
    #[error("the header of the raw volume is unusable: {0}")]
    Header(#[from] RawVolumeError),
    /// The second header of a pool is there and the last info block of a table, and the first ones are not. A guest of either
    /// format may have written the other's.
    #[error(
        "the format can't be told: the second header of a pool and the last info block of a table are there, and the first \
         ones are damaged; if it is no table, copy bytes 4096 to 8192 over the first 4096"
    )]
    Ambiguous,
    /// Both copies of the header of a raw volume are unusable.
    #[error("both headers of the raw volume are unusable, the first one: {first}; the second one: {second}")]
    Raw {
        /// Fault of the copy at 0.
        #[source]
        first: RawVolumeError,
        /// Fault of the copy at the end.
        second: RawVolumeError,
    },
    /// The file ends before the volume does.
    #[error(
        "the volume ends at byte {end}, and the file has {len} bytes: it was cut short; restore its length"
    )]
    CutShort {
        /// End of the last block in bytes.
        end: u64,
        /// Length of the file in bytes.
        len: u64,
    },
    /// A volume of this size, with blocks of this size, can't be made.
    #[error(
        "can't make a {format} volume of {size} bytes with blocks of {block_size}: {error}; choose another size"
    )]
    Plan {
        /// The format.
        format: VolumeFormat,
        /// Size of the file in bytes.
        size: u64,
        /// Size of a block in bytes.
        block_size: u64,
        /// The rule that is broken.
        #[source]
        error: InfoBlockError,
    },
    /// The format has no DAX class.
    #[error(
        "a {format} volume can't be mapped by programs, since a write moves its block; a DAX volume is a raw one"
    )]
    NoDax {
        /// The format.
        format: VolumeFormat,
    },
    /// A volume of this format keeps the size that it was made with.
    #[error(
        "a {format} volume can't grow in place; create a larger one, then copy: `lode volume export PATH - | lode volume \
         import LARGER -`"
    )]
    FixedSize {
        /// The format.
        format: VolumeFormat,
    },
    /// The volume can't grow while it is open.
    #[error("the volume can't grow while it is open")]
    FixedCapacity,
    /// A volume never gets smaller.
    #[error("the volume has {was} bytes already, more than {size}; a volume grows only")]
    Shrinks {
        /// Size that was asked for, in bytes.
        size: u64,
        /// Size of the volume's file in bytes.
        was: u64,
    },
    /// The file can't get its length.
    #[error("can't make a file of {size} bytes: {error}; choose a smaller size, or another file system")]
    Length {
        /// The length in bytes.
        size: u64,
        /// The error of the system call.
        #[source]
        error: std::io::Error,
    },
    /// The structures of a new volume can't be stored.
    #[error("the structures of the volume can't be stored: {error}")]
    Format {
        /// The reason.
        #[source]
        error: BttError,
    },
    /// Memory can't be read, or the file system has no space for it.
    #[error(transparent)]
    Memory(#[from] Fault),
    /// A block can't be read or written.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A sync failed.
    #[error("{0}; look for errors of the device in the kernel's log")]
    Sync(#[from] SyncError),
}

impl VolumeError {
    /// Returns the error at this path, unless it names one already.
    pub(crate) fn at(self, path: &Path) -> VolumeError {
        match self {
            error @ (VolumeError::At { .. }
            | VolumeError::Medium(_)
            | VolumeError::Pool(_)
            | VolumeError::File(PoolError::At { .. })) => error,
            error => VolumeError::At { path: path.to_owned(), error: Box::new(error) },
        }
    }

    /// Returns the error without its path.
    pub fn cause(&self) -> &VolumeError {
        match self {
            VolumeError::At { error, .. } => error.cause(),
            error => error,
        }
    }

    /// Returns true if the volume is damaged.
    pub fn is_damage(&self) -> bool {
        match self.cause() {
            VolumeError::Memory(fault)
            | VolumeError::Table(BttError::Memory(fault))
            | VolumeError::Pool(BlockPoolError::Blocks { error: BlocksError::Memory(fault), .. })
            | VolumeError::Blocks(BlocksError::Memory(fault)) => fault.is_damage(),
            VolumeError::Block(error) => error.fault.is_damage(),
            VolumeError::Table(error) => !matches!(error, BttError::Absent | BttError::ReadOnly { .. }),
            VolumeError::Raw { first, second } => [first, second].iter().all(|error| {
                !matches!(error, RawVolumeError::Version { .. } | RawVolumeError::Features { .. })
            }),
            VolumeError::Pool(BlockPoolError::Blocks { error, .. }) | VolumeError::Blocks(error) => {
                matches!(error, BlocksError::Damaged(_))
            }
            VolumeError::File(error) => {
                matches!(error.cause(), PoolError::Headers { .. }) && !error.has_no_pool()
            }
            VolumeError::Header(RawVolumeError::Field(_))
            | VolumeError::Ambiguous
            | VolumeError::CutShort { .. } => true,
            _ => false,
        }
    }

    /// Returns true if another handle has the volume open.
    pub fn is_in_use(&self) -> bool {
        let (VolumeError::File(error) | VolumeError::Pool(BlockPoolError::Pool(error))) = self.cause() else {
            return false;
        };
        matches!(error.cause(), PoolError::InUse { .. })
    }

    /// Returns true if the file system has no space, or none for this user.
    pub fn is_no_space(&self) -> bool {
        match self.cause() {
            VolumeError::Length { error, .. } => error.kind() == std::io::ErrorKind::StorageFull,
            VolumeError::Medium(PmemError::Io { errno, .. }) => {
                [Errno::NOSPC, Errno::DQUOT].map(Errno::raw_os_error).contains(errno)
            }
            VolumeError::File(error) | VolumeError::Pool(BlockPoolError::Pool(error)) => {
                matches!(
                    error.cause(),
                    PoolError::NoSpace { limit: SpaceLimit::Disk | SpaceLimit::Quota, .. }
                )
            }
            _ => self.fault().is_some_and(|fault| fault.kind == FaultKind::NoSpace),
        }
    }

    /// Returns true if a size is more than the format, the file system or the addresses of this process allow.
    pub fn is_too_large(&self) -> bool {
        let error = match self.cause() {
            VolumeError::Plan { .. } => return true,
            VolumeError::Length { error, .. } => return error.kind() == std::io::ErrorKind::FileTooLarge,
            VolumeError::Medium(PmemError::Io { errno, .. }) => return *errno == Errno::FBIG.raw_os_error(),
            VolumeError::Medium(error) => return matches!(error, PmemError::AddressSpace { .. }),
            VolumeError::Pool(BlockPoolError::Blocks { error, .. }) => {
                return matches!(error, BlocksError::Full { .. });
            }
            VolumeError::File(error) | VolumeError::Pool(BlockPoolError::Pool(error)) => error.cause(),
            _ => return false,
        };
        matches!(
            error,
            PoolError::AddressSpace { .. }
                | PoolError::Geometry(_)
                | PoolError::NoSpace { limit: SpaceLimit::FileSize, .. }
        )
    }

    /// Returns the fault of the access that failed, if that is the reason.
    pub(crate) fn fault(&self) -> Option<Fault> {
        match self.cause() {
            VolumeError::Memory(fault)
            | VolumeError::Table(BttError::Memory(fault))
            | VolumeError::Blocks(BlocksError::Memory(fault)) => Some(*fault),
            _ => None,
        }
    }

    /// Returns the error of a plan of a raw volume.
    pub(crate) fn raw_plan(size: u64, block_size: u64, error: InvalidField) -> VolumeError {
        VolumeError::Plan { format: VolumeFormat::Raw, size, block_size, error: error.into() }
    }
}
