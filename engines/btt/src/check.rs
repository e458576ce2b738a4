//! The check of a table: all of its info blocks, flogs and maps, without a store.

use crate::error::BttError;
use crate::found::FoundArena;
use crate::open::{find_table_of, read_flog};
use crate::pool::PoolUuids;
use lode_layout::{BLOCK, PoolOffset};
use lode_nvdimm::{BttBlockCheck, BttDamage, InfoBlockError};
use lode_pmem::Medium;

/// Bytes of the map that are read at a time.
const MAP_PART: u64 = BLOCK;

/// A finding of the check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// One of the two info blocks of an arena is unusable. The other one serves.
    #[error("an info block of arena {arena} at {at} is unusable: {error}; a repair copies the other one")]
    InfoCopy {
        /// The number of the arena, from 0.
        arena: u32,
        /// Offset of the info block.
        at: PoolOffset,
        /// The reason.
        error: InfoBlockError,
    },
    /// The two info blocks of an arena are valid and differ.
    #[error(
        "the info block of arena {arena} at {at} differs from the first one; a repair copies the first one"
    )]
    InfoDiffers {
        /// The number of the arena, from 0.
        arena: u32,
        /// Offset of the second info block.
        at: PoolOffset,
    },
    /// The table, or one of its arenas, can't be used.
    #[error(transparent)]
    Unusable(#[from] BttError),
}

/// Checks the table on `medium`. Returns the findings: none if it is sound. The traces of a crash are no damage.
///
/// # Cost
/// Reads every map entry; one bit of memory for each block of an arena.
pub fn check<M: Medium>(medium: &M) -> Vec<Finding> {
    check_table(medium, None)
}

/// Checks the table of a block pool of PMDK whose headers another layer has checked, as [`check`] does.
///
/// # Cost
/// As [`check`].
pub fn check_pool<M: Medium>(medium: &M, pool: PoolUuids) -> Vec<Finding> {
    check_table(medium, Some(pool))
}

fn check_table<M: Medium>(medium: &M, pool: Option<PoolUuids>) -> Vec<Finding> {
    let table = match find_table_of(medium, pool) {
        Ok(table) => table,
        Err(error) => return vec![error.into()],
    };
    let mut findings = Vec::new();
    for arena in table.arenas() {
        let [first, second] = arena.copies.copies;
        for (at, copy) in arena.copies.at.into_iter().zip([first, second]) {
            if let Err(error) = copy {
                findings.push(Finding::InfoCopy { arena: arena.index, at, error });
            }
        }
        if let (Ok(first), Ok(second)) = (first, second)
            && first != second
        {
            findings.push(Finding::InfoDiffers { arena: arena.index, at: arena.copies.at[1] });
        }
        findings.extend(check_blocks(medium, arena).err().map(Finding::Unusable));
    }
    findings
}

/// Checks that each block of an arena has exactly one owner.
fn check_blocks<M: Medium>(medium: &M, arena: &FoundArena) -> Result<(), BttError> {
    let flog = read_flog(medium, arena)?;
    let geometry = &arena.info.geometry;
    let damaged = |damage: BttDamage| BttError::Damaged { arena: arena.index, at: arena.start, damage };
    let mut blocks = BttBlockCheck::new(geometry, &flog).map_err(damaged)?;
    let mut bytes = [0; MAP_PART as usize];
    for off in (geometry.mapoff()..geometry.flogoff()).step_by(bytes.len()) {
        medium.memory().reading(|memory| memory.read(arena.start.plus(off), &mut bytes))?;
        blocks.map(&bytes).map_err(damaged)?;
    }
    blocks.finish().map_err(damaged)
}
