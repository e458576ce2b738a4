//! Every flipped bit that could change an answer or an allocation is found, and repaired without loss.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::image::{Image, LOG_EPOCH, contents};
use lode_fsck::{check_pool, repair_pool};
use lode_heap::check::{Report, Severity};
use lode_kv::LAYOUT;
use lode_layout::{
    CHECKPOINT_COPY_STRIDE, CheckpointSlot, Geometry, PoolOffset, SPAN_HEADER, SlotKind, TYPE_LEAF, TreeSlot,
};
use lode_testing::{scaled, seed};
use std::collections::HashSet;
use std::ops::Range;

/// All bits of some ranges of bytes, or, of long ranges, a sample.
fn bits(ranges: &[Range<u64>], most: usize) -> Vec<usize> {
    let all: Vec<usize> =
        ranges.iter().flat_map(|range| range.start as usize * 8..range.end as usize * 8).collect();
    let most = scaled(most as u64) as usize;
    if all.len() <= most {
        return all;
    }
    println!("{most} of {} bits", all.len());
    let mut random = fastrand::Rng::with_seed(seed(1));
    (0..most).map(|_| all[random.usize(..all.len())]).collect()
}

fn slots() -> Vec<Range<u64>> {
    let copies = [0, 1]
        .into_iter()
        .flat_map(|slot| [0, CHECKPOINT_COPY_STRIDE].map(|copy| CheckpointSlot::offset(slot).plus(copy)));
    copies.map(|at| at.get()..at.get() + 64).collect()
}

/// The chunk table, and for each object the superblock's header and bitmap and the object itself.
fn heap_ranges(image: &Image) -> [Vec<Range<u64>>; 3] {
    let (_, objects) = image.open().unwrap();
    let extent = image.header().geometry.extents()[0];
    let table = extent.start.get()..extent.start.get() + extent.table_len;
    let mut spans = Vec::new();
    for chunk in (table.end..extent.end().get()).step_by(lode_layout::CHUNK as usize) {
        let at = (chunk - extent.start.get()) / lode_layout::CHUNK * 8 + table.start;
        if image.bytes[at as usize..at as usize + 8] != [0; 8] {
            spans.push(chunk..chunk + SPAN_HEADER + 8 * 7);
        }
    }
    let objects = objects.iter().map(|object| object.at.get()..object.at.get() + object.size).collect();
    [vec![table], spans, objects]
}

/// Flips each bit: either the check finds it, or nothing that can be seen has changed.
fn assert_all_found(image: &Image, bits: &[usize]) -> u64 {
    let before = image.open().unwrap();
    assert_eq!(before.0, image.content);
    let clean = image.check();
    assert!(clean.is_clean(), "{clean}");
    let mut harmless = 0;
    let mut damaged = image.clone();
    for bit in bits {
        damaged.flip(*bit);
        if damaged.check().is_clean() {
            harmless += 1;
            let same = damaged.open().is_ok_and(|after| after == before);
            assert!(same, "bit {bit} at {:#x} changes the pool and is not found", bit / 8);
        }
        damaged.flip(*bit);
    }
    harmless
}

/// Flips each bit and repairs it: all keys are there, and the check finds nothing more.
fn assert_all_repaired(image: &Image, bits: &[usize]) {
    let mut damaged = image.clone();
    for bit in bits {
        damaged.flip(*bit);
        let medium = damaged.medium();
        let repair = repair_pool(&medium, LOG_EPOCH, &[&LAYOUT]).unwrap();
        assert!(!repair.has_losses(), "bit {bit} at {:#x}: {repair:?}", bit / 8);
        assert!(repair.after.is_clean(), "bit {bit} at {:#x}: {}", bit / 8, repair.after);
        assert_eq!(contents(&medium).unwrap().0, image.content, "bit {bit} at {:#x}", bit / 8);
        damaged.flip(*bit);
    }
}

