//! The client's side of one connection.

use crate::error::FollowError;
use crate::message::{FailureKind, HELLO, Item, PoolInfo, PoolStats, Request, Response};
use crate::proof;
use crate::socket::ClientSocket;
use lode_index::{Direction, Entry, NamedTree, Value};
use lode_layout::{KEY_LEN_MAX, LayoutName, PoolOffset};
use rustix::fs::{FileType, Mode, OFlags, fstat, open};
use serde_bytes::ByteBuf;
use std::io::{self, Read};
use std::ops::Bound;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A snapshot of a pool that another process has open, as that process serves it. The snapshot is closed when the
/// connection is dropped, or ends in any other way.
///
/// # Errors
/// Each request fails with [`FollowError::Failed`] or [`FollowError::Lost`]; after the latter all others do, too.
///
/// # Cost
/// Each request is a round trip through the socket. Threads that share a connection take turns.
#[derive(Debug)]
pub struct Connection {
    /// `None` once it is lost.
    stream: Mutex<Option<UnixStream>>,
    /// The pool.
    path: PathBuf,
    layout: LayoutName,
    root: PoolOffset,
}

/// Entries of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanBatch {
    /// The entries and the damage in their order.
    pub items: Vec<ScanItem>,
    /// True if no entries follow.
    pub is_last: bool,
}

/// A part of a [`ScanBatch`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanItem {
    /// A key and its value.
    Entry(Entry),
    /// Damage, which may hide keys.
    Damage {
        /// The reason.
        message: String,
        /// Number of damages.
        count: u64,
    },
}

impl Connection {
    /// Connects to the process that serves the pool at `path`, and opens a snapshot. `None` if there is none.
    ///
    /// # Errors
    /// [`FollowError`]. [`FollowError::Io`] of `open` if this process may not read the file.
    pub fn open(path: &Path) -> Result<Option<Connection>, FollowError> {
        let Some(ClientSocket { stream, path: socket }) = ClientSocket::connect(path)? else {
            return Ok(None);
        };
        // NONBLOCK: the open of a pipe would wait. An ordinary file ignores it.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let file = open(path, flags, Mode::empty()).map_err(FollowError::io("open", path))?;
        let kind = FileType::from_raw_mode(fstat(&file).map_err(FollowError::io("fstat", path))?.st_mode);
        if !matches!(kind, FileType::RegularFile | FileType::CharacterDevice) {
            return Ok(None);
        }
        let lost = |cause| FollowError::Lost { path: socket.clone(), cause };
        // A server that refuses the connection may have ended it already. Its answer is there nevertheless.
        let sent = proof::send(&stream, &file);
        let mut hello = [0; 8];
        (&stream)
            .read_exact(&mut hello)
            .map_err(|error| lost(sent.map_or_else(io::Error::from, |()| error)))?;
        if hello != HELLO {
            return Err(FollowError::Version { path: socket });
        }
        let welcome = Response::read(&mut &stream).map_err(lost)?;
        match welcome {
            Some(Response::Welcome { layout, root }) => {
                let layout = LayoutName::new(&layout).map_err(|_| FollowError::Protocol { path: socket })?;
                let (stream, path) = (Mutex::new(Some(stream)), path.to_owned());
                Ok(Some(Connection { stream, path, layout, root: PoolOffset::new(root) }))
            }
            Some(Response::Failed { kind, message }) => {
                Err(FollowError::Failed { path: path.to_owned(), kind, message })
            }
            Some(_) => Err(FollowError::Protocol { path: socket }),
            None => Err(lost(io::ErrorKind::UnexpectedEof.into())),
        }
    }

    /// Returns the path of the pool.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the layout of the pool.
    pub fn layout(&self) -> LayoutName {
        self.layout
    }

    /// Returns the offset of the root object in the snapshot.
    pub fn root(&self) -> PoolOffset {
        self.root
    }

    fn ask(&self, request: &Request) -> Result<Response, FollowError> {
        let mut guard = self.stream.lock().unwrap_or_else(PoisonError::into_inner);
        let lost = |cause| FollowError::Lost { path: self.path.clone(), cause };
        let stream = guard.as_mut().ok_or_else(|| lost(io::ErrorKind::NotConnected.into()))?;
        let answer = request.write(stream).and_then(|()| Response::read(stream));
        let answer = answer.and_then(|answer| answer.ok_or(io::ErrorKind::UnexpectedEof.into()));
        match answer {
            Ok(Response::Failed { kind, message }) => {
                Err(FollowError::Failed { path: self.path.clone(), kind, message })
            }
            Ok(answer) => Ok(answer),
            Err(cause) => {
                // The next bytes may be the answer to this request.
                *guard = None;
                Err(lost(cause))
            }
        }
    }

