//! The errors of the server.

use crate::protocol::wire::NAME_MAX;
use std::io;
use std::path::PathBuf;

/// The reason why nothing is served. The message ends with the next step for the user.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NbdError {
    /// The address has another form.
    #[error("{address}: is no address; give unix:SOCKET or HOST:PORT")]
    Address {
        /// The address.
        address: String,
    },
    /// A server listens at the socket.
    #[error("{}: another server listens there; stop it, or choose another socket", .path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// There is a file where the socket should be.
    #[error("{}: exists and is no socket; remove it, or choose another path", .path.display())]
    Occupied {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The name of an export is too long.
    #[error("the name of an export has {len} bytes, and can have {NAME_MAX}; choose a shorter one")]
    Name {
        /// Length of the name in bytes.
        len: usize,
    },
    /// Two exports have one name.
    #[error("two exports have the name {name:?}; give another name to one of them")]
    Twice {
        /// The name.
        name: String,
    },
    /// The kernel refuses.
    #[error("{place}: {op}: {error}")]
    Io {
        /// The system call.
        op: &'static str,
        /// The address.
        place: String,
        /// The error.
        #[source]
        error: io::Error,
    },
}
