//! The socket beside a pool: `NAME.sock` in the folder of the pool's file, symbolic links resolved.
//!
//! Addresses of sockets have at most 107 bytes, so both sides name it through a descriptor of the folder or of the socket
//! itself, as `/proc/self/fd/...`.
//!
//! 1. *Stale sockets.* The server holds the lock on the pool, so no other server is alive: a socket that is there is a
//!    remainder of a process that was killed, and is replaced. Nothing but sockets is ever removed.
//! 2. *Other people's sockets.* In a folder with the sticky bit, such as /tmp, others can put a socket beside a pool that
//!    they can't replace. A client connects to such a socket only if its owner is root, the client's user, or the owner of
//!    the pool or of the folder. In other folders a user who can put a socket there can replace the pool, too.
//! 3. *Symbolic links.* The last part of the name is never followed. The client looks at the socket that it connects to,
//!    by one descriptor.
//! 4. *Rights.* The mode of the socket follows that of the pool, so that others can't occupy connections. If it can't
//!    (another owner or group, an access control list), all may connect, and the proof alone decides ([`crate::proof`]).

use crate::error::FollowError;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid, chmod, chownat, fchmod, fstat, getxattr, open,
    openat, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, connect, listen, shutdown, socket_with,
};
use std::ffi::OsString;
use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The end of the socket's name, after that of the pool.
const SUFFIX: &str = ".sock";
/// Connections that wait for the server.
const BACKLOG: i32 = 64;
/// The time that a server may take for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The place of the socket of a pool.
struct Place {
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
}

/// The socket of a server.
#[derive(Debug)]
pub(crate) struct ServerSocket {
    listener: UnixListener,
    folder: OwnedFd,
    name: OsString,
    path: PathBuf,
    /// Device and inode of the socket.
    node: (u64, u64),
}

/// A connection, and the place it leads to.
#[derive(Debug)]
pub(crate) struct ClientSocket {
    pub(crate) stream: UnixStream,
    pub(crate) path: PathBuf,
}

impl Place {
    fn of_pool(pool: &Path) -> Result<Place, FollowError> {
        let pool = fs::canonicalize(pool).map_err(FollowError::std("realpath", pool))?;
        let (Some(parent), Some(name)) = (pool.parent(), pool.file_name()) else {
            return Err(FollowError::io("realpath", &pool)(Errno::ISDIR));
        };
        let mut name = name.to_owned();
        name.push(SUFFIX);
        let folder = open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(FollowError::io("open", parent))?;
        Ok(Place { path: parent.join(&name), folder, name })
    }

    /// Returns the socket as it lies there.
    fn node(&self) -> Result<OwnedFd, Errno> {
        openat(&self.folder, &self.name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }
}

fn is_socket(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Socket
}

fn link_of(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

impl ServerSocket {
    /// Makes the socket of the pool at `path`. The caller holds the lock on the pool for writing.
    pub(crate) fn bind(path: &Path, pool: &Stat) -> Result<ServerSocket, FollowError> {
        let place = Place::of_pool(path)?;
        let failed = |op| FollowError::io(op, &place.path);
        let address = SocketAddrUnix::new(link_of(&place.folder).join(&place.name))
            .map_err(|_| FollowError::NameTooLong { path: path.to_owned() })?;
        match statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) if is_socket(&found) => {
                unlinkat(&place.folder, &place.name, AtFlags::empty()).map_err(failed("unlink"))?;
            }
            Ok(_) => return Err(FollowError::Occupied { path: place.path }),
            Err(_) => {}
        }
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(failed("socket"))?;
        // The node is born with this mode, less the umask: until its mode is right, no other user can connect.
        fchmod(&socket, Mode::RUSR | Mode::WUSR).map_err(failed("fchmod"))?;
        bind(&socket, &address).map_err(failed("bind"))?;
        let node = place.node().map_err(failed("open"))?;
        let stat = fstat(&node).map_err(failed("fstat"))?;
        let made = ServerSocket {
            listener: socket.into(),
            folder: place.folder,
            name: place.name,
            path: place.path,
            node: (stat.st_dev, stat.st_ino),
        };
        match made.open_to_readers(&node, path, pool) {
            Ok(()) => Ok(made),
            Err(error) => {
                made.remove();
                Err(error)
            }
        }
    }

