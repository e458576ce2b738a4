//! A pool that was filled and emptied takes as much again, whatever the sizes before and whichever threads freed them.
//!
//! Found: 4 MiB that were filled and emptied in turns with values of other sizes took 27 keys in one cycle and 1,273
//! in another. Free blocks in the magazines of some threads, and freed ones in their limbo, kept superblocks from all
//! others, for as long as those threads lived.

use lode_heap::HeapError;
use lode_index::{IndexError, Tree};
use lode_pmem::Mapping;
use lode_testing::{budget, heap, memory, tree};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::{array, thread};

/// Where a thread takes its jobs from, and tells how many keys and bytes each came to.
type Worker = (Sender<Job>, Receiver<(u64, u64)>);

/// Threads that work in a cycle.
const ACTIVE: usize = 8;
/// Threads in all: the others are idle, with all that they had when they worked last.
const THREADS: usize = 12;
const MIXES: usize = 4;

/// The key and value number `step` of the worker `worker`, the same in each cycle of `mix`.
fn entry(mix: usize, worker: usize, step: u64) -> (Vec<u8>, Vec<u8>) {
    let mut random = fastrand::Rng::with_seed((mix * ACTIVE + worker) as u64 ^ step << 8);
    let mut key = random.u64(..).to_be_bytes().to_vec();
    key.extend((worker as u64 + step * ACTIVE as u64).to_be_bytes());
    key.truncate(9 + random.usize(..8));
    key.push(worker as u8);
    key.extend(step.to_be_bytes());
    let len = match mix {
        0 => random.usize(..65),
        1 => random.usize(100..700),
        2 => random.usize(1000..5000),
        _ => 10 << random.usize(..11),
    };
    (key, vec![worker as u8; len])
}

type Pool<'h> = Tree<'h, Arc<Mapping>>;

/// Adds entries until one is refused; how many there are then, and their bytes.
fn fill(tree: &Pool<'_>, mix: usize, worker: usize) -> (u64, u64) {
    let mut bytes = 0;
    for step in 0.. {
        let (key, value) = entry(mix, worker, step);
        match tree.insert(&key, &value) {
            Ok(_) => bytes += (key.len() + value.len()) as u64,
            Err(IndexError::Heap(HeapError::OutOfSpace { .. })) => return (step, bytes),
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a pool has an end")
}

/// What a thread is told to do.
#[derive(Clone, Copy)]
enum Job {
    /// To add the entries of this mix and worker.
    Fill(usize, usize),
    /// To delete that many entries of this mix and worker.
    Delete(usize, usize, u64),
}

/// Does what it is told, and says how many entries there were, and their bytes.
fn work(tree: &Pool<'_>, jobs: &Receiver<Job>, done: &Sender<(u64, u64)>) {
    for job in jobs {
        let entries = match job {
            Job::Fill(mix, worker) => fill(tree, mix, worker),
            Job::Delete(mix, worker, count) => {
                for step in 0..count {
                    let (key, _) = entry(mix, worker, step);
                    assert_eq!(tree.delete(&key), Ok(true));
                }
                (count, 0)
            }
        };
        done.send(entries).expect("the test waits for it");
    }
}

/// Bytes that all threads stored in each cycle, and its mix.
fn cycles(len: u64, count: usize) -> Vec<(usize, u64)> {
    let heap = heap::create(Arc::new(memory::persistent(len)));
    let tree = tree::create(&heap);
    let mut random = fastrand::Rng::with_seed(5);
    let mut stored = Vec::new();
    thread::scope(|scope| {
        let start = |_| {
            let ((jobs, told), (done, dones)) = (channel(), channel());
            let tree = &tree;
            scope.spawn(move || work(tree, &told, &done));
            (jobs, dones)
        };
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        let run = |cycle: usize, jobs: [Job; ACTIVE]| {
            // Other threads in each cycle.
            let active =
                jobs.iter().enumerate().map(|(index, job)| (&threads[(index + cycle * 3) % THREADS], job));
            active.clone().for_each(|((jobs, _), job)| jobs.send(*job).expect("the thread goes on"));
            let wait = |((_, dones), _): (&Worker, &Job)| dones.recv().expect("the thread goes on");
            active.map(wait).collect::<Vec<(u64, u64)>>()
        };
        for cycle in 0..count {
            let mix = if cycle < MIXES { cycle } else { random.usize(..MIXES) };
            let filled = run(cycle, array::from_fn(|worker| Job::Fill(mix, worker)));
            stored.push((mix, filled.iter().map(|(_, bytes)| bytes).sum()));
            // Another thread than the one that made them, and often one that was idle.
            run(cycle + 1, array::from_fn(|worker| Job::Delete(mix, worker, filled[worker].0)));
        }
    });
    tree::check(&heap, &tree, 0);
    stored
}

/// Fills and empties a pool of `len` bytes; each cycle is to store what the first one of its mix did, `percent` more
/// or less.
fn check_cycles(len: u64, count: usize, percent: u64) {
    let stored = cycles(len, count);
    let mut far = Vec::new();
    for mix in 0..MIXES {
        let all: Vec<u64> = stored.iter().filter(|(of, _)| *of == mix).map(|(_, bytes)| *bytes).collect();
        let (least, most) = (all.iter().min().copied(), all.iter().max().copied());
        println!("mix {mix}: {} cycles, first {}, least {least:?}, most {most:?}", all.len(), all[0]);
        far.extend(
            all.iter().filter(|bytes| bytes.abs_diff(all[0]) * 100 > all[0] * percent).map(|b| (mix, *b)),
        );
    }
    assert_eq!(far, [], "cycles of a mix that stored other than the first one");
}

#[test]
fn pool_of_4_mib() {
    check_cycles(4 << 20, (24.0 * budget()).max(8.0) as usize, 15);
}

/// With a budget of 10 or more.
#[test]
fn pool_of_64_mib() {
    let count = (24.0 * budget()) as usize;
    if count >= 240 {
        check_cycles(64 << 20, count, 5);
    }
}
