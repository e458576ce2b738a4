//! The atomic blocks of a pool in a file or on a device.

use crate::blocks::Blocks;
use crate::error::BlocksError;
use crate::plan::{plan, room_for};
use lode_layout::{BlocksDescriptor, Geometry, Header, LayoutName};
use lode_pmem::{Mapping, Medium};
use lode_pool::{Access, CreateOptions, LockedFile, OpenOptions, PoolError, PoolFile};
use lode_redo::Recovery;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An open pool of layout `blocks`. The blocks store through `M`: the mapping, or a medium around it, such as
/// [`Counted`](lode_pmem::Counted).
///
/// Dropping it instead of [`close`](BlockPool::close) is no damage: a crash does the same.
#[derive(Debug)]
pub struct BlockPool<M: Medium = Arc<Mapping>> {
    // In this order: the blocks are dropped before the lock on the file.
    blocks: Blocks<M>,
    file: PoolFile,
    recovery: Recovery,
}

/// The reason why a pool of blocks could not be made, opened or closed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BlockPoolError {
    /// An error of its file or its headers.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// An error of its blocks.
    #[error("{}: {error}", path.display())]
    Blocks {
        /// The file or device.
        path: PathBuf,
        /// The error of the blocks.
        #[source]
        error: BlocksError,
    },
    /// The pool has content of another layout.
    #[error("{}: the layout of the pool is {layout}, not {}; open it with the program that made it", path.display(), BlocksDescriptor::LAYOUT)]
    Layout {
        /// The file or device.
        path: PathBuf,
        /// The layout of the pool.
        layout: LayoutName,
    },
    /// The kernel gave no random bytes, which every epoch of a log needs.
    #[error("getrandom: {}", std::io::Error::from_raw_os_error(*errno))]
    Random {
        /// The error number.
        errno: i32,
    },
}

/// Returns the options of a pool of blocks.
fn of_blocks(options: &CreateOptions) -> CreateOptions {
    CreateOptions { size_max: None, layout: BlockPool::layout(), ..options.clone() }
}

/// Returns the function that writes the content of a pool with blocks of `block_size` bytes.
fn content(
    path: &Path,
    block_size: u32,
    log_epoch: [u64; 2],
) -> impl FnOnce(&Mapping, &Header) -> Result<(), BlockPoolError> {
    move |mapping, header| {
        let uuid = header.uuid.as_bytes();
        Blocks::format(&mapping, &header.geometry, uuid, block_size, log_epoch)
            .map_err(BlockPoolError::blocks(path))
    }
}

impl BlockPool {
    /// Returns the name of the layout.
    pub fn layout() -> LayoutName {
        LayoutName::new(BlocksDescriptor::LAYOUT).expect("the name is valid")
    }

    /// Checks that a new pool of `size` bytes has room for blocks of `block_size` bytes.
    ///
    /// # Errors
    /// [`BlockPoolError`] with the reason why there can be no such pool at `path`.
    pub fn check_plan(path: &Path, size: u64, block_size: u32) -> Result<(), BlockPoolError> {
        let geometry = Geometry::plan(size).map_err(|error| PoolError::Geometry(error).at(path))?;
        plan(&geometry, block_size).map(drop).map_err(BlockPoolError::blocks(path))
    }

    /// Makes a pool at `path` with blocks of `block_size` bytes, all zeros, and opens it. Its layout is that
    /// of blocks, whatever `options` say, and the pool does not grow by itself.
    ///
    /// # Errors
    /// [`BlockPoolError`]. No file is left then, and no pool on the device.
    ///
    /// # Durability
    /// The pool and its name are durable on return. A crash before that leaves no pool or a whole one.
    pub fn create(
        path: &Path,
        options: &CreateOptions,
        block_size: u32,
    ) -> Result<BlockPool, BlockPoolError> {
        let content = content(path, block_size, random_log_epoch()?);
        BlockPool::over(PoolFile::create(path, &of_blocks(options), content)?, |mapping| mapping)
    }

    /// Makes a pool as [`create`](BlockPool::create) does, on the device or in all of the file at `path`, which is locked for
    /// writing.
    ///
    /// # Errors
    /// [`BlockPoolError`]. The content from before may be gone then.
    ///
    /// # Durability
    /// The pool is durable on return. A crash before that leaves no pool, one whose header was torn, or a whole one.
    pub fn create_in(
        path: &Path,
        file: LockedFile,
        options: &CreateOptions,
        block_size: u32,
    ) -> Result<BlockPool, BlockPoolError> {
        let content = content(path, block_size, random_log_epoch()?);
        BlockPool::over(PoolFile::create_in(path, file, &of_blocks(options), content)?, |mapping| mapping)
    }

