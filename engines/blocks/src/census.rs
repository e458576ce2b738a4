//! The owners of all data blocks.

use crate::error::Damage;
use crate::segments::Segments;
use lode_layout::{BLOCK, BlockMapWord, Entry, Geometry, WORD};
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
pub(crate) struct Census<'s> {
    segments: &'s Segments,
    /// A bit for each data block that a map word names.
    used: Vec<u64>,
    /// The damages of the map, at most 1000.
    pub(crate) damages: Vec<Damage>,
    /// The map words that the log has.
    logged: BTreeMap<u64, u64>,
}

impl<'s> Census<'s> {
    /// Reads the log and the map.
    ///
    /// # Errors
    /// Fails if the log has entries for other places than the map. A log that can't be read otherwise counts as empty: its
    /// own recovery says so.
    pub(crate) fn take<M: Medium>(
        medium: &M,
        geometry: &Geometry,
        uuid: &[u8; 16],
        segments: &'s Segments,
    ) -> Result<Census<'s>, Damage> {
        let logged = logged_words(medium, geometry, uuid, segments)?;
        let used = vec![0; segments.data_count().div_ceil(u64::BITS.into()) as usize];
        let mut census = Census { segments, used, damages: Vec::new(), logged };
        census.for_each_word(medium, |census, lba, word| match word {
            Ok(Some(word)) => census.note(lba, word),
            // A lost block has no data block, and no other damage: its opening must not end the census.
            Ok(None) | Err(Damage::Lost { .. }) => {}
            Err(damage) => census.damages.push(damage),
        })?;
        Ok(census)
    }

    /// Calls `with` for each map word, and once for each part of the map that can't be read, until there is too much damage.
    pub(crate) fn for_each_word<M: Medium>(
        &mut self,
        medium: &M,
        mut with: impl FnMut(&mut Census<'s>, u64, Result<Option<BlockMapWord>, Damage>),
    ) -> Result<(), Damage> {
        let mut part = [0; MAP_PART as usize];
        let parts = self.segments.iter().flat_map(|segment| {
            let end = segment.first_block + segment.block_count;
            let first = (segment.first_block..end).step_by((MAP_PART / WORD) as usize);
            first.map(move |first| first..end.min(first + MAP_PART / WORD))
        });
        for lbas in parts {
            let first = lbas.start;
            let bytes = &mut part[..((lbas.end - first) * WORD) as usize];
            let at = self.segments.word_at(first);
            if let Err(fault) = medium.memory().reading(|memory| memory.read(at, bytes)) {
                with(self, first, Err(fault.into()));
                continue;
            }
            let (words, _) = bytes.as_chunks_mut::<{ WORD as usize }>();
            for (lba, word) in self.logged.range(lbas.clone()) {
                words[(lba - first) as usize] = word.to_le_bytes();
            }
            for (lba, word) in lbas.zip(words) {
                let word = self.segments.decode(lba, u64::from_le_bytes(*word));
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
            let at = self.segments.word_at(lba);
            self.damages.push(Damage::TwoOwners { lba, at, block: word.block });
        }
        *bits |= bit;
    }

    /// Returns the data blocks that no map word names, the last one first.
    pub(crate) fn free_blocks(&self) -> Vec<u32> {
        let is_free = |block: &u32| self.used[(block / u64::BITS) as usize] & 1 << (block % u64::BITS) == 0;
        (0..self.segments.data_count() as u32).rev().filter(is_free).collect()
    }
}

/// Returns the map words in the records that a recovery replays.
fn logged_words<M: Medium>(
    medium: &M,
    geometry: &Geometry,
    uuid: &[u8; 16],
    segments: &Segments,
) -> Result<BTreeMap<u64, u64>, Damage> {
    let mut logged = BTreeMap::new();
    let slot = medium.memory().reading(|memory| slots::read(memory, uuid))?;
    let Some(slot) = slot else { return Ok(logged) };
    let scan = LogScan::read(medium, LogArea::of(geometry), uuid, &slot).map_err(Damage::Log)?;
    for entry in scan.records.iter().flat_map(|record| record.entries()) {
        match entry {
            Entry::Payload { .. } | Entry::Continue { .. } => {}
            Entry::Words { at, words } => {
                let (lba, room) = segments.block_of(at).unwrap_or_default();
                if words.len() as u64 > room {
                    return Err(Damage::Record { at, len: words.len() as u64 * WORD });
                }
                logged.extend((lba..).zip(words.iter().copied()));
            }
            Entry::SetBits { at, .. } | Entry::ClearBits { at, .. } => {
                return Err(Damage::Record { at, len: WORD });
            }
            Entry::Bytes { at, len, .. } | Entry::Zero { at, len } => {
                return Err(Damage::Record { at, len });
            }
            Entry::Cover(entry) => {
                let (at, len) = entry.range();
                return Err(Damage::Record { at, len });
            }
        }
    }
    Ok(logged)
}
