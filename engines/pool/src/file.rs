//! An open pool in a file or on a device.

use crate::growth::{limit_of, next_sizes, plan};
use crate::headers::Publish;
use crate::lock::LockedFile;
use crate::{Access, HeaderCopy, HeaderCopyError, Headers, PoolError, SpaceLimit};
use lode_layout::{
    CHUNK, Durability, Geometry, GeometryError, Header, LayoutName, PoolOffset, align_down, header,
};
use lode_pmem::{DurabilityEvidence, Mapping, Medium, PmemError, Sysfs, deallocate, file_size_limit};
use rustix::fs::fsync;
use rustix::io::retry_on_intr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Least and greatest number of bytes of address space that is reserved for a pool that grows by itself. A process has
/// 2^47 of them, and may open several pools.
const RESERVE_MIN: u64 = 64 << 30;
const RESERVE_MAX: u64 = 1 << 44;

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
    /// Size in bytes to which the pool is to grow while it is open, so that addresses are reserved for no other. `None`
    /// reserves them for the pool's maximum, at most 16 TiB or twice the pool. Ignored when the pool is opened for
    /// reading.
    pub grow_to: Option<u64>,
    /// Place of the kernel's information about the medium. Any other tree than /sys is for tests.
    pub sysfs: Sysfs,
}

impl OpenOptions {
    /// Returns options for `access`, at the durability that the medium offers, for any layout.
    pub fn new(access: Access) -> OpenOptions {
        OpenOptions { access, durability: None, layout: None, grow_to: None, sysfs: Sysfs::default() }
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
    inner: Arc<Inner>,
}

/// The part of an open pool that a [`Grower`] reaches, too.
#[derive(Debug)]
struct Inner {
    path: PathBuf,
    medium: Arc<Mapping>,
    headers: Mutex<Headers>,
    /// Another descriptor of the mapped file, which shares the lock. Dropped after the mapping.
    file: LockedFile,
    access: Access,
}

/// A right to grow an open pool, for an engine that finds no space. It does not keep the pool open.
#[derive(Clone, Debug)]
pub struct Grower {
    pool: Weak<Inner>,
}

impl PoolFile {
    /// Opens the pool at `path`.
    ///
    /// For reading, the mapping is a private view: recovery may store into it, but the file never changes.
    ///
    /// # Errors
    /// Always [`PoolError::At`] this path. In it: [`PoolError::Io`] and [`PoolError::NotAFile`], [`PoolError::InUse`],
    /// all of [`Headers::read`], [`PoolError::Layout`], [`PoolError::UnknownRoCompat`], [`PoolError::DirtyShutdown`],
    /// [`PoolError::DurabilityTooWeak`]; [`PoolError::NoSpace`] when the log is written by system calls and the process
    /// may not write files of the pool's size; [`PoolError::Drain`] when the header had to be written and the drain failed.
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
        let file = LockedFile::open(path, options.access)?;
        let mapping =
            map(&file, path, options, options.grow_to.or_else(|| reserve_of(&file, options.access)))?;
        let headers = Headers::read(&mapping)?;
        check(&headers, &mapping, options)?;
        let pool = PoolFile::from_parts(path, file, mapping, headers, options.access);
        if options.access == Access::ReadWrite {
            let Inner { medium, .. } = &*pool.inner;
            let mut headers = pool.inner.headers();
            headers.complete_update(&**medium)?;
            if let Some(asked) = options.durability
                && (asked > detected_durability(medium) || asked < headers.current().durability_min)
            {
                headers.force_durability(&**medium, asked)?;
            }
            headers.set_dirty_shutdowns(&**medium, medium.dirty_shutdowns())?;
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
        PoolFile { inner: Arc::new(Inner { path: path.to_owned(), medium, headers, file, access }) }
    }

    /// Returns the mapped medium, for engines.
    pub fn medium(&self) -> &Arc<Mapping> {
        &self.inner.medium
    }

    /// Returns the current header.
    pub fn header(&self) -> Header {
        *self.inner.headers().current()
    }

    /// Returns the damaged copy of the header and its fault, if one is damaged.
    pub fn damage(&self) -> Option<(HeaderCopy, HeaderCopyError)> {
        self.inner.headers().damage()
    }

    /// Returns the path that the pool was opened at.
    pub fn path(&self) -> &Path {
        &self.inner.path
    }

    /// Returns the descriptor of the file or device, to tell which one it is. It has the lock.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.file.file().as_fd()
    }

    /// Returns the access of this handle.
    pub fn access(&self) -> Access {
        self.inner.access
    }

