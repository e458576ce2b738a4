//! Transactions that return before their sync, at durability commit.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::faulty_medium::FaultyMedium;
use lode_heap::{Growth, GrowthError, Heap, HeapError, Install, LogPosition, Snapshot, Tx, Wanted};
use lode_layout::{Geometry, PoolOffset};
use lode_pmem::{Durability, Mapping, Medium};
use lode_pool::PoolError;
use lode_testing::gated_log::GatedLog;
use lode_testing::{heap, memory};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const LEN: u64 = 4 << 20;

type TestHeap = Heap<Arc<GatedLog>>;

/// Returns a heap with an open gate, and the offset of a counter in it.
fn gated() -> (TestHeap, PoolOffset) {
    let heap = heap::create(Arc::new(GatedLog::new(LEN)));
    let counter = heap.run(|tx| tx.alloc_zeroed(64, 64, 1)).unwrap();
    (heap, counter)
}

/// Adds one to the counter, and returns the sum.
fn increment_later<M: Medium>(heap: &Heap<M>, counter: PoolOffset) -> Result<(u64, LogPosition), HeapError> {
    heap.run_later(|tx| add_one(tx, counter))
}

/// Waits until `is_over` returns true; not for ever, as the end of a test that fails would.
fn comes_true(is_over: impl Fn() -> bool) -> bool {
    let begun = Instant::now();
    while !is_over() && begun.elapsed() < Duration::from_secs(20) {
        thread::yield_now();
    }
    is_over()
}

fn add_one<M: Medium>(tx: &Tx<'_, M>, counter: PoolOffset) -> Result<u64, HeapError> {
    let sum = tx.read8(counter)? + 1;
    tx.lock(counter)?;
    tx.store8(counter, sum);
    Ok(sum)
}

/// Returns the counter as readers outside of transactions see it.
fn in_memory<M: Medium>(heap: &Heap<M>, counter: PoolOffset) -> u64 {
    heap.memory().reading(|memory| memory.load8(counter)).unwrap()
}

fn log_writes(heap: &TestHeap) -> u64 {
    heap.medium().log_writes()
}

#[test]
fn thousand_transactions_take_one_log_write() {
    let (heap, counter) = gated();
    let before = log_writes(&heap);
    let mut last = None;
    for sum in 1..=1000 {
        let (found, position) = increment_later(&heap, counter).unwrap();
        assert_eq!(found, sum, "a later transaction sees the earlier ones");
        assert!(last < Some(position), "positions follow the log");
        last = Some(position);
    }
    let position = last.unwrap();
    assert_eq!((log_writes(&heap) - before, heap.is_durable(position)), (0, false));
    assert_eq!(in_memory(&heap, counter), 0, "readers outside of transactions see what is durable");
    heap.make_durable(position).unwrap();
    assert_eq!((log_writes(&heap) - before, heap.is_durable(position)), (1, true));
    assert_eq!(in_memory(&heap, counter), 1000);
    heap.make_durable(heap.log_position()).unwrap();
    assert_eq!(log_writes(&heap) - before, 1, "nothing waits");
}

#[test]
fn read_of_waiting_words_returns_at_once_or_durable() {
    let (heap, counter) = gated();
    let (_, written) = increment_later(&heap, counter).unwrap();
    let read = |tx: &Tx<'_, _>| tx.read8(counter);
    let (sum, seen) = heap.run_later(read).unwrap();
    assert_eq!((sum, seen), (1, written), "what was read is durable with what has written it");
    assert!(!heap.is_durable(seen));
    let failed = heap.run_later(|tx| {
        tx.read8(counter)?;
        Err::<(), _>(HeapError::NestedFailed)
    });
    assert_eq!(failed.err(), Some(HeapError::NestedFailed));
    assert!(heap.is_durable(seen), "an error may follow from what was read");
    let (_, written) = increment_later(&heap, counter).unwrap();
    assert_eq!(heap.run(read), Ok(2));
    assert!(heap.is_durable(written), "a transaction that waits returns what is durable");
    let (_, nothing) = heap.run_later(|_| Ok::<_, HeapError>(())).unwrap();
    assert!(heap.is_durable(nothing), "a transaction without a change has nothing to wait for");
}

