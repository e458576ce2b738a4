//! A pool with a tree that is served, and clients of it.

use lode_follow::{Connection, Server};
use lode_heap::{CreateOptions, Durability, Heap, LayoutName, OpenError, Pool};
use lode_index::{IndexError, Tree};
use lode_pmem::Mapping;
use lode_pool::{Access, OpenOptions};
use rustix::fd::BorrowedFd;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub(crate) const HELLO: &[u8; 8] = b"lodestn\x01";
/// Longer than anything takes that ends at all.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) pool: Arc<Pool>,
}

#[derive(Debug)]
struct Failure;

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        panic!("{error}")
    }
}

impl Place {
    pub(crate) fn new() -> Place {
        Place::named("pool")
    }

    /// Makes a pool with an empty tree.
    pub(crate) fn named(name: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let options = CreateOptions {
            durability: Some(Durability::None),
            ..CreateOptions::new(1 << 20, LayoutName::new("kv").unwrap())
        };
        let make = |heap: &Heap<&Mapping>| -> Result<(), Failure> {
            let made = heap.run(|tx| {
                let root = Tree::create(tx)?;
                tx.set_root(root);
                Ok::<_, IndexError>(())
            });
            made.unwrap();
            Ok(())
        };
        let pool = Pool::create_with(&folder.path().join(name), &options, make).unwrap();
        Place { folder, pool: Arc::new(pool) }
    }

    pub(crate) fn path(&self) -> &Path {
        self.pool.path()
    }

    pub(crate) fn socket(&self) -> PathBuf {
        PathBuf::from(format!("{}.sock", self.path().display()))
    }

    pub(crate) fn serve(&self) -> Server {
        Server::start(&self.pool).unwrap()
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.path()).unwrap().unwrap()
    }

    pub(crate) fn put(&self, key: u32, value: &[u8]) {
        let heap = self.pool.heap();
        let tree = Tree::open(heap, heap.root().unwrap()).unwrap();
        heap.run(|tx| tree.insert_in(tx, &key.to_be_bytes(), value)).unwrap();
    }

    /// Waits until this number of snapshots is open.
    pub(crate) fn wait_for_snapshots(&self, count: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.pool.heap().snapshot_stats().open != count {
            assert!(Instant::now() < deadline, "{:?}", self.pool.heap().snapshot_stats());
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Closes the pool, and opens it again.
    pub(crate) fn reopen(self) -> Place {
        let path = self.path().to_owned();
        let Place { folder, pool } = self;
        Arc::into_inner(pool).unwrap().close().unwrap();
        let options =
            OpenOptions { durability: Some(Durability::None), ..OpenOptions::new(Access::ReadWrite) };
        Place { folder, pool: Arc::new(Pool::open(&path, &options).unwrap()) }
    }
}

/// Sends these bytes with these files.
pub(crate) fn send(stream: &UnixStream, bytes: &[u8], files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(files.is_empty() || control.push(SendAncillaryMessage::ScmRights(files)));
    sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
}

/// Reads until the server ends the connection.
pub(crate) fn read_to_end(mut stream: &UnixStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    stream.set_read_timeout(Some(PATIENCE / 3)).unwrap();
    // An end that leaves bytes of ours unread is a reset.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}
