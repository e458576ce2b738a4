//! The repair of a table: it gives each block of the data one owner again, and guesses no content.

use crate::error::BttError;
use crate::found::FoundArena;
use crate::open::find_table;
use crate::write::in_doubt;
use lode_layout::{BLOCK, PoolOffset};
use lode_nvdimm::{BttBlockState, BttDamage, BttFlog, BttFlogEntry, BttMapEntry};
use lode_pmem::Medium;

/// A change that a repair made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Repair {
    /// A copy of an info block was written anew from the other one.
    #[error("copied the info block of arena {arena} to {at}")]
    InfoCopy {
        /// The number of the arena, from 0.
        arena: u32,
        /// Offset of the copy.
        at: PoolOffset,
    },
    /// A write that a crash left unfinished was finished.
    #[error("finished a write of block {lba}")]
    FinishedWrite {
        /// The number of the block in the table.
        lba: u64,
    },
    /// The map entry of a block was of no use. Reading the block is an error until it is written.
    #[error("block {lba} is lost: its map entry named a block that does not exist, or that of another block")]
    LostBlock {
        /// The number of the block in the table.
        lba: u64,
    },
    /// A lane got a new free block, since its own was not known, or in use.
    #[error("lane {lane} of arena {arena} has a new free block")]
    Lane {
        /// The number of the arena, from 0.
        arena: u32,
        /// The number of the lane.
        lane: u32,
    },
}

/// Repairs the table on `medium`, which no handle has open. Returns the changes: none if it was sound.
///
/// A block keeps its content if its map entry names a block that no other map entry names. If two do, either could be
/// wrong, so both blocks are lost: reading them is an error, and writing them ends that.
///
/// # Errors
/// Fails if both info blocks of an arena are unusable, or if memory is lost or can't be stored to.
///
/// # Durability
/// The changes are durable on return. After a power cut in between, another repair does the rest.
///
/// # Cost
/// Reads every map entry twice; a byte of memory for each block of an arena. One drain.
pub fn repair<M: Medium>(medium: &M) -> Result<Vec<Repair>, BttError> {
    let mut repairs = Vec::new();
    let mut first_lba = 0;
    for arena in find_table(medium)?.arenas() {
        repair_infos(medium, arena, &mut repairs)?;
        repair_blocks(medium, arena, first_lba, &mut repairs)?;
        first_lba += u64::from(arena.info.geometry.external_nlba());
    }
    if !repairs.is_empty() {
        // ORDER: nothing follows. Stop here: each change is one of a damaged place, and another repair makes the rest.
        medium.drain()?;
    }
    Ok(repairs)
}

/// Copies bytes past the cache.
fn put<M: Medium>(medium: &M, at: PoolOffset, bytes: &[u8]) -> Result<(), BttError> {
    in_doubt(|| medium.copy(at, bytes))
}

fn repair_infos<M: Medium>(
    medium: &M,
    arena: &FoundArena,
    repairs: &mut Vec<Repair>,
) -> Result<(), BttError> {
    for (at, copy) in arena.copies.at.into_iter().zip(arena.copies.copies) {
        if copy != Ok(arena.info) {
            put(medium, at, &arena.info.encode())?;
            repairs.push(Repair::InfoCopy { arena: arena.index, at });
        }
    }
    Ok(())
}

/// The owner of a block of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    None,
    Map,
    /// Several map entries.
    Many,
    Lane,
}

