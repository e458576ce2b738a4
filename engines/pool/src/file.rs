//! An open pool in a file or on a device.

use crate::lock::LockedFile;
use crate::{Access, HeaderCopy, HeaderCopyError, Headers, PoolError};
use lode_layout::{Durability, Geometry, Header, LayoutName};
use lode_pmem::{DurabilityEvidence, Mapping, Medium, PmemError, Sysfs};
use rustix::fs::fsync;
use rustix::io::retry_on_intr;
use std::fs::{self, File};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The options for opening a pool.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Access for writing, or only for reading.
    pub access: Access,
    /// The durability to use. `None` uses the durability that the medium offers. Ignored when the pool is opened for
    /// reading.
    pub durability: Option<Durability>,
    /// The layout that the pool must have. `None` accepts any.
    pub layout: Option<LayoutName>,
    /// Place of the kernel's information about the medium. Any other tree than /sys is for tests.
    pub sysfs: Sysfs,
}

impl OpenOptions {
    /// Returns options for `access`, at the durability that the medium offers, for any layout.
    pub fn new(access: Access) -> OpenOptions {
        OpenOptions { access, durability: None, layout: None, sysfs: Sysfs::default() }
    }
}

/// An open pool: the mapped medium, its header, and the lock that excludes other handles.
///
/// The lock lasts as long as the mapping, also while only an engine holds the [`medium`](PoolFile::medium).
///
/// # Forks
/// The child of a fork can't use the handle: every access of the mapping fails there, and every function here
/// returns [`PoolError::Forked`]. The lock stays until both processes have dropped it or ended.
#[derive(Debug)]
pub struct PoolFile {
    path: PathBuf,
    medium: Arc<Mapping>,
    headers: Mutex<Headers>,
    /// Another descriptor of the mapped file, which shares the lock. Dropped after the mapping.
    file: LockedFile,
    access: Access,
}

impl PoolFile {
    /// Opens the pool at `path`.
    ///
    /// For reading, the mapping is a private view: recovery may store into it, but the file never changes.
    ///
    /// # Errors
    /// Always [`PoolError::At`] this path. In it: [`PoolError::Io`] and [`PoolError::NotAFile`], [`PoolError::InUse`],
    /// all of [`Headers::read`], [`PoolError::Layout`], [`PoolError::UnknownRoCompat`], [`PoolError::DirtyShutdown`],
    /// [`PoolError::DurabilityTooWeak`]; [`PoolError::Drain`] when the header had to be written and the drain failed.
    ///
    /// # Durability
    /// Opening for reading writes nothing. Opening for writing ends an interrupted update of the header. It also
    /// records a forced durability, and the count of dirty shutdowns where the modules have one.
    ///
    /// # Cost
    /// No drain in the usual case. The cost does not depend on the size of the pool.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<PoolFile, PoolError> {
        PoolFile::open_without_path(path, options).map_err(|error| error.at(path))
    }

    fn open_without_path(path: &Path, options: &OpenOptions) -> Result<PoolFile, PoolError> {
        let file = open_locked(path, options.access)?;
        let mapping = map(&file, path, options)?;
        let headers = Headers::read(&mapping)?;
        check(&headers, &mapping, options)?;
        let pool = PoolFile::from_parts(path, file, mapping, headers, options.access);
        if options.access == Access::ReadWrite {
            let mut headers = pool.headers();
            headers.complete_update(&*pool.medium)?;
            if let Some(asked) = options.durability
                && (asked > detected_durability(&pool.medium) || asked < headers.current().durability_min)
            {
                headers.force_durability(&*pool.medium, asked)?;
            }
            headers.set_dirty_shutdowns(&*pool.medium, pool.medium.dirty_shutdowns())?;
        }
        Ok(pool)
    }

    pub(crate) fn from_parts(
        path: &Path,
        file: LockedFile,
        mapping: Mapping,
        headers: Headers,
        access: Access,
    ) -> PoolFile {
        let (medium, headers) = (Arc::new(mapping), Mutex::new(headers));
        PoolFile { path: path.to_owned(), medium, headers, file, access }
    }

    /// Returns the mapped medium, for engines.
    pub fn medium(&self) -> &Arc<Mapping> {
        &self.medium
    }

    /// Returns the current header.
    pub fn header(&self) -> Header {
        *self.headers().current()
    }

    /// Returns the damaged copy of the header and its fault, if one is damaged.
    pub fn damage(&self) -> Option<(HeaderCopy, HeaderCopyError)> {
        self.headers().damage()
    }

    /// Returns the path that the pool was opened at.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the access of this handle.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Grows the pool to `size` bytes, rounded down to chunks, while it is in use. A record may name the new space only
    /// after this returned; [`header`](PoolFile::header) then describes it.
    ///
    /// # Errors
    /// Always [`PoolError::At`]. In it: [`PoolError::Io`] when the disk is full, [`PoolError::Geometry`],
    /// [`PoolError::AddressSpace`], on a device [`PoolError::FixedSize`], [`PoolError::ReadOnly`],
    /// [`PoolError::Forked`], and those of [`Headers::update`]. After an error the pool has its old size and is usable.
    ///
    /// # Durability
    /// The new size is durable when it returns. After a crash before that, the pool has its old or its new size.
    ///
    /// # Cost
    /// Allocates the new space and writes its chunk table; four syncs at durability `commit`.
    pub fn grow(&self, size: u64) -> Result<(), PoolError> {
        self.grow_with(size, |_| ())
    }

    /// Grows as [`grow`](PoolFile::grow) does, and passes the new geometry to `grown` before any other growth begins.
    /// So an engine sees all growths in order.
    ///
    /// # Errors
    /// As [`grow`](PoolFile::grow).
    ///
    /// # Durability
    /// As [`grow`](PoolFile::grow); the new size is durable when `grown` is called.
    pub fn grow_with(&self, size: u64, grown: impl FnOnce(&Geometry)) -> Result<(), PoolError> {
        self.grow_without_path(size, grown).map_err(|error| error.at(&self.path))
    }

    fn grow_without_path(&self, size: u64, grown: impl FnOnce(&Geometry)) -> Result<(), PoolError> {
        self.check_may_write()?;
        let mut headers = self.headers();
        let new = headers.geometry().grow(size).map_err(PoolError::Geometry)?;
        match self.medium.grow(new.size()) {
            // The file or device is longer than the pool already: a device is always mapped whole, and a crash may have
            // stopped an earlier growth.
            Err(PmemError::Shrink { .. }) => {}
            Err(PmemError::FixedSize { .. }) if new.size() <= self.medium.memory().len() => {}
            other => other.map_err(PoolError::medium)?,
        }
        if self.file.file().metadata().map_err(PoolError::std("stat"))?.is_file() {
            // ORDER: the file's length and blocks before the header that relies on them. Stop here: the file is longer
            // than the pool, which keeps its old size.
            retry_on_intr(|| fsync(self.file.file())).map_err(|errno| PoolError::io("fsync", errno))?;
        }
        headers.grow(&*self.medium, size)?;
        grown(headers.geometry());
        Ok(())
    }

    /// Records that no writer has the pool open any more, so later dirty shutdowns do not concern it. Dropping the
    /// handle instead does no damage: a crash does the same.
    ///
    /// # Errors
    /// [`PoolError::Forked`], and those of [`Headers::update`], in [`PoolError::At`].
    ///
    /// # Cost
    /// None, or two drains where the modules count dirty shutdowns.
    pub fn close(self) -> Result<(), PoolError> {
        let closed = match self.check_may_write() {
            Err(PoolError::ReadOnly) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.headers().set_dirty_shutdowns(&*self.medium, None),
        };
        closed.map_err(|error| error.at(&self.path))
    }

    /// Checks that this process opened the pool, and for writing.
    fn check_may_write(&self) -> Result<(), PoolError> {
        let opener = self.file.locked_by();
        if process::id() != opener {
            return Err(PoolError::Forked { opener });
        }
        match self.access {
            Access::ReadWrite => Ok(()),
            Access::ReadOnly => Err(PoolError::ReadOnly),
        }
    }

    fn headers(&self) -> MutexGuard<'_, Headers> {
        // A panic in between leaves the headers unchanged: their fields change only after the drains.
        self.headers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PoolFile {
    fn drop(&mut self) {
        if Arc::strong_count(&self.medium) > 1 {
            self.file.keep_locked();
        }
    }
}

