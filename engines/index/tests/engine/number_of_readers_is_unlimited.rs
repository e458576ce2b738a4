//! Readers never wait for one another: a thread may hold any number of them, and so may any number of threads, while
//! the tree goes on.

use lode_index::Tree;
use lode_pmem::Medium;
use lode_testing::{heap, memory, tree};
use std::sync::Barrier;
use std::thread;

const KEYS: u64 = 200;

fn fill<M: Medium>(tree: &Tree<'_, M>) {
    for number in 0..KEYS {
        tree.insert(&number.to_be_bytes(), &number.to_le_bytes()).expect("room");
    }
}

/// One thread holds `count` readers, and goes on to read and to change the tree.
fn hold_readers(count: usize, between: impl Fn(&Tree<'_, std::sync::Arc<lode_pmem::Mapping>>, u64)) {
    let heap = heap::create(memory::volatile(8 << 20));
    let tree = tree::create(&heap);
    fill(&tree);
    let mut readers = Vec::new();
    for number in 0..count as u64 {
        readers.push(tree.reader());
        between(&tree, number);
    }
    assert_eq!(tree.get(&7u64.to_be_bytes()), Ok(Some(7u64.to_le_bytes().to_vec())));
    assert_eq!(tree.insert(b"another", b"value"), Ok(false));
    assert_eq!(tree.delete(b"another"), Ok(true));
    assert_eq!(readers[0].iter().count() as u64, KEYS);
    // In an order that is neither that of their making nor its reverse.
    while !readers.is_empty() {
        drop(readers.swap_remove(readers.len() * 2 / 3));
    }
    tree::check(&heap, &tree, KEYS);
}

#[test]
fn thread_holds_as_many_readers_as_slots() {
    hold_readers(128, |_, _| ());
}

#[test]
fn thread_holds_ten_thousand_readers() {
    hold_readers(10_000, |_, _| ());
}

#[test]
fn thread_holds_readers_across_changes() {
    hold_readers(10_000, |tree, number| {
        let key = number.to_be_bytes();
        tree.insert(b"between", &key[..(number % 9) as usize]).expect("room");
        tree.delete(b"between").expect("a sound tree");
    });
}

#[test]
fn thousand_threads_read_concurrently() {
    let heap = heap::create(memory::volatile(8 << 20));
    let tree = tree::create(&heap);
    fill(&tree);
    const THREADS: usize = if cfg!(miri) { 10 } else { 1000 };
    let all_hold = Barrier::new(THREADS);
    thread::scope(|scope| {
        for number in 0..THREADS as u64 {
            let (tree, all_hold) = (&tree, &all_hold);
            let read = move || {
                let reader = tree.reader();
                all_hold.wait();
                let key = (number % KEYS).to_be_bytes();
                assert!(reader.get(&key).expect("a sound tree").is_some());
            };
            thread::Builder::new().stack_size(64 << 10).spawn_scoped(scope, read).expect("a thread");
        }
    });
}

/// Each thread is pinned by its scan when it deletes, and so are all others.
#[test]
fn scanning_threads_delete_concurrently() {
    let heap = heap::create(memory::volatile(8 << 20));
    let tree = tree::create(&heap);
    fill(&tree);
    let all_scan = Barrier::new(KEYS as usize);
    thread::scope(|scope| {
        for number in 0..KEYS {
            let (tree, all_scan) = (&tree, &all_scan);
            let scan = move || {
                let reader = tree.reader();
                let mut entries = reader.iter();
                entries.next().expect("a key").expect("a sound tree");
                all_scan.wait();
                assert_eq!(tree.delete(&number.to_be_bytes()), Ok(true));
                entries.for_each(|entry| drop(entry.expect("a sound tree")));
            };
            thread::Builder::new().stack_size(256 << 10).spawn_scoped(scope, scan).expect("a thread");
        }
    });
    tree::check(&heap, &tree, 0);
}

/// A reader always takes over from another one, so the thread is never without.
#[test]
fn overlapping_readers_do_not_block_reclamation() {
    let heap = heap::create(memory::volatile(4 << 20));
    let tree = tree::create(&heap);
    let mut reader = tree.reader();
    for number in 0..40_000u64 {
        // Another length, so that the leaf is another one.
        let value = vec![7; 500 + (number % 2) as usize * 100];
        tree.insert(b"key", &value).expect("what no reader holds can be used again");
        reader = tree.reader();
    }
    assert_eq!(reader.iter().count(), 1);
}

/// The reader is one thread's, and others read by way of it.
#[test]
fn reader_is_shared_by_threads() {
    let heap = heap::create(memory::volatile(4 << 20));
    let tree = tree::create(&heap);
    fill(&tree);
    let reader = tree.reader();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert_eq!(reader.iter().count() as u64, KEYS));
        }
    });
}
