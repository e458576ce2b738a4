//! An open pool in a file: its headers and lock, and its heap.

use crate::error::HeapError;
use crate::growth::{FileGrowth, GrowthError};
use crate::heap::Heap;
use lode_layout::{Header, LayoutName};
use lode_pmem::{DurabilityReport, Mapping, Medium};
use lode_pool::{Access, CreateOptions, OpenOptions, PoolError, PoolFile, check_heap};
use lode_redo::Recovery;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open pool in a file or on a device, with its heap. The heap stores through `M`: the mapping, or a medium around
/// it, such as [`Counted`](lode_pmem::Counted).
///
/// Dropping it instead of [`close`](Pool::close) is no damage: a crash does the same.
#[derive(Debug)]
pub struct Pool<M: Medium = Arc<Mapping>> {
    // In this order: the heap is dropped before the lock on the file.
    heap: Heap<M>,
    file: PoolFile,
    recovery: Recovery,
}

/// The reason why a pool could not be made, opened, grown or closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An error of its file or its headers.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An error of its heap.
    #[error("{}: {error}", path.display())]
    Heap {
        /// The file or device.
        path: PathBuf,
        /// The error of the heap.
        #[source]
        error: HeapError,
    },
    /// The kernel gave no random bytes, which every epoch of a log needs.
    #[error("getrandom: {}", std::io::Error::from_raw_os_error(*errno))]
    Random {
        /// The error number.
        errno: i32,
    },
}

/// The reason why there is no new pool: an error of its file, or of its content.
enum CreateFailure<E> {
    Pool(PoolError),
    Content(E),
}

impl<E> From<PoolError> for CreateFailure<E> {
    fn from(error: PoolError) -> CreateFailure<E> {
        CreateFailure::Pool(error)
    }
}

impl OpenError {
    /// Returns true if the heap is damaged. A file that can't be opened as a pool does not count: it may be no pool
    /// at all.
    pub fn is_damage(&self) -> bool {
        matches!(self, OpenError::Heap { error, .. } if error.is_damage())
    }

    pub(crate) fn heap(path: &Path) -> impl FnOnce(HeapError) -> OpenError {
        move |error| OpenError::Heap { path: path.to_owned(), error }
    }
}

impl Pool {
    /// Makes a pool at `path` with an empty heap, and opens it.
    ///
    /// # Errors
    /// [`OpenError`]. No file is left then, and no pool on the device.
    ///
    /// # Durability
    /// The pool and its name are durable on return. A crash before that leaves no pool or a whole one.
    pub fn create(path: &Path, options: &CreateOptions) -> Result<Pool, OpenError> {
        Pool::create_with(path, options, |_| Ok(()))
    }

    /// Makes a pool as [`create`](Pool::create) does; `content` puts the first objects into its heap.
    ///
    /// # Errors
    /// [`OpenError`], and the error of `content`. No file is left then, and no pool on the device.
    ///
    /// # Durability
    /// The pool and its name are durable on return, with all that `content` did. A crash before that leaves no
    /// pool or a whole one.
    pub fn create_with<E: From<OpenError>>(
        path: &Path,
        options: &CreateOptions,
        content: impl FnOnce(&Heap<&Mapping>) -> Result<(), E>,
    ) -> Result<Pool, E> {
        check_heap(&options.layout).map_err(|error| OpenError::from(error.at(path)))?;
        let (first, second) = (random_log_epoch()?, random_log_epoch()?);
        let made = PoolFile::create(path, options, |mapping, header| {
            let filled =
                Heap::format(mapping, &header.geometry, header.uuid.as_bytes(), first).and_then(|()| {
                    let (heap, _) = Heap::open(mapping, &header.geometry, header.uuid.into_bytes(), second)?;
                    let filled = content(&heap);
                    heap.close()?;
                    Ok(filled)
                });
            filled
                .map_err(|error| CreateFailure::Content(OpenError::heap(path)(error).into()))?
                .map_err(CreateFailure::Content)
        });
        let file = made.map_err(|error| match error {
            CreateFailure::Pool(error) => OpenError::from(error).into(),
            CreateFailure::Content(error) => error,
        })?;
        Ok(Pool::over(file, |mapping| mapping)?)
    }