/// Opens a file or character device, with the lock for `access`.
pub(crate) fn open_locked(path: &Path, access: Access) -> Result<LockedFile, PoolError> {
    // Checked before opening: the open of a pipe waits, and the open of some devices has side effects.
    let kind = fs::metadata(path).map_err(PoolError::std("stat"))?.file_type();
    if !kind.is_file() && !kind.is_char_device() {
        return Err(PoolError::NotAFile);
    }
    let write = access == Access::ReadWrite;
    let file = File::options().read(true).write(write).open(path).map_err(PoolError::std("open"))?;
    LockedFile::lock(file, access)
}

/// Maps an open pool. A volatile medium is mapped at durability `none`; the header then decides if the pool may be
/// there.
pub(crate) fn map(file: &LockedFile, path: &Path, options: &OpenOptions) -> Result<Mapping, PoolError> {
    let plain = Mapping::options().sysfs(options.sysfs.clone());
    let copy = || file.file().try_clone().map_err(PoolError::std("dup"));
    let mapped = match (options.access, options.durability) {
        (Access::ReadOnly, _) => plain.private_view().map_file(copy()?, path),
        (Access::ReadWrite, Some(durability)) => plain.durability(durability).map_file(copy()?, path),
        (Access::ReadWrite, None) => match plain.clone().map_file(copy()?, path) {
            Err(PmemError::Volatile { .. }) => plain.durability(Durability::None).map_file(copy()?, path),
            other => other,
        },
    };
    mapped.map_err(PoolError::medium)
}

/// Returns the durability that the medium offers by itself.
pub(crate) fn detected_durability(mapping: &Mapping) -> Durability {
    match &mapping.report().how {
        DurabilityEvidence::Forced { found } => found.durability,
        _ => mapping.report().durability,
    }
}

/// Checks that the pool may be opened with these options, on this medium.
fn check(headers: &Headers, mapping: &Mapping, options: &OpenOptions) -> Result<(), PoolError> {
    let header = headers.current();
    if let Some(want) = options.layout
        && want != header.layout
    {
        return Err(PoolError::Layout { want: Box::new(want), found: Box::new(header.layout) });
    }
    if let Some(shutdown) = headers.dirty_shutdown(mapping) {
        return Err(PoolError::DirtyShutdown(shutdown));
    }
    if options.access == Access::ReadOnly {
        return Ok(());
    }
    headers.check_writable()?;
    let found = detected_durability(mapping);
    if options.durability.is_none() && found < header.durability_min {
        return Err(PoolError::DurabilityTooWeak { want: header.durability_min, found });
    }
    Ok(())
}
