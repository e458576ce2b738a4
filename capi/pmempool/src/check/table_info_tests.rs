//! Repairs of info blocks write where a question was asked, and nowhere else. Sizes in them that no table has are refused.

use super::Verdict;
use super::dialog::Flags;
use super::interruptions::{ALL, START, pool, repair};
use lode_nvdimm::StoredBtt;
use std::fs;

/// Offsets of words in an info block.
const EXTERNAL_NLBA: usize = 0x3c;
const INTERNAL_LBASIZE: usize = 0x40;
const INFOOFF: usize = 0x70;

/// Changes the info block at the table's start, and gives it a checksum for that.
fn change(bytes: &mut [u8], at: usize, value: &[u8]) {
    let block: &mut [u8; StoredBtt::LEN] = bytes[START..].first_chunk_mut().unwrap();
    block[at..at + value.len()].copy_from_slice(value);
    StoredBtt::store_checksum(block);
}

#[test]
fn consistent_table_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let (mut bytes, geometry) = pool();
    // Blocks of the user.
    let data = geometry.dataoff() + 8192;
    bytes[START + data as usize..][..4096].fill(0xA5);
    change(&mut bytes, INFOOFF, &data.to_le_bytes());
    fs::write(&path, &bytes).unwrap();
    let (verdict, texts) = repair(&path, ALL);
    assert_eq!(verdict, Verdict::Consistent, "{texts:?}");
    assert!(fs::read(&path).unwrap() == bytes, "a consistent pool stays as it is");
}

#[test]
fn copy_is_not_restored_at_another_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let (mut bytes, _) = pool();
    // The copy is looked up at the new end.
    bytes.resize(bytes.len() + (1 << 20), 0);
    fs::write(&path, &bytes).unwrap();
    let (verdict, texts) = repair(&path, ALL);
    assert_eq!(verdict, Verdict::CannotRepair, "{texts:?}");
    assert!(fs::read(&path).unwrap() == bytes, "{texts:?}");
}

#[test]
fn sizes_that_no_table_has_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let (sound, geometry) = pool();
    let blocks = geometry.internal_nlba();
    for (at, value, want, words) in [
        (INTERNAL_LBASIZE, 1, Verdict::Error, "cannot read BTT Map"),
        (INTERNAL_LBASIZE, 511, Verdict::Error, "cannot read BTT Map"),
        (EXTERNAL_NLBA, u32::MAX, Verdict::Error, "cannot read BTT Map"),
        (EXTERNAL_NLBA, blocks + 1, Verdict::CannotRepair, "more entries than blocks"),
    ] {
        let mut bytes = sound.clone();
        change(&mut bytes, at, &value.to_le_bytes());
        fs::write(&path, &bytes).unwrap();
        let (verdict, texts) = repair(&path, ALL);
        assert!(verdict == want && texts.concat().contains(words), "{at:#x} {value} {verdict:?}: {texts:?}");
        assert!(fs::read(&path).unwrap() == bytes);
    }
}

/// A map of one block alone has more damage than statuses may wait: the check waits, and the program gets all of them.
#[test]
fn statuses_of_much_damage_are_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let (mut bytes, geometry) = pool();
    let entries = geometry.external_nlba() as usize;
    bytes[START + geometry.mapoff() as usize..][..entries * 4]
        .copy_from_slice(vec![0xC000_0000_u32.to_le_bytes(); entries].as_flattened());
    fs::write(&path, &bytes).unwrap();
    let (verdict, texts) = repair(&path, Flags::VERBOSE | Flags::FORMAT_STR);
    let doubled = texts.iter().filter(|text| text.contains("duplicated at")).count();
    assert_eq!((verdict, doubled), (Verdict::NotConsistent, entries - 1));
    let unmapped = texts.iter().filter(|text| text.contains("unmapped block ")).count();
    assert_eq!(unmapped, geometry.internal_nlba() as usize - 1 - geometry.nfree() as usize);
}
