//! Check and repair of a store with any damage end: trees that are not damaged are whole, and what is missing from the
//! others was reported, or is in the trees of found keys.
#![allow(clippy::single_range_in_vec_init, reason = "some lists of ranges have one")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::damage;
use crate::store_image::{Content, StoreImage, contents, repair};
use lode_fsck::Repair;
use lode_heap::Heap;
use lode_index::StoreLayout;
use lode_testing::{kv, memory, scaled, seed};
use std::collections::BTreeMap;
use std::ops::Range;

const LEN: u64 = 512 << 10;
/// Headers and slots, of which both copies must not be damaged.
const FIXED: u64 = 0x4000;

/// Damages some places of `image` in `ranges`, and repairs it. Returns the numbers of trees and keys that went to
/// lost+found.
fn damage_and_repair(image: &StoreImage, ranges: &[Range<u64>], random: &mut fastrand::Rng) -> [u64; 2] {
    let mut damaged = image.clone();
    let places = damage::damage(&mut damaged.bytes, ranges, random);
    let what = places.to_string();
    damaged.check();
    let medium = damaged.medium();
    let repair = repair(&medium, &what);
    damaged.assert_accounted(&medium, &repair, &what);
    [repair.found_trees.len() as u64, repair.unplaced]
}

fn rounds(closed: bool, ranges_of: impl Fn(&StoreImage) -> Vec<Range<u64>>) {
    let image = StoreImage::make(LEN, 60, closed);
    let ranges = ranges_of(&image);
    let mut random = fastrand::Rng::with_seed(seed(5));
    let rounds = scaled(400);
    let mut sums = [0, 0];
    for _ in 0..rounds {
        let [trees, keys] = damage_and_repair(&image, &ranges, &mut random);
        sums = [sums[0] + trees, sums[1] + keys];
    }
    println!("{rounds} repairs found {} trees without a name and {} keys without a tree", sums[0], sums[1]);
}

fn objects(image: &StoreImage, is_wanted: impl Fn(&lode_heap::Object) -> bool) -> Vec<Range<u64>> {
    let heap: Heap<_> = kv::open(&image.medium(), [5, 6]).unwrap();
    let objects = heap.objects().map(Result::unwrap).filter(is_wanted);
    objects.map(|object| object.at.get()..object.at.get() + object.size).collect()
}

#[test]
fn repair_of_damaged_objects() {
    rounds(true, |image| objects(image, |_| true));
}

#[test]
fn repair_of_damaged_root_objects() {
    rounds(true, |image| objects(image, |object| object.type_number == lode_layout::TYPE_TREE));
}

#[test]
fn repair_of_damaged_nodes() {
    let is_node = |object: &lode_heap::Object| {
        ![lode_layout::TYPE_TREE, lode_layout::TYPE_LEAF].contains(&object.type_number)
    };
    rounds(true, |image| objects(image, is_node));
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

/// Repairs the image. Returns the trees that it has then, and the outcome.
fn repaired(image: &StoreImage) -> (BTreeMap<String, Content>, Repair) {
    assert!(!image.check().is_clean());
    let medium = image.medium();
    let repair = repair(&medium, "damage");
    image.assert_accounted(&medium, &repair, "damage");
    (contents(&medium).unwrap(), repair)
}

#[test]
fn tree_without_a_name_is_whole() {
    let mut image = StoreImage::make(LEN, 60, true);
    image.damage_name("accounts");
    let (mut trees, repair) = repaired(&image);
    assert_eq!(repair.found_trees, ["lost+found/1"]);
    assert!(repair.lost_names.iter().any(|range| range.contains(b"accounts")), "{repair:?}");
    assert_eq!((repair.unplaced, repair.reinserted, &repair.lost[..]), (0, 0, &[][..]));
    let found = trees.remove("lost+found/1").unwrap();
    trees.insert("accounts".into(), found);
    assert_eq!(trees, image.trees);
}

/// The keys come back to the tree, although other trees have the same keys.
#[test]
fn tree_without_nodes_gets_its_keys_back() {
    for name in ["accounts", "jobs"] {
        let mut image = StoreImage::make(LEN, 60, true);
        image.damage_top(name);
        let (trees, repair) = repaired(&image);
        assert_eq!(repair.reinserted, image.trees[name].len() as u64);
        assert!(!repair.has_losses(), "{repair:?}");
        assert_eq!(trees, image.trees, "{name}");
    }
}

#[test]
fn keys_of_two_trees_without_nodes_are_kept_apart() {
    let mut image = StoreImage::make(LEN, 60, true);
    let lost = ["history", "results"];
    lost.iter().for_each(|name| image.damage_top(name));
    let (mut trees, repair) = repaired(&image);
    let all: usize = lost.iter().map(|name| image.trees[*name].len()).sum();
    assert_eq!((repair.unplaced, repair.reinserted), (all as u64, all as u64));
    assert!(repair.lost.iter().any(|range| range.tree.as_deref() == Some("history")), "{repair:?}");
    let spare = ["lost+found", "lost+found.2"].map(|name| trees.remove(name).unwrap());
    assert_eq!(spare.iter().map(Content::len).sum::<usize>(), all);
    for name in lost {
        assert_eq!(trees.insert(name.into(), image.trees[name].clone()), Some(Content::new()));
    }
    assert_eq!(trees, image.trees);
}

#[test]
fn table_is_found_without_the_root_word() {
    let mut image = StoreImage::make(LEN, 60, true);
    let extent = image.header().geometry.extents()[0];
    image.damage(extent.start.get(), 8);
    let (trees, repair) = repaired(&image);
    assert!(!repair.has_losses(), "{repair:?}");
    assert_eq!(trees, image.trees);
}

#[test]
fn empty_store_is_repaired() {
    let heap = kv::create_empty(LEN, StoreLayout::NAME);
    heap.log().close().unwrap();
    let mut image = StoreImage { bytes: memory::bytes(heap.medium()), trees: BTreeMap::new() };
    image.damage(0x40, 8);
    let medium = image.medium();
    let repair = repair(&medium, "an empty store");
    assert!(!repair.has_losses() && repair.after.is_clean() && repair.repaired > 0, "{repair:?}");
}
