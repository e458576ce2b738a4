//! Making a pool in a new file, or on a device.

use crate::file::{OpenOptions, checked_size_max, detected_durability, map, reserve_for};
use crate::lock::LockedFile;
use crate::{Access, PoolError, PoolFile, format};
use lode_layout::{Durability, Geometry, Header, LayoutName, PoolOffset};
use lode_pmem::{DurabilityReport, Mapping, Medium, NewFile, Sysfs, allocate};
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use uuid::Uuid;

/// Size in bytes up to which a new pool in a file grows by itself, unless its creator chooses another maximum: 1 TiB.
pub const SIZE_MAX_DEFAULT: u64 = 1 << 40;

/// The options for a new pool.
#[derive(Clone, Debug)]
pub struct CreateOptions {
    /// Size in bytes, rounded down to chunks of 16 KiB.
    pub size: u64,
    /// Size in bytes up to which the pool grows by itself, at least `size`. `None` makes a pool that does not grow by
    /// itself, as each pool on a device.
    pub size_max: Option<u64>,
    /// The layout of the pool's content.
    pub layout: LayoutName,
    /// The durability to use. `None` uses the durability that the medium offers, which must then be durable.
    pub durability: Option<Durability>,
    /// True if a device may be overwritten that begins with anything but zeros. A file is never overwritten.
    pub overwrite_device: bool,
    /// Place of the kernel's information about the medium. Any other tree than /sys is for tests.
    pub sysfs: Sysfs,
}

impl CreateOptions {
    /// Returns the options for a pool of `size` bytes with `layout`, at the durability that the medium offers. It grows
    /// by itself up to [`SIZE_MAX_DEFAULT`], or not if it is larger.
    pub fn new(size: u64, layout: LayoutName) -> CreateOptions {
        CreateOptions {
            size,
            size_max: (size <= SIZE_MAX_DEFAULT).then_some(SIZE_MAX_DEFAULT),
            layout,
            durability: None,
            overwrite_device: false,
            sysfs: Sysfs::default(),
        }
    }

    fn open_options(&self) -> OpenOptions {
        OpenOptions {
            durability: self.durability,
            sysfs: self.sysfs.clone(),
            ..OpenOptions::new(Access::ReadWrite)
        }
    }
}

/// Errors while making a pool: of the pool itself, or of its content.
enum Failure<E> {
    Pool(PoolError),
    Content(E),
}

impl<E: From<PoolError>> Failure<E> {
    /// Returns the error of a pool at `path`.
    fn at(self, path: &Path) -> E {
        match self {
            Failure::Pool(error) => error.at(path).into(),
            Failure::Content(error) => error,
        }
    }
}

impl<E> From<PoolError> for Failure<E> {
    fn from(error: PoolError) -> Failure<E> {
        Failure::Pool(error)
    }
}

