//! Layer 5: volumes, blocks in a file or on persistent memory, behind one block device.
//!
//! ```text
//!   lode volume                       create, info, check, repair, grow, import, export
//!        |
//!   Volume: BlockDevice               requests in batches, buffers lent by the caller
//!        |             \                    \
//!   Btt (lode-btt)     Blocks (lode-blocks)  Raw
//!   a table: a block   atomic blocks: one    plain blocks
//!   is never torn      drain, checksums      after a header
//!        |             /                    /
//!   Mapping (lode-pmem), LockedFile and PoolFile (lode-pool)
//! ```
//!
//! It does: make volumes, recognise their format, lock, read, write, check and repair them, copy all of their content, and
//! measure writes.
//! It does not: print, start a thread, or know a protocol.
//!
//! # Recognition
//! The content tells the format, in this order, so that no guest can write itself another one:
//! 1. A whole header of a pool or of a raw volume at 0, unless 4096 has the first info block of a table of version 1.1, which leaves 0 alone.
//! 2. A whole second header of a raw volume at the end, if no header of a pool and no first info block is there. No guest of
//!    a table can write it: its place is that of the last info block. Nor can the guest of a raw volume write that block.
//! 3. A whole second header of a pool at 4096, if nothing above says otherwise, and no table has its first info block. In a
//!    table of version 2.0, 4096 belongs to a block of its user. So if there is the last info block of a table, the volume is
//!    refused, and changed by no command.
//! 4. A table or a block pool of PMDK, as `lode-btt` finds it.
//!
//! # Places
//! A new volume has a new file, or all of a device or of a file that exists, as the image of a namespace is one. There the blocks
//! that identify any format are cleared first, and that is durable before a new structure is stored: so no header that was there
//! is ever found beside the new volume.
//!
//! # Locks
//! A volume that is open for writing has the lock of flock(2) that PMDK takes on its pools and the kernel's tools ignore:
//! programs of PMDK and of ours exclude each other.
//!
//! # PMDK's shutdown state
//! The header of a block pool of PMDK counts unsafe shutdowns of the modules below while a program has it open. This crate
//! leaves that state as it is. With the dirty flag but without the modules' counts, which only PMDK's own sum can give, PMDK
//! would refuse a sound pool on modules after a crash. A pool that PMDK left dirty on modules is refused by `lode-btt`.
//!
//! # Space
//! A trim of a raw volume gives the space of its pages back to the file system, and `status` asks the file for its holes. A
//! pool of atomic blocks keeps all of its space: a trimmed data block is the next spare, and a write must never meet a full
//! disk. A table does, too: a trimmed block keeps its place until it is written, and a hole for each would cost a system call
//! for a block that the next write fills.
//!
//! # Cost
//! A batch on a raw volume costs one drain, or none at durability `commit` without FUA. Writes, zeros and trims of a batch that follow
//! each other share the drain of atomic blocks, or the two drains of a table: that is the least for a write to one, whose flog entry
//! must be durable after its data. Without a write, a table takes one; a table with shorter blocks than a page that a kernel reads takes
//! zeros as writes ([`Btt::hides_blocks_after_zeros`](lode_btt::Btt::hides_blocks_after_zeros)). More than 65,536 blocks that become zeros take another drain,
//! as do atomic blocks for which a record has no room. A read between changes ends their group.
#![forbid(unsafe_code)]

mod atomic;
mod bench;
mod block_error;
mod check;
mod create;
mod device;
mod error;
mod format;
mod grow;
mod in_place;
mod info;
mod occupant;
mod plan;
mod raw;
mod raw_headers;
mod recognise;
mod remapped;
mod repair;
mod survey;
mod table;
mod transfer;
mod volume;

pub use bench::{BenchError, BenchFigure, BenchOptions, BenchTarget, bench};
pub use block_error::{BlockError, BlockFault};
pub use check::{VolumeFinding, check};
pub use create::create;
pub use device::{BlockDevice, Extent, Op, Request};
pub use error::VolumeError;
pub use format::VolumeFormat;
pub use grow::grow;
pub use in_place::{CreateInPlace, create_in_place};
pub use info::{VolumeInfo, info};
pub use occupant::Occupant;
pub use plan::CreateVolume;
pub use repair::{VolumeRepair, repair};
pub use transfer::{Source, TransferError, Watch, export, import};
pub use volume::Volume;
