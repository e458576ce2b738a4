//! Check and repair of a pool with any damage end, and the keys that are not damaged are still there.
#![allow(clippy::single_range_in_vec_init, reason = "some lists of ranges have one")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::damage;
use crate::image::{Image, LOG_EPOCH, contents};
use lode_fsck::repair_pool;
use lode_heap::Object;
use lode_kv::LAYOUT;
use lode_layout::{CHUNK, PoolOffset, TYPE_LEAF, TreeSlot, encode_leaf, leaf_words};
use lode_testing::{scaled, seed};
use std::ops::Range;
use zerocopy::IntoBytes;

const LEN: u64 = 512 << 10;
/// Headers and slots, of which both copies must not be damaged.
const FIXED: u64 = 0x4000;

/// Damages some places of `image` in `ranges_of`, and repairs it: each key is there with its value, or was reported.
fn damage_and_repair(image: &Image, ranges_of: &[Range<u64>], random: &mut fastrand::Rng) -> bool {
    let mut damaged = image.clone();
    let places = damage::damage(&mut damaged.bytes, ranges_of, random);
    repair_loses_keys(&damaged, &places.to_string())
}

/// Repairs `damaged`: each key is there with its value, or was reported; whether any was.
fn repair_loses_keys(damaged: &Image, places: &str) -> bool {
    damaged.check();
    let medium = damaged.medium();
    let repair =
        repair_pool(&medium, LOG_EPOCH, &[&LAYOUT]).unwrap_or_else(|error| panic!("{places}: {error}"));
    assert!(repair.after.is_clean(), "{places}: {}", repair.after);
    let (found, _) = contents(&medium).unwrap_or_else(|error| panic!("{places}: {error}"));
    for (key, value) in &damaged.content {
        let there = found.get(key) == Some(value);
        let told = repair.lost_transactions || repair.lost.iter().any(|range| range.contains(key));
        assert!(
            there || told,
            "{places}: {key:?} {:?} is missing, and the repair does not say so: {repair:?}",
            found.get(key)
        );
    }
    if !repair.lost_transactions {
        assert!(
            found.iter().all(|(key, value)| damaged.content.get(key) == Some(value)),
            "{places}: {repair:?}"
        );
    }
    repair.has_losses()
}

fn rounds(closed: bool, ranges_of: impl Fn(&Image) -> Vec<Range<u64>>) {
    let image = Image::make(LEN, 120, closed);
    let ranges = ranges_of(&image);
    let mut random = fastrand::Rng::with_seed(seed(3));
    let rounds = scaled(400);
    let lost = (0..rounds).filter(|_| damage_and_repair(&image, &ranges, &mut random)).count();
    println!("{lost} of {rounds} repairs lost something");
}

#[test]
fn repair_of_damaged_objects() {
    rounds(true, |image| {
        let (_, objects) = image.open().unwrap();
        objects.iter().map(|object| object.at.get()..object.at.get() + object.size).collect()
    });
}

#[test]
fn repair_of_damaged_heaps() {
    rounds(true, |image| damage::heap_headers(&image.header().geometry));
}

#[test]
fn repair_of_damaged_logs() {
    rounds(false, |image| vec![damage::log(&image.header().geometry)]);
}

#[test]
fn repair_of_any_damage() {
    rounds(false, |_| vec![FIXED..LEN]);
}

/// The bytes of one leaf over those of another: of one that is there, and of one that was deleted long ago.
#[test]
fn repair_of_overwritten_leaves() {
    let image = Image::make(LEN, 120, true);
    let (_, mut leaves) = image.open().unwrap();
    leaves.retain(|object| object.type_number == TYPE_LEAF);
    let bytes = |leaf: &Object| leaf.at.get() as usize..(leaf.at.get() + leaf.size) as usize;
    for (one, other) in leaves.iter().zip(leaves.iter().skip(1)).filter(|(a, b)| a.size == b.size) {
        let mut twice = image.clone();
        twice.bytes.copy_within(bytes(one), bytes(other).start);
        assert!(repair_loses_keys(&twice, &format!("{} over {}", one.at, other.at)));
        let mut stale = image.clone();
        let mut words = vec![0u64; one.size as usize / 8];
        encode_leaf(b"deleted", b"", &mut words[..leaf_words(7, 0)]);
        stale.bytes[bytes(other)].copy_from_slice(words.as_bytes());
        let (medium, place) = (stale.medium(), format!("a deleted leaf over {}", other.at));
        let repair = repair_pool(&medium, LOG_EPOCH, &[&LAYOUT]).unwrap();
        let (found, _) = contents(&medium).unwrap();
        for key in stale.content.keys().filter(|key| !found.contains_key(*key)) {
            assert!(repair.lost.iter().any(|range| range.contains(key)), "{place}: {key:?}: {repair:?}");
        }
    }
}

