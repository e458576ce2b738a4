//! The sockets at which clients connect.

use crate::error::NbdError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_nodelay};
use rustix::net::{RecvFlags, recv};
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, Instant};

/// A place where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket with this path.
    Unix(PathBuf),
    /// HOST:PORT of TCP.
    Tcp(String),
}

impl FromStr for Address {
    type Err = NbdError;

    /// Parses `unix:SOCKET` or `HOST:PORT`.
    fn from_str(text: &str) -> Result<Address, NbdError> {
        let refused = || NbdError::Address { address: text.to_owned() };
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(refused()) } else { Ok(Address::Unix(path.into())) };
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(Address::Tcp(text.to_owned()))
            }
            _ => Err(refused()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => f.write_str(address),
        }
    }
}

/// A socket that listens. A socket file is removed when it is dropped.
#[derive(Debug)]
pub struct Listener(Kind);

#[derive(Debug)]
enum Kind {
    Unix(UnixListener, Option<SocketFile>),
    Tcp(TcpListener),
}

/// The file of a socket that this process has made.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    node: (u64, u64),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let node = fs::symlink_metadata(&self.path).map(|found| (found.dev(), found.ino()));
        if node.is_ok_and(|node| node == self.node) {
            // One that stays is replaced by the next server.
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// Listens at `address`. A socket file at which no server listens is replaced.
    ///
    /// # Errors
    /// [`NbdError::InUse`], [`NbdError::Occupied`], [`NbdError::Io`].
    pub fn bind(address: &Address) -> Result<Listener, NbdError> {
        let failed = |op| move |error| NbdError::Io { op, place: address.to_string(), error };
        match address {
            Address::Unix(path) => {
                remove_stale(path)?;
                let listener = UnixListener::bind(path).map_err(failed("bind"))?;
                let found = fs::symlink_metadata(path).map_err(failed("stat"))?;
                let file = SocketFile { path: path.clone(), node: (found.dev(), found.ino()) };
                Ok(Listener(Kind::Unix(listener, Some(file))))
            }
            Address::Tcp(address) => {
                Ok(Listener(Kind::Tcp(TcpListener::bind(address.as_str()).map_err(failed("bind"))?)))
            }
        }
    }

    /// Returns the place where it listens.
    ///
    /// # Errors
    /// [`NbdError::Io`].
    pub fn address(&self) -> Result<Address, NbdError> {
        let failed = |error| NbdError::Io { op: "getsockname", place: "socket".to_owned(), error };
        Ok(match &self.0 {
            Kind::Unix(_, Some(file)) => Address::Unix(file.path.clone()),
            Kind::Unix(listener, None) => {
                let address = listener.local_addr().map_err(failed)?;
                Address::Unix(address.as_pathname().unwrap_or(Path::new("")).to_owned())
            }
            Kind::Tcp(listener) => Address::Tcp(listener.local_addr().map_err(failed)?.to_string()),
        })
    }

    /// Waits for a connection. Returns `None` if `end` was closed at its other side.
    ///
    /// The listener is not shut down for that: systemd keeps a socket that it has passed, and listens at it again.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(crate) fn accept(&self, end: &impl AsFd) -> io::Result<Option<Stream>> {
        let mut sockets = [PollFd::new(self, PollFlags::IN), PollFd::new(end, PollFlags::IN)];
        poll(&mut sockets, None)?;
        if !sockets[1].revents().is_empty() {
            return Ok(None);
        }
        // Another process may share the socket and take the connection. Then there is nothing to wait for.
        let stream = match &self.0 {
            Kind::Unix(listener, _) => Stream::Unix(listener.accept()?.0),
            Kind::Tcp(listener) => {
                let stream = listener.accept()?.0;
                // Replies are written whole, so waiting for more gains nothing.
                set_tcp_nodelay(&stream, true)?;
                // A client whose machine has gone ends some time, too.
                set_socket_keepalive(&stream, true)?;
                Stream::Tcp(stream)
            }
        };
        Ok(Some(stream))
    }

    /// Makes `accept` return an error where there is no connection.
    ///
    /// # Errors
    /// [`NbdError::Io`].
    pub(crate) fn set_nonblocking(&self) -> Result<(), NbdError> {
        let set = match &self.0 {
            Kind::Unix(listener, _) => listener.set_nonblocking(true),
            Kind::Tcp(listener) => listener.set_nonblocking(true),
        };
        set.map_err(|error| NbdError::Io { op: "ioctl", place: "socket".to_owned(), error })
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Unix(listener, _) => listener.as_fd(),
            Kind::Tcp(listener) => listener.as_fd(),
        }
    }
}

