//! Layer 6: a server of block devices by the NBD protocol.
//!
//! ```text
//!   Server                     listeners, a thread a connection, graceful stop
//!      |
//!   session                    handshake, then batches: all whole commands of the receive buffer
//!      |        \
//!   protocol    batch          bytes <-> values, no I/O | commands -> requests of the device
//!      |          |
//!   client     Export: BlockDevice (lode-volume)
//! ```
//!
//! It does: fixed newstyle handshakes, simple, structured and extended replies, and all commands. It does not: print, encrypt,
//! or know how a device stores its blocks.
//!
//! # RESIZE
//! The extension is experimental, and no published client has it. A client asks for the size that the offset of the command
//! gives, with a length of 0. The export has that size or a little more when the reply has no error. It never shrinks (EINVAL);
//! ENOSPC means a full disk, ENOTSUP a format of one size. The flag SEND_RESIZE tells which exports grow.
//!
//! # The walk of a write
//! 1. A read of the socket fills the receive buffer (`inbox.rs`).
//! 2. `session.rs` takes the whole commands in it. The payloads stay in the receive buffer.
//! 3. `batch.rs` lends them to the device as one batch.
//! 4. One writev sends the replies of the batch.
//!
//! # Hostile clients
//! A command that is wrong gets its error, and the next one is run. Bytes whose end is not known end the connection: a wrong first
//! word, or a write with extended headers that does not say that it has a payload. A payload over 32 MiB is refused and thrown
//! away as it comes. A handshake ends after ten seconds or 1024 options. There is no limit on the time between commands, and
//! none on the number of clients but that of descriptors and threads.
//!
//! # Sizes
//! A client may read and write any range of bytes. A part of a block costs a read of the block before the write, which no
//! other write passes. The preferred size that clients are told is that of a block.
//!
//! # Durability
//! A write is as durable as the device makes a batch, see [`lode_volume::BlockDevice`]. FLUSH and FUA are offered always, and
//! cost nothing where the device has no volatile cache. A flush on one connection covers what was answered on all of them.
//!
//! A killed server loses no change that was answered, because a client that connects to the next one does not send it again.
//! So where the volatile cache lies in the process, as that of a table, a change is durable before it is answered.
//!
//! # Cost
//! A batch costs one receive, one batch of the device and one send. After a batch, the thread of a client that was prompt before
//! looks for the next command for up to 50 us before it sleeps. A connection has a thread, a receive buffer whose pages are
//! touched as requests need them, and a buffer for what its largest batch of reads needed. It keeps up to 4 MiB of each. An idle
//! connection takes about 40 KiB, which `tests/memory.rs` bounds.
#![forbid(unsafe_code)]

mod batch;
mod error;
mod export;
mod inbox;
mod listener;
mod protocol;
mod server;
mod session;

pub use error::NbdError;
pub use export::Export;
pub use listener::{Address, Listener};
pub use server::Server;
pub use session::serve_stream;
