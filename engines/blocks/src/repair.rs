//! The repair of descriptors and map words.

use crate::census::Census;
use crate::descriptor;
use crate::error::{BlocksError, Damage};
use crate::segments::{Segments, places};
use lode_layout::{BlockMapWord, Geometry, PoolOffset, WORD};
use lode_pmem::{FaultScope, Medium};
use lode_redo::{Log, LogArea, LogError};
use std::collections::{BTreeMap, BTreeSet};

/// The sizes of the blocks of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlocksInfo {
    /// Size of a block in bytes.
    pub block_size: u32,
    /// Number of blocks.
    pub block_count: u64,
    /// Offset of the first data block.
    pub data_off: PoolOffset,
}

/// A change that a repair made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Repair {
    /// A copy of a descriptor was written anew.
    #[error("copied the descriptor of the blocks over its copy at {at}")]
    Descriptor {
        /// Offset of the copy.
        at: PoolOffset,
    },
    /// A block lost its content: reading it is an error until it is written again.
    #[error("block {lba} is lost: {cause}")]
    LostBlock {
        /// The number of the block.
        lba: u64,
        /// The damage of its map word.
        cause: Damage,
    },
}

/// Returns the sizes of the blocks of a pool.
///
/// # Errors
/// Fails if a segment has no valid copy of its descriptor.
///
/// # Cost
/// Reads the descriptors.
pub fn describe<M: Medium>(medium: &M, geometry: &Geometry) -> Result<BlocksInfo, BlocksError> {
    let segments = Segments::read(medium, geometry)?;
    Ok(BlocksInfo {
        block_size: segments.block_size(),
        block_count: segments.block_count(),
        data_off: segments.data_at(0),
    })
}

/// Repairs the blocks of the pool `uuid`, which no other handle has open. Makes both copies of each descriptor equal. Makes
/// each block lost whose map word names a data block that does not exist, or one of another block. Of the owners of a data
/// block, that one keeps it whose checksum fits the content. If several fit, their content may be that of any, so all are
/// lost. Replays the log, and begins the log epoch `log_epoch`, only if a map word is damaged.
///
/// # Errors
/// Fails if a descriptor has no valid copy, if the log is damaged, or if memory can't be read or stored to.
///
/// # Durability
/// Durable on return. After a power cut before that, another repair does the rest.
///
/// # Cost
/// Reads the map. One drain for each change of a descriptor, and one for each thousand damaged map words.
pub fn repair<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    log_epoch: [u64; 2],
) -> Result<Vec<Repair>, BlocksError> {
    let segments = Segments::read(medium, geometry)?;
    lode_redo::check(medium, LogArea::of(geometry), uuid).map_err(Damage::from)?;
    let mut repairs = Vec::new();
    for place in places(geometry, &segments) {
        repairs.extend(repair_descriptor(medium, place)?);
    }
    let mut is_replayed = false;
    loop {
        let mut census = Census::take(medium, geometry, uuid, &segments)?;
        let lost = lost_blocks(medium, &segments, &mut census)?;
        if lost.is_empty() {
            return Ok(repairs);
        }
        if !is_replayed {
            Log::recover(medium, LogArea::of(geometry), *uuid, log_epoch)?.0.close()?;
            is_replayed = true;
        }
        store_lost(medium, &segments, lost.keys().copied())?;
        repairs.extend(lost.into_iter().map(|(lba, cause)| Repair::LostBlock { lba, cause }));
    }
}

/// Makes both copies of a descriptor equal.
fn repair_descriptor<M: Medium>(
    medium: &M,
    place: (PoolOffset, PoolOffset),
) -> Result<Option<Repair>, BlocksError> {
    let [(first_at, first), (second_at, second)] = descriptor::copies(medium, place);
    if let (Ok(first), Ok(second)) = (first, second)
        && first == second
    {
        return Ok(None);
    }
    let valid = first.or_else(|error| second.map_err(|_| error))?;
    let at = if first.is_ok() { second_at } else { first_at };
    descriptor::write_copy(medium, at, &valid)?;
    // ORDER: only the copy that was of no use is stored to. Stop here: the other copy serves.
    medium.drain().map_err(LogError::from)?;
    Ok(Some(Repair::Descriptor { at }))
}

/// Returns the blocks to lose for the damages of a census, and the cause of each.
fn lost_blocks<M: Medium>(
    medium: &M,
    segments: &Segments,
    census: &mut Census<'_>,
) -> Result<BTreeMap<u64, Damage>, BlocksError> {
    let mut lost = BTreeMap::new();
    let mut contested = BTreeSet::new();
    for damage in std::mem::take(&mut census.damages) {
        match damage {
            Damage::MapWord { lba, .. } => drop(lost.insert(lba, damage)),
            Damage::TwoOwners { block, .. } => drop(contested.insert(block)),
            damage => return Err(damage.into()),
        }
    }
    if contested.is_empty() {
        return Ok(lost);
    }
    let mut owners: BTreeMap<u32, Vec<(u64, u32)>> = BTreeMap::new();
    census.for_each_word(medium, |_, lba, word| {
        if let Ok(Some(BlockMapWord { block, crc })) = word
            && contested.contains(&block)
        {
            owners.entry(block).or_default().push((lba, crc));
        }
    })?;
    let mut content = vec![0; segments.block_size() as usize];
    for (block, owners) in owners {
        medium.memory().reading(|memory| memory.read(segments.data_at(block), &mut content))?;
        let sum = lode_pmem::crc32c(&content);
        let is_single = owners.iter().filter(|(_, crc)| *crc == sum).count() == 1;
        let losers = owners.into_iter().filter(|(_, crc)| !is_single || *crc != sum);
        lost.extend(
            losers.map(|(lba, _)| (lba, Damage::TwoOwners { lba, at: segments.word_at(lba), block })),
        );
    }
    Ok(lost)
}

fn store_lost<M: Medium>(
    medium: &M,
    segments: &Segments,
    lbas: impl Iterator<Item = u64>,
) -> Result<(), BlocksError> {
    FaultScope::run(|| {
        for at in lbas.map(|lba| segments.word_at(lba)) {
            medium.store8(at, BlockMapWord::LOST);
            medium.flush(at, WORD);
        }
    })?;
    // ORDER: nothing follows, and no word depends on another. Stop here: each word is damaged or lost; another repair does
    // the rest.
    Ok(medium.drain().map_err(LogError::from)?)
}
