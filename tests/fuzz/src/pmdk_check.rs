//! The check of a pool of PMDK: any content gets a result, and a repaired pool can be checked again.

use lode_capi_pmempool::repair_everything;
use lode_layout::{BLOCK, PmdkBlk, PmdkHeader, PmdkKind, PmdkLog};
use lode_nvdimm::{BttDialect, BttFlog, BttGeometry, BttInfo, BttRules, BttVersion};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use uuid::Uuid;

/// Bytes of the pool.
const LEN: u64 = 256 << 10;
/// Offset of the table.
const TABLE: u64 = PmdkBlk::TABLE_OFF;
/// Result of a check that met an error, and of a pool that is repaired.
const ERROR: i32 = 4;
const REPAIRED: i32 = 2;

/// Repairs a pool whose structures are the bytes. The first one chooses between a pool and a table alone.
pub fn run(data: &[u8]) {
    let path = std::env::temp_dir().join(format!("lode-fuzz-pmdk-check-{}", std::process::id()));
    let is_table = data.first().is_some_and(|byte| byte & 1 == 1);
    make(&path, data, is_table).expect("the folder for temporary files can be written");
    if let Some((texts, result)) = repair_everything(&path, is_table) {
        let is_broken = texts.iter().any(|text| text.starts_with("internal error"));
        let again = (result == REPAIRED).then(|| repair_everything(&path, is_table));
        let is_lost = again.is_some_and(|again| again.is_none_or(|(_, result)| result == ERROR));
        if is_broken || is_lost {
            // The library, which is linked here, silences panics.
            eprintln!("{texts:?}");
        }
        assert!(!is_broken && !is_lost);
    }
    drop(std::fs::remove_file(path));
}

/// Places of the structures in the pool, with their bytes in the input.
fn places() -> Vec<(u64, usize)> {
    let geometry = geometry();
    vec![
        (0, PmdkHeader::LEN),
        (4096, 64),
        (TABLE, 4096),
        (TABLE + geometry.infooff(), 4096),
        (TABLE + geometry.mapoff(), 256),
        (TABLE + geometry.flogoff(), 1024),
    ]
}

fn geometry() -> BttGeometry {
    BttGeometry::arena(LEN - TABLE, &BttRules::pmdk(512), true).expect("the pool has room for an arena")
}

fn make(path: &Path, data: &[u8], is_table: bool) -> io::Result<()> {
    let file = File::create(path)?;
    // A table alone begins where the descriptor of a pool lies.
    let shift = if is_table { TABLE - BLOCK } else { 0 };
    file.set_len(LEN - shift)?;
    let mut left = data.get(1..).unwrap_or_default();
    for (at, len) in places() {
        let (bytes, rest) = left.split_at(len.min(left.len()));
        file.write_all_at(bytes, if at < TABLE { at } else { at - shift })?;
        left = rest;
    }
    Ok(())
}

/// Returns a log pool, a block pool with its table, and such a table alone.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let [poolset_uuid, uuid] = [1, 2].map(Uuid::from_u128);
    let header = |kind| PmdkHeader::new(kind, poolset_uuid, uuid, 3).encode().to_vec();
    let page = |bytes: &[u8], len: usize| [bytes, &vec![0; len - bytes.len()]].concat();
    let mut log = PmdkLog::plan(PmdkLog::SIZE_MIN).expect("the least size is large enough").encode();
    log[8..16].copy_from_slice(&LEN.to_le_bytes());
    let geometry = geometry();
    let version = BttVersion::V1_1;
    let info = BttInfo { uuid, parent_uuid: poolset_uuid, is_read_only: false, version, geometry }.encode();
    let flog = BttFlog::new(&geometry, BttDialect::Pmdk).encode();
    let descriptor = PmdkBlk { block_size: 512, is_zeroed: true }.encode();
    let table = [&page(&descriptor, 64), &info[..], &info[..], &[0; 256], &flog[..1024]].concat();
    vec![
        ("log", [vec![0], header(PmdkKind::Log), page(&log, 64)].concat()),
        ("blocks", [vec![0], header(PmdkKind::Blocks), table.clone()].concat()),
        ("table", [vec![1], vec![0; PmdkHeader::LEN], table].concat()),
    ]
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn changed_seeds_get_a_result() {
        crate::run_mixed_seeds(&seeds(), 60, run);
    }
}