/// An offset that a closure returns leads to its content, though no lock says that it waits.
#[test]
fn returned_offset_leads_to_content() {
    let (heap, root) = gated();
    let (at, position) = heap
        .run_later(|tx| {
            let at = tx.alloc_with(&[7, 8], 16, 2)?;
            tx.lock(root)?;
            tx.store8(root, at.get());
            Ok::<_, HeapError>(at)
        })
        .unwrap();
    assert!(!heap.is_durable(position));
    assert_eq!(heap.run_later(|tx| Ok::<_, HeapError>(tx.load8(at.plus(8)))).unwrap().0, 8);
    assert_eq!(heap.run(|tx| Ok::<_, HeapError>(tx.load8(at))), Ok(7));
}

/// Superblocks are used, and their objects are found and freed, before anything of them lies in the pool.
#[test]
fn objects_of_waiting_superblocks_are_used() {
    let (heap, root) = gated();
    let before = log_writes(&heap);
    let alloc = |number| {
        let made = heap.run_later(|tx| {
            tx.lock(root)?;
            let at = tx.alloc_with(&[number; 20], 16, 2)?;
            tx.store8(root, at.get());
            Ok::<_, HeapError>(at)
        });
        made.unwrap().0
    };
    let objects: Vec<PoolOffset> = (0..300).map(alloc).collect();
    let (sizes, _) = heap
        .run_later(|tx| objects.iter().map(|at| tx.usable_size(*at)).collect::<Result<Vec<u64>, HeapError>>())
        .unwrap();
    assert!(sizes.iter().all(|size| *size >= 160), "{sizes:?}");
    let free = |at: &PoolOffset| {
        heap.run_later(|tx| {
            tx.lock(root)?;
            tx.store8(root, 0);
            tx.free(*at)
        })
    };
    for at in &objects[1..] {
        free(at).unwrap();
    }
    assert_eq!(free(&objects[1]).err(), Some(HeapError::NoObject { at: objects[1] }));
    let writes = log_writes(&heap) - before;
    assert_eq!(writes, 1, "the failed transaction alone has waited");
    let again: Vec<PoolOffset> = (0..300).map(alloc).collect();
    heap.make_durable(heap.log_position()).unwrap();
    let content = |at: &PoolOffset| in_memory(&heap, at.plus(152));
    let expected: Vec<u64> = (0..300).collect();
    assert_eq!((content(&objects[0]), again.iter().map(content).collect()), (0, expected));
    assert_eq!(heap.objects().filter(|object| object.as_ref().unwrap().type_number == 2).count(), 301);
}

#[test]
fn what_waits_is_bounded() {
    let (heap, counter) = gated();
    heap.set_waiting_max(4096);
    let before = log_writes(&heap);
    for _ in 0..1000 {
        increment_later(&heap, counter).unwrap();
    }
    let writes = log_writes(&heap) - before;
    // A record takes a block or less.
    assert!((10..500).contains(&writes), "{writes} log writes");
    heap.set_waiting_max(0);
    let (_, position) = increment_later(&heap, counter).unwrap();
    assert!(heap.is_durable(position), "it has waited for its sync");
}

#[test]
fn freed_space_is_used_again() {
    let (heap, root) = gated();
    for number in 0..20_000u64 {
        let ((), _) = heap
            .run_later(|tx| {
                tx.lock(root)?;
                let old = PoolOffset::new(tx.load8(root));
                let new = tx.alloc_with(&[number; 64], 16, 2)?;
                tx.store8(root, new.get());
                if old.is_null() { Ok(()) } else { tx.free(old) }
            })
            .unwrap();
    }
    heap.make_durable(heap.log_position()).unwrap();
    let object = PoolOffset::new(in_memory(&heap, root));
    assert_eq!(in_memory(&heap, object), 19_999);
}

#[test]
fn snapshot_sees_what_is_durable() {
    let (heap, counter) = gated();
    increment_later(&heap, counter).unwrap();
    heap.make_durable(heap.log_position()).unwrap();
    let (_, second) = increment_later(&heap, counter).unwrap();
    let snapshot = heap.snapshot().unwrap();
    let look = || snapshot.try_reading(|view| Ok::<_, HeapError>(view.load8(counter))).unwrap();
    assert_eq!((look(), heap.is_durable(second)), (1, false), "no sync is caused");
    let (_, third) = increment_later(&heap, counter).unwrap();
    heap.make_durable(third).unwrap();
    assert_eq!((in_memory(&heap, counter), look()), (3, 1), "what waited is written back, and kept");
}

