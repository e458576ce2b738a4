//! A whole block translation table: checking, repairing, opening and using it end without a panic, for any bytes.

use lode_btt::{Btt, Plan, check, repair};
use lode_nvdimm::{BttGeometry, BttRules, BttVersion, InfoBlockError, store_fletcher64};
use lode_pmem::Mapping;
use lode_testing::memory;
use std::sync::Arc;
use uuid::Uuid;

/// Bytes of an arena. It is small, so most of its bytes have a meaning.
const ARENA_LEN: u64 = 20 << 10;
/// Bytes of the medium of two arenas.
const MEDIUM_LEN: u64 = BttVersion::V1_1.arenas_off() + 2 * ARENA_LEN;
/// Bytes of one change to the table: the offset in words of 4 bytes, then the new word.
const CHANGE: usize = 6;
/// Bytes of an info block.
const INFO_LEN: usize = 4096;
/// Bytes of the checksum at the end of an info block.
const SUM_LEN: usize = 8;

/// Applies the bytes as changes to a sound table, as they are, and again with valid checksums of the info blocks.
pub fn run(data: &[u8]) {
    let Ok((mut bytes, infos)) = sound_table() else { return };
    for change in data.chunks_exact(CHANGE) {
        let (at, word) = change.split_at(CHANGE - 4);
        let at = usize::from(u16::from_le_bytes(at.try_into().unwrap_or_default())) * 4;
        if let Some(place) = bytes.get_mut(at..at + 4) {
            place.copy_from_slice(word);
        }
    }
    check_and_use(&bytes);
    for at in infos {
        store_fletcher64(&mut bytes[at..at + INFO_LEN], INFO_LEN - SUM_LEN);
    }
    check_and_use(&bytes);
}

/// Checks, opens, repairs and uses the table.
fn check_and_use(bytes: &[u8]) {
    let medium = Arc::new(memory::from_bytes(bytes));
    let findings = check(&medium);
    assert!(findings.iter().all(|finding| !finding.to_string().is_empty()));
    assert!(memory::bytes(&medium) == bytes, "a check stores nothing");
    use_blocks(&Arc::new(memory::from_bytes(bytes)));
    if repair(&medium).is_ok() {
        assert_eq!(check(&medium), []);
        use_blocks(&medium);
    }
}

fn use_blocks(medium: &Arc<Mapping>) {
    let Ok(btt) = Btt::open(Arc::clone(medium)) else { return };
    let mut block = vec![1; btt.block_size()];
    for lba in (0..btt.block_count()).take(16) {
        let is_written = btt.write(lba, &block).is_ok();
        let is_read = btt.read(lba, &mut block).is_ok();
        assert!(is_read || !is_written, "a block that was written can be read");
        let _ = btt.zero(lba, 1);
    }
}

/// Returns a table of two arenas, whose blocks were written, and the offsets of its info blocks.
fn sound_table() -> Result<(Vec<u8>, Vec<usize>), InfoBlockError> {
    let rules = BttRules { nfree: 2, ..BttRules::kernel(512) };
    let mut arenas = Vec::new();
    for index in 0..2 {
        let start = BttVersion::V1_1.arenas_off() + index * ARENA_LEN;
        arenas.push((start, BttGeometry::arena(ARENA_LEN, &rules, index == 1)?));
    }
    let infos = arenas.iter().flat_map(|(start, geometry)| [*start, start + geometry.infooff()]);
    let infos = infos.map(|at| at as usize).collect();
    let medium = Arc::new(memory::persistent(MEDIUM_LEN));
    Plan::of_arenas(Uuid::from_u128(1), BttVersion::V1_1, arenas).format(&medium).expect("memory");
    let btt = Btt::open(Arc::clone(&medium)).expect("a new table");
    for lba in 0..btt.block_count() {
        btt.write(lba, &[lba as u8; 512]).expect("a sound table");
    }
    Ok((memory::bytes(&medium), infos))
}

/// Returns changes in each part of a table: none, info block, map, flog.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let Ok((_, infos)) = sound_table() else { return Vec::new() };
    let (info, second) = (infos[0], infos[1]);
    let change = |at: usize, word: u32| {
        let mut bytes = ((at / 4) as u16).to_le_bytes().to_vec();
        bytes.extend_from_slice(&word.to_le_bytes());
        bytes
    };
    // The flog is the block before the second info block, the map the one before that.
    let (map, flog) = (second - 2 * INFO_LEN, second - INFO_LEN);
    vec![
        ("sound", Vec::new()),
        ("info", change(info + 0x44, 9)),
        ("nextoff", change(info + 0x50, 4096)),
        ("map", change(map + 4, 0xc000_0000)),
        ("map_number", change(map, u32::MAX)),
        ("flog_lba", change(flog, 77)),
        ("flog_seq", change(flog + 64 + 12, 0)),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn seeds_change_a_sound_table() {
        let (bytes, infos) = sound_table().unwrap();
        assert_eq!(check(&memory::from_bytes(&bytes)), []);
        assert_eq!(infos.len(), 4);
        assert!(seeds().iter().all(|(_, bytes)| bytes.len() % CHANGE == 0));
    }
}
