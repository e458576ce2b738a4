//! The owners of all data blocks.

use crate::error::Damage;
use crate::map::decode;
use lode_layout::{BLOCK, BlockMapWord, BlocksDescriptor, Entry, Geometry, WORD};
use lode_pmem::Medium;
use lode_redo::scan::LogScan;
use lode_redo::{LogArea, slots};
use std::collections::BTreeMap;

/// Bytes of the map that are read at a time.
const MAP_PART: u64 = BLOCK;
/// Damages after which the census ends.
const DAMAGES_MAX: usize = 1000;

/// The map of a pool, as the replay of its log leaves it.
#[derive(Debug)]
pub(crate) struct Census {
    descriptor: BlocksDescriptor,
    /// A bit for each data block that a map word names.
    used: Vec<u64>,
    /// The damages of the map, at most 1000.
    pub(crate) damages: Vec<Damage>,
    /// The map words that the log has.
    logged: BTreeMap<u64, u64>,
}

impl Census {
    /// Reads the log and the map.
    ///
    /// # Errors
    /// Fails if the log has entries for other places than the map. A log that can't be read otherwise counts as empty: its
    /// own recovery says so.
    pub(crate) fn take<M: Medium>(
        medium: &M,
        geometry: &Geometry,
        uuid: &[u8; 16],
        descriptor: &BlocksDescriptor,
    ) -> Result<Census, Damage> {
        let logged = logged_words(medium, geometry, uuid, descriptor)?;
        let used = vec![0; descriptor.data_count().div_ceil(u64::BITS.into()) as usize];
        let mut census = Census { descriptor: *descriptor, used, damages: Vec::new(), logged };
        census.for_each_word(medium, |census, lba, word| match word {
            Ok(Some(word)) => census.note(lba, word),
            Ok(None) => {}
            Err(damage) => census.damages.push(damage),
        })?;
        Ok(census)
    }

    /// Calls `with` for each map word, and once for each part of the map that can't be read, until there is too much damage.
    pub(crate) fn for_each_word<M: Medium>(
        &mut self,
        medium: &M,
        mut with: impl FnMut(&mut Census, u64, Result<Option<BlockMapWord>, Damage>),
    ) -> Result<(), Damage> {
        let count = self.descriptor.block_count;
        let mut part = [0; MAP_PART as usize];
        for first in (0..count).step_by(part.len() / WORD as usize) {
            let lbas = first..count.min(first + MAP_PART / WORD);
            let bytes = &mut part[..((lbas.end - first) * WORD) as usize];
            let at = self.descriptor.word_at(first);
            if let Err(fault) = medium.memory().reading(|memory| memory.read(at, bytes)) {
                with(self, first, Err(fault.into()));
                continue;
            }
            let (words, _) = bytes.as_chunks_mut::<{ WORD as usize }>();
            for (lba, word) in self.logged.range(lbas.clone()) {
                words[(lba - first) as usize] = word.to_le_bytes();
            }
            for (lba, word) in lbas.zip(words) {
                let word = decode(&self.descriptor, lba, u64::from_le_bytes(*word));
                with(self, lba, word);
                if self.damages.len() >= DAMAGES_MAX {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Notes the owner of a data block.
    fn note(&mut self, lba: u64, word: BlockMapWord) {
        let bits = &mut self.used[(word.block / u64::BITS) as usize];
        let bit = 1 << (word.block % u64::BITS);
        if *bits & bit != 0 {
            let at = self.descriptor.word_at(lba);
            self.damages.push(Damage::TwoOwners { lba, at, block: word.block });
        }
        *bits |= bit;
    }

    /// Returns the data blocks that no map word names, the last one first.
    pub(crate) fn free_blocks(&self) -> Vec<u32> {
        let is_free = |block: &u32| self.used[(block / u64::BITS) as usize] & 1 << (block % u64::BITS) == 0;
        (0..self.descriptor.data_count() as u32).rev().filter(is_free).collect()
    }
}

/// Returns the map words in the records that a recovery replays.
fn logged_words<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    descriptor: &BlocksDescriptor,
) -> Result<BTreeMap<u64, u64>, Damage> {
    let mut logged = BTreeMap::new();
    let slot = medium.memory().reading(|memory| slots::read(memory, uuid))?;
    let Some(slot) = slot else { return Ok(logged) };
    let scan = LogScan::read(medium, LogArea::of(geometry), uuid, &slot).map_err(Damage::Log)?;
    let map = descriptor.map_off.get();
    let map_end = descriptor.word_at(descriptor.block_count).get();
    for entry in scan.records.iter().flat_map(|record| record.entries()) {
        match entry {
            Entry::Payload { .. } | Entry::Continue { .. } => {}
            Entry::Words { at, words } => {
                let (first, len) = (at.get(), words.len() as u64 * WORD);
                if first < map || first > map_end || map_end - first < len || first % WORD != 0 {
                    return Err(Damage::Record { at, len });
                }
                let lba = (first - map) / WORD;
                logged.extend((lba..).zip(words.iter().copied()));
            }
            Entry::SetBits { at, .. } | Entry::ClearBits { at, .. } => {
                return Err(Damage::Record { at, len: WORD });
            }
            Entry::Bytes { at, len, .. } | Entry::Zero { at, len } => {
                return Err(Damage::Record { at, len });
            }
        }
    }
    Ok(logged)
}
