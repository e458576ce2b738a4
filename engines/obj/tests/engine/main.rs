//! Damage of a heap is found, named by its place, and repaired where that is certain.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../crash/fixture.rs"]
mod fixture;

use fixture::{LANES, Pool, chunk, chunk_header, left_by_a_crash};
use lode_layout::{PmdkChunk, PmdkChunkKind, PmdkRun, PoolOffset};
use lode_obj::{Finding, ObjError, ObjView, check, plan_repair, recover, repair};
use lode_pmem::Mapping;
use lode_testing::{memory, scaled, seed};

/// A recovered pool with a run of three chunks, in the first of the free block's.
fn sound() -> Mapping {
    let medium = memory::from_bytes(&left_by_a_crash().bytes);
    recover(&medium).unwrap();
    let mut pool = Pool { bytes: memory::bytes(&medium) };
    pool.chunk_header(4, PmdkChunkKind::Run, 3);
    pool.put(chunk(4), &PmdkRun::encode(1000, 0));
    let run = long_run();
    for word in 0..run.bitmap_words {
        pool.word(chunk(4) + 16 + word * 8, !run.block_bits(word));
    }
    for distance in 1..3 {
        pool.chunk_header(4 + distance, PmdkChunkKind::RunData, distance as u32);
    }
    memory::from_bytes(&pool.bytes)
}

/// A damage: its name, the change that makes it, and words of the finding.
type Case = (&'static str, fn(&mut Pool), &'static str);

/// Returns the run of three chunks.
fn long_run() -> PmdkRun {
    let chunk_header = PmdkChunk { kind: PmdkChunkKind::Run, flags: 9, size: 3 };
    PmdkRun::decode(PmdkRun::encode(1000, 0), chunk_header, chunk(4)).unwrap()
}

/// Changes the bytes of a sound pool.
fn damaged(change: impl FnOnce(&mut Pool)) -> Mapping {
    let mut pool = Pool { bytes: memory::bytes(&sound()) };
    change(&mut pool);
    memory::from_bytes(&pool.bytes)
}

#[test]
fn sound_pools_have_no_findings() {
    assert_eq!(check(&sound()), []);
    assert_eq!(repair(&sound()).unwrap(), lode_obj::Repair::default());
    let view = ObjView::open(sound()).unwrap();
    let statistics = view.statistics().unwrap();
    assert_eq!((statistics.objects, statistics.internal_objects), (6, 0));
    assert_eq!((statistics.free_chunks, statistics.used_chunks, statistics.run_chunks), (3, 1, 4));
}

#[test]
fn logs_in_force_are_told_and_recovered() {
    let medium = memory::from_bytes(&left_by_a_crash().bytes);
    let found = check(&medium);
    assert_eq!(found.iter().filter(|finding| matches!(finding, Finding::InForce { .. })).count(), 4);
    assert!(!found.iter().any(Finding::is_damage), "{found:?}");
    let plan = plan_repair(&medium);
    assert_eq!(plan.left, []);
    let repaired = repair(&medium).unwrap();
    assert_eq!((repaired.repaired, repaired.left), (plan.repaired, Vec::new()));
    assert_eq!(check(&medium), []);
}

/// What is certain is repaired, a plan stores nothing, and a second repair finds nothing.
#[test]
fn certain_damage_is_repaired() {
    let cases: [Case; 5] = [
        ("footer", |pool| pool.word(chunk_header(2), 0), "chunk 2 of zone 0 has no footer"),
        ("run data", |pool| pool.word(chunk_header(6), 0), "chunk 6 of zone 0 does not lead to its run"),
        ("far run data", |pool| pool.chunk_header(5, PmdkChunkKind::RunData, 9), "chunk 5 of zone 0"),
        ("bit", |pool| pool.word(chunk(0) + 16 + 31 * 8, 3 << 62), "word 31 of the bitmap"),
        (
            "lost extension",
            |pool| {
                pool.word(chunk(4) + 16, 1 << 5);
                let start = chunk(4) + long_run().blocks_off;
                pool.object(start + 5000, 1000, 1 << 15);
                let log = (start + 5016).next_multiple_of(64);
                pool.word(log + 16, (start + 6000 - log - 64) / 64 * 64);
            },
            "984 bytes at",
        ),
    ];
    for (name, change, told) in cases {
        let medium = damaged(change);
        let before = memory::bytes(&medium);
        let plan = plan_repair(&medium);
        assert!(memory::bytes(&medium) == before, "{name}");
        assert_eq!((plan.repaired.len(), plan.left.len()), (1, 0), "{name}: {plan:?}");
        assert!(plan.repaired[0].to_string().contains(told), "{name}: {}", plan.repaired[0]);
        assert_eq!(repair(&medium).unwrap(), plan, "{name}");
        assert_eq!(check(&medium), [], "{name}");
        assert!(memory::bytes(&medium) != before, "{name}");
    }
}

