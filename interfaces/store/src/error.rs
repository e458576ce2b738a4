//! The error of all operations.

use lode_follow::FollowError;
use lode_heap::{HeapError, OpenError};
use lode_index::IndexError;
use lode_layout::Malformed;
use lode_pool::PoolError;
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};

/// The result of an operation on a store.
pub type Result<T> = std::result::Result<T, Error>;

/// The reason why an operation on a store failed. The message says what failed, in which file and tree, why, and what to
/// do. The methods say which kind of error it is.
///
/// Unless [`is_in_doubt`](Error::is_in_doubt), a failed transaction has changed nothing.
pub struct Error(Box<Inner>);

struct Inner {
    path: Option<PathBuf>,
    tree: Option<String>,
    kind: Kind,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Open(OpenError),
    Follow(FollowError),
    Engine(IndexError),
    NoTree,
    WrongType { found: [String; 2], want: [String; 2] },
    Malformed { what: &'static str, type_name: String, cause: Malformed },
    NotAscending,
    SavepointGone,
    StillInUse,
    NotAStore,
    NoRoot,
    Other(Box<dyn StdError + Send + Sync>),
}

impl Error {
    #[cold]
    pub(crate) fn new(kind: Kind) -> Error {
        Error(Box::new(Inner { path: None, tree: None, kind }))
    }

