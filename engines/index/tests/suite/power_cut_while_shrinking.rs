//! A power cut at any drain of a shrink leaves all keys, in a pool of the old or the new size.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_fsck::Layout;
use lode_heap::Heap;
use lode_index::{Finding, IndexError, Tree};
use lode_kv::LAYOUT;
use lode_layout::{Geometry, Header, LayoutName};
use lode_pmem::Durability;
use lode_pool::{Headers, PoolError, format};
use lode_sim::{Cpu, Machine, Recording, SimMedium};
use lode_testing::seed;
use std::collections::BTreeMap;
use std::sync::Arc;
use uuid::Uuid;

const SIZE: u64 = 512 << 10;
const UUID: [u8; 16] = [9; 16];
/// One of so many images is looked at.
const LOOK_ONE_IN: u64 = 8;

/// The keys and values of a tree.
type Content = BTreeMap<Vec<u8>, Vec<u8>>;

fn header() -> Header {
    let (layout, geometry) = (LayoutName::new("kv").unwrap(), Geometry::plan(SIZE).unwrap());
    Header::new(Uuid::from_bytes(UUID), layout, geometry, Durability::None, 1)
}

/// Makes a pool that was full, and of whose keys a quarter is left.
fn make(medium: &Arc<SimMedium>) -> (Headers, Content) {
    let headers = format(&**medium, header(), |_, _| Ok::<_, PoolError>(())).unwrap();
    let geometry = *headers.geometry();
    Heap::format(medium, &geometry, &UUID, [1; 2]).unwrap();
    let (heap, _) = Heap::open(Arc::clone(medium), &geometry, UUID, [2; 2]).unwrap();
    let root = heap.run(|tx| {
        let root = Tree::create(tx)?;
        tx.set_root(root);
        Ok::<_, IndexError>(root)
    });
    let tree = Tree::open(&heap, root.unwrap()).unwrap();
    let mut content = Content::new();
    for number in 0..250u64 {
        let key = number.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes();
        let value = vec![number as u8; (number * 31 % 900) as usize];
        tree.insert(&key, &value).unwrap();
        content.insert(key.to_vec(), value);
    }
    for key in content
        .keys()
        .cloned()
        .enumerate()
        .filter(|(at, _)| at % 4 != 0)
        .map(|(_, key)| key)
        .collect::<Vec<_>>()
    {
        tree.delete(&key).unwrap();
        content.remove(&key);
    }
    heap.close().unwrap();
    (headers, content)
}

/// Opens the pool that a power cut left, compares its tree, and returns its size.
fn verify(medium: &SimMedium, content: &Content) -> u64 {
    let mut headers = Headers::read(medium).unwrap();
    headers.complete_update(medium).unwrap();
    let (heap, _) = Heap::open(medium, headers.geometry(), UUID, [4; 2]).unwrap();
    let tree = Tree::open(&heap, heap.root().unwrap()).unwrap();
    let mut reached = 0;
    tree.check(|found| match found {
        Finding::Object(_) => reached += 1,
        Finding::Damage(error) => panic!("{error}"),
    });
    assert_eq!(heap.objects().map(Result::unwrap).count(), reached, "no object is lost or left");
    let reader = tree.reader();
    let found = reader.iter().map(Result::unwrap).map(|entry| (entry.key, entry.value.to_vec()));
    assert!(found.collect::<Content>() == *content, "all keys and values are there");
    headers.geometry().size()
}

#[test]
fn shrink_is_atomic() {
    for durability in [Durability::Line, Durability::Commit] {
        let medium = Arc::new(SimMedium::new(SIZE, Machine { cpu: Cpu::X86, durability }).unwrap());
        let (mut headers, content) = make(&medium);
        let (recording, ()) = Recording::of(&medium, || {
            let (heap, _) = Heap::open(Arc::clone(&medium), headers.geometry(), UUID, [3; 2]).unwrap();
            let limit = heap.close_tail().unwrap().unwrap();
            LAYOUT.move_below(&heap, limit, &()).unwrap();
            let end = heap.used_end().unwrap();
            heap.close().unwrap();
            headers.shrink(&*medium, end).unwrap();
        });
        let new = *headers.geometry();
        assert!(new.size() < SIZE / 2 && new.log_off() != header().geometry.log_off(), "{new:?}");
        let (mut images, mut sizes) = (0, BTreeMap::<u64, u64>::new());
        recording.cut(seed(1), |left, _| {
            images += 1;
            if images % LOOK_ONE_IN == 0 {
                *sizes.entry(verify(left, &content)).or_default() += 1;
            }
        });
        println!("{durability}: {} drains, {images} images, sizes {sizes:?}", recording.drains());
        assert!(sizes.keys().eq(&[new.size(), SIZE]));
        assert_eq!(verify(&medium, &content), new.size());
    }
}
