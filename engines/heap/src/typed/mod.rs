//! The typed interface: persistent types, pointers that own, cells, vectors, queues, strings and locks.

pub(crate) mod brand;
mod cell;
pub(crate) mod deque;
pub(crate) mod guard;
pub(crate) mod heap;
pub(crate) mod mutex;
pub(crate) mod owners;
pub(crate) mod pool;
pub(crate) mod string;
pub(crate) mod trace;
pub(crate) mod tx;
#[doc(hidden)]
pub mod type_hash;
pub(crate) mod value;
pub(crate) mod vec;
