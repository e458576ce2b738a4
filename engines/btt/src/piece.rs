//! The pieces of a table: each byte belongs to one.

use crate::error::BttError;
use crate::found::FoundArena;
use crate::open::find_table_of;
use crate::pool::PoolUuids;
use lode_layout::{BLOCK, PoolOffset};
use lode_nvdimm::BttMapEntry;
use lode_pmem::Medium;

/// Bytes of the map that are read at a time.
const MAP_PART: u64 = BLOCK;

/// The use of a byte of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TablePiece {
    /// An info block of an arena, by its number.
    Info(u32),
    /// The map of an arena: the block whose entry it is.
    Map {
        /// The number of the arena.
        arena: u32,
        /// The block.
        block: u64,
    },
    /// The log of writes (flog) of an arena.
    Flog(u32),
    /// Data of a block.
    Block {
        /// The number of the arena.
        arena: u32,
        /// The block.
        block: u64,
        /// Offset of the byte in the block.
        off: u64,
    },
    /// A free block of an arena, for the next write.
    Free(u32),
    /// No structure has it, as all of a table that the first write makes.
    Unused,
}

/// Returns the use of a byte of the table on `medium`, in a block pool of PMDK whose headers another layer has checked.
///
/// # Errors
/// Fails if the table is unusable, or if its map can't be read.
///
/// # Cost
/// Reads the map of an arena for a byte of a block.
pub fn piece_at<M: Medium>(medium: &M, pool: PoolUuids, at: PoolOffset) -> Result<TablePiece, BttError> {
    let table = find_table_of(medium, Some(pool))?;
    let mut first = 0;
    for arena in table.arenas() {
        let geometry = &arena.info.geometry;
        let end = geometry.infooff() + BLOCK;
        if let Some(off) = at.get().checked_sub(arena.start.get()).filter(|off| *off < end) {
            return arena_piece(medium, arena, first, off);
        }
        first += u64::from(geometry.external_nlba());
    }
    Ok(TablePiece::Unused)
}

/// Returns the use of a byte of an arena whose first block is `first`.
fn arena_piece<M: Medium>(
    medium: &M,
    arena: &FoundArena,
    first: u64,
    off: u64,
) -> Result<TablePiece, BttError> {
    let geometry = &arena.info.geometry;
    let index = arena.index;
    if off < geometry.dataoff() {
        return Ok(if off < BLOCK { TablePiece::Info(index) } else { TablePiece::Unused });
    }
    if off < geometry.mapoff() {
        let inside = off - geometry.dataoff();
        let number = inside / u64::from(geometry.internal_lbasize());
        if number >= u64::from(geometry.internal_nlba()) {
            return Ok(TablePiece::Unused);
        }
        let off = inside % u64::from(geometry.internal_lbasize());
        return Ok(match owner(medium, arena, number)? {
            Some(lba) => TablePiece::Block { arena: index, block: first + lba, off },
            None => TablePiece::Free(index),
        });
    }
    if off < geometry.flogoff() {
        let lba = (off - geometry.mapoff()) / BttMapEntry::LEN;
        let is_entry = lba < u64::from(geometry.external_nlba());
        return Ok(if is_entry {
            TablePiece::Map { arena: index, block: first + lba }
        } else {
            TablePiece::Unused
        });
    }
    Ok(if off < geometry.infooff() { TablePiece::Flog(index) } else { TablePiece::Info(index) })
}

/// Returns the block of an arena whose map entry has this number of a block of data; `None` if it is free.
fn owner<M: Medium>(medium: &M, arena: &FoundArena, number: u64) -> Result<Option<u64>, BttError> {
    let geometry = &arena.info.geometry;
    let mut bytes = [0; MAP_PART as usize];
    let mut lba = 0;
    for off in (geometry.mapoff()..geometry.flogoff()).step_by(bytes.len()) {
        medium.memory().reading(|memory| memory.read(arena.start.plus(off), &mut bytes))?;
        for entry in bytes.as_chunks::<{ BttMapEntry::LEN as usize }>().0 {
            if lba == geometry.external_nlba() {
                return Ok(None);
            }
            if u64::from(BttMapEntry::decode(*entry).block(lba)) == number {
                return Ok(Some(lba.into()));
            }
            lba += 1;
        }
    }
    Ok(None)
}
