//! The server: a thread that accepts connections, and one for each connection.

use crate::error::FollowError;
use crate::message::FailureKind;
use crate::proof::{FileId, file_id};
use crate::session;
use crate::socket::ServerSocket;
use lode_heap::{OpenError, Pool};
use lode_pmem::Medium;
use lode_pool::{Access, PoolError};
use rustix::fs::fstat;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle, Scope};
use std::time::Duration;

/// Greatest number of connections.
const CONNECTIONS_MAX: usize = 64;
/// The time after which the server accepts again when the process has no descriptor left.
const RETRY: Duration = Duration::from_millis(100);

/// Serves snapshots of an open pool to other processes until it is dropped.
///
/// A connection has one snapshot, which is closed when the connection ends. No transaction waits for a client, and a
/// snapshot that keeps too much back ends as any other. At most 64 clients are connected at once.
///
/// Dropping it ends all connections and removes the socket. The child of a fork does neither.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
    process: u32,
}

#[derive(Debug)]
struct Shared {
    socket: ServerSocket,
    file: FileId,
    is_stopped: AtomicBool,
    /// The open connections by number, to end them.
    connections: Mutex<BTreeMap<u64, UnixStream>>,
}

impl Server {
    /// Starts to serve `pool`, which is open for writing, at a socket beside its file.
    ///
    /// # Errors
    /// [`FollowError::ReadOnly`]; [`FollowError::Io`] where no socket can be made, such as in a folder that may not be
    /// written; [`FollowError::Occupied`] and [`FollowError::NameTooLong`].
    ///
    /// # Cost
    /// A socket in the folder of the pool, and a thread that waits.
    pub fn start(pool: &Arc<Pool>) -> Result<Server, FollowError> {
        let path = pool.path();
        if pool.access() != Access::ReadWrite {
            return Err(FollowError::ReadOnly { path: path.to_owned() });
        }
        let stat = fstat(pool.file().descriptor()).map_err(FollowError::io("fstat", path))?;
        let shared = Arc::new(Shared {
            socket: ServerSocket::bind(path, &stat)?,
            file: file_id(&stat),
            is_stopped: AtomicBool::new(false),
            connections: Mutex::default(),
        });
        let (accepted, pool) = (Arc::clone(&shared), Arc::clone(pool));
        let accepting = Builder::new().name("lode-follow".into()).spawn(move || accept(&accepted, &pool));
        match accepting {
            Ok(accepting) => Ok(Server { shared, accepting: Some(accepting), process: process::id() }),
            Err(error) => {
                shared.socket.remove();
                Err(FollowError::std("clone", shared.socket.path())(error))
            }
        }
    }

    /// Ends the server of `pool`, if there is one, and returns the pool, which no thread of a server shares any more.
    ///
    /// # Errors
    /// [`PoolError::Forked`] in the child of a fork, whose handle of the pool is of no use.
    pub fn stop<M: Medium>(server: Option<Server>, pool: Arc<Pool<M>>) -> Result<Pool<M>, OpenError> {
        let forked = |pool: &Pool<M>| {
            OpenError::Pool(PoolError::Forked { opener: pool.file().opener() }.at(pool.path()))
        };
        drop(server);
        if process::id() != pool.file().opener() {
            return Err(forked(&pool));
        }
        Arc::try_unwrap(pool).map_err(|pool| forked(&pool))
    }

    /// Returns the path of the socket.
    pub fn path(&self) -> &Path {
        self.shared.socket.path()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if process::id() != self.process {
            // The threads, and the socket, are the parent's.
            std::mem::forget(self.accepting.take());
            return;
        }
        self.shared.stop();
        if let Some(accepting) = self.accepting.take() {
            // A thread that has panicked has printed why.
            let _ = accepting.join();
        }
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, UnixStream>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(&self) {
        let connections = self.connections();
        // ORDER: none: the lock orders it before the ends of the connections, and a connection is added under the lock.
        self.is_stopped.store(true, Ordering::Relaxed);
        self.socket.remove();
        self.socket.stop();
        for stream in connections.values() {
            // One that the client has ended takes no other end.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Adds a connection. Returns `None` if there are too many, or if the server stops.
    fn add(&self, number: u64, stream: &UnixStream) -> Option<()> {
        let mut connections = self.connections();
        // ORDER: none: see `stop`.
        if self.is_stopped.load(Ordering::Relaxed) || connections.len() >= CONNECTIONS_MAX {
            return None;
        }
        connections.insert(number, stream.try_clone().ok()?);
        Some(())
    }
}

/// Accepts connections until the server stops. Returns when all of them have ended.
fn accept(shared: &Shared, pool: &Arc<Pool>) {
    thread::scope(|scope| {
        for number in 0.. {
            let accepted = shared.socket.listener().accept();
            // ORDER: none: the call that ended returned after the flag was set.
            if shared.is_stopped.load(Ordering::Relaxed) {
                return;
            }
            match accepted {
                Ok((stream, _)) => start_session(scope, shared, pool, number, stream),
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::CONNABORTED) => {}
                    _ => thread::sleep(RETRY),
                },
            }
        }
    });
}

/// Starts a thread for a connection. Without one the connection ends.
fn start_session<'scope>(
    scope: &'scope Scope<'scope, '_>,
    shared: &'scope Shared,
    pool: &'scope Arc<Pool>,
    number: u64,
    stream: UnixStream,
) {
    if shared.add(number, &stream).is_none() {
        // The client sees the end of the connection if the answer does not reach it.
        let _ =
            session::refuse(stream, FailureKind::Busy, "too many processes read the pool; try again later");
        return;
    }
    let started = Builder::new().name("lode-follower".into()).spawn_scoped(scope, move || {
        // An error is the end of the connection, which the client sees.
        let _ = session::serve(stream, pool, shared.file, &shared.is_stopped);
        shared.connections().remove(&number);
    });
    if started.is_err() {
        shared.connections().remove(&number);
    }
}
