//! Wrong use is an error, and rules of requests hold.

use crate::fixture::new_pool;
use lode_layout::{PmdkObjectHeaderKind, PoolOffset};
use lode_obj::{Action, ClassDescription, ObjError, Pool, Request, Reservation, check};
use lode_pmem::{Mapping, Medium};
use lode_testing::{memory, scaled, seed};
use std::sync::Arc;

const LEN: u64 = 16 << 20;

fn reserve(pool: &Pool<Mapping>, size: u64) -> Reservation {
    pool.reserve(&Request { size, type_number: 3, ..Request::default() }).unwrap()
}

#[test]
fn objects_are_freed_once_and_reservations_published_once() {
    for size in [50, 3000, 400_000, 3_000_000] {
        let pool = new_pool(LEN);
        let reservation = reserve(&pool, size);
        let (publish, free) = (Action::Allocate(reservation), Action::Free(reservation.at));
        assert!(matches!(pool.publish(&[free]), Err(ObjError::Damaged(_))), "reserved");
        assert!(matches!(pool.publish(&[publish, publish]), Err(ObjError::ForeignReservation { .. })));
        pool.publish(&[publish]).unwrap();
        assert_eq!(pool.object(reservation.at).unwrap().type_number, 3);
        assert!(matches!(pool.publish(&[publish]), Err(ObjError::ForeignReservation { .. })), "twice");
        pool.cancel(&reservation);
        // As with PMDK, a publication may free an object twice.
        pool.publish(&[free, free]).unwrap();
        assert!(matches!(pool.publish(&[free]), Err(ObjError::Damaged(_))), "{size}: again");
        assert!(pool.object(reservation.at).is_err());
        let again = reserve(&pool, size);
        pool.cancel(&again);
        pool.cancel(&again);
        assert!(matches!(pool.publish(&[Action::Allocate(again)]), Err(ObjError::ForeignReservation { .. })));
        let medium = close(pool);
        assert_eq!(check(&medium), []);
    }
}

/// Ends a pool as a process does that ends, opens it again, closes it, and returns its bytes as a medium.
fn close(pool: Pool<Mapping>) -> Mapping {
    let left = Arc::new(memory::from_bytes(&memory::bytes(pool.medium())));
    drop(pool);
    Pool::open(Arc::clone(&left)).unwrap().close().unwrap();
    memory::from_bytes(&memory::bytes(&*left))
}

#[test]
fn reservations_that_a_program_changed_are_refused() {
    let pool = new_pool(LEN);
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for size in [50, 3000, 400_000] {
        for _ in 0..300 {
            let sound = reserve(&pool, size);
            let mut words = sound.encode();
            words[rng.usize(..4)] ^= 1 << rng.u8(..64);
            let changed = Reservation::decode(words);
            pool.cancel(&Reservation::decode([rng.u64(..), rng.u64(..), rng.u64(..), rng.u64(..)]));
            match pool.publish(&[Action::Allocate(changed)]) {
                // The length of chunks, which the allocator knows.
                Ok(()) => pool.publish(&[Action::Free(sound.at)]).unwrap(),
                Err(error) => {
                    assert!(matches!(error, ObjError::ForeignReservation { .. }), "{changed:?}: {error}");
                    pool.cancel(&sound);
                }
            }
        }
    }
    for _ in 0..2000 {
        let at = PoolOffset::new(rng.u64(..LEN + 4096));
        assert!(pool.object(at).is_err() && pool.publish(&[Action::Free(at)]).is_err(), "{at}");
    }
    assert_eq!(check(&close(pool)), []);
}

#[test]
fn requests_that_no_pool_has_room_for_are_errors() {
    let pool = new_pool(LEN);
    let ask = |request: Request| pool.reserve(&request).unwrap_err();
    assert_eq!(ask(Request::default()), ObjError::Empty);
    let size = u64::MAX;
    assert!(matches!(ask(Request { size, ..Request::default() }), ObjError::TooLarge { .. }));
    let full = ask(Request { size: 1 << 30, ..Request::default() });
    assert!(matches!(full, ObjError::Full { largest, .. } if largest > 8 << 20), "{full}");
    let size = 10;
    assert_eq!(ask(Request { size, class: Some(200), ..Request::default() }), ObjError::NoClass { id: 200 });
    assert_eq!(
        ask(Request { size, arena: Some(900), ..Request::default() }),
        ObjError::NoArena { number: 900 }
    );
    let unfit = ask(Request { size: 20_000, class: Some(1), ..Request::default() });
    assert_eq!(unfit, ObjError::UnfitClass { id: 1, size: 20_000 });
}

#[test]
fn classes_of_programs_have_their_headers_and_alignment() {
    let pool = new_pool(LEN);
    for (header, len) in [
        (PmdkObjectHeaderKind::None, 0),
        (PmdkObjectHeaderKind::Compact, 16),
        (PmdkObjectHeaderKind::Legacy, 64),
    ] {
        for alignment in [0, 256] {
            let class = ClassDescription { unit_size: 768, alignment, units_per_run: 300, header, id: None };
            let id = pool.add_class(&class).unwrap();
            assert_eq!(pool.class(id).unwrap().unit_size, 768);
            let request = Request { size: 700, type_number: 5, class: Some(id), ..Request::default() };
            let objects: Vec<Reservation> = (0..400).map(|_| pool.reserve(&request).unwrap()).collect();
            for object in &objects {
                assert_eq!(object.usable_size, 768 - len);
                assert!(alignment == 0 || object.at.get().is_multiple_of(alignment));
                pool.publish(&[Action::Allocate(*object)]).unwrap();
                let found = pool.object(object.at).unwrap();
                assert_eq!(found.type_number, if len == 0 { 0 } else { 5 });
            }
            pool.publish(&objects.iter().map(|object| Action::Free(object.at)).collect::<Vec<_>>()).unwrap();
        }
    }
    assert_eq!(check(&close(pool)), []);
}

