//! The growth of blocks, while they are used.

use crate::blocks::Blocks;
use crate::bugs;
use crate::descriptor;
use crate::error::BlocksError;
use lode_layout::{BlocksDescriptor, Geometry};
use lode_pmem::{Medium, hold};

/// Segments that lie in the new space of a pool durably. The header of the pool does not reach them yet.
#[derive(Debug)]
#[must_use = "no block is added before `Blocks::finish_growth`"]
pub struct Growth(Vec<BlocksDescriptor>);

impl<M: Medium> Blocks<M> {
    /// Checks that there can be segments in the space that a pool has with the new `geometry`.
    ///
    /// # Errors
    /// [`BlocksError::Full`].
    pub fn check_growth(&self, geometry: &Geometry) -> Result<(), BlocksError> {
        self.segments.plan_next(geometry).map(drop)
    }

    /// Writes the segments in the space that a pool has with the new `geometry`, on a medium that has grown already. The
    /// caller makes the header of the pool name that geometry next, and no other growth begins meanwhile.
    ///
    /// # Errors
    /// [`BlocksError::Full`], those of the medium, and [`BlocksError::Poisoned`]. The pool has its old size.
    ///
    /// # Durability
    /// The segments are durable on return. After a crash the pool has its old size until its header names the new one.
    ///
    /// # Cost
    /// Writes the map of the new blocks. One drain.
    pub fn begin_growth(&self, geometry: &Geometry) -> Result<Growth, BlocksError> {
        self.log.begin_epoch()?;
        let next = self.segments.plan_next(geometry)?;
        for segment in &next {
            if !bugs::NEW_MAP_NOT_CLEARED.is_active() {
                descriptor::clear_map(self.medium(), segment)?;
            }
            descriptor::write(self.medium(), segment)?;
        }
        // ORDER: map and descriptor before the header that makes the walk of the segments find them. Stop here: the pool
        // has its old size, and these lie beyond its extents.
        let drained = match bugs::SEGMENT_NOT_DRAINED.is_active() {
            true => Ok(()),
            false => self.medium().drain(),
        };
        drained.map_err(|error| {
            self.log.fail();
            BlocksError::InDoubt(lode_redo::InDoubtCause::Log(error))
        })?;
        Ok(Growth(next))
    }

    /// Adds the blocks of segments that the header of the pool durably has. Returns the number of blocks.
    pub fn finish_growth(&self, growth: Growth) -> u64 {
        let _one = hold(&self.spares.reclaiming, self.medium());
        let first = self.segments.data_count();
        self.segments.add(&growth.0);
        for block in (first..self.segments.data_count()).rev() {
            self.spares.put_back(self.medium(), block as u32);
        }
        self.block_count()
    }
}
