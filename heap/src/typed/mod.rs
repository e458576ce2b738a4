//! The typed interface: persistent types, pointers that own, cells, vectors, strings and locks.
#![doc = include_str!("typed.md")]

mod brand;
mod cell;
mod guard;
mod heap;
mod mutex;
pub(crate) mod owners;
mod string;
mod tx;
#[doc(hidden)]
pub mod type_hash;
mod vec;

pub(crate) use brand::Claimed;
pub use brand::Claim;
pub use guard::Guard;
pub use heap::TypedHeap;
pub use mutex::PMutex;
pub use string::PString;
pub use tx::TypedTx;
pub use vec::PVec;