#[test]
fn root_grows_and_keeps_its_content() {
    let pool = new_pool(LEN);
    assert_eq!(pool.root().unwrap(), None);
    let refused = pool.root_of(100, |_| Err(ObjError::Empty));
    assert_eq!((refused, pool.root().unwrap()), (Err(ObjError::Empty), None));
    let fill = |at: PoolOffset, len: usize| pool.medium().store(at, &vec![7; len]);
    let first = pool
        .root_of(100, |at| {
            fill(at, 100);
            Ok::<(), ObjError>(())
        })
        .unwrap();
    assert_eq!(pool.root().unwrap(), Some((first, 100)));
    assert_eq!(pool.root_of(50, |_| Ok::<(), ObjError>(())).unwrap(), first);
    let large = pool.root_of(300_000, |_| Ok::<(), ObjError>(())).unwrap();
    assert_eq!(pool.root().unwrap(), Some((large, 300_000)));
    assert_eq!(pool.object_after(None).unwrap(), None);
    let object = reserve(&pool, 10);
    pool.publish(&[Action::Allocate(object)]).unwrap();
    assert_eq!(pool.object_after(None).unwrap(), Some(object.at));
    assert_eq!(pool.object_after(Some(object.at)).unwrap(), None);
    let medium = close(pool);
    assert_eq!(check(&medium), []);
    let bytes = memory::bytes(&medium);
    let root = &bytes[large.get() as usize..][..300_000];
    assert!(root[..100].iter().all(|byte| *byte == 7) && root[100..].iter().all(|byte| *byte == 0));
}

/// Headers inside of a block are left from earlier blocks, and mean nothing.
#[test]
fn places_of_earlier_blocks_hold_no_object() {
    let pool = new_pool(LEN);
    for size in [262_100, 500] {
        let earlier: Vec<_> = (0..3).map(|_| reserve(&pool, size)).collect();
        pool.publish(&earlier.iter().map(|object| Action::Allocate(*object)).collect::<Vec<_>>()).unwrap();
        pool.publish(&earlier.iter().map(|object| Action::Free(object.at)).collect::<Vec<_>>()).unwrap();
        let whole = reserve(&pool, 10 << 20);
        pool.publish(&[Action::Allocate(whole)]).unwrap();
        for object in earlier.iter().filter(|object| object.at != whole.at) {
            assert!(pool.object(object.at).is_err());
            assert!(pool.publish(&[Action::Free(object.at)]).is_err(), "{object:?}");
        }
        pool.publish(&[Action::Free(whole.at)]).unwrap();
    }
    assert_eq!(check(&close(pool)), []);
}

#[test]
fn stores_and_objects_are_published_together() {
    let pool = new_pool(LEN);
    let first = reserve(&pool, 100);
    pool.publish(&[Action::Allocate(first)]).unwrap();
    let second = reserve(&pool, 100);
    let store = Action::Store { at: first.at, value: second.at.get() };
    pool.publish(&[Action::Allocate(second), store]).unwrap();
    let word = pool.medium().memory().reading(|memory| memory.load8(first.at)).unwrap();
    assert_eq!(word, second.at.get());
}

/// Any bits may be wrong: opening and using a heap ends, with results or errors, and never with a store outside of it.
#[test]
fn damaged_heaps_are_refused_or_used() {
    let pool = new_pool(LEN);
    let sizes = [50, 50, 700, 3000, 262_100, 600_000];
    let objects: Vec<_> = sizes.iter().map(|size| reserve(&pool, *size)).collect();
    pool.publish(&objects.iter().map(|object| Action::Allocate(*object)).collect::<Vec<_>>()).unwrap();
    let sound = memory::bytes(&close(pool));
    let zone = 0x30_2400;
    let mut rng = fastrand::Rng::with_seed(seed(1));
    for _ in 0..scaled(50) {
        let mut bytes = sound.clone();
        for _ in 0..rng.u8(1..5) {
            let at = match rng.u8(..4) {
                0 => zone + rng.usize(..64 + 60 * 8),
                1 => objects[rng.usize(..objects.len())].at.get() as usize - 16 + rng.usize(..16),
                _ => zone + 64 + 65528 * 8 + rng.usize(..50) * (256 << 10) + rng.usize(..300),
            };
            bytes[at] ^= 1 << rng.u8(..8);
        }
        let Ok(pool) = Pool::open(memory::from_bytes(&bytes)) else { continue };
        for size in [50, 700, 3000, 20_000, 262_100, 900_000] {
            for _ in 0..3 {
                let request = Request { size, ..Request::default() };
                let reserved = pool.reserve(&request);
                let _ = reserved.and_then(|object| pool.publish(&[Action::Allocate(object)]));
            }
        }
        for object in &objects {
            let _ = (pool.object(object.at), pool.publish(&[Action::Free(object.at)]));
        }
        assert_eq!(memory::bytes(pool.medium()).len() as u64, LEN);
    }
}
