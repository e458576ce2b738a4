//! The use of each byte of a range is that which a search of the map for this byte alone finds.

use crate::disk::{ARENA_LEN, block};
use fastrand::Rng;
use lode_btt::{Btt, BttError, Plan, PoolUuids, TablePiece, TablePieces, format_content};
use lode_layout::{PmdkBlk, PmdkHeader, PmdkKind, PoolOffset};
use lode_nvdimm::{BttGeometry, BttInfo, BttMapEntry, BttRules, BttVersion};
use lode_pmem::Medium;
use lode_testing::{memory, scaled, seed};
use std::sync::Arc;
use uuid::Uuid;

const UUIDS: PoolUuids = PoolUuids { poolset: Uuid::from_u128(1), part: Uuid::from_u128(2) };
const START: u64 = PmdkBlk::TABLE_OFF;

/// A table whose content is searched.
struct Searched {
    bytes: Vec<u8>,
    arenas: Vec<(u64, BttGeometry)>,
    /// Number of map entries of each arena that can be read.
    entries: u64,
}

impl Searched {
    fn of<M: Medium>(medium: &M) -> Searched {
        let bytes = memory::bytes(medium);
        let mut start = START;
        let mut arenas = Vec::new();
        loop {
            let geometry = BttInfo::decode(&bytes[start as usize..]).unwrap().geometry;
            arenas.push((start, geometry));
            let Some(len) = geometry.nextoff() else { break };
            start += len;
        }
        Searched { bytes, arenas, entries: u64::MAX }
    }

    /// Returns the use of a byte of the table; `None` if it depends on a map entry that can't be read.
    fn piece_at(&self, at: u64) -> Option<TablePiece> {
        let mut first = 0;
        for (arena, (start, geometry)) in (0..).zip(&self.arenas) {
            if let Some(off) = at.checked_sub(*start).filter(|off| *off < geometry.infooff() + 4096) {
                return self.piece_of_arena([arena, first], *start, geometry, off);
            }
            first += u64::from(geometry.external_nlba());
        }
        Some(TablePiece::Unused)
    }

    fn piece_of_arena(
        &self,
        [arena, first]: [u64; 2],
        start: u64,
        geometry: &BttGeometry,
        off: u64,
    ) -> Option<TablePiece> {
        let arena = arena as u32;
        let entry = |lba: u64| {
            let at = (start + geometry.mapoff() + lba * BttMapEntry::LEN) as usize;
            BttMapEntry::decode(self.bytes[at..at + 4].try_into().unwrap())
        };
        let blocks = u64::from(geometry.external_nlba());
        let len = u64::from(geometry.internal_lbasize());
        if off < 4096 || off >= geometry.infooff() {
            return Some(TablePiece::Info(arena));
        }
        if off >= geometry.flogoff() {
            return Some(TablePiece::Flog(arena));
        }
        if off >= geometry.mapoff() {
            let lba = (off - geometry.mapoff()) / BttMapEntry::LEN;
            let is_entry = lba < blocks;
            let entry = TablePiece::Map { arena, block: first + lba };
            return Some(if is_entry { entry } else { TablePiece::Unused });
        }
        let Some(inside) = off.checked_sub(geometry.dataoff()) else { return Some(TablePiece::Unused) };
        let number = inside / len;
        if number >= geometry.internal_nlba().into() {
            return Some(TablePiece::Unused);
        }
        let readable = blocks.min(self.entries);
        match (0..readable).find(|lba| u64::from(entry(*lba).block(*lba as u32)) == number) {
            Some(lba) => Some(TablePiece::Block { arena, block: first + lba, off: inside % len }),
            None => (readable == blocks).then_some(TablePiece::Free(arena)),
        }
    }

    /// Checks that bytes of random ranges have the use that was searched. Returns the number of those that have none.
    fn assert_same<M: Medium>(&self, rng: &mut Rng, medium: &M, case: usize) -> usize {
        let size = self.bytes.len() as u64;
        let mut unknown = 0;
        for _ in 0..8 {
            let start = rng.u64(START..size - 1);
            let len_max = (size - start).min(1 << rng.u32(1..25));
            let end = start + rng.u64(1..=len_max);
            let mut pieces = TablePieces::new(medium, UUIDS, start..end).unwrap();
            for at in [start, end - 1].into_iter().chain((0..12).map(|_| rng.u64(start..end))) {
                let at_byte = format!("case {case}, byte {at:#x} of {start:#x}..{end:#x}");
                match (pieces.piece_at(PoolOffset::new(at)), self.piece_at(at)) {
                    (found, Some(wanted)) => assert_eq!(found, Ok(wanted), "{at_byte}"),
                    (Err(BttError::Memory(_)), None) => unknown += 1,
                    (found, None) => panic!("{at_byte}: {found:?}"),
                }
            }
        }
        unknown
    }
}