impl From<UnixListener> for Listener {
    /// Returns a listener whose file belongs to another process.
    fn from(listener: UnixListener) -> Listener {
        Listener(Kind::Unix(listener, None))
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Listener {
        Listener(Kind::Tcp(listener))
    }
}

/// Removes the file of a socket at which no server listens.
fn remove_stale(path: &Path) -> Result<(), NbdError> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(NbdError::Occupied { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path)
            .map_err(|error| NbdError::Io { op: "unlink", place: path.display().to_string(), error }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        _ => Err(NbdError::InUse { path: path.to_owned() }),
    }
}

/// A connection with a client.
#[derive(Debug)]
pub(crate) enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Stream {
    /// Ends the call that receives commands, if its end is not told by [`Stoppable`]: the replies to a client of TCP would be
    /// lost with what it sends after that.
    pub(crate) fn stop_receiving(&self) {
        if matches!(self, Stream::Unix(_)) {
            self.shutdown(Shutdown::Read);
        }
    }

    /// Lets the client take the last replies: TCP drops them when a socket is closed that has received more.
    ///
    /// # Errors
    /// Those of the stream; the client has gone, or did not end the connection within `limit`.
    pub(crate) fn linger(&self, limit: Duration) -> io::Result<()> {
        let Stream::Tcp(stream) = self else { return Ok(()) };
        stream.shutdown(Shutdown::Write)?;
        let deadline = Instant::now() + limit;
        let mut thrown_away = [0; 4096];
        while self.wait(None, Some(deadline))? == Event::Received {
            if (&mut &*stream).read(&mut thrown_away)? == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Waits until there is something to receive, or the other side of `end` is closed.
    ///
    /// # Errors
    /// TimedOut at the deadline; those of the kernel.
    fn wait(&self, end: Option<&UnixStream>, deadline: Option<Instant>) -> io::Result<Event> {
        let mut sockets = vec![PollFd::new(self, PollFlags::IN)];
        sockets.extend(end.map(|end| PollFd::new(end, PollFlags::IN)));
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut sockets, left.as_ref()) {
                Ok(0) => return Err(ErrorKind::TimedOut.into()),
                Ok(_) if sockets.get(1).is_some_and(|end| !end.revents().is_empty()) => {
                    return Ok(Event::Ended);
                }
                Ok(_) => return Ok(Event::Received),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Ends calls that receive, or all calls. The client may have done so before.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        let _ = match self {
            Stream::Unix(stream) => stream.shutdown(how),
            Stream::Tcp(stream) => stream.shutdown(how),
        };
    }

    fn set_write_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        match self {
            Stream::Unix(stream) => stream.set_write_timeout(timeout),
            Stream::Tcp(stream) => stream.set_write_timeout(timeout),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Stream::Unix(stream) => stream.as_fd(),
            Stream::Tcp(stream) => stream.as_fd(),
        }
    }
}

/// The reason why a wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    /// There are bytes, or the client has ended the connection.
    Received,
    /// The server stops.
    Ended,
}

impl Read for &Stream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).read(into),
            Stream::Tcp(stream) => (&mut &*stream).read(into),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Stream::Unix(stream) => (&mut &*stream).write_vectored(from),
            Stream::Tcp(stream) => (&mut &*stream).write_vectored(from),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The time for which a connection looks for the next command before its thread sleeps. To wake a thread on an idle core takes
