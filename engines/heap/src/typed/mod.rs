//! The typed interface: persistent types, pointers that own, cells, vectors, queues, strings and locks.

pub(crate) mod brand;
mod cell;
pub(crate) mod deque;
pub(crate) mod elements;
pub(crate) mod free;
pub(crate) mod freeing_tx;
pub(crate) mod guard;
pub(crate) mod hash_map;
mod hash_table;
pub(crate) mod heap;
#[doc(hidden)]
pub mod migration;
pub(crate) mod mutex;
pub(crate) mod owners;
pub(crate) mod pool;
pub(crate) mod root;
pub(crate) mod string;
#[doc(hidden)]
pub mod structure;
pub(crate) mod survey;
#[doc(hidden)]
pub mod trees;
pub(crate) mod tx;
#[doc(hidden)]
pub mod type_hash;
#[doc(hidden)]
pub mod types;
pub(crate) mod value;
pub(crate) mod vec;
mod vec_bytes;
