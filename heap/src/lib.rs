//! Layer 4: one-fence durable transactions, and an allocator that needs no fence of its own.
//!
//! [`Heap`] and [`Tx`] are the engine: offsets, words and bytes. Programs use [`TypedPool`].
#![doc = include_str!("typed/typed.md")]
#![deny(unsafe_code)]

// Derived code names this crate from outside, also in here.
extern crate self as lode_heap;

mod alloc;
mod biased;
pub mod bugs;
pub mod check;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod heap;
mod locks;
mod log;
mod pool;
mod ptr;
mod readers;
mod reclaim;
mod reservation;
mod session;
mod sync;
mod tx;
mod typed;
mod walk;
mod writeset;

pub use error::{Doubt, HeapError};
pub use heap::Heap;
pub use locks::Version;
pub use lode_heap_derive::Persist;
pub use lode_layout::LayoutName;
pub use lode_pmem::Rung;
pub use lode_pool::{Access, CreateOptions, OpenOptions};
pub use log::{Log, LogArea, Recovery};
pub use pool::{OpenError, Pool, random_life};
pub use ptr::{Brand, Owned, PBox, PCell, Persist};
pub use readers::Pin;
pub use reservation::{NotPublished, Reservation, Reservations, Reserved};
pub use tx::{Held, Tx};
pub use typed::owners::Owners;
#[doc(hidden)]
pub use typed::type_hash;
pub use typed::{Claim, Guard, PMutex, PString, PVec, TypedHeap, TypedPool, TypedTx};
pub use walk::{ClassStats, HeapStats, Object};
