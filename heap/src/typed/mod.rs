//! The typed interface: persistent types, pointers that own, cells, vectors, strings and locks.

mod brand;
mod cell;
mod guard;
mod heap;
mod mutex;
pub(crate) mod owners;
mod pool;
mod string;
mod tx;
#[doc(hidden)]
pub mod type_hash;
mod vec;

pub use brand::Claim;
pub(crate) use brand::Claimed;
pub use guard::Guard;
pub use heap::TypedHeap;
pub use mutex::PMutex;
pub use pool::TypedPool;
pub use string::PString;
pub use tx::TypedTx;
pub use vec::PVec;
