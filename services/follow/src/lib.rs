//! Layer 7: snapshots of a pool in use, for other processes.
//!
//! ```text
//!   the process that has the pool open            another process, which may read the file
//!     Server    socket beside the pool  <-------    Connection   Hello, and an open file as the proof
//!        |      a thread each: one snapshot  ---->     |         Welcome
//!        |                              <-------       |         Request: a tree, a key, a batch of a scan
//!     heap, trees                        ------->      |         Response
//! ```
//!
//! It does: listen beside a pool that is open for writing; open a snapshot for each connection, and close it when the
//! connection ends, in whatever way; answer requests, each of bounded length. It does not: know a layout, except for the
//! trees that its clients name by offset, or by name in the table of trees. It starts threads, and prints nothing.
//! docs/decisions/other-processes-read.md has the reasons.
//!
//! # Cost
//! A connection takes a thread of the process that has the pool open, and a snapshot of its heap. A request is a round trip
//! through the socket.
#![forbid(unsafe_code)]

mod connection;
mod error;
mod followed;
mod frame;
mod message;
mod proof;
mod scan;
mod server;
mod session;
mod socket;

pub use connection::{Connection, ScanBatch, ScanItem};
pub use error::FollowError;
pub use followed::Followed;
pub use message::{BlockClass, FailureKind, Item, PoolInfo, PoolStats, Request, Response, TreeFields};
pub use scan::ServedScan;
pub use server::Server;
