//! The changes of a running transaction.
//!
//! ```text
//!   short: stores -> entries of the record        reads -> memory, then the entries (a list, or the overlay)
//!             |  longer than a record of the ring may be
//!             v
//!   long:  stores -> the overlay, by cache line   reads -> memory, then the overlay
//!                 -> in place, in the transaction's own spans
//!             |  commit
//!             v
//!          overlay -> entries in free spans; one drain; a record that leads to them
//! ```
//!
//! A long transaction writes to spans that it has taken from free chunks in place, since no other thread and no needed
//! record knows them before its own record is durable. So the log holds only its changes of older objects, each line
//! once, and the private memory of the transaction grows with the lines of older objects that it changes.
//!
//! # Cost
//! A store, and a read of a store, take the same time however many came before.

pub(crate) mod overlay;
pub(crate) mod own_spans;
pub(crate) mod spill;
pub(crate) mod write_set;
