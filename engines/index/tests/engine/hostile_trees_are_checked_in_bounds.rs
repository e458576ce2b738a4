//! Trees that an attacker made: a cycle of nodes, and many slots that lead to one large leaf. Checking and repairing
//! them ends after work in proportion to the pool.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::image::{Image, LOG_EPOCH, contents};
use lode_fsck::{check_pool, repair_pool};
use lode_heap::Heap;
use lode_heap::check::Severity;
use lode_index::{Finding, IndexError, Tree};
use lode_kv::LAYOUT;
use lode_layout::{NODE_END, NodeKind, PoolOffset, TreeSlot, WORD};
use lode_pmem::{Mapping, Medium};
use lode_pool::Headers;
use std::sync::Arc;

const LEN: u64 = 8 << 20;
/// Nodes of 256 below the top one, which has 48.
const NODES: u8 = 40;
const LARGE: &[u8] = b"large";
const LARGE_LEN: usize = 1 << 20;

/// A pool with keys of two bytes in full nodes, and one large value.
fn pool() -> Arc<Mapping> {
    let medium = Image::make(LEN, 0, true).medium();
    with_tree(&medium, |tree| {
        tree.insert(LARGE, &vec![7; LARGE_LEN]).unwrap();
        for key in (0..NODES).flat_map(|first| (0..=u8::MAX).map(move |second| [first, second])) {
            tree.insert(&key, b"").unwrap();
        }
        tree.heap().log().checkpoint().unwrap();
    });
    medium
}

fn with_tree<T>(medium: &Arc<Mapping>, work: impl FnOnce(&Tree<'_, Arc<Mapping>>) -> T) -> T {
    let header = *Headers::read(&**medium).unwrap().current();
    let (heap, _) =
        Heap::open(Arc::clone(medium), &header.geometry, *header.uuid.as_bytes(), [5, 6]).unwrap();
    work(&Tree::open(&heap, heap.root().unwrap()).unwrap())
}

/// Where the objects of this type are.
fn objects(tree: &Tree<'_, Arc<Mapping>>, type_number: u64) -> Vec<PoolOffset> {
    let mut found = Vec::new();
    tree.check(|finding| match finding {
        Finding::Object(object) if object.type_number == type_number => found.push(object.at),
        Finding::Object(_) => {}
        Finding::Damage(error) => panic!("{error}"),
    });
    found
}

/// The bytes of all objects that a check tells of, and the damage.
fn check_tree(tree: &Tree<'_, Arc<Mapping>>) -> (u64, Vec<IndexError>) {
    let (mut bytes, mut damage) = (0, Vec::new());
    tree.check(|finding| match finding {
        Finding::Object(object) => bytes += object.size,
        Finding::Damage(error) => damage.push(error),
    });
    (bytes, damage)
}

/// Slot number `index` of the node of 256 at `node`.
fn slot(node: PoolOffset, index: u8) -> PoolOffset {
    node.plus(NodeKind::N256.slots_off() + u64::from(index) * WORD)
}

#[test]
fn cycle_of_nodes_is_corruption() {
    let medium = pool();
    with_tree(&medium, |tree| {
        let top = TreeSlot::from_word(
            medium.memory().reading(|memory| memory.load8(tree.root().plus(NODE_END))).unwrap(),
        );
        let nodes = objects(tree, NodeKind::N256.type_number());
        assert_eq!(nodes.len(), usize::from(NODES));
        // To the node itself, to the one above it, and, from there, to a node that is below another slot as well.
        let own = TreeSlot::node(1, NodeKind::N256, 0, nodes[0]);
        let twice = (0..NodeKind::N48.capacity() as u64)
            .map(|index| top.at().plus(NodeKind::N48.slots_off() + index * WORD))
            .find(|place| {
                TreeSlot::from_word(medium.memory().reading(|memory| memory.load8(*place)).unwrap()).at()
                    == nodes[1]
            })
            .unwrap();
        let wrong = [
            (slot(nodes[0], 1), own),
            (slot(nodes[0], 2), top.with_byte(2)),
            (twice, TreeSlot::node(1, NodeKind::N256, 0, nodes[0])),
        ];
        for (place, word) in wrong {
            medium.store8(place, word.word());
        }
        let (bytes, damage) = check_tree(tree);
        assert!(bytes <= LEN, "{bytes}");
        for (at, _) in wrong {
            let what = "the node of the tree that the slot leads to";
            assert!(damage.contains(&IndexError::Corrupt { what, at }), "{at}: {damage:?}");
        }
    });
    assert_eq!(check_pool(Arc::clone(&medium), &[&LAYOUT]).worst(), Some(Severity::Damage));
    let repair = repair_pool(&medium, LOG_EPOCH, &[&LAYOUT]).unwrap();
    assert!(repair.after.is_clean(), "{}", repair.after);
}

#[test]
fn repeated_slots_to_large_leaf_are_bounded() {
    let medium = pool();
    let nodes = with_tree(&medium, |tree| objects(tree, NodeKind::N256.type_number()));
    let leaf = with_tree(&medium, |tree| {
        let mut large = None;
        tree.check(|finding| match finding {
            Finding::Object(object) if object.size as usize > LARGE_LEN => large = Some(object.at),
            _ => {}
        });
        large.unwrap()
    });
    for node in &nodes {
        for index in 0..=u8::MAX {
            medium.store8(slot(*node, index), TreeSlot::leaf(index, leaf).word());
        }
    }
    let (bytes, damage) = with_tree(&medium, check_tree);
    assert!(bytes <= 2 * LEN, "{bytes} bytes of objects were looked at");
    let most = nodes.len() * 256;
    assert!(!damage.is_empty() && damage.len() < most / 10, "{} findings", damage.len());
    assert_eq!(check_pool(Arc::clone(&medium), &[&LAYOUT]).worst(), Some(Severity::Damage));
    let repair = repair_pool(&medium, LOG_EPOCH, &[&LAYOUT]).unwrap();
    assert!(repair.after.is_clean(), "{}", repair.after);
    let (content, _) = contents(&medium).unwrap();
    assert_eq!(content[LARGE].len(), LARGE_LEN, "what was unlinked is back");
    assert_eq!(content.len(), 1 + nodes.len() * 256, "and so are the others");
}
