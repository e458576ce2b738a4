//! The plan of a new table, and its making.

use crate::bugs;
use crate::error::BttError;
use crate::write::in_doubt;
use lode_layout::{BLOCK, PoolOffset, WORD};
use lode_nvdimm::{BttFlog, BttGeometry, BttInfo, BttVersion, InfoBlockError};
use lode_pmem::Medium;
use uuid::Uuid;

/// Bytes that are cleared at a time.
const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// A table that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    uuid: Uuid,
    parent_uuid: Uuid,
    version: BttVersion,
    arenas: Vec<(u64, BttGeometry)>,
    is_on_zeros: bool,
}

impl Plan {
    /// Plans a table for a medium of `size` bytes with blocks of `lbasize` bytes, as the kernel does. `parent_uuid` is
    /// the UUID of the namespace; nil if there is none.
    ///
    /// # Errors
    /// Fails if the medium is too small, or the blocks are smaller than 512 bytes or too large.
    pub fn kernel(
        size: u64,
        lbasize: u32,
        version: BttVersion,
        [uuid, parent_uuid]: [Uuid; 2],
    ) -> Result<Plan, InfoBlockError> {
        let arenas = BttGeometry::plan(size, lbasize, version)?;
        Ok(Plan { uuid, parent_uuid, version, arenas, is_on_zeros: false })
    }

    /// Returns the plan of a table with these arenas, each with its offset: for tests, whose arenas may be small. Every
    /// arena begins where the one before it ends, the first one where `version` says.
    pub fn of_arenas(uuid: Uuid, version: BttVersion, arenas: Vec<(u64, BttGeometry)>) -> Plan {
        Plan { uuid, parent_uuid: Uuid::nil(), version, arenas, is_on_zeros: false }
    }

    /// Skips the clearing of the map, for a medium that is known to be zero, such as a new sparse file.
    #[must_use]
    pub fn on_zeros(self) -> Plan {
        Plan { is_on_zeros: true, ..self }
    }

    /// Returns the size of a block in bytes.
    pub(crate) fn block_size(&self) -> usize {
        self.arenas.first().map_or(0, |(_, geometry)| geometry.external_lbasize() as usize)
    }

    /// Returns the number of blocks.
    pub(crate) fn block_count(&self) -> u64 {
        self.arenas.iter().map(|(_, geometry)| u64::from(geometry.external_nlba())).sum()
    }

    /// Makes the table on `medium`, in place of a table that is there. Blocks keep the content of the medium.
    ///
    /// # Errors
    /// Fails if the medium can't be read or stored to. There is then no table, or the new one.
    ///
    /// # Durability
    /// The table is durable on return. After a power cut in between, there is no table, or the new one.
    ///
    /// # Cost
    /// Two drains, and one more if a table was there. The map is read, and stored only where it is not zero already;
    /// see [`on_zeros`](Plan::on_zeros).
    pub fn format<M: Medium>(&self, medium: &M) -> Result<(), BttError> {
        in_doubt(|| self.make(medium))?
    }

    fn make<M: Medium>(&self, medium: &M) -> Result<(), BttError> {
        if !self.is_on_zeros && self.clear_old(medium) {
            // ORDER: the old info blocks are gone before the map is cleared. Stop here: no table.
            medium.drain()?;
        }
        for (start, geometry) in &self.arenas {
            let map = start + geometry.mapoff()..start + geometry.flogoff();
            map.step_by(ZEROS.len()).filter(|_| !self.is_on_zeros).for_each(|at| {
                clear(medium, at);
            });
            medium.copy(PoolOffset::new(start + geometry.flogoff()), &BttFlog::new(geometry).encode());
        }
        for (index, (start, geometry)) in self.arenas.iter().enumerate() {
            let Plan { uuid, parent_uuid, version, .. } = *self;
            let info = BttInfo { uuid, parent_uuid, is_read_only: false, version, geometry: *geometry };
            let mut bytes = info.encode();
            if index == 0 && !bugs::INFO_BEFORE_LAYOUT.is_active() {
                bytes[..WORD as usize].fill(0);
            }
            for at in [start + geometry.infooff(), *start] {
                medium.copy(PoolOffset::new(at), &bytes);
            }
        }
        // ORDER: all of the table is durable before the first word of its signature makes it one. Stop here: no table.
        medium.drain()?;
        if let Some((start, geometry)) = self.arenas.first() {
            for at in [start + geometry.infooff(), *start].map(PoolOffset::new) {
                medium.store8(at, BttInfo::SIG_WORD);
                medium.flush(at, WORD);
            }
        }
        // ORDER: the table is durable before the caller is told. Stop here: no table, or one with a copy of its info block.
        Ok(medium.drain()?)
    }

    /// Clears the places where an open looks for the first info block. Returns true if there was anything.
    fn clear_old<M: Medium>(&self, medium: &M) -> bool {
        let first = [BttVersion::V2_0, BttVersion::V1_1].map(BttVersion::arenas_off);
        let end = backup_off(first[0], medium.memory().len());
        first.into_iter().chain([end]).fold(false, |any, at| clear(medium, at) | any)
    }
}

/// Clears the block of the medium at `at`, unless it is zero or not there. Returns true if it was not zero.
fn clear<M: Medium>(medium: &M, at: u64) -> bool {
    let (at, len) = (PoolOffset::new(at), medium.memory().len());
    let is_there = at.get().checked_add(BLOCK).is_some_and(|end| end <= len);
    let is_old = is_there && !medium.memory().reading_in_scope(|memory| memory.equals(at, &ZEROS));
    if is_old {
        medium.copy(at, &ZEROS);
    }
    is_old
}

/// Returns where the second info block of an arena is that begins at `start`, if it is as long as it can be on a medium
/// of `len` bytes.
pub(crate) fn backup_off(start: u64, len: u64) -> u64 {
    let arena_len = len.saturating_sub(start).min(BttGeometry::ARENA_MAX);
    (start + lode_layout::align_down(arena_len, BLOCK)).saturating_sub(BLOCK)
}