    fn open_to_readers(&self, node: &OwnedFd, path: &Path, pool: &Stat) -> Result<(), FollowError> {
        let failed = |op| FollowError::io(op, &self.path);
        chmod(link_of(node), mode_for(node, path, pool)).map_err(failed("chmod"))?;
        listen(&self.listener, BACKLOG).map_err(failed("listen"))
    }

    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Ends all calls that wait for connections.
    pub(crate) fn stop(&self) {
        // A socket that listens takes this.
        let _ = shutdown(&self.listener, rustix::net::Shutdown::Both);
    }

    /// Removes the socket, unless there is another one at its place.
    pub(crate) fn remove(&self) {
        let found = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok_and(|found| (found.st_dev, found.st_ino) == self.node) {
            // One that stays is replaced by the next server.
            let _ = unlinkat(&self.folder, &self.name, AtFlags::empty());
        }
    }
}

/// Gives the socket the pool's owner and group, and returns its mode: a reader of the pool may connect.
fn mode_for(node: &OwnedFd, path: &Path, pool: &Stat) -> Mode {
    let (owner, group) = (Uid::from_raw(pool.st_uid), Gid::from_raw(pool.st_gid));
    let has_owner = fstat(node).is_ok_and(|stat| (stat.st_uid, stat.st_gid) == (pool.st_uid, pool.st_gid))
        || chownat(node, "", Some(owner), Some(group), AtFlags::EMPTY_PATH).is_ok();
    let has_list = getxattr(path, "system.posix_acl_access", &mut [0; 0]).is_ok_and(|len| len > 0);
    if !has_owner || has_list {
        return Mode::from_raw_mode(0o666);
    }
    let readers = Mode::from_raw_mode(pool.st_mode) & (Mode::RUSR | Mode::RGRP | Mode::ROTH);
    let writers = Mode::from_raw_mode(readers.as_raw_mode() >> 1);
    readers | writers
}

impl ClientSocket {
    /// Connects to the server of the pool at `path`. `None` if there is none.
    pub(crate) fn connect(path: &Path) -> Result<Option<ClientSocket>, FollowError> {
        let place = Place::of_pool(path)?;
        let failed = |op| FollowError::io(op, &place.path);
        let node = match place.node() {
            Err(Errno::NOENT) => return Ok(None),
            node => node.map_err(failed("open"))?,
        };
        let stat = fstat(&node).map_err(failed("fstat"))?;
        if !is_socket(&stat) {
            return Ok(None);
        }
        check_owner(&place, &stat, path)?;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(failed("socket"))?;
        for timeout in [Timeout::Send, Timeout::Recv] {
            set_socket_timeout(&socket, timeout, Some(PATIENCE)).map_err(failed("setsockopt"))?;
        }
        let address = SocketAddrUnix::new(link_of(&node)).map_err(failed("connect"))?;
        match retry_on_intr(|| connect(&socket, &address)) {
            // No process listens any more.
            Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(None),
            connected => {
                connected.map_err(failed("connect"))?;
                Ok(Some(ClientSocket { stream: socket.into(), path: place.path }))
            }
        }
    }
}

/// Refuses a socket of a user who could not have replaced the pool.
fn check_owner(place: &Place, socket: &Stat, pool: &Path) -> Result<(), FollowError> {
    let folder = fstat(&place.folder).map_err(FollowError::io("fstat", &place.path))?;
    let pool_stat = statat(CWD, pool, AtFlags::empty()).map_err(FollowError::io("stat", pool))?;
    let is_sticky = Mode::from_raw_mode(folder.st_mode).contains(Mode::SVTX);
    let trusted = [0, rustix::process::geteuid().as_raw(), pool_stat.st_uid, folder.st_uid];
    if is_sticky && !trusted.contains(&socket.st_uid) {
        return Err(FollowError::Untrusted { path: place.path.clone(), uid: socket.st_uid });
    }
    Ok(())
}
