//! A file system that loses power, and a program whose acknowledged transactions it tests.
//!
//! ```text
//!   program under test (a process)          mmap, pwritev2(RWF_DSYNC), fdatasync; prints what is durable
//!        |  kernel: page cache, write-back
//!   Volume: one file on FUSE                READ, WRITE, FSYNC
//!        |
//!   Disk: durable sectors, later versions   power cut -> images that may be left
//!        |
//!   Trial, Trials: kill, recover, compare with what was printed
//! ```
//!
//! It does: keep apart, for each sector of 512 bytes, the synced content and later writes; fail all requests after the
//! power cut; build images in which each sector that was not synced has any of its versions. It does not: simulate the
//! kernel. The page cache, its write-back and the system calls are the real ones. So this shows that the calls of
//! `lode-pmem` ask the kernel for what durability `commit` promises. `lode-sim` covers the loss of stores and drains in
//! any order.
#![forbid(unsafe_code)]

mod disk;
pub mod history;
pub mod ledger;
mod trial;
mod trials;
mod volume;

pub use disk::{Disk, Requests, SECTOR, Survival};
pub use trial::{Trial, Verdict, write_back_randomly};
pub use trials::{Trials, TrialsResult};
pub use volume::Volume;
