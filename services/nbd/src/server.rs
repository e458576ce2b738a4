//! The server: a thread for each listener, and one for each connection.

use crate::error::NbdError;
use crate::export::Export;
use crate::listener::{Limited, Listener, Stoppable, Stream};
use crate::session::Connection;
use lode_volume::BlockError;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Builder, JoinHandle, Scope};
use std::time::Duration;

/// The time after which the server accepts again when the process has no descriptor left.
const RETRY: Duration = Duration::from_millis(100);
/// The time that clients have to take their last replies when the server stops.
const GRACE: Duration = Duration::from_secs(5);
/// The time that a client of TCP has to end the connection after the server did: until then it may lack replies.
const LINGER: Duration = Duration::from_secs(2);
/// The time that a client has for its handshake: one that says nothing does not keep a thread. It is that of qemu-nbd.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Serves block devices until it is stopped.
///
/// A flush on one connection covers what was answered on all of them. Dropping it ends all connections, too. A client that
/// has not chosen an export after ten seconds is disconnected.
#[derive(Debug)]
pub struct Server {
    shared: Arc<Shared>,
    accepting: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    exports: Vec<Export>,
    listeners: Vec<Listener>,
    is_stopped: AtomicBool,
    connections: Mutex<Connections>,
    /// Notified when a connection ends.
    ended: Condvar,
    /// Readable when the server stops, which wakes the threads that accept: its other side, `stopper`, is closed then.
    stopped: UnixStream,
    stopper: UnixStream,
    handshake_limit: Duration,
}

#[derive(Debug, Default)]
struct Connections {
    /// The open connections by number, to end them.
    streams: BTreeMap<u64, Arc<Stream>>,
    next: u64,
}

impl Server {
    /// Starts to serve `exports`. The first one has the empty name, too.
    ///
    /// # Errors
    /// [`NbdError::Twice`]; [`NbdError::Io`] if there is no thread or descriptor to be had.
    pub fn start(exports: Vec<Export>, listeners: Vec<Listener>) -> Result<Server, NbdError> {
        Server::start_with_limit(exports, listeners, HANDSHAKE)
    }

    fn start_with_limit(
        exports: Vec<Export>,
        listeners: Vec<Listener>,
        handshake_limit: Duration,
    ) -> Result<Server, NbdError> {
        let mut names = BTreeSet::new();
        if let Some(export) = exports.iter().find(|export| !names.insert(export.name())) {
            return Err(NbdError::Twice { name: export.name().to_owned() });
        }
        listeners.iter().try_for_each(Listener::set_nonblocking)?;
        let failed = |op, place: &str| {
            let place = place.to_owned();
            move |error| NbdError::Io { op, place, error }
        };
        let (stopped, stopper) = UnixStream::pair().map_err(failed("socketpair", "socket"))?;
        let shared = Arc::new(Shared {
            exports,
            listeners,
            is_stopped: AtomicBool::new(false),
            connections: Mutex::default(),
            ended: Condvar::new(),
            stopped,
            stopper,
            handshake_limit,
        });
        let mut server = Server { shared, accepting: Vec::new() };
        for index in 0..server.shared.listeners.len() {
            let shared = Arc::clone(&server.shared);
            let started = Builder::new()
                .name("lode-nbd".into())
                .spawn(move || accept(&shared, &shared.listeners[index]));
            server.accepting.push(started.map_err(failed("clone", "thread"))?);
        }
        Ok(server)
    }

    /// Stops: no client connects any more, batches in hand are finished and answered, and all devices are flushed. No thread
    /// of the server shares the devices any more when it returns.
    ///
    /// # Errors
    /// That of the first flush that fails.
    ///
    /// # Durability
    /// All that was answered is durable when it returns without an error.
    pub fn stop(mut self) -> Result<(), BlockError> {
        self.end();
        let flushes: Vec<_> = self.shared.exports.iter().map(|export| export.device.flush()).collect();
        flushes.into_iter().collect()
    }