/// A flipped bit of a slot leads to a free block that still has an older leaf of the key. Today's leaf is allocated and
/// sound, and comes back.
#[test]
fn repair_of_slots_that_lead_to_replaced_leaves() {
    let image = Image::make(LEN, 120, true);
    let (_, objects) = image.open().unwrap();
    // Blocks of the superblocks: behind the first object of a chunk, and outside of all objects.
    let is_free = |place: &Range<usize>| {
        let chunk = |at: u64| at / CHUNK;
        let (start, end) = (place.start as u64, place.end as u64);
        let overlaps = |object: &Object| object.at.get() < end && start < object.at.get() + object.size;
        let is_behind = |object: &Object| object.at.get() < start && chunk(object.at.get()) == chunk(end - 1);
        chunk(start) == chunk(end - 1) && objects.iter().any(is_behind) && !objects.iter().any(overlaps)
    };
    let slots = image.leaf_slots();
    let mut tried = 0;
    for (key, value) in image.content.iter().step_by(5) {
        let own = leaf_of(&image, key);
        let (slot_at, slot) =
            slots.iter().find(|(_, slot)| slot.at() == own).expect("a slot leads to each leaf");
        let mut older = vec![0u64; leaf_words(key.len(), value.len())];
        encode_leaf(key, &vec![b'~'; value.len()], &mut older);
        for bit in 4..19 {
            let other = PoolOffset::new(own.get() ^ 1 << bit);
            let place = other.get() as usize..other.get() as usize + older.len() * 8;
            if !is_free(&place) {
                continue;
            }
            let mut damaged = image.clone();
            damaged.bytes[*slot_at..*slot_at + 8]
                .copy_from_slice(&TreeSlot::leaf(slot.byte(), other).word().to_le_bytes());
            damaged.bytes[place].copy_from_slice(older.as_bytes());
            assert!(!damaged.check().is_clean());
            let lost = repair_loses_keys(&damaged, &format!("{key:?} leads to {other} instead of {own}"));
            assert!(!lost, "{key:?}");
            tried += 1;
        }
    }
    assert!(tried > 20, "{tried}");
}

/// Returns where the leaf of `key` lies.
fn leaf_of(image: &Image, key: &[u8]) -> PoolOffset {
    let (_, objects) = image.open().unwrap();
    let value = &image.content[key];
    let mut words = vec![0u64; leaf_words(key.len(), value.len())];
    encode_leaf(key, value, &mut words);
    let is_leaf = |object: &&Object| {
        object.type_number == TYPE_LEAF
            && image.bytes[object.at.get() as usize..].starts_with(words.as_bytes())
    };
    objects.iter().find(is_leaf).expect("a leaf for each key").at
}

/// A device may give zeros for a block that it lost; those of a chunk table say that all is free.
#[test]
fn repair_of_zeroed_chunk_table() {
    let mut image = Image::make(LEN, 120, true);
    let table = image.header().geometry.extents()[0].start.get() as usize;
    image.bytes[table..table + 4096].fill(0);
    assert!(!image.check().is_clean());
    let medium = image.medium();
    let repair = repair_pool(&medium, LOG_EPOCH, &[&LAYOUT]).unwrap();
    let (found, _) = contents(&medium).unwrap();
    for key in image.content.keys().filter(|key| !found.contains_key(*key)) {
        assert!(repair.lost.iter().any(|range| range.contains(key)), "{key:?} is missing: {repair:?}");
    }
}
