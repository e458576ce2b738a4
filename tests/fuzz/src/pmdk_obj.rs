//! Pools of libpmemobj: any descriptor, heap and logs get a result, and a second repair finds nothing to do.

#[path = "../../../engines/obj/tests/crash/fixture.rs"]
mod fixture;

use fixture::{LANES, chunk, left_by_a_crash};
use lode_layout::PmdkObj;
use lode_obj::{ObjView, check, plan_repair, recover, repair};
use lode_testing::memory;

/// Bytes of a change: the place, an offset from it in words, and the new word.
const CHANGE: usize = 12;

/// Places from which changes are counted.
const PLACES: [u64; 6] = [PmdkObj::OFF, LANES, 0x4000, 0x4400, chunk(0), chunk(1)];

/// Changes words of a pool that a crash left, recovers or repairs it, and reads all of it.
pub fn run(data: &[u8]) {
    let mut pool = left_by_a_crash();
    let is_recovered = data.first().is_some_and(|first| first & 1 != 0);
    if is_recovered {
        let medium = memory::from_bytes(&pool.bytes);
        recover(&medium).expect("the pool is sound before its words are changed");
        pool.bytes = memory::bytes(&medium);
    }
    let (changes, _) = data.get(1..).unwrap_or_default().as_chunks::<CHANGE>();
    for [place, a, b, c, word @ ..] in changes {
        let at =
            PLACES[usize::from(*place) % PLACES.len()] + 8 * u64::from(u32::from_le_bytes([*a, *b, *c, 0]));
        if at + 8 <= pool.bytes.len() as u64 {
            pool.word(at, u64::from_le_bytes(*word));
        }
    }
    let medium = memory::from_bytes(&pool.bytes);
    let found = check(&medium);
    let plan = plan_repair(&medium);
    assert_eq!(plan.repaired.len() + plan.left.len(), found.len());
    if let Ok(view) = ObjView::open(&medium) {
        assert!(view.objects().count() < 4 << 20);
        let _ = view.statistics();
        let pieces = view.pieces_in(&(0..u64::MAX)).into_iter().filter_map(Result::ok);
        assert!(pieces.count() < 4 << 20);
        for at in PLACES {
            assert!(view.pieces_in(&(at..at + 1)).len() < 4 << 20);
        }
    }
    let _ = recover(&medium);
    if repair(&medium).is_ok() {
        let again = repair(&medium).expect("memory is there");
        assert_eq!((again.repaired, again.given_back), (Vec::new(), 0));
    }
}

/// Returns changes of the first words of each place.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let change = |first: u8, place: u8, word: u8, value: u64| {
        [&[first, place, word, 0, 0][..], &value.to_le_bytes()].concat()
    };
    vec![
        ("crashed", vec![0]),
        ("recovered", vec![1]),
        ("descriptor", change(0, 0, 0, 7)),
        ("next", change(0, 1, 121, 0x8_0000)),
        ("chunk", change(1, 3, 8, 4 | 9 << 16 | 7 << 32)),
        ("run", change(1, 4, 0, 1)),
        ("bitmap", change(1, 4, 2, u64::MAX)),
        ("object", change(0, 4, 40, 1 << 40)),
    ]
}
