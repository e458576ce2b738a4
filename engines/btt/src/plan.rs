//! The plan of a new table, and its making.

use crate::bugs;
use crate::error::BttError;
use crate::pool::Pool;
use crate::write::in_doubt;
use lode_layout::{BLOCK, PmdkBlk, PmdkHeader, PoolOffset, WORD, Want};
use lode_nvdimm::{BttDialect, BttFlog, BttGeometry, BttInfo, BttRules, BttVersion, InfoBlockError};
use lode_pmem::Medium;
use uuid::Uuid;

/// Bytes that are cleared at a time.
const ZEROS: [u8; BLOCK as usize] = [0; BLOCK as usize];

/// A table that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(crate) uuid: Uuid,
    parent_uuid: Uuid,
    version: BttVersion,
    dialect: BttDialect,
    pub(crate) arenas: Vec<(u64, BttGeometry)>,
    /// The header of the pool of PMDK that is made with the table.
    new_pool: Option<PmdkHeader>,
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
        Ok(Plan { parent_uuid, ..Plan::of_arenas(uuid, version, arenas) })
    }

    /// Plans a block pool of PMDK for a medium of `size` bytes with blocks of `lbasize` bytes.
    ///
    /// # Errors
    /// Fails if the medium is too small, or the blocks are smaller than 512 bytes or too large.
    pub fn pmdk(size: u64, lbasize: u32, header: PmdkHeader) -> Result<Plan, InfoBlockError> {
        let arenas = pmdk_arenas(size, lbasize)?;
        Ok(Plan::of_arenas(header.uuid, BttVersion::V1_1, arenas).in_new_pool(header))
    }

    /// Plans the table of a pool that has none.
    pub(crate) fn in_pool(pool: &Pool, size: u64) -> Result<Plan, InfoBlockError> {
        let arenas = pmdk_arenas(size, pool.descriptor.block_size)?;
        let (dialect, is_on_zeros) = (BttDialect::Pmdk, pool.descriptor.is_zeroed);
        let plan = Plan::of_arenas(pool.uuids.part, BttVersion::V1_1, arenas);
        Ok(Plan { parent_uuid: pool.uuids.poolset, dialect, is_on_zeros, ..plan })
    }

    /// Returns the plan of a table with these arenas, each with its offset: for tests, whose arenas may be small. Every
    /// arena begins where the one before it ends, the first one where `version` says.
    pub fn of_arenas(uuid: Uuid, version: BttVersion, arenas: Vec<(u64, BttGeometry)>) -> Plan {
        let (dialect, parent_uuid) = (BttDialect::Kernel, Uuid::nil());
        Plan { uuid, parent_uuid, version, dialect, arenas, new_pool: None, is_on_zeros: false }
    }

    /// Returns the plan of a block pool of PMDK that has the arenas of this plan: for tests, whose arenas may be small.
    /// The first one begins at [`PmdkBlk::TABLE_OFF`].
    #[must_use]
    pub fn in_new_pool(self, header: PmdkHeader) -> Plan {
        let (dialect, parent_uuid) = (BttDialect::Pmdk, header.poolset_uuid);
        Plan { dialect, parent_uuid, new_pool: Some(header), ..self }
    }

    /// Skips the clearing of the map, for a medium that is known to be zero, such as a new sparse file.
    #[must_use]
    pub fn on_zeros(self) -> Plan {
        Plan { is_on_zeros: true, ..self }
    }

    /// Returns the dialect of the table.
    pub(crate) fn dialect(&self) -> BttDialect {
        self.dialect
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
    /// Two drains, one more for a pool of PMDK, and one more if a table was there. The map is read, and stored only where it is not zero already;
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
            medium.copy(
                PoolOffset::new(start + geometry.flogoff()),
                &BttFlog::new(geometry, self.dialect).encode(),
            );
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
        self.store_pool(medium);
        // ORDER: all of the table is durable before the first word of its signature makes it one. Stop here: no table.
        medium.drain()?;
        for at in self.first_infos() {
            store_signature(medium, at, BttInfo::SIG_WORD);
        }
        if self.new_pool.is_some() {
            // ORDER: the pool is one when its table is. Stop here: no pool, and a table where no open looks for one.
            medium.drain()?;
            store_signature(medium, 0, PmdkHeader::BLOCKS_WORD);
        }
        // ORDER: the table is durable before the caller is told. Stop here: no table, or one with a copy of its info block.
        Ok(medium.drain()?)
    }

    /// Returns the places of the first arena's info blocks, the second one first.
    fn first_infos(&self) -> Vec<u64> {
        let places = |(start, geometry): &(u64, BttGeometry)| vec![start + geometry.infooff(), *start];
        self.arenas.first().map_or(Vec::new(), places)
    }

    /// Copies the header of a new pool, without its first word, and the descriptor.
    fn store_pool<M: Medium>(&self, medium: &M) {
        let Some(header) = &self.new_pool else { return };
        let mut bytes = header.encode();
        bytes[..WORD as usize].fill(0);
        medium.copy(PoolOffset::NULL, &bytes);
        // Not `is_zeroed`: PMDK would believe that of the map if it had to make the table anew.
        store_descriptor(medium, PmdkBlk { block_size: self.block_size() as u32, is_zeroed: false });
    }

    /// Clears the places where an open looks for the first info block. Returns true if there was anything.
    fn clear_old<M: Medium>(&self, medium: &M) -> bool {
        let places = if self.dialect == BttDialect::Pmdk && self.new_pool.is_none() {
            // The pool stays, and its open looks nowhere else.
            self.first_infos()
        } else {
            let first = [BttVersion::V2_0, BttVersion::V1_1].map(BttVersion::arenas_off);
            first.into_iter().chain([backup_off(first[0], medium.memory().len())]).collect()
        };
        places.into_iter().fold(false, |any, at| clear(medium, at) | any)
    }
}