    fn end(&mut self) {
        self.shared.stop();
        for thread in self.accepting.drain(..) {
            // A thread that has panicked has printed why.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        // ORDER: none: the end of a stream, which follows it, ends the call that waits for a client.
        self.is_stopped.load(Ordering::Relaxed)
    }

    fn stop(&self) {
        let connections = self.connections();
        // ORDER: none: the lock orders it before the ends of the connections, and a connection is added under the lock.
        self.is_stopped.store(true, Ordering::Relaxed);
        // A socket of a pair takes this.
        let _ = self.stopper.shutdown(Shutdown::Both);
        for stream in connections.streams.values() {
            stream.stop_receiving();
        }
        let waited = self.ended.wait_timeout_while(connections, GRACE, |all| !all.streams.is_empty());
        let (mut connections, _) = waited.unwrap_or_else(PoisonError::into_inner);
        for stream in connections.streams.values() {
            stream.shutdown(Shutdown::Both);
        }
        while !connections.streams.is_empty() {
            connections = self.ended.wait(connections).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a connection; returns its number. `None` if the server stops.
    fn add(&self, stream: &Arc<Stream>) -> Option<u64> {
        let mut connections = self.connections();
        if self.is_stopped() {
            return None;
        }
        let number = connections.next;
        connections.next += 1;
        connections.streams.insert(number, Arc::clone(stream));
        Some(number)
    }

    fn remove(&self, number: u64) {
        self.connections().streams.remove(&number);
        self.ended.notify_all();
    }
}

/// A connection in the list, until its thread ends, also by a panic.
struct Entry<'s> {
    shared: &'s Shared,
    number: u64,
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.shared.remove(self.number);
    }
}

/// Accepts connections until the server stops. Returns when all of them have ended.
fn accept(shared: &Shared, listener: &Listener) {
    thread::scope(|scope| {
        loop {
            match listener.accept(&shared.stopped) {
                Ok(Some(stream)) => start_session(scope, shared, stream),
                Ok(None) => return,
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::CONNABORTED | Errno::AGAIN) => {}
                    _ => thread::sleep(RETRY),
                },
            }
        }
    });
}

/// Starts a thread for a connection. Without one the connection ends.
fn start_session<'scope>(scope: &'scope Scope<'scope, '_>, shared: &'scope Shared, stream: Stream) {
    let stream = Arc::new(stream);
    let Some(number) = shared.add(&stream) else { return };
    let entry = Entry { shared, number };
    // If no thread can be started, the closure is dropped, and the entry with it.
    let _ = Builder::new().name("lode-nbd-client".into()).spawn_scoped(scope, move || {
        // All of the entry moves here, not only its reference.
        let entry = entry;
        let shared = entry.shared;
        // An error is the end of the connection, which the client sees.
        let _ = serve(shared, &stream);
    });
}

fn serve(shared: &Shared, stream: &Stream) -> io::Result<()> {
    let mut limited = Limited::new(stream, &shared.stopped, shared.handshake_limit);
    let connection = Connection::negotiate(&shared.exports, &mut limited)?;
    drop(limited);
    if let Some(connection) = connection {
        connection.transmit(&mut Stoppable::new(stream, &shared.stopped), &|| shared.is_stopped())?;
    }
    stream.linger(LINGER)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod test {
    use super::*;
    use crate::listener::Address;
    use lode_testing::volume::MemoryDevice;
    use std::io::Read;

    #[test]
    fn silent_handshakes_end_at_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let listener = Listener::bind(&Address::Unix(path.clone())).unwrap();
        let export = Export::new("disk", Arc::new(MemoryDevice::new(512, 8)), false).unwrap();
        let limit = Duration::from_millis(20);
        let _server = Server::start_with_limit(vec![export], vec![listener], limit).unwrap();
        let mut client = UnixStream::connect(path).unwrap();
        // Without a limit, this waits for ever.
        let _ = client.read_to_end(&mut Vec::new());
    }
}
