//! Open pools: transactions of any size, crashes without a power cut, closes, and what is left after each.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod full;
mod growth;

use lode_layout::{ObjSpill, ObjWords, PmdkHeader, PmdkKind, PmdkObj, PmdkPartHeader, PoolOffset};
use lode_obj::{Action, ObjError, ObjView, PieceKind, Pool, Request, check, recover};
use lode_pmem::{Mapping, Medium};
use lode_testing::memory;
use std::sync::Arc;
use uuid::Uuid;

const SIZE: u64 = 16 << 20;

/// Returns a new pool.
fn new_pool(size: u64) -> Arc<Mapping> {
    let medium = Arc::new(memory::persistent(size));
    let header = PmdkHeader::new(PmdkKind::Objects, Uuid::from_u128(7), Uuid::from_u128(8), 9);
    medium.store(PoolOffset::NULL, &header.encode());
    Pool::format(&medium, b"test").unwrap();
    medium
}

fn open(medium: &Arc<Mapping>) -> Pool<Arc<Mapping>> {
    Pool::open(Arc::clone(medium)).unwrap()
}

fn is_in_use(medium: &Mapping) -> bool {
    PmdkPartHeader::decode(&memory::bytes(medium)).unwrap().features.is_in_use()
}

fn read(medium: &Mapping, at: PoolOffset, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    medium.memory().reading(|memory| memory.read(at, &mut bytes)).unwrap();
    bytes
}

fn object(pool: &Pool<Arc<Mapping>>, size: u64) -> PoolOffset {
    let request = Request { size, type_number: 3, is_zeroed: true, ..Request::default() };
    let mut tx = pool.begin().unwrap();
    let reservation = pool.allocate(&mut tx, &request).unwrap();
    pool.commit(tx).unwrap();
    reservation.at
}

#[test]
fn pools_are_pmdks_after_the_close() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    assert!(is_in_use(&medium));
    let root = pool.root_of::<ObjError>(100, |_| Ok(())).unwrap();
    let at = object(&pool, 40);
    assert_eq!(pool.object(at).unwrap().type_number, 3);
    let mut tx = pool.begin().unwrap();
    pool.add_range(&mut tx, at, 8).unwrap();
    medium.store8(at, 77);
    pool.commit(tx).unwrap();
    let run = pool.run_id();
    pool.close().unwrap();
    assert!(!is_in_use(&medium));
    assert_eq!(check(&medium), []);
    let view = ObjView::open(&*medium).unwrap();
    assert_eq!(view.state().root, root);
    let counted = view.statistics().unwrap();
    assert_eq!(
        (counted.objects, counted.internal_objects, counted.allocated.0),
        (1, 1, view.state().allocated)
    );
    let pool = open(&medium);
    assert_eq!(pool.run_id(), run + 2);
    assert_eq!((pool.root().unwrap(), pool.object_after(None).unwrap()), (Some((root, 100)), Some(at)));
    assert_eq!(read(&medium, at, 8), 77u64.to_le_bytes());
}

/// Each byte belongs to one piece, and each object is one.
#[test]
fn pieces_cover_the_pool() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    pool.root_of::<ObjError>(100, |_| Ok(())).unwrap();
    for size in [40, 100, 1000, 300_000, 40] {
        object(&pool, size);
    }
    pool.close().unwrap();
    let view = ObjView::open(&*medium).unwrap();
    let pieces: Vec<_> = view.pieces_in(&(0..SIZE)).into_iter().map(Result::unwrap).collect();
    let mut end = 0;
    for piece in &pieces {
        assert_eq!(piece.at.get(), end, "{piece:?}");
        end = piece.at.get() + piece.len;
    }
    assert_eq!(end, SIZE);
    let objects: Vec<_> = view.objects().map(Result::unwrap).collect();
    let found = pieces.iter().filter_map(|piece| match &piece.kind {
        PieceKind::Object(object) => Some(*object),
        _ => None,
    });
    assert_eq!(found.collect::<Vec<_>>(), objects);
    assert_eq!(objects.len(), 6);
    for piece in pieces {
        for at in [piece.at.get(), piece.at.get() + piece.len - 1] {
            let [Ok(found)] = &view.pieces_in(&(at..at + 1))[..] else { panic!("{at:#x}") };
            if let PieceKind::Object(_) = piece.kind {
                assert_eq!(found, &piece);
            }
        }
    }
}

