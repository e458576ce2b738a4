//! The owners of the blocks of an arena: the check that map and flog are consistent.

use crate::{BttDamage, BttFlog, BttFlogEntry, BttGeometry, BttMapEntry};
use std::collections::BTreeMap;

/// A count of the owners of blocks. Each block of the data has exactly one owner: an external block, or a lane whose
/// free block it is. The count takes one bit of DRAM for each block.
#[derive(Clone, Debug)]
pub struct BttBlockCheck {
    external_nlba: u32,
    internal_nlba: u32,
    /// One bit for each block: set when its owner was seen.
    owned: Vec<u64>,
    /// Writes that may not have reached the map yet, by external block.
    writes: BTreeMap<u32, Vec<BttFlogEntry>>,
    next_lba: u32,
}

impl BttBlockCheck {
    /// Starts the count with the free blocks of an arena.
    ///
    /// # Errors
    /// Fails if two lanes have the same free block.
    pub fn new(geometry: &BttGeometry, flog: &BttFlog) -> Result<BttBlockCheck, BttDamage> {
        let (external_nlba, internal_nlba) = (geometry.external_nlba(), geometry.internal_nlba());
        let owned = vec![0; (internal_nlba as usize).div_ceil(64)];
        let mut check =
            BttBlockCheck { external_nlba, internal_nlba, owned, writes: BTreeMap::new(), next_lba: 0 };
        for entry in flog.current() {
            check.own(entry.free_block())?;
            if entry.free_block() != entry.written_block() {
                check.writes.entry(entry.lba).or_default().push(entry);
            }
        }
        Ok(check)
    }

    /// Counts the next bytes of the map, a whole number of entries. Ignores bytes after the last entry. For a map entry
    /// that an interrupted write did not reach, counts the value that opening the table would set.
    ///
    /// # Errors
    /// Fails if an entry names a block that does not exist, or a block that already has an owner.
    pub fn map(&mut self, bytes: &[u8]) -> Result<(), BttDamage> {
        for bytes in bytes.as_chunks::<4>().0 {
            let lba = self.next_lba;
            if lba == self.external_nlba {
                return Ok(());
            }
            let found = BttMapEntry::decode(*bytes).block(lba);
            if found >= self.internal_nlba {
                return Err(BttDamage::MapNumber { lba, found, internal_nlba: self.internal_nlba });
            }
            let unfinished = self.writes.get(&lba).into_iter().flatten();
            let block = unfinished
                .filter(|entry| entry.free_block() == found)
                .map(BttFlogEntry::written_block)
                .next()
                .unwrap_or(found);
            self.own(block)?;
            self.next_lba += 1;
        }
        Ok(())
    }

    /// Ends the check, after all bytes of the map.
    ///
    /// # Errors
    /// Fails if a block has no owner.
    pub fn finish(self) -> Result<(), BttDamage> {
        let is_owned = |block: u32| self.owned[block as usize / 64] & 1 << (block % 64) != 0;
        match (0..self.internal_nlba).find(|block| !is_owned(*block)) {
            Some(block) => Err(BttDamage::Lost { block }),
            None => Ok(()),
        }
    }

    fn own(&mut self, block: u32) -> Result<(), BttDamage> {
        let bit = 1 << (block % 64);
        let word = self.owned.get_mut(block as usize / 64).ok_or(BttDamage::Lost { block })?;
        if *word & bit != 0 {
            return Err(BttDamage::Shared { block });
        }
        *word |= bit;
        Ok(())
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::{BttBlockState, BttDialect, BttVersion};

    fn geometry() -> BttGeometry {
        BttGeometry::plan(16 << 20, 4096, BttVersion::V2_0).unwrap()[0].1
    }

    /// Counts with this flog entry for lane 3 and these numbers in the map.
    fn count(flog: Option<[u32; 4]>, map: &[(u32, u32)]) -> Result<(), BttDamage> {
        let geometry = geometry();
        let mut bytes = BttFlog::new(&geometry, BttDialect::Kernel).encode();
        if let Some(words) = flog {
            let entry = &mut bytes[3 * 64..][..16];
            entry.copy_from_slice(words.map(u32::to_le_bytes).as_flattened());
        }
        let mut check = BttBlockCheck::new(&geometry, &BttFlog::decode(&bytes, &geometry)?)?;
        let mut bytes = vec![0; (geometry.flogoff() - geometry.mapoff()) as usize];
        for (lba, number) in map {
            let entry = BttMapEntry { state: BttBlockState::Normal, number: *number };
            bytes[*lba as usize * 4..][..4].copy_from_slice(&entry.encode());
        }
        for part in bytes.chunks(4096) {
            check.map(part)?;
        }
        check.finish()
    }

    #[test]
    #[cfg_attr(miri, ignore = "minutes in the interpreter: in `make soak`")]
    fn each_block_has_one_owner() {
        let free = geometry().external_nlba() + 3;
        assert_eq!(count(None, &[]), Ok(()), "a new table");
        assert_eq!(count(Some([8, 8, free, 1]), &[(8, free)]), Ok(()), "a write that is done");
        assert_eq!(count(Some([8, 8, free, 1]), &[]), Ok(()), "one that the map lacks");
        assert_eq!(count(None, &[(8, 9), (9, 8)]), Ok(()), "two that changed places");
        assert_eq!(count(None, &[(8, free)]), Err(BttDamage::Shared { block: free }));
        assert_eq!(count(None, &[(8, 7)]), Err(BttDamage::Shared { block: 7 }));
        assert_eq!(count(Some([8, free - 1, free, 1]), &[]), Err(BttDamage::Shared { block: free - 1 }));
        let mut one_short =
            BttBlockCheck::new(&geometry(), &BttFlog::new(&geometry(), BttDialect::Kernel)).unwrap();
        one_short.map(&[0; 4]).unwrap();
        assert_eq!(one_short.finish(), Err(BttDamage::Lost { block: 1 }));
        let number = geometry().internal_nlba();
        let found = BttDamage::MapNumber { lba: 8, found: number, internal_nlba: number };
        assert_eq!(count(None, &[(8, number)]), Err(found));
    }
}