    /// Opens the pool at `path`. If it is opened for reading, the log of the last writer is replayed into a private view.
    /// Nothing reaches the file then.
    ///
    /// # Errors
    /// [`BlockPoolError`].
    ///
    /// # Durability
    /// See [`Blocks::open`].
    ///
    /// # Cost
    /// Reads the log and the map.
    pub fn open(path: &Path, options: &OpenOptions) -> Result<BlockPool, BlockPoolError> {
        BlockPool::open_through(path, options, |mapping| mapping)
    }
}

impl<M: Medium> BlockPool<M> {
    /// Opens a pool as [`open`](BlockPool::open) does; the blocks store through the medium that `wrap` makes of the mapping.
    ///
    /// # Errors
    /// [`BlockPoolError`].
    pub fn open_through(
        path: &Path,
        options: &OpenOptions,
        wrap: impl FnOnce(Arc<Mapping>) -> M,
    ) -> Result<BlockPool<M>, BlockPoolError> {
        BlockPool::over(PoolFile::open(path, options)?, wrap)
    }

    fn over(file: PoolFile, wrap: impl FnOnce(Arc<Mapping>) -> M) -> Result<BlockPool<M>, BlockPoolError> {
        let header = file.header();
        if header.layout.as_str() != BlocksDescriptor::LAYOUT {
            return Err(BlockPoolError::Layout { path: file.path().to_owned(), layout: header.layout });
        }
        let medium = wrap(Arc::clone(file.medium()));
        let opened = Blocks::open(medium, &header.geometry, header.uuid.into_bytes(), random_log_epoch()?);
        let (blocks, recovery) = opened.map_err(BlockPoolError::blocks(file.path()))?;
        Ok(BlockPool { blocks, file, recovery })
    }

    /// Grows the pool to `size` bytes, rounded down to chunks, while its blocks are used. Returns the number of blocks.
    ///
    /// # Errors
    /// [`BlockPoolError::Pool`] with the errors of [`PoolFile::grow`], [`BlockPoolError::Blocks`]. The pool has its old size
    /// then, and is usable unless a sync failed.
    ///
    /// # Durability
    /// The new size is durable when it returns. After a crash before that, the pool has its old or its new size.
    ///
    /// # Cost
    /// Allocates the new space and writes its map; five drains or syncs.
    pub fn grow(&self, size: u64) -> Result<u64, BlockPoolError> {
        // Before the file gets longer. What is wrong with the size is told below.
        if let Ok(geometry) = self.file.header().geometry.grow(size) {
            self.blocks.check_growth(&geometry).map_err(BlockPoolError::blocks(self.file.path()))?;
        }
        self.file.grow_keeping_log(size, |geometry, publish| {
            let growth =
                self.blocks.begin_growth(geometry).map_err(BlockPoolError::blocks(self.file.path()))?;
            publish()?;
            self.blocks.finish_growth(growth);
            Ok::<(), BlockPoolError>(())
        })?;
        Ok(self.blocks.block_count())
    }

    /// Grows the pool to `count` blocks or some more, while its blocks are used.
    ///
    /// # Errors
    /// As [`grow`](BlockPool::grow).
    ///
    /// # Durability
    /// As [`grow`](BlockPool::grow).
    ///
    /// # Cost
    /// As [`grow`](BlockPool::grow); nothing if the pool has so many blocks.
    pub fn grow_to_blocks(&self, count: u64) -> Result<(), BlockPoolError> {
        // Each growth takes one of few segments. So it is one, unless the room was estimated too low.
        while self.blocks.block_count() < count {
            let more = room_for(count - self.blocks.block_count(), self.blocks.segments.block_size());
            self.grow(self.file.header().geometry.size().saturating_add(more))?;
        }
        Ok(())
    }

    /// Returns the blocks.
    pub fn blocks(&self) -> &Blocks<M> {
        &self.blocks
    }

    /// Returns the file, for operations on the headers alone.
    pub fn file(&self) -> &PoolFile {
        &self.file
    }

    /// Returns the result of the recovery at opening.
    pub fn recovery(&self) -> Recovery {
        self.recovery
    }

    /// Closes the pool: all writes are durable, and the next opening has nothing to replay.
    ///
    /// # Errors
    /// [`BlockPoolError::Blocks`] if a sync failed, now or before; the errors of [`PoolFile::close`].
    pub fn close(self) -> Result<(), BlockPoolError> {
        let BlockPool { blocks, file, .. } = self;
        if file.access() == Access::ReadWrite {
            blocks.close().map_err(BlockPoolError::blocks(file.path()))?;
        }
        Ok(file.close()?)
    }
}

impl BlockPoolError {
    fn blocks(path: &Path) -> impl FnOnce(BlocksError) -> BlockPoolError {
        move |error| BlockPoolError::Blocks { path: path.to_owned(), error }
    }
}

/// Returns a number that no other epoch of any log has.
fn random_log_epoch() -> Result<[u64; 2], BlockPoolError> {
    lode_redo::random_log_epoch().map_err(|errno| BlockPoolError::Random { errno: errno.raw_os_error() })
}
