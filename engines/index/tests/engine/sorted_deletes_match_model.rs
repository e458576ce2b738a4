//! A batch of deletions has the effect of single ones, whatever stays in the nodes, and beside other threads.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_index::{IndexError, Tree};
use lode_pmem::Mapping;
use lode_testing::{heap, memory, scaled, seed, tree};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;

type Model = BTreeSet<Vec<u8>>;
type TestTree<'h> = Tree<'h, Arc<Mapping>>;

/// Returns a key, of a node of `width` children: some end where others go on, some skip more bytes than a slot can.
fn key(random: &mut fastrand::Rng, width: u8, last: &[u8]) -> Vec<u8> {
    let filler = [0, 0, 0, 3, 1100][random.usize(..5)];
    let mut key = vec![b'x'; filler];
    key.extend((0..random.usize(..5)).map(|_| random.u8(..=width)));
    key.extend_from_slice(last);
    key
}

/// Widths of nodes of each kind.
const WIDTHS: [u8; 5] = [1, 3, 15, 47, 255];

fn fill(tree: &TestTree<'_>, keys: &Model) {
    let pairs: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (key.as_slice(), key.as_slice())).collect();
    tree.heap().run(|tx| tree.insert_sorted_in(tx, &pairs)).unwrap();
}

/// Deletes keys in one batch, after another change of the same transaction or not.
fn delete(tree: &TestTree<'_>, keys: &[&[u8]], is_dirty: bool) -> u64 {
    let deleted: Result<u64, IndexError> = tree.heap().run(|tx| {
        if is_dirty {
            tree.insert_in(tx, b"another", b"")?;
            tree.delete_in(tx, b"another")?;
        }
        tree.delete_sorted_in(tx, keys)
    });
    deleted.unwrap()
}

/// Deletes keys from tree and model.
fn delete_both(tree: &TestTree<'_>, model: &mut Model, keys: &[Vec<u8>], is_dirty: bool) {
    let deleted = delete(tree, &keys.iter().map(Vec::as_slice).collect::<Vec<_>>(), is_dirty);
    let expected = keys.iter().filter(|key| model.remove(*key)).count();
    assert_eq!(deleted, expected as u64);
}

fn assert_has(tree: &TestTree<'_>, model: &Model) {
    tree::check(tree.heap(), tree, model.len() as u64);
    let reader = tree.reader();
    let entries = reader.iter().map(|entry| entry.map(|entry| (entry.key, entry.value.into_vec())));
    let entries = entries.collect::<Result<Vec<_>, _>>().unwrap();
    assert!(entries.iter().all(|(key, value)| key == value), "values stay those of their keys");
    assert!(entries.iter().map(|(key, _)| key).eq(model));
    assert_eq!(tree.count(), Ok(model.len() as u64));
}

/// From a node with any number of children, with a key at the node or not, every number of them goes at once.
#[test]
fn nodes_keep_any_number_of_children() {
    let heap = heap::create(memory::volatile(8 << 20));
    let tree = tree::create(&heap);
    let mut random = fastrand::Rng::with_seed(seed(12));
    for count in [2, 3, 4, 5, 12, 13, 16, 17, 36, 37, 48, 49, 70, 256] {
        for kept in [0, 1, 2, 3, 4, 5, 12, 13, 16, 17, 36, 37, 48, 49, 69, 255] {
            if kept >= count {
                continue;
            }
            let has_end = random.bool();
            let mut bytes: Vec<u8> = (0..=255).collect();
            random.shuffle(&mut bytes);
            let mut keys: Model =
                bytes[..count - usize::from(has_end)].iter().map(|byte| vec![b'p', *byte]).collect();
            if has_end {
                keys.insert(b"p".to_vec());
            }
            // A sibling of the node, so that its last child moves up to another node.
            let mut model: Model = if random.bool() { Model::new() } else { [b"q".to_vec()].into() };
            model.extend(keys.iter().cloned());
            fill(&tree, &model);
            let mut deleted: Vec<Vec<u8>> = keys.into_iter().collect();
            random.shuffle(&mut deleted);
            deleted.truncate(count - kept);
            deleted.sort();
            delete_both(&tree, &mut model, &deleted, random.bool());
            assert_has(&tree, &model);
            let rest: Vec<_> = model.iter().cloned().collect();
            delete_both(&tree, &mut model, &rest, random.bool());
            assert_has(&tree, &model);
        }
    }
}