#[test]
fn flips_in_headers_and_slots() {
    let image = Image::make(512 << 10, 120, true);
    #[expect(clippy::single_range_in_vec_init, reason = "a list of ranges that has one")]
    let headers = [0..0x2000];
    let bits = bits(&headers, 3000);
    assert_eq!(assert_all_found(&image, &bits), 0, "each is found");
    assert_all_repaired(&image, &bits[..300.min(bits.len())]);
    let slots = sample_bits(&slots());
    let harmless = assert_all_found(&image, &slots);
    println!("slots: {harmless} of {} bits look like a torn write, and are harmless", slots.len());
    assert_all_repaired(&image, &slots[..500]);
}

/// A slot that leads to free space does not say that the leaf it was for is damaged.
#[test]
fn flips_of_slots_that_lead_to_free_blocks() {
    let image = Image::make(512 << 10, 120, true);
    let (_, objects) = image.open().unwrap();
    let leaves: HashSet<PoolOffset> =
        objects.iter().filter(|object| object.type_number == TYPE_LEAF).map(|object| object.at).collect();
    let mut bits = Vec::new();
    for (at, slot) in image.leaf_slots().into_iter().filter(|(_, slot)| leaves.contains(&slot.at())) {
        let leads_away = |bit: &u32| {
            let flipped = TreeSlot::from_word(slot.word() ^ 1 << bit);
            let is_inside = flipped.at().get() < image.bytes.len() as u64;
            flipped.kind() == SlotKind::Leaf && is_inside && !leaves.contains(&flipped.at())
        };
        bits.extend((0..u64::BITS).filter(leads_away).map(|bit| at * 8 + bit as usize));
    }
    assert!(bits.len() > 500, "{} bits", bits.len());
    assert_all_repaired(&image, &bits);
}

fn sample_bits(ranges: &[Range<u64>]) -> Vec<usize> {
    bits(ranges, usize::MAX / 16)
}

#[test]
fn flips_in_heap_and_tree() {
    let image = Image::make(512 << 10, 120, true);
    let [table, spans, objects] = heap_ranges(&image);
    let root = table[0].start..table[0].start + 8 * 32;
    for (name, ranges, most) in [
        ("root and descriptors", vec![root], 4000),
        ("table", table, 2000),
        ("spans", spans, 8000),
        ("objects", objects, 12000),
    ] {
        let bits = bits(&ranges, most);
        let harmless = assert_all_found(&image, &bits);
        println!("{name}: {harmless} of {} bits are harmless", bits.len());
        let sample: Vec<usize> = bits.iter().copied().step_by(bits.len().div_ceil(600)).collect();
        assert_all_repaired(&image, &sample);
    }
}

#[test]
fn flips_in_log_of_unclosed_pool() {
    let image = Image::make(512 << 10, 120, false);
    let Geometry { .. } = image.header().geometry;
    let log = image.header().geometry;
    let range = log.log_off().get()..log.log_off().get() + log.log_len();
    // What was ever written of it.
    let used: Vec<Range<u64>> = range
        .step_by(64)
        .filter(|line| image.bytes[*line as usize..*line as usize + 64] != [0; 64])
        .map(|line| line..line + 64)
        .collect();
    let report = image.check();
    assert!(report.unclean && report.counts.records >= 12, "{report}");
    let bits = bits(&used, 20_000);
    let harmless = assert_all_found(&image, &bits);
    println!("log: {harmless} of {} bits are harmless", bits.len());
    assert_all_repaired(&image, &bits[..600.min(bits.len())]);
    let damage = |report: &Report| report.findings.iter().filter(|f| f.severity == Severity::Damage).count();
    assert_eq!(damage(&report), 0);
}

#[test]
fn check_changes_private_view_only() {
    let image = Image::make(512 << 10, 60, false);
    let medium = image.medium();
    check_pool(std::sync::Arc::clone(&medium), &[&LAYOUT]);
    let again = image.check();
    assert!(again.unclean, "the image itself is as it was");
    assert_eq!(PoolOffset::NULL.get(), 0);
}