/// A kill: nothing is lost with the process, and nothing is at home that was not.
#[test]
fn pools_come_back_after_kills() {
    let medium = new_pool(SIZE);
    let at = {
        let pool = open(&medium);
        let at = object(&pool, 4000);
        let mut tx = pool.begin().unwrap();
        pool.add_range(&mut tx, at, 100).unwrap();
        medium.store(at, &[7; 100]);
        pool.commit(tx).unwrap();
        let mut tx = pool.begin().unwrap();
        pool.add_range(&mut tx, at.plus(50), 100).unwrap();
        medium.store(at.plus(50), &[9; 100]);
        pool.allocate(&mut tx, &Request { size: 10, ..Request::default() }).unwrap();
        std::mem::forget(tx);
        at
    };
    assert!(is_in_use(&medium));
    assert!(recover(&*medium).unwrap().was_in_use);
    assert!(!is_in_use(&medium));
    assert_eq!(check(&medium), []);
    assert_eq!(read(&medium, at, 200), [[7; 100], [0; 100]].concat());
    assert_eq!(ObjView::open(&*medium).unwrap().statistics().unwrap().objects, 1);
    assert!(!recover(&*medium).unwrap().was_in_use);
}

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Commit,
    Abort,
    Kill,
    Close,
}

#[test]
fn transactions_may_be_larger_than_the_log() {
    for end in [End::Commit, End::Abort, End::Kill, End::Close] {
        for step in [3 << 20, 200_000, 1000] {
            let medium = new_pool(SIZE);
            let pool = open(&medium);
            let len = 3 << 20;
            let at = object(&pool, len);
            let old: Vec<u8> = (0..len).map(|index| (index / 100) as u8).collect();
            medium.store(at, &old);
            pool.persist(at, len).unwrap();
            let mut tx = pool.begin().unwrap();
            for from in (0..len).step_by(step) {
                pool.add_range(&mut tx, at.plus(from), (step as u64).min(len - from)).unwrap();
                medium.store(at.plus(from), &vec![0xEE; (step as u64).min(len - from) as usize]);
                // What was added is not kept anew.
                pool.add_range(&mut tx, at.plus(from / 2), 50).unwrap();
            }
            // Others commit meanwhile.
            let other = object(&pool, 100);
            match end {
                End::Commit => pool.commit(tx).unwrap(),
                End::Abort => pool.abort(tx).unwrap(),
                End::Kill | End::Close => std::mem::forget(tx),
            }
            if end == End::Kill {
                drop(pool);
                recover(&*medium).unwrap();
            } else {
                pool.close().unwrap();
            }
            let expected = if end == End::Commit { vec![0xEE; len as usize] } else { old };
            assert!(read(&medium, at, len as usize) == expected, "{end:?}, {step}");
            assert_eq!(check(&medium), [], "{end:?}, {step}");
            let pool = open(&medium);
            assert_eq!(pool.object(other).unwrap().usable_size, 112, "{end:?}, {step}");
        }
    }
}

#[test]
fn transactions_may_allocate_more_than_a_record_names() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    let mut tx = pool.begin().unwrap();
    let mut objects = Vec::new();
    for index in 0..20_000 {
        let request = Request { size: 64, type_number: index, ..Request::default() };
        let at = pool.allocate(&mut tx, &request).unwrap().at;
        medium.store8(at, index);
        objects.push(at);
    }
    pool.commit(tx).unwrap();
    let mut tx = pool.begin().unwrap();
    for at in &objects[5000..] {
        pool.free(&mut tx, *at).unwrap();
    }
    pool.commit(tx).unwrap();
    drop(pool);
    recover(&*medium).unwrap();
    assert_eq!(check(&medium), []);
    let view = ObjView::open(&*medium).unwrap();
    let found: Vec<_> = view.objects().map(|object| object.unwrap().at).collect();
    let mut expected = objects[..5000].to_vec();
    expected.sort();
    assert!(found == expected);
    let values = view
        .objects()
        .map(|object| object.unwrap())
        .all(|object| read(&medium, object.at, 8) == object.type_number.to_le_bytes());
    assert!(values);
}

