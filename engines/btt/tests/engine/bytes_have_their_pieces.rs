//! The use of each byte of a range is that which a search of the map for this byte alone finds.

use crate::disk::{block, put};
use fastrand::Rng;
use lode_btt::{Btt, PoolUuids, TablePiece, TablePieces, format_content};
use lode_layout::{PmdkBlk, PoolOffset};
use lode_nvdimm::{BttGeometry, BttInfo, BttMapEntry};
use lode_testing::{memory, scaled, seed};
use std::sync::Arc;
use uuid::Uuid;

const UUIDS: PoolUuids = PoolUuids { poolset: Uuid::from_u128(1), part: Uuid::from_u128(2) };
const START: u64 = PmdkBlk::TABLE_OFF;

/// Returns the use of a byte of the table with this content.
fn searched(bytes: &[u8], geometry: &BttGeometry, at: u64) -> TablePiece {
    let off = at - START;
    let entry = |lba: u64| {
        let at = (START + geometry.mapoff() + lba * BttMapEntry::LEN) as usize;
        BttMapEntry::decode(bytes[at..at + 4].try_into().unwrap())
    };
    let blocks = u64::from(geometry.external_nlba());
    let len = u64::from(geometry.internal_lbasize());
    if off < 4096 || off >= geometry.infooff() {
        return TablePiece::Info(0);
    }
    if off >= geometry.flogoff() {
        return TablePiece::Flog(0);
    }
    if off >= geometry.mapoff() {
        let block = (off - geometry.mapoff()) / BttMapEntry::LEN;
        return if block < blocks { TablePiece::Map { arena: 0, block } } else { TablePiece::Unused };
    }
    let Some(inside) = off.checked_sub(geometry.dataoff()) else { return TablePiece::Unused };
    let number = inside / len;
    if number >= geometry.internal_nlba().into() {
        return TablePiece::Unused;
    }
    match (0..blocks).find(|lba| u64::from(entry(*lba).block(*lba as u32)) == number) {
        Some(block) => TablePiece::Block { arena: 0, block, off: inside % len },
        None => TablePiece::Free(0),
    }
}

#[test]
fn pieces_of_a_range_are_those_of_its_bytes() {
    let mut rng = Rng::with_seed(seed(0x9e1c));
    for case in 0..scaled(12) {
        let size = (17 << 20) + rng.u64(..1 << 12) * 4096;
        let medium = Arc::new(memory::persistent(size));
        format_content(&medium, [512, 520, 4096][case as usize % 3], true).unwrap();
        let btt = Btt::open_pool(Arc::clone(&medium), UUIDS).unwrap();
        for _ in 0..400 {
            let lba = rng.u64(..btt.block_count());
            btt.write(lba, &block(&btt, lba)).unwrap();
        }
        drop(btt);
        let info = &memory::bytes(&medium)[START as usize..];
        let geometry = BttInfo::decode(&info[..4096]).unwrap().geometry;
        // Entries with a block of data that another entry has, or that does not exist.
        for _ in 0..rng.u64(..3) * 40 {
            let lba = rng.u64(..u64::from(geometry.external_nlba()));
            let word = 0xc000_0000 | rng.u32(..geometry.internal_nlba() + 100);
            put(&medium, START + geometry.mapoff() + lba * 4, &word.to_le_bytes());
        }
        let bytes = memory::bytes(&medium);
        for _ in 0..8 {
            let start = rng.u64(START..size - 1);
            let len_max = (size - start).min(1 << rng.u32(1..25));
            let end = start + rng.u64(1..=len_max);
            let mut pieces = TablePieces::new(&medium, UUIDS, start..end).unwrap();
            for at in [start, end - 1].into_iter().chain((0..12).map(|_| rng.u64(start..end))) {
                let found = pieces.piece_at(PoolOffset::new(at)).unwrap();
                let inside = at < START + geometry.infooff() + 4096;
                let wanted = if inside { searched(&bytes, &geometry, at) } else { TablePiece::Unused };
                assert_eq!(found, wanted, "case {case}, byte {at:#x} of {start:#x}..{end:#x}");
            }
        }
    }
}