/// Makes the content of a block pool of PMDK with blocks of `lbasize` bytes, whose headers another layer writes after it: they may
/// be those of a pool set. The first write makes its table. With `is_zeroed` the caller promises that the medium is, so the making
/// of the table need not clear it.
///
/// # Errors
/// [`BttError::Info`] if the medium is too small, or the blocks are smaller than 512 bytes or too large. Fails if the medium can't
/// be stored to.
///
/// # Durability
/// Durable on return.
///
/// # Cost
/// One drain.
pub fn format_content<M: Medium>(medium: &M, lbasize: u32, is_zeroed: bool) -> Result<(), BttError> {
    let unusable = |error| BttError::Info { arena: 0, at: PoolOffset::new(PmdkBlk::TABLE_OFF), error };
    let arenas = pmdk_arenas(medium.memory().len(), lbasize).map_err(unusable)?;
    let block_size = arenas.first().map_or(lbasize, |(_, geometry)| geometry.external_lbasize());
    in_doubt(|| {
        store_descriptor(medium, PmdkBlk { block_size, is_zeroed });
        // ORDER: the descriptor before the headers that make this a pool. Stop here: no pool.
        Ok(medium.drain()?)
    })?
}

fn store_descriptor<M: Medium>(medium: &M, descriptor: PmdkBlk) {
    let mut page = ZEROS;
    page[..PmdkBlk::LEN].copy_from_slice(&descriptor.encode());
    medium.copy(PoolOffset::new(PmdkBlk::OFF), &page);
}

fn store_signature<M: Medium>(medium: &M, at: u64, word: u64) {
    medium.store8(PoolOffset::new(at), word);
    medium.flush(PoolOffset::new(at), WORD);
}

/// Divides the pool into arenas, as PMDK does.
fn pmdk_arenas(size: u64, lbasize: u32) -> Result<Vec<(u64, BttGeometry)>, InfoBlockError> {
    let arenas = BttGeometry::divide(size, PmdkBlk::TABLE_OFF, &BttRules::pmdk(lbasize))?;
    for (_, geometry) in &arenas {
        let least = Want::AtLeast(2 * u64::from(geometry.nfree()));
        least.check("internal_nlba", 0, geometry.internal_nlba().into())?;
    }
    Ok(arenas)
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