#[test]
fn uncertain_damage_is_named_and_left() {
    let cases: [Case; 11] = [
        ("root", |pool| pool.object(chunk(3), 1000, 1 << 15), "are lost"),
        (
            "short run",
            |pool| pool.chunk_header(0, PmdkChunkKind::Run, 3),
            "chunk 1 of zone 0 does not lead to its run",
        ),
        ("bits", |pool| pool.word(chunk(0) + 16 + 31 * 8, 0), "word 31 of the bitmap"),
        ("descriptor", |pool| pool.word(0x1000, 7), "the descriptor of the pool at 0x1000: checksum"),
        ("run number", |pool| pool.word(0x1808, 3), "the state of the pool at 0x1800: run_id is 0x3"),
        ("heap", |pool| pool.word(0x4000, 7), "the header of the heap at 0x4000: checksum"),
        ("zone", |pool| pool.word(0x4400, 7), "the header of zone 0 at 0x4400: magic"),
        (
            "block",
            |pool| pool.chunk_header(3, PmdkChunkKind::Used, 60),
            "the block has 60 chunks, and 5 are left",
        ),
        ("no block", |pool| pool.chunk_header(3, PmdkChunkKind::Footer, 1), "no block begins here"),
        ("object", |pool| pool.object(chunk(3), 1 << 30, 0), "the object has 1073741824 bytes"),
        ("lane", |pool| pool.word(LANES + 8, 64), "the extension of the log at 0x40 is not in the heap"),
    ];
    for (name, change, told) in cases {
        let medium = damaged(change);
        let before = memory::bytes(&medium);
        let found = check(&medium);
        assert!(found.iter().any(|finding| finding.to_string().contains(told)), "{name}: {found:?}");
        let repaired = repair(&medium).unwrap();
        assert_eq!((repaired.repaired.len(), repaired.given_back), (0, 0), "{name}: {repaired:?}");
        assert_eq!(repaired.left, found, "{name}");
        assert!(memory::bytes(&medium) == before, "{name}");
    }
}

#[test]
fn free_and_wrong_places_hold_no_object() {
    let view = ObjView::open(sound()).unwrap();
    let object = chunk(0) + 320 + 20 * 128 + 16;
    assert_eq!(view.object_at(PoolOffset::new(object)).unwrap().usable_size, 112);
    for at in [0, 16, object - 1, object + 8, object + 128, chunk(0), chunk(5) + 16, u64::MAX, chunk(70)] {
        let error = view.object_at(PoolOffset::new(at)).unwrap_err();
        assert!(matches!(error, ObjError::Damaged(_)), "{at:#x}: {error}");
    }
}

/// Any bits may be wrong: reading, checking, repairing and recovering end, with results or errors.
#[test]
fn flipped_bits_never_panic() {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let crashed = left_by_a_crash().bytes;
    let closed = memory::bytes(&sound());
    for round in 0..scaled(60) {
        let mut bytes = if round % 2 == 0 { crashed.clone() } else { closed.clone() };
        for _ in 0..rng.u8(1..6) {
            let at = match rng.u8(..5) {
                0 => rng.usize(0x1400..0x1830),
                1 => rng.usize(0x2000..0x3800),
                2 => rng.usize(0x4400..0x4490),
                3 => chunk(rng.u64(0..7)) as usize + rng.usize(0..400),
                _ => rng.usize(..bytes.len()),
            };
            bytes[at] ^= 1 << rng.u8(..8);
        }
        let medium = memory::from_bytes(&bytes);
        let found = check(&medium);
        let plan = plan_repair(&medium);
        assert_eq!(plan.repaired.len() + plan.left.len(), found.len());
        if let Ok(view) = ObjView::open(&medium) {
            assert!(view.objects().count() < 100_000);
            view.statistics().unwrap();
        }
        repair(&medium).unwrap();
        assert_eq!(repair(&medium).unwrap().repaired, [], "seed {}, round {round}", seed(1));
    }
}
