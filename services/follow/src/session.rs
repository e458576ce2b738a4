//! The server's side of one connection.

use crate::message::{FailureKind, HELLO, Item, PoolInfo, PoolStats, Request, Response, TreeFields};
use crate::proof::{self, FileId};
use lode_heap::{Heap, HeapError, HeapStats, OwnedSnapshot, Pool};
use lode_index::{Direction, Entry, IndexError, RangeAt, TreeSnapshot, TreesSnapshot};
use lode_layout::PoolOffset;
use lode_pmem::Mapping;
use serde_bytes::ByteBuf;
use std::io::{self, Write};
use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The time that a client may take for its hello.
const HELLO_PATIENCE: Duration = Duration::from_secs(10);
/// Bytes of keys and values after which a batch ends.
const BATCH_LEN: usize = 256 << 10;
/// Greatest number of entries of a batch.
const BATCH_ENTRIES: u32 = 4096;
/// Greatest number of damages of a batch with a message of their own.
const BATCH_DAMAGES: usize = 20;
/// Greatest number of bytes that are read at once.
const READ_LEN_MAX: u32 = 64 << 10;

/// Number of times that the fill level is counted again, and the time between two of them.
const STATS_RETRIES: usize = 10;
const STATS_PAUSE: Duration = Duration::from_millis(1);

type Medium = Arc<Mapping>;

/// A reference to an open pool that leads to its heap.
#[derive(Debug)]
struct HeapOf(Arc<Pool>);

impl Deref for HeapOf {
    type Target = Heap<Medium>;

    fn deref(&self) -> &Heap<Medium> {
        self.0.heap()
    }
}

/// A connection with its snapshot.
struct Session<'a> {
    pool: &'a Arc<Pool>,
    is_stopped: &'a AtomicBool,
    snapshot: OwnedSnapshot<Medium, HeapOf>,
    root: PoolOffset,
}

/// Refuses a connection.
pub(crate) fn refuse(mut stream: UnixStream, kind: FailureKind, message: &str) -> io::Result<()> {
    // The answer fits into the empty buffer of the socket, so this does not wait.
    stream.write_all(&HELLO)?;
    Response::failed(kind, message).write(&mut stream)
}

/// Serves a connection until the client ends it. `file` is the identity of the pool's file.
pub(crate) fn serve(
    mut stream: UnixStream,
    pool: &Arc<Pool>,
    file: FileId,
    is_stopped: &AtomicBool,
) -> io::Result<()> {
    stream.set_read_timeout(Some(HELLO_PATIENCE))?;
    let (hello, is_proved) = proof::receive(&stream, file)?;
    stream.write_all(&HELLO)?;
    if hello != HELLO {
        return Ok(());
    }
    if !is_proved {
        let message = "the right to read the pool is not proved; ask for the right to read its file";
        return Response::failed(FailureKind::NoProof, message).write(&mut stream);
    }
    let session = match Session::open(pool, is_stopped) {
        Ok(session) => session,
        Err(error) => return failed(&error).write(&mut stream),
    };
    let (layout, root) = (pool.layout().to_string(), session.root.get());
    Response::Welcome { layout, root }.write(&mut stream)?;
    // From here on the client may take any time between two requests.
    stream.set_read_timeout(None)?;
    loop {
        match Request::read(&mut stream) {
            Ok(None) => return Ok(()),
            Ok(Some(request)) => session.answer(request).write(&mut stream)?,
            // The next frame can't be found.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Response::failed(FailureKind::BadRequest, &error).write(&mut stream);
            }
            Err(error) => return Err(error),
        }
    }
}