fn repair_blocks<M: Medium>(
    medium: &M,
    arena: &FoundArena,
    first_lba: u64,
    repairs: &mut Vec<Repair>,
) -> Result<(), BttError> {
    let geometry = &arena.info.geometry;
    let damaged = |damage: BttDamage| BttError::Damaged { arena: arena.index, at: arena.start, damage };
    let flog_at = arena.start.plus(geometry.flogoff());
    let mut flog = vec![0; BttFlog::len_of(geometry) as usize];
    medium.memory().reading(|memory| memory.read(flog_at, &mut flog))?;
    let lanes = BttFlog::salvage(&flog, geometry).map_err(damaged)?;
    let mut map = MapBytes::read(medium, arena)?;
    if lanes.iter().flatten().any(|write| map.lacks(write)) {
        put(medium, flog_at, &flog)?;
        // ORDER: flog entries are durable before a map entry follows from them: a program that was killed may not have drained
        // them. Stop here: nothing is changed.
        medium.drain()?;
    }
    for write in lanes.iter().flatten() {
        if !map.lacks(write) {
            continue;
        }
        map.set(write.lba, BttBlockState::Normal, write.written_block());
        repairs.push(Repair::FinishedWrite { lba: first_lba + u64::from(write.lba) });
    }
    let mut owners = vec![Owner::None; geometry.internal_nlba() as usize];
    for lba in 0..geometry.external_nlba() {
        if let Some(owner) = owners.get_mut(map.block(lba) as usize) {
            *owner = if *owner == Owner::None { Owner::Map } else { Owner::Many };
        }
    }
    let mut homeless = Vec::new();
    for (lane, current) in (0..).zip(&lanes) {
        match current.as_ref().map(|entry| &mut owners[entry.free_block() as usize]) {
            Ok(owner) if *owner == Owner::None => *owner = Owner::Lane,
            _ => homeless.push(lane),
        }
    }
    // There are as many blocks as lanes and external blocks, so this has one for each that lacks one.
    let is_free = |owner: Owner| matches!(owner, Owner::None | Owner::Many);
    let free: Vec<u32> =
        (0..).zip(&owners).filter(|(_, owner)| is_free(**owner)).map(|(block, _)| block).collect();
    let mut free = free.into_iter();
    for lba in 0..geometry.external_nlba() {
        let owner = owners.get(map.block(lba) as usize);
        if owner == Some(&Owner::Map) {
            continue;
        }
        let Some(block) = free.next() else { break };
        map.set(lba, BttBlockState::Error, block);
        repairs.push(Repair::LostBlock { lba: first_lba + u64::from(lba) });
    }
    for (lane, block) in homeless.into_iter().zip(free) {
        put(medium, flog_at.plus(u64::from(lane) * BttFlog::LANE_LEN), &BttFlog::unused_lane(block))?;
        repairs.push(Repair::Lane { arena: arena.index, lane });
    }
    map.write(medium, arena)
}

/// The map of an arena in memory, and the parts of it that changed.
struct MapBytes {
    bytes: Vec<u8>,
    changed: Vec<usize>,
}

/// Bytes of a part of the map, which is written as a whole.
const PART: usize = BLOCK as usize;

impl MapBytes {
    fn read<M: Medium>(medium: &M, arena: &FoundArena) -> Result<MapBytes, BttError> {
        let geometry = &arena.info.geometry;
        let mut bytes = vec![0; (geometry.flogoff() - geometry.mapoff()) as usize];
        let at = arena.start.plus(geometry.mapoff());
        medium.memory().reading(|memory| memory.read(at, &mut bytes))?;
        Ok(MapBytes { bytes, changed: Vec::new() })
    }

    /// Returns the block that the map has for `lba`.
    fn block(&self, lba: u32) -> u32 {
        let entries = self.bytes.as_chunks::<{ BttMapEntry::LEN as usize }>().0;
        BttMapEntry::decode(entries[lba as usize]).block(lba)
    }

    /// Returns true if a write is durable in the flog, and did not reach the map.
    fn lacks(&self, write: &BttFlogEntry) -> bool {
        write.free_block() != write.written_block() && self.block(write.lba) == write.free_block()
    }

    fn set(&mut self, lba: u32, state: BttBlockState, number: u32) {
        let entries = self.bytes.as_chunks_mut::<{ BttMapEntry::LEN as usize }>().0;
        entries[lba as usize] = BttMapEntry { state, number }.encode();
        self.changed.push(lba as usize * BttMapEntry::LEN as usize / PART);
    }

    fn write<M: Medium>(mut self, medium: &M, arena: &FoundArena) -> Result<(), BttError> {
        self.changed.sort_unstable();
        self.changed.dedup();
        for part in self.changed {
            let at = arena.start.plus(arena.info.geometry.mapoff() + (part * PART) as u64);
            put(medium, at, &self.bytes[part * PART..][..PART])?;
        }
        Ok(())
    }
}