/// about as long as all else that a command of one block needs.
const SPIN: Duration = Duration::from_micros(50);

/// A connection that has no more to receive when the server stops, as told by the other side of `end`.
#[derive(Debug)]
pub(crate) struct Stoppable<'s> {
    stream: &'s Stream,
    end: &'s UnixStream,
    /// True if the client sent its last command soon after the reply before it. Only then is it worth a look for the next one.
    is_prompt: bool,
}

impl<'s> Stoppable<'s> {
    pub(crate) fn new(stream: &'s Stream, end: &'s UnixStream) -> Stoppable<'s> {
        Stoppable { stream, end, is_prompt: false }
    }

    /// Receives what is there. `None` if nothing is.
    fn receive(&self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match recv(self.stream, into, RecvFlags::DONTWAIT) {
            Ok((received, _)) => Ok(Some(received)),
            Err(Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until there is something to receive. Returns false at the end.
    fn wait(&mut self) -> io::Result<bool> {
        let began = Instant::now();
        let event = self.stream.wait(Some(self.end), None)?;
        self.is_prompt = began.elapsed() < 2 * SPIN;
        Ok(event == Event::Received)
    }
}

impl Read for Stoppable<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // A client with commands in flight costs no wait.
        if let Some(received) = self.receive(into)? {
            return Ok(received);
        }
        let began = Instant::now();
        while self.is_prompt && began.elapsed() < SPIN {
            thread::yield_now();
            if let Some(received) = self.receive(into)? {
                return Ok(received);
            }
        }
        loop {
            if !self.wait()? {
                return Ok(0);
            }
            if let Some(received) = self.receive(into)? {
                return Ok(received);
            }
        }
    }
}

impl Write for Stoppable<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        (&mut &*self.stream).write(from)
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        (&mut &*self.stream).write_vectored(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The same, and its calls fail after a deadline, however slowly the client sends. Dropping it ends the limit.
#[derive(Debug)]
pub(crate) struct Limited<'s> {
    stream: &'s Stream,
    end: &'s UnixStream,
    deadline: Instant,
}

impl<'s> Limited<'s> {
    pub(crate) fn new(stream: &'s Stream, end: &'s UnixStream, limit: Duration) -> Limited<'s> {
        Limited { stream, end, deadline: Instant::now() + limit }
    }
}

impl Drop for Limited<'_> {
    fn drop(&mut self) {
        // A connection on which this fails has no further use.
        let _ = self.stream.set_write_timeout(None);
    }
}

impl Read for Limited<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if Instant::now() >= self.deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        match self.stream.wait(Some(self.end), Some(self.deadline))? {
            Event::Received => (&mut &*self.stream).read(into),
            Event::Ended => Ok(0),
        }
    }
}

impl Write for Limited<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.stream.set_write_timeout(Some(left))?;
        (&mut &*self.stream).write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod test {
    use super::*;

    #[test]
    fn deadlines_hold_for_clients_that_send_slowly() {
        let (server, mut client) = UnixStream::pair().unwrap();
        let (_stopper, end) = UnixStream::pair().unwrap();
        let (timeouts, stream) = (server.try_clone().unwrap(), Stream::Unix(server));
        client.write_all(b"hello").unwrap();
        let mut limited = Limited::new(&stream, &end, Duration::from_secs(3600));
        limited.read_exact(&mut [0; 4]).unwrap();
        limited.write_all(b"hello").unwrap();
        assert!(timeouts.write_timeout().unwrap().is_some());
        drop(limited);
        assert_eq!(timeouts.write_timeout().unwrap(), None);
        let mut over = Limited::new(&stream, &end, Duration::ZERO);
        assert_eq!(over.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut, "a byte is there");
        assert_eq!(over.write(&[0]).unwrap_err().kind(), ErrorKind::TimedOut);
        let mut short = Limited::new(&stream, &end, Duration::from_millis(5));
        short.read_exact(&mut [0]).unwrap();
        assert_eq!(short.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
