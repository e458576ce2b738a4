//! Nodes change their kind at the edges of their capacities, up and down, and every step leaves a sound tree.

use lode_index::Finding;
use lode_layout::NodeKind;
use lode_testing::{heap, memory, tree};
use std::collections::BTreeMap;

/// How many nodes of each kind the tree has.
fn nodes<M: lode_pmem::Medium>(tree: &lode_index::Tree<'_, M>) -> BTreeMap<NodeKind, usize> {
    let mut kinds = BTreeMap::new();
    tree.check(|finding| {
        let Finding::Object(object) = finding else { panic!("{finding:?}") };
        let kind = NodeKind::ALL.into_iter().find(|kind| kind.type_number() == object.type_number);
        if let Some(kind) = kind {
            *kinds.entry(kind).or_default() += 1;
        }
    });
    kinds
}

/// The kind of the only node after each insertion of 0..=255, and after each deletion back to one key.
fn check_kind_changes(with_end: bool, order: impl Fn(u8) -> u8) {
    let heap = heap::create(memory::volatile(4 << 20));
    let tree = tree::create(&heap);
    let extra = u64::from(with_end);
    if with_end {
        tree.insert(b"p", b"the key that ends at the node").expect("a sound tree");
    }
    for count in 1..=256u64 {
        let key = [b'p', order((count - 1) as u8)];
        assert_eq!(tree.insert(&key, &count.to_le_bytes()), Ok(false));
        tree::check(&heap, &tree, count + extra);
        let expected = match count {
            1 if !with_end => None,
            1..=4 => Some(NodeKind::N4),
            5..=16 => Some(NodeKind::N16),
            17..=48 => Some(NodeKind::N48),
            _ => Some(NodeKind::N256),
        };
        assert_eq!(nodes(&tree), expected.into_iter().map(|kind| (kind, 1)).collect(), "{count} children");
    }
    for count in (0..256u64).rev() {
        let key = [b'p', order(count as u8)];
        assert_eq!(tree.delete(&key), Ok(true));
        tree::check(&heap, &tree, count + extra);
        let expected = match count + extra {
            0 | 1 => None,
            _ => match count {
                0..=3 => Some(NodeKind::N4),
                4..=12 => Some(NodeKind::N16),
                // A node of 256 is replaced when the slots next to a removed key's are found to be sparse, too.
                32..=36 if nodes(&tree).contains_key(&NodeKind::N256) => Some(NodeKind::N256),
                13..=36 => Some(NodeKind::N48),
                _ => Some(NodeKind::N256),
            },
        };
        assert_eq!(
            nodes(&tree),
            expected.into_iter().map(|kind| (kind, 1)).collect(),
            "{count} children left"
        );
        for other in 0..=255u8 {
            let there = (0..count).any(|rest| order(rest as u8) == other);
            assert_eq!(
                tree.get(&[b'p', other]).expect("a sound tree").is_some(),
                there,
                "{other} of {count}"
            );
        }
    }
    assert_eq!(heap.objects().count() as u64, 1 + extra);
}

#[test]
fn ascending() {
    check_kind_changes(false, |byte| byte);
}

#[test]
fn descending_with_key_at_node() {
    check_kind_changes(true, |byte| 255 - byte);
}

#[test]
fn random_order() {
    check_kind_changes(true, |byte| byte.wrapping_mul(77).wrapping_add(5));
}

#[test]
fn long_prefixes_split_and_merge() {
    let heap = heap::create(memory::volatile(4 << 20));
    let tree = tree::create(&heap);
    for len in [1023, 1024, 1025, 2047, 2048, 2049, 65_535] {
        let mut long = vec![b'x'; len];
        long.push(b'a');
        let mut other = long.clone();
        other[len] = b'b';
        tree.insert(&long, b"1").expect("a sound tree");
        assert_eq!(nodes(&tree).len(), 0);
        tree.insert(&other, b"2").expect("a sound tree");
        // A slot skips up to 1023 bytes, and a node has one of its own.
        assert_eq!(nodes(&tree), [(NodeKind::N4, 1 + len / 1024)].into(), "{len} bytes in common");
        tree::check(&heap, &tree, 2);
        // A branch in the middle of what is skipped.
        let middle = [&vec![b'x'; len / 2][..], b"y"].concat();
        tree.insert(&middle, b"3").expect("a sound tree");
        tree::check(&heap, &tree, 3);
        for (key, value) in [(&long, b"1"), (&other, b"2"), (&middle, b"3")] {
            assert_eq!(tree.get(key), Ok(Some(value.to_vec())));
        }
        assert_eq!(tree.get(&long[..len]), Ok(None));
        tree.delete(&middle).expect("a sound tree");
        tree::check(&heap, &tree, 2);
        tree.delete(&other).expect("a sound tree");
        assert_eq!(nodes(&tree).len(), 0, "the nodes with one child went with the split");
        tree.delete(&long).expect("a sound tree");
        tree::check(&heap, &tree, 0);
    }
    assert!(tree.insert(&vec![0; 65_537], b"").is_err());
}

/// Where there is no room for a smaller node the large one stays, and goes when it has one child left.
#[test]
fn full_pool_allows_deletes() {
    let heap = heap::create(memory::volatile(2 << 20));
    let tree = tree::create(&heap);
    for byte in 0..=255 {
        tree.insert(&[b'p', byte], b"value").expect("room");
    }
    let mut filled = Vec::new();
    for size in [40_000, 5000, 1000, 64] {
        let fill = || heap.run(|tx| tx.alloc(size, 16, 99));
        filled.extend(std::iter::from_fn(|| fill().ok()));
    }
    for byte in 0..=255 {
        assert_eq!(tree.delete(&[b'p', byte]), Ok(true), "{byte}");
        let kind = (byte < 254).then_some((NodeKind::N256, 1));
        assert_eq!(nodes(&tree), kind.into_iter().collect(), "after {byte}");
    }
    for part in filled.chunks(100) {
        let free = heap.run(|tx| part.iter().try_for_each(|at| tx.free(*at)));
        free.expect("they were allocated");
    }
    tree::check(&heap, &tree, 0);
}
