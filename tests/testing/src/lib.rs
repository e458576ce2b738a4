//! Memory, pools, disks, cost tables and settings that the tests of several crates share.
//!
//! ```text
//!   tests of pmem, pool     tests of heap     tests of index, fuzz targets    tests of nbd
//!        |                       |                  |                             |
//!   memory, cost, settings    heap              tree, kv           lode-testing volume
//!        |                       |                  |                             |
//!   lode-pmem                lode-heap         lode-index                   lode-volume
//! ```
//!
//! It holds only what tests of two crates, or two programs of tests, use. Features add the parts that need the heap, the
//! tree or volumes, so the tests of a lower crate compile none of them. It panics where a test could not go on.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

pub mod cost;
mod disk;
mod firmware;
pub mod gated_log;
#[cfg(feature = "heap")]
pub mod heap;
mod killed;
#[cfg(feature = "index")]
pub mod kv;
pub mod memory;
pub mod settings;
mod stored_pool;
#[cfg(feature = "index")]
pub mod tree;
#[cfg(feature = "volume")]
pub mod volume;

pub use disk::SmallDisk;
pub use firmware::firmware_image;
pub use killed::KilledMedium;
pub use settings::{budget, scaled, seed, skip};
pub use stored_pool::StoredPools;