/// A run that an allocation needs is a record of its own, and so is the first spill of a transaction.
#[test]
fn heap_goes_on_beside_as_many_transactions_as_pmdk_has_lanes() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    let mut open: Vec<_> = (0..1024).map(|_| pool.begin().unwrap()).collect();
    let reserved = pool.reserve(&Request { size: 64, type_number: 3, ..Request::default() }).unwrap();
    pool.publish(&[Action::Allocate(reserved)]).unwrap();
    pool.add_range(&mut open[7], reserved.at, 64).unwrap();
    open.into_iter().for_each(|tx| pool.abort(tx).unwrap());
    pool.close().unwrap();
    assert_eq!(check(&medium), []);
}

#[test]
fn refused_transactions_change_nothing() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    let (at, other) = (object(&pool, 64), object(&pool, 64));
    let mut tx = pool.begin().unwrap();
    assert!(pool.add_range(&mut tx, PoolOffset::new(SIZE - 4), 8).is_err());
    assert!(pool.add_range(&mut tx, PoolOffset::new(0x4000), 8).is_err());
    assert!(pool.free(&mut tx, at.plus(8)).is_err());
    let store = Action::Store { at: PoolOffset::new(8), value: 1 };
    assert!(pool.publish_in(&mut tx, &[store]).is_err());
    pool.add_range(&mut tx, at, 8).unwrap();
    medium.store8(at, 1);
    pool.free(&mut tx, at).unwrap();
    pool.free(&mut tx, other).unwrap();
    pool.publish(&[Action::Free(other)]).unwrap();
    assert!(pool.commit(tx).is_err(), "an object of it is free by now");
    assert_eq!(read(&medium, at, 8), [0; 8]);
    assert!(pool.object(at).is_ok());
    pool.close().unwrap();
    assert_eq!(check(&medium), []);
}

#[test]
fn publications_may_have_many_actions() {
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    let at = object(&pool, 8 * 3000);
    let mut actions = Vec::new();
    let mut reservations = Vec::new();
    for index in 0..3000 {
        let reservation = pool.reserve(&Request { size: 40, type_number: 5, ..Request::default() }).unwrap();
        reservations.push(reservation);
        actions.push(Action::Store { at: at.plus(8 * index), value: reservation.at.get() });
        actions.push(Action::Allocate(reservation));
    }
    let wrong = [&actions[..], &[Action::Free(at.plus(8))]].concat();
    assert!(pool.publish(&wrong).is_err());
    assert_eq!(read(&medium, at, 8), [0; 8], "nothing was published");
    pool.publish(&actions).unwrap();
    drop(pool);
    recover(&*medium).unwrap();
    assert_eq!(check(&medium), []);
    for (index, reservation) in reservations.iter().enumerate() {
        assert_eq!(read(&medium, at.plus(8 * index as u64), 8), reservation.at.get().to_le_bytes());
    }
    let view = ObjView::open(&*medium).unwrap();
    assert_eq!(view.statistics().unwrap().objects, 3001);
}

fn words() -> ObjWords {
    ObjWords::of(&PmdkObj { layout: Vec::new(), lanes: 0x2000, lane_count: 1024, heap: 0x30_2000 })
}

/// Returns the number of transactions whose spills recovery would put back.
fn spilled(medium: &Mapping) -> usize {
    (0..ObjWords::SPILLS).filter(|index| read(medium, words().spill(*index), 8) != [0; 8]).count()
}