    /// Grows the pool to `size` bytes, rounded down to chunks, while it is in use. A record may name the new space only
    /// after this returned; [`header`](PoolFile::header) then describes it.
    ///
    /// # Errors
    /// Always [`PoolError::At`]. In it: [`PoolError::NoSpace`], [`PoolError::Geometry`],
    /// [`PoolError::AddressSpace`] unless [`OpenOptions::grow_to`] reserved addresses for that size, on a device [`PoolError::FixedSize`], [`PoolError::ReadOnly`],
    /// [`PoolError::Forked`], and those of [`Headers::update`]. After an error the pool has its old size and is usable.
    ///
    /// # Durability
    /// The new size is durable when it returns. After a crash before that, the pool has its old or its new size.
    ///
    /// # Cost
    /// Allocates the new space and writes its chunk table; four syncs at durability `commit`.
    pub fn grow(&self, size: u64) -> Result<(), PoolError> {
        let grown = self.inner.grow(|geometry| geometry.grow(size), |_, publish| publish());
        grown.map_err(|error: PoolError| error.at(&self.inner.path))
    }

    /// Grows as [`grow`](PoolFile::grow) does, with a log for the new size. The engine that has the log in use passes
    /// `install`, as for [`Headers::grow_to`]. No other growth begins before it returns, so an engine sees all growths
    /// in order.
    ///
    /// # Errors
    /// As [`grow`](PoolFile::grow), and those of `install`.
    ///
    /// # Durability
    /// As [`grow`](PoolFile::grow).
    pub fn grow_with<E: From<PoolError>>(
        &self,
        size: u64,
        install: impl FnOnce(&Geometry, &mut Publish<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.grow_as(|geometry| geometry.grow_with_log(size), install)
    }

    /// Grows as [`grow_with`](PoolFile::grow_with) does, and keeps the log where it is.
    ///
    /// # Errors
    /// As [`grow_with`](PoolFile::grow_with).
    ///
    /// # Durability
    /// As [`grow`](PoolFile::grow).
    pub fn grow_keeping_log<E: From<PoolError>>(
        &self,
        size: u64,
        install: impl FnOnce(&Geometry, &mut Publish<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.grow_as(|geometry| geometry.grow(size), install)
    }

    fn grow_as<E: From<PoolError>>(
        &self,
        plan: impl FnOnce(&Geometry) -> Result<Geometry, GeometryError>,
        install: impl FnOnce(&Geometry, &mut Publish<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let at = |error: PoolError| E::from(error.at(&self.inner.path));
        let mut install = Some(install);
        let grown = self.inner.grow(plan, |geometry, publish| {
            let install = install.take().expect("a growth is installed once");
            install(geometry, publish).map_err(Growing::Install)
        });
        grown.map_err(|error| match error {
            Growing::Pool(error) => at(error),
            Growing::Install(error) => error,
        })
    }

    /// Checks that [`shrink`](PoolFile::shrink) can be called on this handle.
    ///
    /// # Errors
    /// [`PoolError::FixedSize`] on a device, [`PoolError::ReadOnly`] and [`PoolError::Forked`], in [`PoolError::At`].
    pub fn check_can_shrink(&self) -> Result<(), PoolError> {
        self.inner.check_can_shrink().map_err(|error| error.at(&self.inner.path))
    }

    /// Shrinks the pool to the least size that keeps all chunks before `end`, and closes it. Gives the space after the
    /// pool, and in the gaps that it has, back to the file system. The engine has closed its log, and does not use
    /// the medium any more. Returns the size in bytes.
    ///
    /// # Errors
    /// Those of [`check_can_shrink`](PoolFile::check_can_shrink) and [`Headers::shrink`], and [`PoolError::Io`], in
    /// [`PoolError::At`]. The pool has its old or its new size then, and
    /// can be opened.
    ///
    /// # Durability
    /// As [`Headers::shrink`]. After a crash the file may be longer than the pool, until the next call or growth.
    pub fn shrink(self, end: PoolOffset) -> Result<u64, PoolError> {
        let path = self.inner.path.clone();
        let shrunk = self.inner.shrink(end).map_err(|error| error.at(&path));
        // Also after a failure: from here on no writer has the pool open.
        let closed = self.close();
        shrunk.and_then(|size| closed.map(|()| size))
    }

    /// Returns the right to grow the pool.
    pub fn grower(&self) -> Grower {
        Grower { pool: Arc::downgrade(&self.inner) }
    }

    /// Records the size in bytes up to which the pool grows by itself, rounded down to chunks; `None` if it does not.
    ///
    /// # Errors
    /// [`PoolError::MaximumTooSmall`] below the present size, [`PoolError::FixedSize`] on a device,
    /// [`PoolError::Geometry`], [`PoolError::ReadOnly`], [`PoolError::Forked`], and those of [`Headers::update`], in
    /// [`PoolError::At`].
    ///
    /// # Durability
    /// Durable on return.
    pub fn set_size_max(&self, size_max: Option<u64>) -> Result<(), PoolError> {
        self.inner.set_size_max(size_max).map_err(|error| error.at(&self.inner.path))
    }

    /// Returns the process that has opened the pool. A fork of it can't use this handle.
    pub fn opener(&self) -> u32 {
        self.inner.file.locked_by()
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
        let closed = match self.inner.check_may_write() {
            Err(PoolError::ReadOnly) => Ok(()),
            Err(error) => Err(error),
            Ok(()) => self.inner.headers().set_dirty_shutdowns(&*self.inner.medium, None),
        };
        closed.map_err(|error| error.at(&self.inner.path))
    }
}

/// The reason why a growth failed: an error of the pool, or of the engine in it.
enum Growing<E> {
    Pool(PoolError),
    Install(E),
}

impl<E> From<PoolError> for Growing<E> {
    fn from(error: PoolError) -> Growing<E> {
        Growing::Pool(error)
    }
}

impl Grower {
    /// Grows the pool for `wanted` bytes more, up to its maximum: by half, or an eighth of a large pool, or by more if
    /// `wanted` takes more. A disk that has no room for that gets smaller steps, down to what `wanted` takes. The pool
    /// gets no geometry for which `fits` returns false. `install` is that of [`PoolFile::grow_with`].
    ///
    /// # Errors
    /// As [`PoolFile::grow`], without the path; [`PoolError::Maximum`], or [`PoolError::Geometry`] if all extents are in
    /// use, when no geometry fits; [`PoolError::FixedSize`] if the pool does not grow by itself; the errors of `install`.
    ///
    /// # Durability
    /// As [`PoolFile::grow`].
    pub fn grow_for<E: From<PoolError>>(
        &self,
        wanted: u64,
        fits: impl Fn(&Geometry) -> bool,
        mut install: impl FnMut(&Geometry, &mut Publish<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // Without a pool file the engine is about to end.
        let pool = self.pool.upgrade().ok_or(PoolError::ReadOnly)?;
        let Header { geometry, size_max, .. } = *pool.headers().current();
        if size_max == 0 || !pool.is_file()? {
            return Err(PoolError::FixedSize.into());
        }
        let mut refusal = limit_of(&geometry, size_max);
        for size in next_sizes(&geometry, size_max, wanted, &fits) {
            let grown = pool.grow(
                |geometry| plan(geometry, size, &fits).map(|(new, _)| new),
                |geometry, publish| install(geometry, publish).map_err(Growing::Install),
            );
            match grown {
                Ok(()) => return Ok(()),
                // The program has made it larger than that meanwhile.
                Err(Growing::Pool(PoolError::Geometry(GeometryError::Shrinks { .. }))) => return Ok(()),
                // A smaller growth may succeed.
                Err(Growing::Pool(error @ (PoolError::NoSpace { .. } | PoolError::AddressSpace { .. }))) => {
                    refusal = error;
                }
                Err(Growing::Pool(error)) => return Err(error.into()),
                Err(Growing::Install(error)) => return Err(error),
            }
        }
        Err(refusal.into())
    }
}

impl Inner {
    /// Grows the pool to what `plan` makes of its geometry.
    fn grow<E: From<PoolError>>(
        &self,
        plan: impl FnOnce(&Geometry) -> Result<Geometry, GeometryError>,
        install: impl FnOnce(&Geometry, &mut Publish<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.check_may_write()?;
        let mut headers = self.headers();
        let new = plan(headers.geometry()).map_err(PoolError::Geometry)?;
        self.extend_medium(new.size())?;
        headers.grow_to(&*self.medium, new, install)
    }

    /// Makes the medium at least `size` bytes long.
    fn extend_medium(&self, size: u64) -> Result<(), PoolError> {
        match self.medium.grow(size) {
            // The file or device is longer than the pool already: a device is always mapped whole, and a crash may have
            // stopped an earlier growth, perhaps before its sync.
            // ORDER: the file's length and blocks before the header that relies on them. Stop here: the file is longer
            // than the pool, which keeps its old size.
            Err(PmemError::Shrink { .. }) if self.is_file()? => {
                retry_on_intr(|| fsync(self.file.file())).map_err(|errno| PoolError::io("fsync", errno))
            }
            Err(PmemError::Shrink { .. }) => Ok(()),
            Err(PmemError::FixedSize { .. }) if size <= self.medium.memory().len() => Ok(()),
            Err(PmemError::Io { op: op @ "fallocate", errno, .. }) => {
                Err(PoolError::allocation(op, &io::Error::from_raw_os_error(errno), size))
            }
            // The medium has synced what it added.
            other => other.map_err(PoolError::medium),
        }
    }

    fn check_can_shrink(&self) -> Result<(), PoolError> {
        self.check_may_write()?;
        if self.is_file()? { Ok(()) } else { Err(PoolError::FixedSize) }
    }

    fn shrink(&self, end: PoolOffset) -> Result<u64, PoolError> {
        self.check_can_shrink()?;
        let mut headers = self.headers();
        headers.shrink(&*self.medium, end)?;
        let (geometry, file) = (headers.geometry(), self.file.file());
        // ORDER: both copies of the header are durable before the file loses what the old one named. Stop here: the file
        // is longer than the pool.
        if file.metadata().map_err(PoolError::std("stat"))?.len() > geometry.size() {
            file.set_len(geometry.size()).map_err(PoolError::std("truncate"))?;
        }
        for (from, len) in geometry.gaps() {
            deallocate(file, from.get(), len).map_err(PoolError::std("deallocate"))?;
        }
        retry_on_intr(|| fsync(file)).map_err(|errno| PoolError::io("fsync", errno))?;
        Ok(geometry.size())
    }

    fn set_size_max(&self, size_max: Option<u64>) -> Result<(), PoolError> {
        self.check_may_write()?;
        let mut headers = self.headers();
        let size = headers.geometry().size();
        let size_max = match size_max {
            None => 0,
            Some(_) if !self.is_file()? => return Err(PoolError::FixedSize),
            Some(size_max) => checked_size_max(size, size_max)?,
        };
        headers.set_size_max(&*self.medium, size_max)
    }

    fn is_file(&self) -> Result<bool, PoolError> {
        Ok(self.file.file().metadata().map_err(PoolError::std("stat"))?.is_file())
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

impl Drop for Inner {
    fn drop(&mut self) {
        if Arc::strong_count(&self.medium) > 1 {
            self.file.keep_locked();
        }
    }
}

/// Returns the maximum that a pool of `size` bytes gets when a user asks for `size_max`.
pub(crate) fn checked_size_max(size: u64, size_max: u64) -> Result<u64, PoolError> {
    if size_max > Geometry::SIZE_MAX {
        let (size, size_max) = (size_max, Geometry::SIZE_MAX);
        return Err(PoolError::Geometry(GeometryError::TooLarge { size, size_max }));
    }
    match align_down(size_max, CHUNK) {
        size_max if size_max < size => Err(PoolError::MaximumTooSmall { size_max, size }),
        size_max => Ok(size_max),
    }
}

/// Returns the number of bytes for which addresses are reserved when a pool of `size` bytes is opened that grows by
/// itself up to `size_max`; `None` if it does not grow. A pool of any size can become twice as large while it is open.
pub(crate) fn reserve_for(size: u64, size_max: u64) -> Option<u64> {
    let most = RESERVE_MAX.max(size.saturating_mul(2));
    (size_max > 0).then(|| size_max.clamp(RESERVE_MIN, most))
}

/// Returns the number of bytes for which addresses are reserved for the pool in `file`; `None` if it does not grow or
/// can't be opened anyway.
fn reserve_of(file: &LockedFile, access: Access) -> Option<u64> {
    let mut bytes = [0; 2 * header::LEN];
    if access == Access::ReadOnly || file.file().read_exact_at(&mut bytes, 0).is_err() {
        return None;
    }
    let copies = [HeaderCopy::A, HeaderCopy::B].map(|copy| {
        let (_, copy) = bytes.split_at(copy.at().get() as usize);
        Header::decode(copy).map_err(HeaderCopyError::Invalid)
    });
    let Header { geometry, size_max, .. } = *Headers::from_copies(copies).ok()?.current();
    reserve_for(geometry.size(), size_max)
}

/// Maps an open pool. A volatile medium is mapped at durability `none`; the header then decides if the pool may be
/// there. Reserves addresses for `reserve` bytes.
pub(crate) fn map(
    file: &LockedFile,
    path: &Path,
    options: &OpenOptions,
    reserve: Option<u64>,
) -> Result<Mapping, PoolError> {
    let mut plain = Mapping::options().sysfs(options.sysfs.clone());
    if let Some(bytes) = reserve {
        plain = plain.reserve(bytes);
    }
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
    // The kernel refuses to write a file beyond the limit, also where it is longer already, and by a signal. The log is
    // the part that is written, and may lie anywhere.
    let (size, is_written) = (header.geometry.size(), mapping.durability() == Durability::Commit);
    if is_written && file_size_limit().is_some_and(|limit| size > limit) {
        return Err(PoolError::NoSpace { size, limit: SpaceLimit::FileSize });
    }
    Ok(())
}
