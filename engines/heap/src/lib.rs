//! Layer 4: one-fence durable transactions, and an allocator that needs no fence of its own.
//!
//! [`Heap`] and [`Tx`] are the engine: offsets, words and bytes. Programs with data structures of their own use [`TypedPool`].
//! Those with keys and values use `Store` of the crate `lodestone`.
#![doc = include_str!("typed/typed.md")]
#![deny(unsafe_code)]

// Derived code names this crate from outside, also in here.
extern crate self as lode_heap;

mod alloc;
mod attempt;
#[doc(hidden)]
pub mod bits;
mod boxes;
pub mod bugs;
pub mod check;
mod commit_hooks;
mod early_return;
mod error;
#[cfg(feature = "explore")]
pub mod explore;
mod growth;
mod heap;
mod held_locks;
mod later;
mod locks;
mod open_transaction;
mod pending_words;
mod persist;
mod pool;
mod ptr;
mod read_set;
mod readers;
mod reservation;
mod session;
mod shrink;
mod snapshot;
mod transaction;
mod tx;
mod typed;
mod validation;
mod walk;
mod writes;

pub use attempt::LockSavepoint;
pub use bits::Bits;
pub use error::{GrowthRefusal, HeapError};
pub use growth::{Growth, GrowthError, Install, Wanted};
pub use heap::{Heap, ReadMark};
pub use later::{LogPosition, Watch};
pub use locks::Version;
pub use lode_heap_derive::{CellValue, Persist};
pub use lode_layout::LayoutName;
pub use lode_pmem::Durability;
pub use lode_pool::{Access, CreateOptions, OpenOptions};
pub use lode_redo::{InDoubtCause, Log, LogArea, LogError, Recovery, WaitingRecords};
pub use open_transaction::OpenTransaction;
pub use persist::Persist;
pub use pool::{OpenError, Pool, random_log_epoch};
pub use ptr::{Owned, PBox, PCell};
pub use read_set::{Read, ReadCheck, Reread};
pub use readers::Pin;
pub use reservation::{NotPublished, Reservation, Reservations, Reserved};
pub use shrink::Shrunk;
pub use snapshot::{OwnedSnapshot, Snapshot, SnapshotStats, SnapshotView};
pub use tx::{Tx, WORDS_UNCHECKED_MAX};
pub use typed::brand::Brand;
pub use typed::deque::PDeque;
pub use typed::guard::Guard;
pub use typed::hash_map::PHashMap;
pub use typed::heap::TypedHeap;
#[doc(hidden)]
pub use typed::heap::raw_heap;
#[doc(hidden)]
pub use typed::migration;
pub use typed::migration::{Migrate, Migrated};
pub use typed::mutex::PMutex;
pub use typed::owners::Owners;
pub use typed::pool::TypedPool;
pub use typed::string::PString;
#[doc(hidden)]
pub use typed::structure;
pub use typed::survey::{
    MapPart, TypedDamage, TypedElement, TypedPlace, TypedPointer, TypedSurvey, TypedVisitor, VisitMap,
};
#[doc(hidden)]
pub use typed::trees;
pub use typed::tx::TypedTx;
#[doc(hidden)]
pub use typed::type_hash;
#[doc(hidden)]
pub use typed::types;
pub use typed::value::CellValue;
pub use typed::vec::PVec;
pub use walk::{ClassStats, HeapStats, Object};