/// A transaction of many ranges spills to one space after the other, and one word leads to all of them.
#[test]
fn transactions_may_have_many_spills() {
    const RANGES: u64 = 9_000;
    let medium = new_pool(SIZE);
    let pool = open(&medium);
    let at = object(&pool, RANGES * 256);
    let change = |pool: &Pool<Arc<Mapping>>, value: u64| {
        let mut tx = pool.begin().unwrap();
        for number in 0..RANGES {
            // In no order, each in a unit of its own.
            let place = at.plus(number * 2_477 % RANGES * 256);
            pool.add_range(&mut tx, place, 8).unwrap();
            medium.store8(place, value + number);
        }
        tx
    };
    let values = || (0..RANGES).map(|number| read(&medium, at.plus(number * 2_477 % RANGES * 256), 8));
    let is_all = |value: u64| values().zip(value..).all(|(found, value)| found == value.to_le_bytes());
    pool.commit(change(&pool, 1 << 20)).unwrap();
    assert_eq!((is_all(1 << 20), spilled(&medium)), (true, 0));
    pool.abort(change(&pool, 2 << 20)).unwrap();
    assert_eq!((is_all(1 << 20), spilled(&medium)), (true, 0));
    // The log has none of the old bytes after that.
    pool.checkpoint().unwrap();
    std::mem::forget(change(&pool, 3 << 20));
    assert_eq!((is_all(3 << 20), spilled(&medium)), (true, 1));
    drop(pool);
    let pool = open(&medium);
    assert_eq!((is_all(1 << 20), spilled(&medium)), (true, 0));
    pool.close().unwrap();
    assert_eq!(check(&medium), []);
}

/// As many transactions as a pool has lanes may be too large for the log at a time.
#[test]
fn as_many_transactions_spill_as_are_open() {
    const OPEN: u64 = 1_000;
    const RANGES: u64 = 20;
    let medium = new_pool(300 << 20);
    let pool = open(&medium);
    let at = object(&pool, OPEN * RANGES * 256);
    let places = |number: u64| (0..RANGES).map(move |range| at.plus((number * RANGES + range) * 256));
    let begin = |number: u64| {
        let mut tx = pool.begin().unwrap();
        for place in places(number) {
            pool.add_range(&mut tx, place, 1).unwrap();
            medium.store(place, &[(number % 255) as u8 + 1]);
        }
        tx
    };
    let open_at_once: Vec<_> = (0..OPEN).map(begin).collect();
    let most = spilled(&medium);
    assert!(most > 512, "{most} transactions have spilled");
    for (number, tx) in (0u64..).zip(open_at_once) {
        match number % 3 {
            0 => pool.commit(tx).unwrap(),
            1 => pool.abort(tx).unwrap(),
            // Rolled back by the next open.
            _ => std::mem::forget(tx),
        }
    }
    drop(pool);
    let pool = Pool::open(Arc::clone(&medium)).unwrap();
    assert_eq!(spilled(&medium), 0);
    for number in 0..OPEN {
        let expected = if number % 3 == 0 { (number % 255) as u8 + 1 } else { 0 };
        let is_right = |place| read(&medium, place, 1) == [expected];
        assert!(places(number).all(is_right), "transaction {number}");
    }
    pool.close().unwrap();
}

/// Spills that lead to each other for ever are damage, which an open names.
#[test]
fn circle_of_spills_is_refused() {
    let medium = new_pool(SIZE);
    let uuid = PmdkPartHeader::decode(&memory::bytes(&medium)).unwrap().poolset_uuid.into_bytes();
    let pool = open(&medium);
    let at = object(&pool, 4 << 20);
    let mut tx = pool.begin().unwrap();
    pool.add_range(&mut tx, at, 3 << 20).unwrap();
    std::mem::forget(tx);
    drop(pool);
    let word = (0..ObjWords::SPILLS)
        .map(|index| words().spill(index))
        .find(|word| read(&medium, *word, 8) != [0; 8]);
    let spill = PoolOffset::new(u64::from_le_bytes(read(&medium, word.unwrap(), 8).try_into().unwrap()));
    let header = read(&medium, spill, ObjSpill::LEN).try_into().unwrap();
    let header = ObjSpill { before: spill, ..ObjSpill::decode(header, &uuid, SIZE).unwrap() };
    medium.store(spill, &header.encode(&uuid));
    let Err(error) = Pool::open(Arc::clone(&medium)) else { panic!("a circle was followed to its end") };
    assert!(matches!(error, ObjError::Damaged { .. }) && error.to_string().contains("len"), "{error}");
}
