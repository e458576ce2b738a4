//! Damage is reported: by the read of a block, by the opening of a pool, which changes nothing, and by the check.

use crate::disk::{Disk, UUID, block, read};
use lode_blocks::{Blocks, BlocksError, Damage};
use lode_layout::{BlockMapWord, Durability, PoolOffset, Want};
use lode_pmem::Medium;
use lode_testing::{memory, scaled, seed};
use std::sync::Arc;

/// Returns a closed pool whose blocks 0 and 1 are written.
fn disk() -> Disk {
    let disk = Disk::new(256 << 10, 512, Durability::Line);
    let blocks = disk.open();
    for lba in [0, 1] {
        blocks.write(lba, &block(&blocks, lba + 1)).unwrap();
    }
    blocks.close().unwrap();
    assert_eq!(disk.check(), []);
    disk
}

/// Fails unless the opening is refused with this damage, changes nothing, and the check finds it.
fn is_refused(disk: &Disk, damage: Damage) {
    let before = memory::bytes(&disk.medium);
    assert_eq!(disk.try_open().unwrap_err(), BlocksError::Damaged(damage));
    assert!(memory::bytes(&disk.medium) == before, "an opening that is refused changes nothing");
    assert!(disk.check().contains(&damage), "{:?}", disk.check());
}

#[test]
fn rotten_content_is_an_error_with_its_range() {
    let disk = disk();
    let word = BlockMapWord::decode(disk.word(disk.word_at(1)), u64::from(u32::MAX)).unwrap().unwrap();
    let blocks = disk.open();
    let content = disk.medium.memory();
    let bytes = memory::bytes(&disk.medium);
    let first = block(&blocks, 2);
    let at = bytes.windows(512).position(|window| window == first).unwrap() as u64;
    assert_eq!(content.reading(|memory| memory.load8(PoolOffset::new(at))).unwrap(), 2);
    disk.put(at + 8, &[3]);
    let damage = Damage::Rotten { lba: 1, at: PoolOffset::new(at), len: 512 };
    let mut into = block(&blocks, 0);
    assert_eq!(blocks.read(1, &mut into), Err(BlocksError::Damaged(damage)), "{word:?}");
    blocks.read_unchecked(1, &mut into).unwrap();
    assert_eq!(into[8], 3);
    assert_eq!(read(&blocks, 0), block(&blocks, 1), "other blocks can be read");
    assert_eq!(disk.check(), [damage]);
    blocks.write(1, &into).unwrap();
    assert_eq!(disk.check(), [], "a write ends the damage");
}

#[test]
fn data_block_with_two_owners_is_damage() {
    let disk = disk();
    let word = disk.word(disk.word_at(0));
    disk.put(disk.word_at(1), &word.to_le_bytes());
    let block = BlockMapWord::decode(word, u64::from(u32::MAX)).unwrap().unwrap().block;
    is_refused(&disk, Damage::TwoOwners { lba: 1, at: PoolOffset::new(disk.word_at(1)), block });
}

#[test]
fn data_block_out_of_range_is_damage() {
    let disk = disk();
    let blocks = disk.open();
    let data_count = blocks.block_count() + blocks.spare_count();
    blocks.close().unwrap();
    for (number, want) in [
        (data_count + 1, Want::AtMost(data_count)),
        (u64::from(u32::MAX - 1), Want::AtMost(data_count)),
        (0, Want::AtLeast(1)),
    ] {
        disk.put(disk.word_at(1), &(number << 32 | 7).to_le_bytes());
        let at = PoolOffset::new(disk.word_at(1));
        let error = lode_layout::InvalidField { field: "data block", index: 0, found: number, want };
        is_refused(&disk, Damage::MapWord { lba: 1, at, error });
    }
}

#[test]
fn one_copy_of_the_descriptor_is_enough() {
    for copy in [0, 0x800] {
        let disk = disk();
        disk.put(disk.descriptor_at() + copy, &[0; 64]);
        let found = disk.check();
        assert!(
            matches!(found[..], [Damage::Descriptor { at, .. }] if at.get() == disk.descriptor_at() + copy)
        );
        let blocks = disk.open();
        assert_eq!(read(&blocks, 1), block(&blocks, 2));
    }
    let disk = disk();
    for copy in [0, 0x800] {
        disk.put(disk.descriptor_at() + copy + 9, &[1]);
    }
    let damage = disk.check()[0];
    is_refused(&disk, damage);
}

/// No flipped byte of descriptor, map, slots or log makes the engine panic, and a block that can be read is one that was
/// written.
#[test]
fn flipped_bits_never_panic() {
    let disk = Disk::new(64 << 10, 512, Durability::Line);
    let blocks = disk.open();
    let count = blocks.block_count();
    let legal: Vec<Vec<u8>> = (0..40).map(|tag| block(&blocks, tag)).collect();
    for tag in 1..40 {
        blocks.write(tag % count, &legal[tag as usize]).unwrap();
    }
    drop(blocks);
    let bytes = memory::bytes(&disk.medium);
    let mut rng = fastrand::Rng::with_seed(seed(3));
    let (mut opened, mut refused) = (0, 0);
    for _ in 0..scaled(2000) {
        let mut damaged = bytes.clone();
        for _ in 0..rng.usize(1..4) {
            let at = if rng.bool() { rng.usize(0x2000..0x8000) } else { rng.usize(0xc000..damaged.len()) };
            damaged[at] ^= 1 << rng.u8(..8);
        }
        let medium = Arc::new(memory::from_bytes(&damaged));
        let _ = lode_blocks::check(&medium, &disk.geometry, &UUID);
        let Ok((blocks, _)) = Blocks::open(medium, &disk.geometry, UUID, [9; 2]) else {
            refused += 1;
            continue;
        };
        opened += 1;
        for lba in 0..count {
            let mut into = vec![0; 512];
            if blocks.read(lba, &mut into).is_ok() {
                assert!(legal.contains(&into), "block {lba}");
            }
            blocks.write(lba, &legal[1]).unwrap();
            assert_eq!(read(&blocks, lba), legal[1]);
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} {refused}");
}