/// Each batch is small, and so is what it finds beside its first leaf.
#[test]
fn small_batches_empty_wide_nodes() {
    let heap = heap::create(memory::volatile(8 << 20));
    let tree = tree::create(&heap);
    for size in 1..=9 {
        for is_ascending in [true, false] {
            for sibling in [None, Some(b"q".to_vec())] {
                let mut keys: Vec<_> = (0..=255).map(|byte| vec![b'p', byte]).collect();
                let mut model: Model = keys.iter().cloned().chain(sibling).collect();
                fill(&tree, &model);
                if !is_ascending {
                    keys.reverse();
                }
                for batch in keys.chunks_mut(size) {
                    batch.sort();
                    delete_both(&tree, &mut model, batch, false);
                }
                assert_has(&tree, &model);
                let rest: Vec<_> = model.iter().cloned().collect();
                delete_both(&tree, &mut model, &rest, false);
            }
        }
    }
}

/// The leaf lies in the root, in a slot for keys of any first byte.
#[test]
fn last_key_is_deleted_once() {
    let heap = heap::create(memory::volatile(1 << 20));
    let tree = tree::create(&heap);
    for key in [&[0, 1][..], &[], &[7]] {
        let mut model: Model = [key.to_vec()].into();
        fill(&tree, &model);
        delete_both(&tree, &mut model, &[key.to_vec(), key.to_vec(), key.to_vec()], false);
        assert_has(&tree, &model);
    }
}

#[test]
fn sorted_deletes_match_model() {
    let mut random = fastrand::Rng::with_seed(seed(13));
    for round in 0..scaled(20).max(10) {
        let heap = heap::create(Arc::new(memory::persistent(32 << 20)));
        let (tree, width) = (tree::create(&heap), WIDTHS[round as usize % WIDTHS.len()]);
        let mut model: Model = (0..3000).map(|_| key(&mut random, width, b"")).collect();
        fill(&tree, &model);
        for kept_in_10 in [9, 5, 1, 5, 0] {
            let mut keys: Vec<_> = model.iter().filter(|_| random.u8(..10) >= kept_in_10).cloned().collect();
            // A part of all, absent keys, and keys twice.
            keys.truncate(random.usize(..=keys.len() + 500));
            keys.extend((0..random.usize(..20)).map(|_| key(&mut random, width, b"")));
            if random.u8(..4) != 0 {
                keys.sort();
            } else {
                random.shuffle(&mut keys);
            }
            delete_both(&tree, &mut model, &keys, random.bool());
            assert_has(&tree, &model);
        }
    }
}

/// Threads insert and delete keys of their own, which meet in the same nodes.
#[test]
fn sorted_deletes_of_threads_match_models() {
    let heap = heap::create(Arc::new(memory::persistent(64 << 20)));
    let tree = tree::create(&heap);
    let change = |thread: u8| {
        let mut random = fastrand::Rng::with_seed(seed(14) + u64::from(thread));
        let mut model = Model::new();
        for round in 0..scaled(300).max(100) {
            let width = WIDTHS[round as usize % WIDTHS.len()];
            let added: Model = (0..random.usize(1..60)).map(|_| key(&mut random, width, &[thread])).collect();
            fill(&tree, &added);
            model.extend(added);
            let keys: Vec<_> = model.iter().filter(|_| random.u8(..10) < 6).cloned().collect();
            delete_both(&tree, &mut model, &keys, random.bool());
        }
        model
    };
    let models = thread::scope(|scope| {
        let threads: Vec<_> = (1..4).map(|thread| scope.spawn(move || change(thread))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    assert_has(&tree, &models.into_iter().flatten().collect());
}

/// Each key is a prefix of the next one, so the tree is deeper than deletions divide it.
#[test]
fn nested_keys_are_deleted() {
    let heap = heap::create(Arc::new(memory::persistent(64 << 20)));
    let (tree, longest) = (tree::create(&heap), vec![b'k'; 500]);
    let mut model: Model = (0..longest.len()).map(|len| longest[..len].to_vec()).collect();
    fill(&tree, &model);
    let every_third: Vec<_> = model.iter().step_by(3).cloned().collect();
    delete_both(&tree, &mut model, &every_third, false);
    assert_has(&tree, &model);
    let rest: Vec<_> = model.iter().cloned().collect();
    delete_both(&tree, &mut model, &rest, true);
    assert_has(&tree, &model);
}