/// A snapshot is opened while the sync of a batch goes on, and the next batch waits for it.
#[test]
fn snapshot_waits_for_no_sync() {
    let (heap, counter) = gated();
    heap.run(|tx| add_one(tx, counter)).unwrap();
    heap.medium().shut(true);
    let look = |snapshot: &Snapshot<'_, Arc<GatedLog>>| {
        snapshot.try_reading(|view| Ok::<_, HeapError>(view.load8(counter))).unwrap()
    };
    let snapshot = thread::scope(|scope| {
        scope.spawn(|| heap.run(|tx| add_one(tx, counter)).unwrap());
        heap.medium().await_write();
        increment_later(&heap, counter).unwrap();
        let opened = scope.spawn(|| heap.snapshot().unwrap());
        let is_opened = comes_true(|| opened.is_finished());
        heap.medium().shut(false);
        assert!(is_opened, "the medium is shut");
        opened.join().unwrap()
    });
    heap.make_durable(heap.log_position()).unwrap();
    assert_eq!(
        (in_memory(&heap, counter), look(&snapshot)),
        (3, 1),
        "both batches are written back, and kept"
    );
}

/// A snapshot keeps nothing of new objects of a transaction that waits, however large they are.
#[test]
fn waiting_allocation_takes_no_memory_of_a_snapshot() {
    let (heap, counter) = gated();
    heap.medium().shut(true);
    let memory = thread::scope(|scope| {
        scope.spawn(|| {
            heap.run(|tx| {
                let object = tx.alloc_zeroed(1 << 20, 64, 1)?;
                tx.lock(counter)?;
                tx.store8(counter, object.get());
                Ok::<_, HeapError>(())
            })
            .unwrap();
        });
        heap.medium().await_write();
        let opened = scope.spawn(|| {
            let snapshot = heap.snapshot().unwrap();
            let memory = heap.snapshot_stats().memory;
            drop(snapshot);
            memory
        });
        let is_opened = comes_true(|| opened.is_finished());
        heap.medium().shut(false);
        assert!(is_opened, "the medium is shut");
        opened.join().unwrap()
    });
    assert!(memory < 16 << 10, "{memory} bytes for one line of a counter");
}

#[test]
fn checkpoint_and_close_make_durable() {
    let (heap, counter) = gated();
    let (_, first) = increment_later(&heap, counter).unwrap();
    heap.log().checkpoint().unwrap();
    assert!(heap.is_durable(first));
    (0..2).for_each(|_| _ = increment_later(&heap, counter).unwrap());
    let medium = Arc::clone(heap.medium());
    heap.close().unwrap();
    assert_eq!(in_memory(&heap::open(medium, 3), counter), 3);
}

#[test]
fn begun_transaction_commits_later() {
    let (heap, counter) = gated();
    increment_later(&heap, counter).unwrap();
    let begun = heap.begin().unwrap();
    assert_eq!(heap.run_later(|_| Ok::<_, HeapError>(())).err(), Some(HeapError::InTransaction));
    begun
        .step(|tx| {
            tx.lock(counter)?;
            tx.store8(counter, tx.load8(counter) + 10);
            Ok::<_, HeapError>(())
        })
        .unwrap();
    let position = begun.commit_later().unwrap();
    assert_eq!((heap.is_durable(position), in_memory(&heap, counter)), (false, 1));
    heap.make_durable(position).unwrap();
    assert_eq!(in_memory(&heap, counter), 11);
}

/// Its steps read from memory, the bitmaps of blocks included, so all that has returned is made durable first.
#[test]
fn begun_transaction_sees_what_has_returned() {
    let (heap, root) = gated();
    let old = heap.run(|tx| tx.alloc_with(&[1, 2], 16, 2)).unwrap();
    let (new, _) = heap
        .run_later(|tx| {
            tx.lock(root)?;
            tx.store8(root, 1);
            tx.free(old)?;
            tx.alloc_with(&[7, 8], 16, 2)
        })
        .unwrap();
    let begun = heap.begin().unwrap();
    let freed_twice = begun.step(|tx| tx.free(old));
    assert_eq!(freed_twice, Err(HeapError::NoObject { at: old }));
    assert_eq!(begun.step(|tx| Ok::<_, HeapError>(tx.load8(new.plus(8)))), Ok(8));
    assert_eq!(begun.step(|tx| tx.usable_size(new)), Ok(16));
}

