//! A repair of damaged map words makes their blocks lost, and leaves what is sound.

use crate::disk::{Disk, UUID, block, read};
use lode_blocks::{BlocksError, Damage, Repair, repair};
use lode_layout::{BlockMapWord, Durability};

const COUNT: u64 = 6;

/// Returns a pool whose first blocks are written; its log has the last of them.
fn disk() -> Disk {
    let disk = Disk::new(256 << 10, 512, Durability::Line);
    let blocks = disk.open();
    for lba in 0..COUNT {
        blocks.write(lba, &block(&blocks, lba + 1)).unwrap();
    }
    blocks.close().unwrap();
    disk
}

/// Repairs the pool, and fails unless exactly these blocks are lost then, until they are written.
fn loses(disk: &Disk, lost: &[u64]) {
    let repaired = || repair(&disk.medium, &disk.geometry, &UUID, [fastrand::u64(..); 2]).unwrap();
    let named: Vec<u64> = repaired()
        .into_iter()
        .map(|repair| match repair {
            Repair::LostBlock { lba, .. } => lba,
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(named, lost);
    assert_eq!(repaired(), [], "a second repair has nothing to do");
    let damage = |lba: &u64| Damage::Lost { lba: *lba };
    assert_eq!(disk.check(), lost.iter().map(damage).collect::<Vec<_>>());
    let blocks = disk.open();
    for lba in 0..COUNT {
        match lost.contains(&lba) {
            false => assert_eq!(read(&blocks, lba), block(&blocks, lba + 1)),
            true => {
                let read = blocks.read(lba, &mut block(&blocks, 0));
                assert_eq!(read, Err(BlocksError::Damaged(damage(&lba))));
                assert_eq!(blocks.is_zero(lba), Ok(false));
            }
        }
    }
    // Each data block but those of sound contents is free: the pool stays writable when it is full.
    for tag in 1..4 {
        for lba in 0..blocks.block_count() {
            blocks.write(lba, &block(&blocks, lba + tag)).unwrap();
        }
    }
    assert!((0..blocks.block_count()).all(|lba| read(&blocks, lba) == block(&blocks, lba + 3)));
    blocks.close().unwrap();
    assert_eq!(disk.check(), [], "a write ends the loss");
}

#[test]
fn word_out_of_range_loses_its_block() {
    for number in [0, u64::from(u32::MAX) - 1] {
        let disk = disk();
        disk.put(disk.word_at(2), &(number << 32 | 1).to_le_bytes());
        loses(&disk, &[2]);
    }
}

#[test]
fn content_stays_with_the_owner_whose_checksum_fits() {
    let disk = disk();
    // Block 1 claims the data block of block 3, and has its own checksum still.
    let [own, other] = [1, 3].map(|lba| disk.word(disk.word_at(lba)));
    disk.put(disk.word_at(1), &(other >> 32 << 32 | own & u64::from(u32::MAX)).to_le_bytes());
    loses(&disk, &[1]);
}

#[test]
fn content_of_equal_owners_is_lost() {
    let disk = disk();
    disk.put(disk.word_at(1), &disk.word(disk.word_at(3)).to_le_bytes());
    loses(&disk, &[1, 3]);
}

#[test]
fn more_words_are_repaired_than_a_check_reports() {
    let disk = Disk::new(2 << 20, 512, Durability::Line);
    let count = disk.open().block_count();
    assert!(count > 2500);
    let blocks = disk.open();
    let last = count - 1;
    blocks.write(last, &block(&blocks, 9)).unwrap();
    blocks.close().unwrap();
    for lba in 0..2500 {
        disk.put(disk.word_at(lba), &1u64.to_le_bytes());
    }
    let repairs = repair(&disk.medium, &disk.geometry, &UUID, [7; 2]).unwrap();
    assert_eq!(repairs.len(), 2500);
    let blocks = disk.open();
    for lba in 0..last {
        blocks.write(lba, &block(&blocks, 1)).unwrap();
    }
    assert_eq!(read(&blocks, last), block(&blocks, 9), "its data block was never free");
}

/// A lost block that is made zeros is zeros, on a medium of syncs, too.
#[test]
fn zeros_end_the_loss() {
    for durability in [Durability::Line, Durability::Commit] {
        let disk = Disk::new(256 << 10, 512, durability);
        disk.put(disk.word_at(4), &BlockMapWord::LOST.to_le_bytes());
        let blocks = disk.open();
        blocks.zero(0, 8).unwrap();
        blocks.flush().unwrap();
        assert_eq!(read(&blocks, 4), block(&blocks, 0));
        blocks.close().unwrap();
        assert_eq!(disk.check(), []);
    }
}
