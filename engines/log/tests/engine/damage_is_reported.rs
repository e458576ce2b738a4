//! Rotten records are reported with their range, and the records after them are read; a torn end is no damage.

use crate::disk::{Disk, UUID, all};
use lode_layout::{Durability, PoolOffset};
use lode_log::{AppendLog, AppendLogError, Damage, check};
use lode_testing::{memory, scaled, seed};
use std::sync::Arc;

const CONTENTS: [&[u8]; 4] = [b"first", b"second", b"third", b"fourth"];

/// Makes a log of four records of a line, which nothing closed.
fn disk() -> Disk {
    let disk = Disk::new(64 << 10, Durability::Line);
    let log = disk.open();
    for content in CONTENTS {
        log.append(content).unwrap();
    }
    disk
}

#[test]
fn rotten_record_in_the_middle_is_reported_with_its_range() {
    // A byte of the content, and one of the header.
    for byte in [64 + 33, 64 + 9] {
        let disk = disk();
        disk.flip(disk.area_at() + byte);
        let damage = Damage::Records { position: 64, len: 64, at: PoolOffset::new(disk.area_at() + 64) };
        assert_eq!(disk.check(), [damage]);
        for _ in 0..2 {
            let log = disk.open();
            let found = all(&log);
            assert_eq!(found[1], Err(AppendLogError::Damaged(damage)), "byte {byte}");
            let intact: Vec<&[u8]> = found.iter().flatten().map(Vec::as_slice).collect();
            assert_eq!(intact, [CONTENTS[0], CONTENTS[2], CONTENTS[3]]);
        }
        disk.open().truncate(128).unwrap();
        assert_eq!(disk.check(), [], "the damage is dropped");
    }
}

#[test]
fn torn_last_record_is_the_end() {
    let disk = disk();
    disk.flip(disk.area_at() + 3 * 64 + 33);
    assert_eq!(disk.check(), []);
    let log = disk.open();
    assert_eq!(all(&log).len(), 3);
    assert_eq!(log.append(b"again"), Ok(3 * 64));
}

/// A frame counts with all of its records, or with none.
#[test]
fn rotten_frame_loses_all_of_its_records_and_no_others() {
    // A byte of the header, of the table and of the last content.
    for byte in [9, 33, 40 + 12] {
        let disk = Disk::new(64 << 10, Durability::Line);
        let log = disk.open();
        let range = log.append_batch(&[b"one", b"two", b"three", b"four"]).unwrap();
        disk.flip(disk.area_at() + byte);
        let mut into = Vec::new();
        let damage = Damage::Records { position: 0, len: 64, at: PoolOffset::new(disk.area_at()) };
        for position in range.start..range.start + 4 {
            let error = log.read(position, &mut into).unwrap_err();
            let expected = match byte {
                9 => AppendLogError::NoRecord { position },
                _ => AppendLogError::Damaged(damage),
            };
            assert_eq!(error, expected);
        }
        let next = log.append(b"next").unwrap();
        assert_eq!(all(&log), [Err(AppendLogError::Damaged(damage)), Ok(b"next".to_vec())], "byte {byte}");
        assert_eq!((next, disk.check()), (64, vec![damage]));
        drop(log);
        assert_eq!(all(&disk.open()), [Err(AppendLogError::Damaged(damage)), Ok(b"next".to_vec())]);
    }
}

#[test]
fn torn_last_frame_is_the_end() {
    let disk = Disk::new(256 << 10, Durability::Line);
    let log = disk.open();
    log.append(b"whole").unwrap();
    // Two frames; the second one is torn.
    let records = [&[1; 3000][..], &[2; 1000], &[3; 500], &[4; 100]];
    log.append_batch(&records).unwrap();
    drop(log);
    disk.flip(disk.area_at() + 64 + 4096 + 100);
    assert_eq!(disk.check(), []);
    let log = disk.open();
    let found: Vec<Vec<u8>> = all(&log).into_iter().map(Result::unwrap).collect();
    assert_eq!(found, [&b"whole"[..], records[0], records[1]]);
    assert_eq!(log.append(b"again"), Ok(64 + 4096));
}

#[test]
fn last_record_that_was_noted_is_damage() {
    let disk = disk();
    disk.open().close().unwrap();
    disk.flip(disk.area_at() + 3 * 64 + 33);
    let at = PoolOffset::new(disk.area_at() + 3 * 64);
    assert_eq!(disk.check(), [Damage::Records { position: 3 * 64, len: 64, at }]);
}

#[test]
fn one_copy_of_descriptor_and_state_is_enough() {
    for at in [0, 0x800, 0x400, 0xc00] {
        let disk = disk();
        disk.open().close().unwrap();
        disk.flip(disk.descriptor_at() + at + 20);
        assert_eq!(disk.check().len(), 1);
        let log = disk.open();
        assert_eq!(all(&log).len(), 4);
        disk.flip(disk.descriptor_at() + (at ^ 0x800) + 20);
        log.close().unwrap();
    }
    let disk = disk();
    disk.open().close().unwrap();
    [0, 0x800].iter().for_each(|at| disk.flip(disk.descriptor_at() + at + 20));
    let before = memory::bytes(&disk.medium);
    assert!(matches!(disk.try_open(), Err(AppendLogError::Damaged(Damage::Descriptor { .. }))));
    assert!(memory::bytes(&disk.medium) == before, "an opening that is refused changes nothing");
}

/// No flipped bit of the pool makes the engine panic, and a record that can be read is one that was appended.
#[test]
fn flipped_bits_never_panic() {
    let disk = disk();
    let bytes = memory::bytes(&disk.medium);
    let mut rng = fastrand::Rng::with_seed(seed(3));
    let (mut opened, mut reported) = (0, 0);
    for _ in 0..scaled(1000) {
        let mut damaged = bytes.clone();
        for _ in 0..rng.usize(1..4) {
            let at = match rng.u8(..4) {
                0 => rng.usize(0x2000..0x8000),
                1 => disk.descriptor_at() as usize + rng.usize(..4096),
                _ => disk.area_at() as usize + rng.usize(..320),
            };
            damaged[at] ^= 1 << rng.u8(..8);
        }
        let medium = Arc::new(memory::from_bytes(&damaged));
        reported += check(&medium, &disk.geometry, &UUID).len();
        let Ok((log, _)) = AppendLog::open(medium, &disk.geometry, UUID, [9; 2]) else { continue };
        opened += 1;
        for content in all(&log).iter().flatten() {
            assert!(CONTENTS.contains(&content.as_slice()), "{content:?}");
        }
        let position = log.append(b"new").unwrap();
        let mut into = Vec::new();
        log.read(position, &mut into).unwrap();
        assert_eq!(into, b"new");
    }
    assert!(opened > 0 && reported > 0, "{opened} {reported}");
}
