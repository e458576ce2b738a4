//! A pool opens only with the types that it was made with, one heap to a brand.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::Pool;
use lode_heap::{CellValue, HeapError, PBox, PCell, PMutex, PString, PVec, Persist};
use lode_layout::{TYPE_TYPE_TABLE, TYPE_TYPED_ROOT};
use std::panic::{AssertUnwindSafe, catch_unwind};

lode_heap::brand!(Reopened);
lode_heap::brand!(Other);
lode_heap::brand!(Owner);
lode_heap::brand!(Cells);

#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
struct Point {
    x: u32,
    y: u32,
    z: u64,
}

#[derive(Persist)]
#[persist(brand = Reopened)]
#[repr(C)]
struct Root {
    mutex: PMutex<PCell<u64, Reopened>, Reopened>,
    name: PString<Reopened>,
}

#[derive(Persist)]
#[persist(brand = Reopened, type_number = 77)]
#[repr(C)]
struct Renamed {
    count: PCell<u64, Reopened>,
}

#[test]
fn root_type_is_checked() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Reopened>();
    assert!(heap.root::<Root>().unwrap().is_none());
    let root =
        heap.root_or_init(|_| Ok(Root { mutex: PMutex::new(PCell::new(3)), name: PString::new() })).unwrap();
    // Lost with a lock held: the lock is open when the pool is opened again.
    heap.run(|tx| {
        root.mutex.lock(tx)?.set(tx, 4)?;
        root.name.set(tx, "Magnes")
    })
    .unwrap();
    std::mem::forget(heap.guard());
    drop(heap);
    let heap = pool.typed::<Reopened>();
    let root = heap.root_or_init::<Root>(|_| panic!("there is a root")).unwrap();
    heap.run(|tx| {
        assert_eq!(root.mutex.lock(tx)?.get(tx)?, 4);
        assert_eq!(root.name.get(tx)?, "Magnes");
        root.name.push_str(tx, "ia")?;
        Ok(())
    })
    .unwrap();
    assert_eq!(root.name.load(&heap.guard()).unwrap(), "Magnesia");
    assert_eq!(<Renamed as Persist<Reopened>>::TYPE_NUMBER, 77);
    let Err(error) = heap.root::<Renamed>() else { panic!("a root of another type was lent") };
    assert!(matches!(error, HeapError::OtherTypes(_)), "{error}");
    let Err(inside) = heap.run(|tx| tx.root::<Renamed>().map(drop)) else { panic!("as above") };
    assert_eq!(inside, error);
}

#[derive(Persist)]
#[persist(brand = Owner)]
#[repr(C)]
struct Node {
    number: u64,
    left: PBox<Node, Owner>,
    right: PBox<Node, Owner>,
    text: PString<Owner>,
}

fn node(number: u64) -> Node {
    Node { number, left: PBox::null(), right: PBox::null(), text: PString::new() }
}

#[test]
fn free_is_recursive() {
    let mut pool = Pool::new(4 << 20);
    let heap = pool.typed::<Owner>();
    let root = heap.root_or_init(|_| Ok(node(0))).unwrap();
    let build = |depth: u64| {
        heap.run(|tx| {
            let mut last = root;
            for number in 1..=depth {
                let new = tx.alloc(node(number))?;
                assert_eq!(new.number, number);
                last.left.set(tx, new)?;
                last = last.left.get(tx)?.expect("just set");
                assert_eq!(last.number, number);
                last.text.set(tx, "a text of its own")?;
                last.right.set(tx, tx.alloc(node(1000 + number))?)?;
            }
            Ok(())
        })
    };
    build(100).unwrap();
    assert_eq!(heap.objects().count(), 3 + 3 * 100);
    let numbers: Vec<u64> = {
        let guard = heap.guard();
        let (mut numbers, mut next) = (Vec::new(), Some(root));
        while let Some(node) = next {
            numbers.push(node.number);
            next = node.left.load(&guard).unwrap();
        }
        numbers
    };
    assert_eq!(numbers, (0..=100).collect::<Vec<_>>());
    // Setting frees the old list, a dropped `Owned` frees itself.
    build(3).unwrap();
    assert_eq!(heap.objects().count(), 3 + 3 * 3);
    heap.run(|tx| {
        let taken = root.left.take(tx)?.expect("there is a list");
        assert!(root.left.take(tx)?.is_none());
        assert_eq!(taken.left.get(tx)?.map(|node| node.number), Some(2));
        drop(tx.alloc(node(5))?);
        root.right.set(tx, taken)
    })
    .unwrap();
    assert_eq!(heap.objects().count(), 3 + 3 * 3);
    heap.run(|tx| root.right.take(tx)?.expect("moved there").free()).unwrap();
    assert_eq!(
        heap.objects().map(Result::unwrap).map(|object| object.type_number).collect::<Vec<_>>(),
        [<Node as Persist<Owner>>::TYPE_NUMBER, TYPE_TYPE_TABLE, TYPE_TYPED_ROOT]
    );
}

