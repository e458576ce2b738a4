//! Making and opening blocks.

use crate::blocks::Blocks;
use crate::census::Census;
use crate::descriptor;
use crate::error::BlocksError;
use crate::logged::LoggedWords;
use crate::plan::plan;
use crate::segments::Segments;
use crate::spares::Spares;
use crate::stripes::Stripes;
use lode_layout::{Durability, Geometry};
use lode_pmem::{Medium, Readers};
use lode_redo::{Log, LogArea, Recovery};

impl<M: Medium> Blocks<M> {
    /// Makes blocks of `block_size` bytes, all zeros, in a new pool of layout `blocks`, whose extents are zeroed where they
    /// have tables. For the content of [`lode_pool::format()`], or of a medium of zeros.
    ///
    /// # Errors
    /// Fails if the size is out of range, if there is no room, or if the medium can't be written.
    ///
    /// # Durability
    /// Durable on return.
    ///
    /// # Cost
    /// Writes the map. Three drains.
    pub fn format(
        medium: &M,
        geometry: &Geometry,
        uuid: &[u8; 16],
        block_size: u32,
        log_epoch: [u64; 2],
    ) -> Result<(), BlocksError> {
        let planned = plan(geometry, block_size)?;
        descriptor::clear_map(medium, &planned)?;
        descriptor::write(medium, &planned)?;
        // ORDER: the map and the descriptor before the slot; the caller writes the header that makes this a pool after it.
        medium.drain().map_err(lode_redo::LogError::from)?;
        Ok(Log::format(medium, LogArea::of(geometry), uuid, log_epoch)?)
    }

    /// Opens the blocks of the pool `uuid`: replays the records of the last log epoch. The first change begins the log epoch
    /// `log_epoch`, a random number. On a private view the blocks are read-only.
    ///
    /// # Errors
    /// Fails if the descriptor, the log or the map is damaged. The medium is as it was then.
    ///
    /// # Durability
    /// After a power cut every write that had returned is there, and with a volatile cache all that were flushed. After the
    /// end of a process every write that had returned is there.
    ///
    /// # Cost
    /// Reads the log and the map; a bit of memory for each data block, and four bytes for each that is spare.
    pub fn open(
        medium: M,
        geometry: &Geometry,
        uuid: [u8; 16],
        log_epoch: [u64; 2],
    ) -> Result<(Blocks<M>, Recovery), BlocksError> {
        let segments = Segments::read(&medium, geometry)?;
        let census = Census::take(&medium, geometry, &uuid, &segments)?;
        if let Some(damage) = census.damages.first() {
            return Err((*damage).into());
        }
        let spares = census.free_blocks();
        let (mut log, recovery) = Log::recover(medium, LogArea::of(geometry), uuid, log_epoch)?;
        if log.medium().memory().is_private_view() {
            log.set_read_only();
        }
        log.defer_write_backs();
        let is_synced = log.medium().durability() == Durability::Commit;
        let blocks = Blocks {
            log,
            segments,
            spares: Spares::new(spares),
            readers: Readers::new(),
            stripes: Stripes::new(),
            logged: is_synced.then(LoggedWords::default),
        };
        Ok((blocks, recovery))
    }
}