/// It reads from memory, where the superblock of its own object is not yet.
#[test]
fn begun_transaction_frees_its_object_in_a_waiting_superblock() {
    let (heap, root) = gated();
    let begun = heap.begin().unwrap();
    let make = || {
        let made = heap.run_later(|tx| {
            tx.lock(root)?;
            let at = tx.alloc_with(&[7, 8], 16, 3)?;
            tx.store8(root, at.get());
            Ok::<_, HeapError>(at)
        });
        made.unwrap()
    };
    let (theirs, position) = thread::scope(|scope| scope.spawn(make).join().unwrap());
    let objects =
        begun.step(|tx| (0..20).map(|_| tx.alloc(16, 16, 3)).collect::<Result<Vec<_>, HeapError>>());
    let objects = objects.unwrap();
    assert!(!heap.is_durable(position), "the superblock waits");
    assert!(objects[0].get().abs_diff(theirs.get()) < 4096, "they are in one superblock");
    for at in &objects {
        assert_eq!(begun.step(|tx| tx.usable_size(*at)), Ok(16));
    }
    for at in &objects[1..] {
        assert_eq!(begun.step(|tx| tx.free(*at)), Ok(()));
        assert_eq!(begun.step(|tx| tx.free(*at)), Err(HeapError::NoObject { at: *at }));
        assert_eq!(begun.step(|tx| tx.usable_size(*at)), Err(HeapError::NoObject { at: *at }));
    }
    begun.commit().unwrap();
    assert_eq!(heap.objects().filter(|object| object.as_ref().unwrap().type_number == 3).count(), 2);
}

/// Nothing that it could have freed waits, so it neither syncs nor starts again.
#[test]
fn failed_closure_runs_once_and_leaves_what_waits() {
    let (heap, counter) = gated();
    let (_, waits) = increment_later(&heap, counter).unwrap();
    let mut calls = 0;
    let failed = heap.run_later(|_| {
        calls += 1;
        Err::<(), _>(HeapError::NestedFailed)
    });
    assert_eq!(failed.err(), Some(HeapError::NestedFailed));
    let failed = heap.run(|_| {
        calls += 1;
        Err::<(), _>(HeapError::NestedFailed)
    });
    assert_eq!((failed.err(), calls), (Some(HeapError::NestedFailed), 2));
    assert!(!heap.is_durable(waits));
}

/// Counts how often it is asked, and refuses.
#[derive(Debug)]
struct RefusedGrowth(Arc<AtomicU64>);

impl Growth for RefusedGrowth {
    fn grow(&self, _: &Wanted<'_>, _: &mut Install<'_>) -> Result<(), GrowthError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(GrowthError::Pool(PoolError::FixedSize))
    }
}