#[derive(Persist)]
#[persist(brand = Cells)]
#[repr(C)]
struct CellRoot {
    byte: PCell<u8, Cells>,
    float: PCell<f32, Cells>,
    point: PCell<Point, Cells>,
    points: PVec<Point, Cells>,
    grid: [PCell<i16, Cells>; 5],
}

#[test]
fn cells_round_trip() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Cells>();
    let p = |x| Point { x, y: 2, z: u64::MAX };
    let root = heap
        .root_or_init(|_| {
            let grid = [-1, 0, 1, i16::MIN, i16::MAX].map(PCell::new);
            let (byte, float) = (PCell::new(255), PCell::new(-0.5));
            Ok(CellRoot { byte, float, point: PCell::new(p(1)), points: PVec::new(), grid })
        })
        .unwrap();
    heap.run(|tx| {
        assert_eq!((root.byte.get(tx)?, root.float.get(tx)?, root.point.get(tx)?), (255, -0.5, p(1)));
        root.byte.set(tx, 1)?;
        root.float.set(tx, 2.5)?;
        root.point.set(tx, p(7))?;
        root.grid[2].set(tx, -77)?;
        for x in 0..200 {
            root.points.push(tx, p(x))?;
        }
        assert!(root.points.set(tx, 150, p(9999))?);
        assert!(!root.points.set(tx, 200, p(0))?);
        assert_eq!(root.points.pop(tx)?, Some(p(199)));
        assert_eq!((root.points.get(tx, 150)?, root.points.get(tx, 199)?), (Some(p(9999)), None));
        assert_eq!((root.byte.get(tx)?, root.float.get(tx)?, root.point.get(tx)?), (1, 2.5, p(7)));
        Ok(())
    })
    .unwrap();
    let guard = heap.guard();
    assert_eq!(
        (root.byte.load(&guard), root.float.load(&guard), root.point.load(&guard)),
        (Ok(1), Ok(2.5), Ok(p(7)))
    );
    assert_eq!(root.grid.each_ref().map(|cell| cell.load(&guard).unwrap()), [-1, 0, -77, i16::MIN, i16::MAX]);
    let points = root.points.load_all(&guard).unwrap();
    assert_eq!((points.len(), points[150], points[198]), (199, p(9999), p(198)));
    assert_eq!(
        (root.points.load(&guard, 3).unwrap(), root.points.load(&guard, 199).unwrap()),
        (Some(p(3)), None)
    );
    drop(guard);
    heap.run(|tx| root.points.clear(tx)).unwrap();
    assert_eq!(
        (root.points.load_len(&heap.guard()), heap.objects().count()),
        (0, 3),
        "the root, the root object and its types"
    );
}

#[test]
fn misplaced_guard_and_cell_are_refused() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Other>();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        heap.run(|_| {
            drop(heap.guard());
            Ok(())
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(heap.run(|_| heap.root_or_init(|_| Ok(5u64)).copied()), Err(HeapError::InTransaction));
    let stray = PCell::<u64, Other>::new(1);
    assert_eq!(heap.run(|tx| stray.set(tx, 2)), Err(HeapError::OtherPool));
    let stray = PBox::<u64, Other>::null();
    assert_eq!(heap.run(|tx| stray.set(tx, tx.alloc(5)?)), Err(HeapError::OtherPool));
    assert_eq!(heap.objects().count(), 0);
}