impl<'a> Session<'a> {
    fn open(pool: &'a Arc<Pool>, is_stopped: &'a AtomicBool) -> Result<Session<'a>, IndexError> {
        let snapshot = OwnedSnapshot::open(HeapOf(Arc::clone(pool)))?;
        let root = snapshot.get().root()?;
        Ok(Session { pool, is_stopped, snapshot, root })
    }

    fn answer(&self, request: Request) -> Response {
        self.try_answer(request).unwrap_or_else(|error| failed(&error))
    }

    fn try_answer(&self, request: Request) -> Result<Response, IndexError> {
        let snapshot = self.snapshot.get();
        let tree = |root| TreeSnapshot::open(&snapshot, PoolOffset::new(root));
        Ok(match request {
            Request::Tree { name } => {
                let found = TreesSnapshot::open(&snapshot, self.root)?.get(&name)?;
                Response::Tree(found.map(|tree| TreeFields {
                    root: tree.root.get(),
                    key_type: tree.key_type,
                    value_type: tree.value_type,
                }))
            }
            Request::TreeNames => Response::TreeNames(TreesSnapshot::open(&snapshot, self.root)?.names()?),
            Request::Get { root, key } => {
                let found = tree(root)?.get(&key)?;
                Response::Value(found.map(|value| ByteBuf::from(value.into_vec())))
            }
            Request::Count { root } => Response::Count(tree(root)?.count()?),
            Request::Scan { root, from, to, is_reverse, entries_max } => {
                let range = tree(root)?.range((from.map(ByteBuf::into_vec), to.map(ByteBuf::into_vec)));
                let direction = if is_reverse { Direction::Backward } else { Direction::Forward };
                self.scan(range, direction, entries_max)?
            }
            Request::Read { at, len } => {
                let mut bytes = vec![0; len.min(READ_LEN_MAX) as usize];
                snapshot.try_reading(|view| {
                    view.read(PoolOffset::new(at), &mut bytes);
                    Ok::<_, HeapError>(())
                })?;
                Response::Bytes(ByteBuf::from(bytes))
            }
            Request::Info => Response::Info(Box::new(PoolInfo::of(self.pool))),
            Request::Stats => {
                let size = self.pool.header().geometry.size();
                Response::Stats(PoolStats::new(size, &self.stats()?))
            }
        })
    }

    /// Returns the fill level. A header that a transaction is just writing back looks damaged for a moment.
    fn stats(&self) -> Result<HeapStats, HeapError> {
        let mut pauses = std::iter::repeat_n(STATS_PAUSE, STATS_RETRIES);
        loop {
            match self.pool.heap().stats() {
                Err(error) if error.is_damage() => match pauses.next() {
                    Some(pause) => thread::sleep(pause),
                    None => return Err(error),
                },
                stats => return stats,
            }
        }
    }

    fn scan(
        &self,
        mut range: RangeAt<'_, '_, Medium>,
        direction: Direction,
        entries_max: u32,
    ) -> Result<Response, IndexError> {
        let entries_max = entries_max.clamp(1, BATCH_ENTRIES) as usize;
        let (mut items, mut entries, mut damages, mut len) = (Vec::new(), 0, 0, 0);
        // ORDER: none: it only ends the scan early.
        while entries < entries_max && len < BATCH_LEN && !self.is_stopped.load(Ordering::Relaxed) {
            match direction.next(&mut range) {
                Some(Ok(Entry { key, value })) => {
                    entries += 1;
                    len += key.len() + value.len();
                    let (key, value) = (ByteBuf::from(key), ByteBuf::from(value.into_vec()));
                    items.push(Item::Entry { key, value });
                }
                Some(Err(error)) if error.is_damage() => {
                    damages += 1;
                    match items.last_mut() {
                        Some(Item::Damage { count, .. }) if damages > BATCH_DAMAGES => *count += 1,
                        _ => items.push(Item::Damage { message: error.to_string(), count: 1 }),
                    }
                }
                Some(Err(error)) => return Err(error),
                None => return Ok(Response::Batch { items, is_last: true }),
            }
        }
        Ok(Response::Batch { items, is_last: false })
    }
}

fn failed(error: &IndexError) -> Response {
    let kind = match error {
        IndexError::Heap(HeapError::SnapshotEnded) => FailureKind::SnapshotEnded,
        error if error.is_damage() => FailureKind::Damage,
        _ => FailureKind::Other,
    };
    Response::failed(kind, error)
}
