//! The messages of a connection, in the encoding of postcard.

use crate::frame::{self, REQUEST_LEN_MAX, RESPONSE_LEN_MAX};
use lode_heap::{ClassStats, HeapStats, Pool};
use lode_layout::Header;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use std::io::{self, Read, Write};
use std::ops::Bound;

/// The first bytes of both sides. The last one is the version of the protocol.
pub(crate) const HELLO: [u8; 8] = *b"lodestn\x01";

/// A request of a client. Offsets are those of the root objects of trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// The tree of a name in the table of trees.
    Tree {
        /// Its name.
        name: String,
    },
    /// The names of all trees in the table of trees.
    TreeNames,
    /// The value of a key.
    Get {
        /// The tree.
        root: u64,
        /// The key.
        key: ByteBuf,
    },
    /// The number of keys.
    Count {
        /// The tree.
        root: u64,
    },
    /// The next entries of a scan.
    Scan {
        /// The tree.
        root: u64,
        /// The least key.
        from: Bound<ByteBuf>,
        /// The greatest key.
        to: Bound<ByteBuf>,
        /// True to begin with the greatest key.
        is_reverse: bool,
        /// Greatest number of entries.
        entries_max: u32,
    },
    /// Bytes of an object.
    Read {
        /// Offset of the first one.
        at: u64,
        /// Number of bytes.
        len: u32,
    },
    /// The properties of the pool.
    Info,
    /// The fill level of the pool.
    Stats,
}

/// The answer to a [`Request`], or to a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// The connection has a snapshot.
    Welcome {
        /// Layout of the pool.
        layout: String,
        /// Offset of its root object.
        root: u64,
    },
    /// There is no other answer.
    Failed {
        /// The kind of failure.
        kind: FailureKind,
        /// The reason.
        message: String,
    },
    /// The tree, if there is one of that name.
    Tree(Option<TreeFields>),
    /// Names of trees, sorted.
    TreeNames(Vec<String>),
    /// The value, if the tree has the key.
    Value(Option<ByteBuf>),
    /// The number of keys.
    Count(u64),
    /// Entries of a scan.
    Batch {
        /// The entries and the damage in their order.
        items: Vec<Item>,
        /// True if no entries follow.
        is_last: bool,
    },
    /// Bytes of an object.
    Bytes(ByteBuf),
    /// The properties of the pool.
    Info(Box<PoolInfo>),
    /// The fill level of the pool.
    Stats(PoolStats),
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// There are too many connections.
    Busy,
    /// The client has not proved that it may read the pool.
    NoProof,
    /// The server does not understand the request.
    BadRequest,
    /// The snapshot has ended.
    SnapshotEnded,
    /// Something on the medium is damaged.
    Damage,
    /// Another failure.
    Other,
}

/// A tree in the table of trees.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TreeFields {
    /// Offset of its root object.
    pub root: u64,
    /// Name of the type of its keys.
    pub key_type: String,
    /// Name of the type of its values.
    pub value_type: String,
}

/// A part of a [`Response::Batch`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// A key and its value.
    Entry {
        /// The key.
        key: ByteBuf,
        /// The value.
        value: ByteBuf,
    },
    /// Damage, which may hide keys.
    Damage {
        /// The reason.
        message: String,
        /// Number of damages.
        count: u64,
    },
}

/// The properties of an open pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolInfo {
    /// The header.
    #[serde(with = "header_bytes")]
    pub header: Header,
    /// The durability that the medium offers, and its evidence.
    pub medium: String,
    /// That durability alone.
    pub durability: String,
    /// The copy of the header that is damaged, and how.
    pub damaged_header: Option<String>,
    /// True if the writer before this one closed the pool.
    pub was_closed: bool,
    /// Records of the log that were replayed when the pool was opened.
    pub replayed: u64,
    /// Open snapshots, the one of this connection included.
    pub snapshots: u64,
    /// Private memory of the writer that keeps replaced words for them, in bytes.
    pub snapshot_memory: u64,
    /// Bytes of the pool that were freed and wait for them.
    pub snapshot_space: u64,
}

