//! Whatever a conversion does with the values that it gets, each object has one owner, of its own type.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::Pool;
use lode_heap::{HeapError, Migrate, PBox, PVec, Persist};
use std::sync::Mutex;

lode_heap::brand!(Kept);
lode_heap::brand!(Inline);

/// A vector that a conversion keeps.
static KEPT: Mutex<Option<PVec<u64, Kept>>> = Mutex::new(None);

mod before {
    use super::{Inline, Kept, PBox, PVec, Persist};

    #[derive(Persist)]
    #[persist(brand = Kept)]
    #[repr(C)]
    pub(super) struct Node {
        pub(super) number: u64,
        pub(super) values: PVec<u64, Kept>,
    }

    #[derive(Persist)]
    #[persist(brand = Kept)]
    #[repr(C)]
    pub(super) struct Root {
        pub(super) nodes: [PBox<Node, Kept>; 2],
    }

    #[derive(Persist)]
    #[persist(brand = Inline)]
    #[repr(C)]
    pub(super) struct Field {
        pub(super) number: u64,
    }

    #[derive(Persist)]
    #[persist(brand = Inline, type_number = 7)]
    #[repr(C)]
    pub(super) struct Outer {
        pub(super) field: Field,
    }

    #[derive(Persist)]
    #[persist(brand = Inline)]
    #[repr(C)]
    pub(super) struct Whole {
        pub(super) outer: PBox<[Outer; 4], Inline>,
    }
}

#[derive(Persist)]
#[persist(brand = Kept, was = NodeV1)]
#[repr(C)]
struct Node {
    values: PVec<u64, Kept>,
    number: u64,
    more: u64,
}

#[derive(Persist)]
#[persist(brand = Kept, name = "Node")]
#[repr(C)]
struct NodeV1 {
    number: u64,
    values: PVec<u64, Kept>,
}

impl Migrate<NodeV1> for Node {
    /// Gives the vector of the first node to the second one.
    fn migrate(old: NodeV1) -> Result<Node, HeapError> {
        let mut kept = KEPT.lock().unwrap();
        let values = kept.take().unwrap_or_default();
        *kept = Some(old.values);
        Ok(Node { values, number: old.number, more: 0 })
    }
}

#[derive(Persist)]
#[persist(brand = Kept)]
#[repr(C)]
struct Root {
    nodes: [PBox<Node, Kept>; 2],
}

#[test]
fn pointers_stay_in_their_object() {
    let mut pools = [Pool::new(1 << 20), Pool::new(1 << 20)];
    let [pool, other] = &mut pools;
    let mut heap = pool.typed::<Kept>();
    let root = heap.root_or_init(|_| Ok(before::Root { nodes: [PBox::null(), PBox::null()] })).unwrap();
    heap.run(|tx| {
        for (node, number) in root.nodes.iter().zip(1..) {
            node.set(tx, tx.alloc(before::Node { number, values: PVec::new() })?)?;
            node.get(tx)?.unwrap().values.extend_from_slice(tx, &vec![number; 1000 / number as usize])?;
        }
        Ok(())
    })
    .unwrap();
    let refused = heap.migrate::<Root>(|_| ()).unwrap_err();
    assert!(refused.to_string().contains("not one of the old"), "{refused}");
    // Nor does any other object get it, in this pool or another.
    let kept = KEPT.lock().unwrap().take().unwrap();
    let mut node = Some(Node { values: kept, number: 0, more: 0 });
    let other = other.typed::<Kept>();
    let made = other.root_or_init(|_| Ok(node.take().unwrap()));
    assert_eq!(made.err(), Some(HeapError::StrayPointer));
    assert_eq!(other.objects().count(), 0);
}

/// The outer type says by its number that it has not changed.
#[test]
fn changed_inner_types_are_refused() {
    mod after {
        use super::{HeapError, Inline, Migrate, PBox, Persist};

        #[derive(Persist)]
        #[persist(brand = Inline, was = FieldV1)]
        #[repr(C)]
        pub(super) struct Field {
            target: PBox<u64, Inline>,
        }

        #[derive(Persist)]
        #[persist(brand = Inline, name = "Field")]
        #[repr(C)]
        pub(super) struct FieldV1 {
            number: u64,
        }

        impl Migrate<FieldV1> for Field {
            fn migrate(_: FieldV1) -> Result<Field, HeapError> {
                unreachable!("it lies in an object that is not converted")
            }
        }

        #[derive(Persist)]
        #[persist(brand = Inline, type_number = 7)]
        #[repr(C)]
        pub(super) struct Outer {
            field: Field,
        }

        #[derive(Persist)]
        #[persist(brand = Inline)]
        #[repr(C)]
        pub(super) struct Whole {
            outer: PBox<[Outer; 4], Inline>,
        }
    }
    mod aligned {
        use super::{Inline, PBox, Persist, before};

        #[derive(Persist)]
        #[persist(brand = Inline, type_number = 7)]
        #[repr(C, align(16))]
        pub(super) struct Outer {
            field: before::Field,
        }

        #[derive(Persist)]
        #[persist(brand = Inline)]
        #[repr(C)]
        pub(super) struct Whole {
            outer: PBox<[Outer; 4], Inline>,
        }
    }
    let mut pool = Pool::new(1 << 20);
    let mut heap = pool.typed::<Inline>();
    let root = heap.root_or_init(|_| Ok(before::Whole { outer: PBox::null() })).unwrap();
    let outer = |number| before::Outer { field: before::Field { number } };
    heap.run(|tx| root.outer.set(tx, tx.alloc([1, 2, 3, 4].map(outer))?)).unwrap();
    assert!(matches!(heap.migrate::<after::Whole>(|_| ()), Err(HeapError::OtherTypes(_))));
    assert!(matches!(heap.migrate::<aligned::Whole>(|_| ()), Err(HeapError::OtherTypes(_))));
    assert!(heap.root::<before::Whole>().unwrap().is_some());
}
