//! The pieces of a table: each byte belongs to one.

use crate::error::BttError;
use crate::found::FoundArena;
use crate::open::find_table_of;
use crate::pool::PoolUuids;
use lode_layout::{BLOCK, PoolOffset};
use lode_nvdimm::BttMapEntry;
use lode_pmem::Medium;
use std::ops::Range;

/// Bytes of the map that are read at a time.
const MAP_PART: u64 = BLOCK;
/// No block has the block of data.
const FREE: u32 = u32::MAX;

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

/// The pieces of a table in a range of its medium.
#[derive(Debug)]
pub struct TablePieces<'m, M> {
    medium: &'m M,
    range: Range<u64>,
    arenas: Vec<Pieces>,
}

/// An arena, of which the range has a part.
#[derive(Debug)]
struct Pieces {
    found: FoundArena,
    /// The number of its first block, in the whole table.
    first: u64,
    /// The owners of its data in the range; `None` before the map is read.
    owners: Option<Owners>,
}

/// The owners of consecutive blocks of data.
#[derive(Debug)]
struct Owners {
    /// The number of the first block of data.
    first: u64,
    /// Of each block of data, the block whose map entry has it.
    lbas: Vec<u32>,
    /// The reason why the rest of the map is unknown.
    fault: Option<BttError>,
}

impl<'m, M: Medium> TablePieces<'m, M> {
    /// Returns the pieces in the range of the table on `medium`, in a block pool of PMDK whose headers another layer has
    /// checked.
    ///
    /// # Errors
    /// Fails if the table is unusable.
    pub fn new(medium: &'m M, pool: PoolUuids, range: Range<u64>) -> Result<TablePieces<'m, M>, BttError> {
        let mut first = 0;
        let mut arenas = Vec::new();
        for found in find_table_of(medium, Some(pool))?.arenas() {
            arenas.push(Pieces { found: *found, first, owners: None });
            first += u64::from(found.info.geometry.external_nlba());
        }
        Ok(TablePieces { medium, range, arenas })
    }

    /// Returns the use of a byte of the range.
    ///
    /// # Errors
    /// [`BttError::OutsideOfRange`] if the range does not have the byte. Fails if the map can't be read up to the entry that
    /// has the byte.
    ///
    /// # Cost
    /// Reads the map of an arena for the first byte of its data. Keeps 4 bytes for each block of data in the range.
    pub fn piece_at(&mut self, at: PoolOffset) -> Result<TablePiece, BttError> {
        if !self.range.contains(&at.get()) {
            let Range { start, end } = self.range;
            return Err(BttError::OutsideOfRange { at, start, end });
        }
        for arena in &mut self.arenas {
            let (start, geometry) = (arena.found.start.get(), &arena.found.info.geometry);
            let end = geometry.infooff() + BLOCK;
            if let Some(off) = at.get().checked_sub(start).filter(|off| *off < end) {
                let range = self.range.start.saturating_sub(start)..self.range.end.saturating_sub(start);
                return arena.piece_at(self.medium, &range, off);
            }
        }
        Ok(TablePiece::Unused)
    }
}

impl Pieces {
    /// Returns the use of a byte of the arena. It is in the range, which counts from the start of the arena.
    fn piece_at<M: Medium>(
        &mut self,
        medium: &M,
        range: &Range<u64>,
        off: u64,
    ) -> Result<TablePiece, BttError> {
        let geometry = &self.found.info.geometry;
        let (arena, first) = (self.found.index, self.first);
        if off < geometry.dataoff() {
            return Ok(if off < BLOCK { TablePiece::Info(arena) } else { TablePiece::Unused });
        }
        if off < geometry.mapoff() {
            let inside = off - geometry.dataoff();
            let number = inside / u64::from(geometry.internal_lbasize());
            if number >= u64::from(geometry.internal_nlba()) {
                return Ok(TablePiece::Unused);
            }
            let off = inside % u64::from(geometry.internal_lbasize());
            let owners = self.owners.get_or_insert_with(|| Owners::read(medium, &self.found, range));
            return Ok(match owners.of(number)? {
                Some(lba) => TablePiece::Block { arena, block: first + u64::from(lba), off },
                None => TablePiece::Free(arena),
            });
        }
        if off < geometry.flogoff() {
            let lba = (off - geometry.mapoff()) / BttMapEntry::LEN;
            let is_entry = lba < u64::from(geometry.external_nlba());
            return Ok(if is_entry {
                TablePiece::Map { arena, block: first + lba }
            } else {
                TablePiece::Unused
            });
        }
        Ok(if off < geometry.infooff() { TablePiece::Flog(arena) } else { TablePiece::Info(arena) })
    }
}

impl Owners {
    /// Reads the map up to the entries of all blocks of data that the range has a part of.
    fn read<M: Medium>(medium: &M, arena: &FoundArena, range: &Range<u64>) -> Owners {
        let geometry = &arena.info.geometry;
        let number =
            |off: u64| off.saturating_sub(geometry.dataoff()) / u64::from(geometry.internal_lbasize());
        let first = number(range.start);
        let end = (number(range.end.saturating_sub(1)) + 1).min(geometry.internal_nlba().into());
        let mut lbas = vec![FREE; end.saturating_sub(first) as usize];
        let mut missing = lbas.len();
        let mut bytes = [0; MAP_PART as usize];
        let mut lba = 0;
        for off in (geometry.mapoff()..geometry.flogoff()).step_by(bytes.len()) {
            let read = medium.memory().reading(|memory| memory.read(arena.start.plus(off), &mut bytes));
            if let Err(fault) = read {
                return Owners { first, lbas, fault: Some(fault.into()) };
            }
            for entry in bytes.as_chunks::<{ BttMapEntry::LEN as usize }>().0 {
                if lba == geometry.external_nlba() || missing == 0 {
                    return Owners { first, lbas, fault: None };
                }
                let number = u64::from(BttMapEntry::decode(*entry).block(lba));
                let owner = number.checked_sub(first).and_then(|index| lbas.get_mut(index as usize));
                if let Some(owner) = owner.filter(|owner| **owner == FREE) {
                    *owner = lba;
                    missing -= 1;
                }
                lba += 1;
            }
        }
        Owners { first, lbas, fault: None }
    }

    /// Returns the block that has a block of data; `None` if that is free.
    fn of(&self, number: u64) -> Result<Option<u32>, BttError> {
        let found = number.checked_sub(self.first).and_then(|index| self.lbas.get(index as usize));
        match (found.filter(|lba| **lba != FREE), self.fault) {
            (Some(lba), _) => Ok(Some(*lba)),
            (None, Some(fault)) => Err(fault),
            (None, None) => Ok(None),
        }
    }
}