/// The fill level of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStats {
    /// Size of the pool in bytes.
    pub size: u64,
    /// Bytes that are free, in chunks and in blocks.
    pub free: u64,
    /// Bytes of free chunks.
    pub free_chunks: u64,
    /// Bytes of the longest run of free chunks.
    pub largest_free: u64,
    /// Number of objects that have a span of their own.
    pub huge_count: u64,
    /// Bytes of the spans of those objects.
    pub huge_bytes: u64,
    /// Block sizes, ascending.
    pub classes: Vec<BlockClass>,
}

/// Superblocks and blocks of one block size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockClass {
    /// Size of a block in bytes.
    pub block_size: u64,
    /// Number of superblocks.
    pub superblocks: u64,
    /// Number of blocks in them.
    pub blocks: u64,
    /// Number of used blocks.
    pub used: u64,
}

impl PoolInfo {
    /// Returns the properties of `pool`.
    pub fn of(pool: &Pool) -> PoolInfo {
        let (report, recovery) = (pool.report(), pool.recovery());
        let damage = pool.file().damage();
        let snapshots = pool.heap().snapshot_stats();
        PoolInfo {
            header: pool.header(),
            medium: report.to_string(),
            durability: report.durability.to_string(),
            damaged_header: damage.map(|(copy, fault)| format!("copy {copy}: {fault}")),
            was_closed: recovery.was_closed,
            replayed: recovery.replayed,
            snapshots: snapshots.open as u64,
            snapshot_memory: snapshots.memory,
            snapshot_space: snapshots.space,
        }
    }
}

impl PoolStats {
    /// Returns the fill level of `heap` in a pool of `size` bytes.
    pub fn new(size: u64, heap: &HeapStats) -> PoolStats {
        let class = |class: &ClassStats| BlockClass {
            block_size: class.block_size,
            superblocks: class.superblocks,
            blocks: class.blocks,
            used: class.used,
        };
        PoolStats {
            size,
            free: heap.free_bytes(),
            free_chunks: heap.free_chunk_bytes,
            largest_free: heap.largest_free,
            huge_count: heap.huge_count,
            huge_bytes: heap.huge_bytes,
            classes: heap.classes.iter().map(class).collect(),
        }
    }
}

impl Request {
    /// Reads a request in its frame. `None` if the stream ends before it.
    ///
    /// # Errors
    /// Those of the stream; [`io::ErrorKind::InvalidData`] if it is longer than any request, or can't be decoded.
    pub fn read(stream: &mut impl Read) -> io::Result<Option<Request>> {
        frame::read(stream, REQUEST_LEN_MAX)
    }

    /// Writes the request in a frame.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        frame::write(stream, self)
    }
}

impl Response {
    /// Reads a response in its frame. `None` if the stream ends before it.
    ///
    /// # Errors
    /// Those of the stream; [`io::ErrorKind::InvalidData`] if it is longer than any response, or can't be decoded.
    pub fn read(stream: &mut impl Read) -> io::Result<Option<Response>> {
        frame::read(stream, RESPONSE_LEN_MAX)
    }

    /// Writes the response in a frame.
    ///
    /// # Errors
    /// Those of the stream.
    pub fn write(&self, stream: &mut impl Write) -> io::Result<()> {
        frame::write(stream, self)
    }

    pub(crate) fn failed(kind: FailureKind, message: impl ToString) -> Response {
        Response::Failed { kind, message: message.to_string() }
    }
}

/// Headers as they are on the medium.
mod header_bytes {
    use lode_layout::Header;
    use serde::de::Error;
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(header: &Header, to: S) -> Result<S::Ok, S::Error> {
        serde_bytes::serialize(&header.encode()[..], to)
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Header, D::Error> {
        let bytes: Vec<u8> = serde_bytes::deserialize(from)?;
        Header::decode(&bytes).map_err(Error::custom)
    }
}