#[test]
fn freed_space_that_waits_is_used_before_the_pool_grows() {
    let (heap, root) = gated();
    let asked = Arc::new(AtomicU64::new(0));
    heap.set_growth(RefusedGrowth(Arc::clone(&asked)));
    let mut objects = Vec::new();
    for count in [64, 1] {
        while let Ok(more) = heap.run(|tx| (0..count).map(|_| tx.alloc(512, 16, 2)).collect()) {
            let more: Vec<PoolOffset> = more;
            objects.extend(more);
        }
    }
    assert!(asked.swap(0, Ordering::Relaxed) > 0, "it was full");
    let ((), freed) = heap
        .run_later(|tx| {
            tx.lock(root)?;
            tx.store8(root, 1);
            objects[..64].iter().try_for_each(|object| tx.free(*object))
        })
        .unwrap();
    assert!(!heap.is_durable(freed));
    heap.run(|tx| tx.alloc(512, 16, 2)).unwrap();
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

/// A position of a heap with more transactions is one that this heap does not have.
#[test]
fn position_of_another_heap_makes_all_durable() {
    let ((heap, counter), (other, there)) = (gated(), gated());
    let (_, waits) = increment_later(&heap, counter).unwrap();
    let last = (0..100).map(|_| increment_later(&other, there).unwrap().1).last().unwrap();
    assert!(!heap.is_durable(last));
    heap.make_durable(last).unwrap();
    assert!(heap.is_durable(waits));
}

/// What waits is synced before all others are stopped.
#[test]
fn transactions_go_on_beside_the_sync_of_a_checkpoint() {
    let (heap, counter) = gated();
    increment_later(&heap, counter).unwrap();
    heap.medium().shut(true);
    let is_over = AtomicBool::new(false);
    let went_on = thread::scope(|scope| {
        scope.spawn(|| heap.log().checkpoint().unwrap());
        heap.medium().await_write();
        scope.spawn(|| {
            (0..100).for_each(|_| _ = increment_later(&heap, counter).unwrap());
            is_over.store(true, Ordering::Relaxed);
        });
        let went_on = comes_true(|| is_over.load(Ordering::Relaxed));
        heap.medium().shut(false);
        went_on
    });
    assert!(went_on);
    heap.make_durable(heap.log_position()).unwrap();
    assert_eq!(in_memory(&heap, counter), 101);
}

/// Other threads wait for the sync that one of them has begun, and no lock is held meanwhile.
#[test]
fn transactions_go_on_beside_a_sync() {
    let (heap, counter) = gated();
    increment_later(&heap, counter).unwrap();
    heap.medium().shut(true);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let syncs = scope.spawn(|| heap.make_durable(heap.log_position()));
        heap.medium().await_write();
        let later = scope.spawn(|| {
            for _ in 0..100 {
                increment_later(&heap, counter).unwrap();
            }
            is_over.store(true, Ordering::Relaxed);
        });
        later.join().unwrap();
        let went_on = is_over.load(Ordering::Relaxed);
        heap.medium().shut(false);
        syncs.join().unwrap().unwrap();
        assert!(went_on);
    });
    heap.make_durable(heap.log_position()).unwrap();
    assert_eq!(in_memory(&heap, counter), 101);
}

#[test]
fn failed_sync_reaches_all_that_wait() {
    let options = Mapping::options().durability(Durability::Commit);
    let file = tempfile::tempfile().unwrap();
    file.set_len(LEN).unwrap();
    let medium = FaultyMedium::new(Arc::new(options.map_file(file, "a file").unwrap()));
    let geometry = Geometry::plan(LEN).unwrap();
    Heap::format(&medium, &geometry, &[6; 16], [1, 1]).unwrap();
    let (heap, _) = Heap::open(medium.clone(), &geometry, [6; 16], [2, 2]).unwrap();
    let counter = heap.run(|tx| tx.alloc_zeroed(64, 64, 1)).unwrap();
    let (_, durable) = increment_later(&heap, counter).unwrap();
    heap.make_durable(durable).unwrap();
    let (_, first) = increment_later(&heap, counter).unwrap();
    let (_, second) = increment_later(&heap, counter).unwrap();
    medium.refuse_log_writes();
    assert_eq!(heap.begin().err(), Some(HeapError::Poisoned), "it would read what is not known to last");
    for position in [second, first] {
        let failed = heap.make_durable(position);
        assert!(matches!(failed, Err(HeapError::InDoubt(_))), "{failed:?}");
        assert!(!heap.is_durable(position));
    }
    assert_eq!(heap.make_durable(durable), Ok(()), "what was durable stays so");
    assert_eq!(increment_later(&heap, counter).err(), Some(HeapError::Poisoned));
    assert_eq!(heap.run(|tx| tx.read8(counter)), Ok(1), "nothing is left of what is in doubt");
    assert_eq!(heap.close(), Err(HeapError::Poisoned));
}

#[test]
fn at_other_durabilities_it_waits() {
    let heap = heap::create(memory::volatile(LEN));
    let counter = heap.run(|tx| tx.alloc_zeroed(64, 64, 1)).unwrap();
    let (_, position) = increment_later(&heap, counter).unwrap();
    assert!(heap.is_durable(position));
    assert_eq!(heap.make_durable(position), Ok(()));
    assert_eq!(in_memory(&heap, counter), 1);
}