    /// Makes an error of the caller, for a closure that ends a transaction with it.
    ///
    /// # Example
    /// ```
    /// let error = lodestone::Error::other("the account has no such sum");
    /// assert!(error.is_other());
    /// assert_eq!(error.to_string(), "the account has no such sum");
    /// ```
    pub fn other(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Error {
        Error::new(Kind::Other(error.into()))
    }

    /// Returns the error of the caller that [`other`](Error::other) holds.
    ///
    /// # Errors
    /// Returns this error, if it is another one.
    pub fn into_other(self) -> std::result::Result<Box<dyn StdError + Send + Sync>, Error> {
        match *self.0 {
            Inner { kind: Kind::Other(error), .. } => Ok(error),
            inner => Err(Error(Box::new(inner))),
        }
    }

    pub(crate) fn in_tree(mut self, name: &str) -> Error {
        self.0.tree.get_or_insert_with(|| name.to_owned());
        self
    }

    pub(crate) fn at(mut self, path: &Path) -> Error {
        self.0.path.get_or_insert_with(|| path.to_owned());
        self
    }

    /// Returns the path of the store, if the error is one of a store.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// Returns the name of the tree, if the error is one of a tree.
    pub fn tree(&self) -> Option<&str> {
        self.0.tree.as_deref()
    }

    fn heap(&self) -> Option<&HeapError> {
        match &self.0.kind {
            Kind::Engine(IndexError::Heap(error)) | Kind::Open(OpenError::Heap { error, .. }) => Some(error),
            _ => None,
        }
    }

    fn pool(&self) -> Option<&PoolError> {
        match &self.0.kind {
            Kind::Open(OpenError::Pool(error)) => Some(error.cause()),
            _ => None,
        }
    }

    fn index(&self) -> Option<&IndexError> {
        match &self.0.kind {
            Kind::Engine(error) => Some(error),
            _ => None,
        }
    }

    /// Returns true if the pool has too little space for a transaction. It is not the disk that is full.
    pub(crate) fn is_small_pool(&self) -> bool {
        let Some(IndexError::Heap(error)) = self.index() else { return false };
        error.is_out_of_space() || matches!(error, HeapError::TooLarge { .. })
    }

    /// Returns true if another transaction has changed what this one has read, or kept what it needed. A closure of
    /// [`Store::write`](crate::Store::write) passes the error on and is started again; after a conflict of
    /// [`Transaction::commit`](crate::Transaction::commit) the caller begins again.
    pub fn is_conflict(&self) -> bool {
        matches!(self.heap(), Some(HeapError::Conflict))
    }

    /// Returns true if a closure was started again thousands of times, and met a conflict of its own each time.
    pub fn is_never_valid(&self) -> bool {
        matches!(self.heap(), Some(HeapError::NeverValid { .. }))
    }

    /// Returns true if a pool of typed data has no root yet, so that it can't have trees.
    pub fn is_no_root(&self) -> bool {
        matches!(self.0.kind, Kind::NoRoot)
    }

    /// Returns true if there is no tree of that name, or it was dropped by this transaction.
    pub fn is_no_tree(&self) -> bool {
        matches!(self.0.kind, Kind::NoTree)
    }

    /// Returns true if there is a tree of that name already.
    pub fn is_tree_exists(&self) -> bool {
        matches!(self.index(), Some(IndexError::TreeExists))
    }

    /// Returns true if the tree has other types of keys or values.
    pub fn is_wrong_type(&self) -> bool {
        matches!(self.0.kind, Kind::WrongType { .. })
    }

    /// Returns true if a stored key or value is none of its type, or a value has no encoding.
    pub fn is_malformed(&self) -> bool {
        matches!(self.0.kind, Kind::Malformed { .. })
    }

    /// Returns true if a key, or the name of a tree, is too long or empty.
    pub fn is_invalid_key(&self) -> bool {
        matches!(self.index(), Some(IndexError::KeyTooLong { .. } | IndexError::TreeName { .. }))
    }

    /// Returns true if keys for [`WriteTree::append`](crate::WriteTree::append) do not ascend.
    pub fn is_not_ascending(&self) -> bool {
        matches!(self.0.kind, Kind::NotAscending)
    }

    /// Returns true if the store, or the disk, has no room left.
    pub fn is_out_of_space(&self) -> bool {
        self.heap().is_some_and(HeapError::is_out_of_space)
            || matches!(self.pool(), Some(PoolError::NoSpace { .. } | PoolError::Maximum { .. }))
    }

    /// Returns true if the transaction has more changes than the free space can log.
    pub fn is_too_large(&self) -> bool {
        matches!(self.heap(), Some(HeapError::TooLarge { .. }))
    }

    /// Returns true if the store was opened for reading.
    pub fn is_read_only(&self) -> bool {
        matches!(self.heap(), Some(HeapError::ReadOnly)) || matches!(self.pool(), Some(PoolError::ReadOnly))
    }

    /// Returns true if the snapshot was ended, because transactions needed what it kept back, or because the process that
    /// served it has closed the store or ended.
    pub fn is_snapshot_ended(&self) -> bool {
        matches!(self.heap(), Some(HeapError::SnapshotEnded))
            || matches!(&self.0.kind, Kind::Follow(error) if error.is_snapshot_ended())
    }

    /// Returns true if this process may not read the file of the store, or not write it, as was asked for.
    pub fn is_permission_denied(&self) -> bool {
        let errno = match &self.0.kind {
            Kind::Follow(FollowError::Io { errno, .. }) => Some(*errno),
            _ => match self.pool() {
                Some(PoolError::Io { errno, .. }) => Some(*errno),
                _ => None,
            },
        };
        errno.is_some_and(|errno| is_kind(errno, std::io::ErrorKind::PermissionDenied))
            || matches!(&self.0.kind, Kind::Follow(error) if error.is_unproven())
    }

    /// Returns true if the transaction may or may not be there after the store is opened again: a sync failed.
    pub fn is_in_doubt(&self) -> bool {
        matches!(self.heap(), Some(HeapError::InDoubt(_)))
    }

    /// Returns true if an earlier sync failed, so that the store accepts no changes until it is opened again.
    pub fn is_poisoned(&self) -> bool {
        matches!(self.heap(), Some(HeapError::Poisoned)) || matches!(self.pool(), Some(PoolError::Poisoned))
    }

    /// Returns true if the calling thread is in a transaction on this store, and the operation is no part of it.
    pub fn is_in_transaction(&self) -> bool {
        matches!(self.heap(), Some(HeapError::InTransaction))
    }

    /// Returns true if the savepoint is one of another transaction, or of a part that was rolled back.
    pub fn is_savepoint_gone(&self) -> bool {
        matches!(self.0.kind, Kind::SavepointGone)
    }

    /// Returns true if another process, or another handle, has the store open.
    pub fn is_in_use(&self) -> bool {
        matches!(self.0.kind, Kind::StillInUse) || matches!(self.pool(), Some(PoolError::InUse { .. }))
    }

    /// Returns true if there is no file at the path.
    pub fn is_not_found(&self) -> bool {
        matches!(self.pool(), Some(PoolError::Io { errno, .. }) if is_kind(*errno, std::io::ErrorKind::NotFound))
    }

    /// Returns true if there is a file at the path, and a new store was asked for.
    pub fn is_already_exists(&self) -> bool {
        matches!(self.pool(), Some(PoolError::Exists | PoolError::Occupied))
    }

    /// Returns true if the file is no store: no pool, or a pool of another layout.
    pub fn is_not_a_store(&self) -> bool {
        matches!(self.0.kind, Kind::NotAStore)
            || self.pool().is_some_and(|error| {
                error.has_no_pool() || matches!(error, PoolError::Layout { .. } | PoolError::NotAFile)
            })
    }

    /// Returns true if the place loses its content with the power, and no option allows that.
    pub fn is_volatile(&self) -> bool {
        matches!(self.pool(), Some(PoolError::NotDurable { .. }))
    }

    /// Returns true if the file is on a network file system, which is refused.
    pub fn is_network_file_system(&self) -> bool {
        matches!(self.pool(), Some(PoolError::NetworkFileSystem { .. }))
    }

    /// Returns true for damage: something on the medium is not as it was written, or can't be read.
    pub fn is_damage(&self) -> bool {
        match &self.0.kind {
            Kind::Engine(error) => error.is_damage(),
            Kind::Open(error) => error.is_damage(),
            Kind::Follow(error) => error.is_damage(),
            _ => false,
        }
    }

    /// Returns true if the error was made by [`other`](Error::other).
    pub fn is_other(&self) -> bool {
        matches!(self.0.kind, Kind::Other(_))
    }
}

fn is_kind(errno: i32, kind: std::io::ErrorKind) -> bool {
    std::io::Error::from_raw_os_error(errno).kind() == kind
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { path, tree, kind } = &*self.0;
        // The errors of opening begin with the path.
        if let Some(path) =
            path.as_ref().filter(|_| !matches!(kind, Kind::Open(_) | Kind::Follow(_) | Kind::Other(_)))
        {
            write!(f, "{}: ", path.display())?;
        }
        if let Some(tree) = tree.as_ref().filter(|_| !matches!(kind, Kind::Other(_))) {
            write!(f, "tree {tree:?}: ")?;
        }
        match kind {
            Kind::Open(error) => error.fmt(f),
            Kind::Follow(error) => error.fmt(f),
            Kind::Engine(error) => error.fmt(f),
            Kind::NoTree => f.write_str("there is no such tree; a transaction that writes makes it"),
            Kind::WrongType { found: [key, value], want: [want_key, want_value] } => write!(
                f,
                "it maps {key} to {value}, and was opened as one that maps {want_key} to {want_value}; open it with \
                 its own types, or choose another name"
            ),
            Kind::Malformed { what, type_name, cause } => {
                write!(f, "the {what} is no {type_name}: {cause}; use the type with which it was stored")
            }
            Kind::NotAscending => f.write_str(
                "a key does not come after all others; sort the keys, or put those that come before others",
            ),
            Kind::SavepointGone => f.write_str(
                "the savepoint is one of another transaction, or was made after one that was rolled back to",
            ),
            Kind::StillInUse => f.write_str(
                "snapshots, trees, iterators or clones of the store are still there; drop them first: the last one \
                 closes the store",
            ),
            Kind::NotAStore => f.write_str("the root of the pool is no table of trees; check the path"),
            Kind::NoRoot => f.write_str("the pool has no root yet; make it with root_or_init before the first tree"),
            Kind::Other(error) => error.fmt(f),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { path, tree, kind } = &*self.0;
        f.debug_struct("Error").field("kind", kind).field("path", path).field("tree", tree).finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match &self.0.kind {
            Kind::Open(error) => error.source(),
            Kind::Follow(error) => error.source(),
            Kind::Engine(error) => error.source(),
            Kind::Malformed { cause, .. } => cause.source(),
            Kind::Other(error) => error.source(),
            _ => None,
        }
    }
}

impl From<IndexError> for Error {
    #[cold]
    fn from(error: IndexError) -> Error {
        Error::new(Kind::Engine(error))
    }
}

impl From<HeapError> for Error {
    #[cold]
    fn from(error: HeapError) -> Error {
        IndexError::from(error).into()
    }
}

impl From<FollowError> for Error {
    #[cold]
    fn from(error: FollowError) -> Error {
        match error {
            FollowError::Open(error) => error.into(),
            error => Error::new(Kind::Follow(error)),
        }
    }
}

impl From<OpenError> for Error {
    #[cold]
    fn from(error: OpenError) -> Error {
        Error::new(Kind::Open(error))
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn messages_say_where() {
        let error = Error::new(Kind::NoTree).in_tree("stones").at(Path::new("/data/rocks"));
        let want = "/data/rocks: tree \"stones\": there is no such tree; a transaction that writes makes it";
        assert_eq!(error.to_string(), want);
        assert_eq!((error.tree(), error.path()), (Some("stones"), Some(Path::new("/data/rocks"))));
    }

    #[test]
    fn error_of_caller_is_returned() {
        let error = Error::other(fmt::Error).in_tree("stones");
        assert!(error.into_other().expect("that error").is::<fmt::Error>());
        assert!(Error::new(Kind::NoTree).into_other().is_err_and(|error| error.is_no_tree()));
    }
}