impl PoolFile {
    /// Makes a pool at `path` and opens it for writing. `content` writes the engines' initial data, as for
    /// [`format()`].
    ///
    /// # Errors
    /// [`PoolError::At`] this path: [`PoolError::Exists`], [`PoolError::Occupied`], [`PoolError::NotAFile`], [`PoolError::NoSpace`],
    /// [`PoolError::Io`] (a directory that can't be written), [`PoolError::Geometry`], [`PoolError::MaximumTooSmall`], [`PoolError::NotDurable`],
    /// [`PoolError::InUse`] on a device, those of [`format()`]; and the errors of `content`. After an error there is no file, and no pool on the
    /// device.
    ///
    /// # Durability
    /// The pool, its content and its name are durable when it returns. After a crash or a signal before that, there is
    /// a whole pool or no file. Where the file system knows O_TMPFILE, nothing else is left; elsewhere SIGKILL can
    /// leave a hidden file, `.NAME.new-...`.
    ///
    /// # Cost
    /// That of [`format()`]; allocates the whole size.
    pub fn create<E: From<PoolError>>(
        path: &Path,
        options: &CreateOptions,
        content: impl FnOnce(&Mapping, &Header) -> Result<(), E>,
    ) -> Result<PoolFile, E> {
        let made = match fs::metadata(path) {
            Ok(found) if found.file_type().is_char_device() => create_on_device(path, options, content),
            Ok(_) => Err(PoolError::Exists.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => create_in_file(path, options, content),
            Err(error) => Err(PoolError::std("stat")(error).into()),
        };
        made.map_err(|failure| failure.at(path))
    }

    /// Makes a pool on the device or in all of the file at `path`, which is locked for writing, and opens it. The content from before
    /// is overwritten, whatever it is.
    ///
    /// # Errors
    /// As [`create`](PoolFile::create). After an error there may be no pool, and the content from before may be gone.
    ///
    /// # Durability
    /// The pool and its content are durable when it returns. After a crash before that, there is a whole pool, none, or one whose
    /// header was torn.
    ///
    /// # Cost
    /// As [`create`](PoolFile::create).
    pub fn create_in<E: From<PoolError>>(
        path: &Path,
        file: LockedFile,
        options: &CreateOptions,
        content: impl FnOnce(&Mapping, &Header) -> Result<(), E>,
    ) -> Result<PoolFile, E> {
        let made = Geometry::plan(options.size).map_err(|error| PoolError::Geometry(error).into());
        let made = made.and_then(|geometry| format_and_open(path, file, geometry, 0, options, content));
        made.map_err(|failure| failure.at(path))
    }
}

fn create_in_file<E>(
    path: &Path,
    options: &CreateOptions,
    content: impl FnOnce(&Mapping, &Header) -> Result<(), E>,
) -> Result<PoolFile, Failure<E>> {
    let geometry = Geometry::plan(options.size).map_err(PoolError::Geometry)?;
    let new = NewFile::create(path).map_err(PoolError::new_file)?;
    let file = new.file().try_clone().map_err(PoolError::std("dup"))?;
    // Locked before it has a name: no other process can lock it first.
    let file = LockedFile::lock(file, Access::ReadWrite)?;
    allocate(file.file(), 0, geometry.size())
        .map_err(|error| PoolError::allocation("allocate", &error, geometry.size()))?;
    let size_max =
        options.size_max.map(|size_max| checked_size_max(geometry.size(), size_max)).transpose()?;
    let pool = format_and_open(path, file, geometry, size_max.unwrap_or(0), options, content)?;
    new.publish().map_err(PoolError::new_file)?;
    Ok(pool)
}

/// Makes a pool on a device. It gets no name at the end, so the header is written last.
fn create_on_device<E>(
    path: &Path,
    options: &CreateOptions,
    content: impl FnOnce(&Mapping, &Header) -> Result<(), E>,
) -> Result<PoolFile, Failure<E>> {
    let geometry = Geometry::plan(options.size).map_err(PoolError::Geometry)?;
    let file = LockedFile::open(path, Access::ReadWrite)?;
    if !options.overwrite_device && has_content(&map(&file, path, &options.open_options(), None)?) {
        return Err(PoolError::Occupied.into());
    }
    format_and_open(path, file, geometry, 0, options, content)
}

fn format_and_open<E>(
    path: &Path,
    file: LockedFile,
    geometry: Geometry,
    size_max: u64,
    options: &CreateOptions,
    content: impl FnOnce(&Mapping, &Header) -> Result<(), E>,
) -> Result<PoolFile, Failure<E>> {
    let reserve = reserve_for(geometry.size(), size_max);
    let mapping = map(&file, path, &options.open_options(), reserve)?;
    let found = detected_durability(&mapping);
    if options.durability.is_none() && found == Durability::None {
        let report: Box<DurabilityReport> = Box::new(mapping.report().clone());
        return Err(PoolError::NotDurable { report }.into());
    }
    let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let header = Header {
        durability_forced: options.durability.filter(|asked| *asked > found),
        dirty_shutdowns: mapping.dirty_shutdowns(),
        size_max,
        ..Header::new(Uuid::new_v4(), options.layout, geometry, mapping.durability(), created)
    };
    let headers =
        format(&mapping, header, |mapping, header| content(mapping, header).map_err(Failure::Content))?;
    Ok(PoolFile::from_parts(path, file, mapping, headers, Access::ReadWrite))
}

/// Bytes at the start of a device where pools, volumes and file systems have their headers.
const HEADERS_LEN: u64 = 68 << 10;

/// Returns true if the place of headers has bytes that are not zero, or that can't be read.
fn has_content<M: Medium>(medium: &M) -> bool {
    let mut bytes = vec![0; HEADERS_LEN.min(medium.memory().len()) as usize];
    let read = medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes));
    read.is_err() || bytes.iter().any(|byte| *byte != 0)
}