    fn unknown<T>(&self) -> Result<T, FollowError> {
        Err(FollowError::Protocol { path: self.path.clone() })
    }

    /// Returns the tree `name` of the table of trees, if there is one.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn tree(&self, name: &str) -> Result<Option<NamedTree>, FollowError> {
        match self.ask(&Request::Tree { name: name.to_owned() })? {
            Response::Tree(found) => Ok(found.map(|tree| NamedTree {
                root: PoolOffset::new(tree.root),
                key_type: tree.key_type,
                value_type: tree.value_type,
            })),
            _ => self.unknown(),
        }
    }

    /// Returns the names of all trees of the table of trees, sorted.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn tree_names(&self) -> Result<Vec<String>, FollowError> {
        match self.ask(&Request::TreeNames)? {
            Response::TreeNames(names) => Ok(names),
            _ => self.unknown(),
        }
    }

    /// Returns the value of `key` in the tree at `root`.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn get(&self, root: PoolOffset, key: &[u8]) -> Result<Option<Value>, FollowError> {
        if key.len() > KEY_LEN_MAX {
            return Ok(None);
        }
        match self.ask(&Request::Get { root: root.get(), key: ByteBuf::from(key) })? {
            Response::Value(found) => Ok(found.map(|value| Value::from(value.into_vec()))),
            _ => self.unknown(),
        }
    }

    /// Returns the number of keys that the tree at `root` has counted.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn count(&self, root: PoolOffset) -> Result<u64, FollowError> {
        match self.ask(&Request::Count { root: root.get() })? {
            Response::Count(count) => Ok(count),
            _ => self.unknown(),
        }
    }

    /// Returns the first entries of a range of the tree at `root`, or the last ones: at most `entries_max`, and fewer if
    /// they are long.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn scan(
        &self,
        root: PoolOffset,
        (from, to): &(Bound<Vec<u8>>, Bound<Vec<u8>>),
        direction: Direction,
        entries_max: u32,
    ) -> Result<ScanBatch, FollowError> {
        let from = shorten(from).unwrap_or_else(|longest| Bound::Excluded(ByteBuf::from(longest)));
        let to = shorten(to).unwrap_or_else(|longest| Bound::Included(ByteBuf::from(longest)));
        let is_reverse = direction == Direction::Backward;
        match self.ask(&Request::Scan { root: root.get(), from, to, is_reverse, entries_max })? {
            Response::Batch { items, is_last } => {
                let items = items.into_iter().map(|item| match item {
                    Item::Entry { key, value } => {
                        ScanItem::Entry(Entry { key: key.into_vec(), value: Value::from(value.into_vec()) })
                    }
                    Item::Damage { message, count } => ScanItem::Damage { message, count },
                });
                Ok(ScanBatch { items: items.collect(), is_last })
            }
            _ => self.unknown(),
        }
    }

    /// Copies the bytes at `at` to `into`, at most 64 KiB.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn read(&self, at: PoolOffset, into: &mut [u8]) -> Result<(), FollowError> {
        let len = u32::try_from(into.len()).unwrap_or(u32::MAX);
        match self.ask(&Request::Read { at: at.get(), len })? {
            Response::Bytes(bytes) if bytes.len() == into.len() => {
                into.copy_from_slice(&bytes);
                Ok(())
            }
            _ => self.unknown(),
        }
    }

    /// Returns the properties of the pool.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn info(&self) -> Result<PoolInfo, FollowError> {
        match self.ask(&Request::Info)? {
            Response::Info(info) => Ok(*info),
            _ => self.unknown(),
        }
    }

    /// Returns the fill level of the pool, as it is now.
    ///
    /// # Errors
    /// Those of [`Connection`].
    pub fn stats(&self) -> Result<PoolStats, FollowError> {
        match self.ask(&Request::Stats)? {
            Response::Stats(stats) => Ok(stats),
            _ => self.unknown(),
        }
    }

    /// Returns the error of a damage that a scan has found.
    pub fn damage(&self, message: String) -> FollowError {
        FollowError::Failed { path: self.path.clone(), kind: FailureKind::Damage, message }
    }
}

/// Returns the bound. An error is the first part of a key that is too long: it is less than that key, and no key lies
/// between them.
fn shorten(bound: &Bound<Vec<u8>>) -> Result<Bound<ByteBuf>, &[u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) if key.len() > KEY_LEN_MAX => Err(&key[..KEY_LEN_MAX]),
        bound => Ok(bound.as_ref().map(|key| ByteBuf::from(&key[..]))),
    }
}
