//! A queue gives back what was put into it, in order, from both ends.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{CellValue, HeapError, PDeque, Persist, TypedHeap};
use lode_layout::PoolOffset;
use lode_pmem::Medium as _;
use std::collections::VecDeque;
use std::mem::offset_of;
use std::thread;

lode_heap::brand!(Modelled);
lode_heap::brand!(Shared);
lode_heap::brand!(Damaged);

/// Ten bytes: elements of an odd size, some of them across lines.
#[derive(CellValue, Clone, Copy, Debug, PartialEq)]
enum Job {
    Idle,
    Run { number: u64, urgent: bool },
}

#[derive(Persist)]
#[persist(brand = Modelled)]
#[repr(C)]
struct Queues {
    jobs: PDeque<Job, Modelled>,
    marks: PDeque<(), Modelled>,
}

fn job(random: &mut fastrand::Rng) -> Job {
    match random.u8(..4) {
        0 => Job::Idle,
        _ => Job::Run { number: random.u64(..), urgent: random.bool() },
    }
}

/// Changes the queue and its model in the same way, at random.
fn change(
    heap: &TypedHeap<Modelled, Medium>,
    queues: &Queues,
    model: &mut VecDeque<Job>,
    random: &mut fastrand::Rng,
) -> Result<(), HeapError> {
    let mut after = model.clone();
    let gives_up = random.u8(..8) == 0;
    let changed = heap.run(|tx| {
        after.clone_from(model);
        for _ in 0..random.u8(1..6) {
            let new = job(random);
            match random.u8(..10) {
                0..3 => {
                    queues.jobs.push_back(tx, new)?;
                    after.push_back(new);
                }
                3..6 => {
                    queues.jobs.push_front(tx, new)?;
                    after.push_front(new);
                }
                6 | 7 => assert_eq!(queues.jobs.pop_front(tx)?, after.pop_front()),
                8 => assert_eq!(queues.jobs.pop_back(tx)?, after.pop_back()),
                _ => {
                    let index = random.u64(..after.len() as u64 + 2);
                    assert_eq!(queues.jobs.get(tx, index)?, after.get(index as usize).copied());
                }
            }
            assert_eq!(queues.jobs.len(tx)?, after.len() as u64);
            assert_eq!(queues.jobs.is_empty(tx)?, after.is_empty());
        }
        if gives_up { Err(HeapError::NeverValid { restarts: 0 }) } else { Ok(()) }
    });
    match changed {
        Ok(()) => *model = after,
        Err(HeapError::NeverValid { .. }) if gives_up => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

#[test]
fn queue_matches_model() {
    let mut pool = Pool::new(4 << 20);
    let mut random = fastrand::Rng::with_seed(7);
    let mut model = VecDeque::new();
    for _ in 0..20 {
        let heap = pool.typed::<Modelled>();
        let queues = heap.root_or_init(|_| Ok(Queues { jobs: PDeque::new(), marks: PDeque::new() })).unwrap();
        for _ in 0..100 {
            change(&heap, queues, &mut model, &mut random).unwrap();
        }
        let guard = heap.guard();
        assert_eq!(VecDeque::from(queues.jobs.load_all(&guard).unwrap()), model);
        assert_eq!(queues.jobs.load_len(&guard), model.len() as u64);
        for index in 0..model.len() + 2 {
            assert_eq!(queues.jobs.load(&guard, index as u64).unwrap(), model.get(index).copied());
        }
    }
    let heap = pool.typed::<Modelled>();
    let queues = heap.root::<Queues>().unwrap().unwrap();
    heap.run(|tx| (0..100).try_for_each(|_| queues.marks.push_front(tx, ()))).unwrap();
    assert_eq!(queues.marks.load_all(&heap.guard()).unwrap().len(), 100);
    heap.run(|tx| {
        queues.jobs.clear(tx)?;
        queues.jobs.clear(tx)?;
        queues.marks.clear(tx)
    })
    .unwrap();
    assert_eq!(
        (queues.jobs.load_len(&heap.guard()), heap.objects().count()),
        (0, 3),
        "the root, the root object and its types"
    );
    assert_eq!(heap.run(|tx| queues.jobs.pop_front(tx)), Ok(None));
}

#[derive(Persist)]
#[persist(brand = Shared)]
#[repr(C)]
struct Work {
    waiting: PDeque<u64, Shared>,
    done: PDeque<u64, Shared>,
}

/// Two threads move numbers from one queue to the other: none is lost, and none is there twice.
#[test]
fn threads_move_each_element_once() {
    const COUNT: u64 = 2000;
    let mut pool = Pool::new(4 << 20);
    let heap = pool.typed::<Shared>();
    let work = heap.root_or_init(|_| Ok(Work { waiting: PDeque::new(), done: PDeque::new() })).unwrap();
    heap.run(|tx| (0..COUNT).try_for_each(|number| work.waiting.push_back(tx, number))).unwrap();
    let move_all = || {
        while heap
            .run(|tx| {
                let Some(number) = work.waiting.pop_front(tx)? else { return Ok(false) };
                work.done.push_back(tx, number)?;
                Ok(true)
            })
            .unwrap()
        {}
    };
    thread::scope(|scope| {
        scope.spawn(move_all);
        scope.spawn(move_all);
    });
    // One transaction after the other: in order.
    assert_eq!(work.done.load_all(&heap.guard()).unwrap(), (0..COUNT).collect::<Vec<_>>());
}

#[derive(Persist)]
#[persist(brand = Damaged)]
#[repr(C)]
struct Flags {
    flags: PDeque<bool, Damaged>,
}

#[test]
fn damaged_queues_are_errors() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.typed::<Damaged>();
    let root = heap.root_or_init(|_| Ok(Flags { flags: PDeque::new() })).unwrap();
    heap.run(|tx| (0..3).try_for_each(|_| root.flags.push_back(tx, true))).unwrap();
    let number = <Flags as Persist<Damaged>>::TYPE_NUMBER;
    let at =
        heap.objects().find(|object| object.as_ref().unwrap().type_number == number).unwrap().unwrap().at;
    let word = |index: u64| at.plus(offset_of!(Flags, flags) as u64 + 8 * index);
    let load8 = |at| pool.medium().memory().reading(|memory| memory.load8(at)).unwrap();
    let buffer = PoolOffset::new(load8(word(0)));
    let corrupt = Err(HeapError::Corrupt { what: "the queue whose buffer", at: buffer });
    // The room, the first element, and the length.
    for (index, value) in [(1, u64::MAX), (1, 2), (2, 4), (3, 5)] {
        let sound = load8(word(index));
        pool.medium().store8(word(index), value);
        assert_eq!(heap.run(|tx| root.flags.get(tx, 0)), corrupt.clone(), "word {index}");
        assert_eq!(heap.run(|tx| root.flags.pop_back(tx)), corrupt.clone());
        assert_eq!(heap.run(|tx| root.flags.push_front(tx, true)), corrupt.clone().map(|_| ()));
        assert_eq!(root.flags.load(&heap.guard(), 0), corrupt.clone());
        assert_eq!(root.flags.load_all(&heap.guard()).err(), corrupt.clone().err());
        pool.medium().store8(word(index), sound);
    }
    // More room than the buffer has: no element is stored beyond it.
    pool.medium().store8(word(1), 4096);
    assert_eq!(heap.run(|tx| root.flags.push_front(tx, true)), corrupt.clone().map(|_| ()));
    pool.medium().store8(word(1), 4);
    pool.medium().store8(buffer, u64::from_le_bytes([1, 7, 1, 0, 0, 0, 0, 0]));
    let invalid = HeapError::InvalidValue { name: "bool", at: buffer.plus(1) };
    assert_eq!(root.flags.load_all(&heap.guard()), Err(invalid.clone()));
    assert_eq!(heap.run(|tx| root.flags.get(tx, 1)), Err(invalid));
    assert_eq!(heap.run(|tx| root.flags.pop_front(tx)), Ok(Some(true)));
}