    /// Opens the pool at `path`. If it is opened for reading, the log of the last writer is replayed into a private
    /// view, as [`recovery`](Pool::recovery) reports. Nothing reaches the file then, and a transaction that would
    /// change something fails with [`HeapError::ReadOnly`].
    ///
    /// # Errors
    /// [`OpenError`].
    ///
    /// # Durability
    /// Every transaction that had returned in an earlier log epoch is there, and of those of [`Heap::run_later`] all that were
    /// durable.
    ///
    /// # Cost
    /// That of the log, not of the pool.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<Pool, OpenError> {
        Pool::open_through(path, options, |mapping| mapping)
    }
}

impl<M: Medium> Pool<M> {
    /// Opens a pool as [`open`](Pool::open) does; the heap stores through the medium that `wrap` makes of the
    /// mapping.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open_through(
        path: &Path,
        options: &OpenOptions,
        wrap: impl FnOnce(Arc<Mapping>) -> M,
    ) -> Result<Pool<M>, OpenError> {
        Pool::over(PoolFile::open(path, options)?, wrap)
    }

    fn over(file: PoolFile, wrap: impl FnOnce(Arc<Mapping>) -> M) -> Result<Pool<M>, OpenError> {
        let header = file.header();
        check_heap(&header.layout).map_err(|error| error.at(file.path()))?;
        let medium = wrap(Arc::clone(file.medium()));
        let opened = Heap::open(medium, &header.geometry, header.uuid.into_bytes(), random_log_epoch()?);
        let (heap, recovery) = opened.map_err(OpenError::heap(file.path()))?;
        if file.access() == Access::ReadWrite {
            heap.set_growth(FileGrowth(file.grower()));
        }
        Ok(Pool::from_heap(heap, file, recovery))
    }

    /// Returns the heap, the file, and the result of the recovery at opening.
    pub(crate) fn into_parts(self) -> (Heap<M>, PoolFile, Recovery) {
        let Pool { heap, file, recovery } = self;
        (heap, file, recovery)
    }

    pub(crate) fn from_heap(heap: Heap<M>, file: PoolFile, recovery: Recovery) -> Pool<M> {
        Pool { heap, file, recovery }
    }

    /// Returns the heap.
    #[inline]
    pub fn heap(&self) -> &Heap<M> {
        &self.heap
    }

    /// Returns the header as it is now.
    pub fn header(&self) -> Header {
        self.file.header()
    }

    /// Returns the name of the pool's layout.
    pub fn layout(&self) -> LayoutName {
        self.header().layout
    }

    /// Returns the durability, and how it was found.
    pub fn report(&self) -> &DurabilityReport {
        self.file.medium().report()
    }

    /// Returns the result of the recovery at opening.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Returns the path at which the pool was opened.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Returns the access with which the pool was opened.
    pub fn access(&self) -> Access {
        self.file.access()
    }

    /// Returns the file, for operations on the headers alone.
    pub fn file(&self) -> &PoolFile {
        &self.file
    }

    /// Makes the pool `size` bytes long, rounded down to chunks, while it is in use. The log becomes longer, too, which
    /// stops commits for a moment.
    ///
    /// # Errors
    /// As [`PoolFile::grow`]; [`OpenError::Heap`] if the log can't move. The pool has its old size then and is usable.
    ///
    /// # Durability
    /// The new size is durable on return; after a crash before that the pool has its old or new size.
    pub fn grow(&self, size: u64) -> Result<(), OpenError> {
        grow_file(&self.heap, &self.file, size)
    }

    /// Closes the pool: all write-backs are durable, and the next opening has nothing to replay.
    ///
    /// # Errors
    /// [`OpenError::Heap`] if a sync failed, now or before; the errors of [`PoolFile::close`].
    pub fn close(self) -> Result<(), OpenError> {
        let Pool { heap, file, .. } = self;
        if file.access() == Access::ReadWrite {
            heap.close().map_err(OpenError::heap(file.path()))?;
        }
        Ok(file.close()?)
    }
}

/// Makes the pool of `heap` in `file` `size` bytes long.
pub(crate) fn grow_file<M: Medium>(heap: &Heap<M>, file: &PoolFile, size: u64) -> Result<(), OpenError> {
    let grown = file.grow_with(size, |geometry, publish| heap.install(geometry, publish));
    grown.map_err(|error| match error {
        GrowthError::Pool(error) => OpenError::Pool(error),
        GrowthError::Log(error) => OpenError::heap(file.path())(error.into()),
    })
}

/// Returns a number that no other epoch of any log has.
///
/// # Errors
/// [`OpenError::Random`].
pub fn random_log_epoch() -> Result<[u64; 2], OpenError> {
    lode_redo::random_log_epoch().map_err(|errno| OpenError::Random { errno: errno.raw_os_error() })
}