/// Writes random blocks of a table, and stores entries with a block of data that another entry has, or that does not exist.
fn change<M: Medium>(rng: &mut Rng, medium: &Arc<M>) {
    let btt = Btt::open_pool(Arc::clone(medium), UUIDS).unwrap();
    for _ in 0..400 {
        let lba = rng.u64(..btt.block_count());
        btt.write(lba, &block(&btt, lba)).unwrap();
    }
    drop(btt);
    for (start, geometry) in Searched::of(medium).arenas {
        for _ in 0..rng.u64(..3) * 40 {
            let lba = rng.u64(..u64::from(geometry.external_nlba()));
            let word = 0xc000_0000 | rng.u32(..geometry.internal_nlba() + 100);
            medium.store(PoolOffset::new(start + geometry.mapoff() + lba * 4), &word.to_le_bytes());
        }
    }
}

#[test]
fn pieces_of_a_range_are_those_of_its_bytes() {
    let mut rng = Rng::with_seed(seed(0x9e1c));
    for case in 0..scaled(12) as usize {
        let size = (17 << 20) + rng.u64(..1 << 12) * 4096;
        let medium = Arc::new(memory::persistent(size));
        format_content(&medium, [512, 520, 4096][case % 3], true).unwrap();
        change(&mut rng, &medium);
        assert_eq!(Searched::of(&medium).assert_same(&mut rng, &medium, case), 0);
    }
}

#[test]
fn pieces_of_several_arenas_have_the_numbers_of_the_table() {
    let mut rng = Rng::with_seed(seed(0x9e1d));
    for case in 0..scaled(12) as usize {
        let (arenas, lbasize) = (2 + case as u64 % 2, [512, 520, 4096][case % 3]);
        let rules = BttRules { nfree: 2, ..BttRules::pmdk(lbasize) };
        let arena = |index| {
            let geometry = BttGeometry::arena(ARENA_LEN, &rules, index + 1 == arenas).unwrap();
            (START + index * ARENA_LEN, geometry)
        };
        let plan = Plan::of_arenas(UUIDS.part, BttVersion::V1_1, (0..arenas).map(arena).collect());
        let header = PmdkHeader::new(PmdkKind::Blocks, UUIDS.poolset, UUIDS.part, 1);
        let medium = Arc::new(memory::persistent(START + arenas * ARENA_LEN + 4096));
        plan.in_new_pool(header).format(&medium).unwrap();
        change(&mut rng, &medium);
        let searched = Searched::of(&medium);
        assert_eq!(searched.arenas.len() as u64, arenas);
        assert_eq!(searched.assert_same(&mut rng, &medium, case), 0);
    }
}

/// Blocks whose entries lie before the lost memory are known.
#[test]
fn lost_map_hides_the_blocks_of_the_rest() {
    let mut rng = Rng::with_seed(seed(0x9e1e));
    let mut unknown = 0;
    for case in 0..scaled(12) as usize {
        let (file, mapping) = memory::file(17 << 20);
        let medium = Arc::new(mapping);
        format_content(&medium, [512, 520, 4096][case % 3], true).unwrap();
        change(&mut rng, &medium);
        let mut searched = Searched::of(&medium);
        let (_, geometry) = searched.arenas[0];
        let pages = rng.u64(..u64::from(geometry.external_nlba()).div_ceil(1024));
        file.set_len(START + geometry.mapoff() + pages * 4096).unwrap();
        searched.entries = pages * 1024;
        unknown += searched.assert_same(&mut rng, &medium, case);
    }
    assert!(unknown > 0);
}

#[test]
fn bytes_outside_of_the_range_are_refused() {
    let medium = Arc::new(memory::persistent(17 << 20));
    format_content(&medium, 512, true).unwrap();
    change(&mut Rng::with_seed(1), &medium);
    let (start, end) = (START + 0x5000, START + 0x7000);
    let mut pieces = TablePieces::new(&medium, UUIDS, start..end).unwrap();
    for at in [0, start - 1, end, u64::MAX].map(PoolOffset::new) {
        assert_eq!(pieces.piece_at(at), Err(BttError::OutsideOfRange { at, start, end }));
    }
    assert!(pieces.piece_at(PoolOffset::new(end - 1)).is_ok());
}
