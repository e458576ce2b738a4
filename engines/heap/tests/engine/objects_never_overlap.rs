//! Whatever is allocated, freed, resized and rolled back, before and after reopening: objects keep their
//! content, never overlap, lie where they were asked to, and all space comes back.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use crate::pool::{Medium, Pool};
use lode_heap::{Heap, HeapError, Tx};
use lode_layout::PoolOffset;
use std::collections::BTreeMap;

const LEN: u64 = 8 << 20;
/// Bytes of a pool that is filled with objects of 16 bytes.
const FILLED_LEN: u64 = 3 << 20;

/// A generator of numbers that are the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// A size whose magnitude is as likely as any other up to `max`.
    fn size(&mut self, max: u64) -> u64 {
        let magnitude = 1 << self.below(u64::from(max.ilog2()) + 1);
        (magnitude + self.below(magnitude)).min(max)
    }
}

/// What is known of an object: its size, alignment, the number of its type, and its content.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    size: u64,
    align: u64,
    type_number: u64,
    seed: u64,
}

impl Known {
    fn content(&self) -> Vec<u8> {
        (0..self.size).map(|index| (self.seed.wrapping_mul(index + 1) >> 3) as u8).collect()
    }
}

#[derive(Clone, Default)]
struct Model(BTreeMap<PoolOffset, Known>);

/// Whether all that a transaction read was right. It counts if the transaction commits: in one that has grown
/// too large, stores are dropped.
struct Reads(bool);

impl Model {
    fn add(&mut self, heap: &Heap<Medium>, tx: &Tx<'_, Medium>, at: PoolOffset, known: Known) {
        assert!(at.get().is_multiple_of(known.align), "{at} {known:?}");
        let usable = tx.usable_size(at).unwrap();
        assert!(usable >= known.size, "{at} {known:?} holds {usable}");
        let before = self.0.range(..=at).next_back();
        assert!(
            before.is_none_or(|(other, k)| other.get() + k.size <= at.get()),
            "{at} {known:?} {before:?}"
        );
        let after = self.0.range(at..).next();
        assert!(after.is_none_or(|(other, _)| at.get() + usable <= other.get()), "{at} {known:?} {after:?}");
        assert!(at.get() + usable <= heap.memory().len());
        self.0.insert(at, known);
    }

    fn any(&self, draw: &mut Draw) -> Option<PoolOffset> {
        let skip = draw.below(self.0.len().max(1) as u64) as usize;
        self.0.keys().nth(skip).copied()
    }

    /// The heap holds exactly this.
    fn check(&self, heap: &Heap<Medium>) {
        let mut objects = heap.objects().map(Result::unwrap);
        for (at, known) in &self.0 {
            let object = objects.next().expect("as many objects as the model has");
            assert_eq!((object.at, object.type_number), (*at, known.type_number));
            assert!(object.size >= known.size);
            assert!(
                heap.memory().reading(|memory| memory.equals(*at, &known.content())).unwrap(),
                "{at} {known:?} changed"
            );
        }
        assert_eq!(objects.next(), None);
        let stats = heap.stats().unwrap();
        let used: u64 = stats.classes.iter().map(|class| class.used).sum();
        assert_eq!(used + stats.huge_count, self.0.len() as u64);
    }
}

fn make(
    heap: &Heap<Medium>,
    tx: &Tx<'_, Medium>,
    model: &mut Model,
    reads: &mut Reads,
    known: Known,
) -> Result<PoolOffset, HeapError> {
    let at = match known.seed % 3 {
        0 => tx.alloc(known.size, known.align, known.type_number)?,
        1 => tx.alloc_zeroed(known.size, known.align, known.type_number)?,
        _ => {
            let words = known.size.div_ceil(8) as usize;
            let mut bytes = known.content();
            bytes.resize(words * 8, 0);
            let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            let at = tx.alloc_with(&words, known.align, known.type_number)?;
            model.add(heap, tx, at, known);
            return Ok(at);
        }
    };
    model.add(heap, tx, at, known);
    if known.seed % 3 == 1 {
        let mut content = vec![1; known.size as usize];
        tx.read(at, &mut content);
        reads.0 &= content.iter().all(|byte| *byte == 0);
    }
    tx.store(at, &known.content());
    Ok(at)
}

fn change(
    heap: &Heap<Medium>,
    tx: &Tx<'_, Medium>,
    model: &mut Model,
    reads: &mut Reads,
    draw: &mut Draw,
) -> Result<(), HeapError> {
    let victim = model.any(draw);
    match (draw.below(5), victim) {
        (0 | 1, Some(at)) => {
            tx.free(at)?;
            assert_eq!(tx.free(at), Err(HeapError::NoObject { at }));
            model.0.remove(&at);
        }
        (2, Some(at)) => {
            let mut known = model.0[&at];
            let size = draw.size(1 << 16);
            let moved = tx.resize(at, size, known.align)?;
            let kept = known.size.min(size) as usize;
            let mut content = vec![0; kept];
            tx.read(moved, &mut content);
            reads.0 &= content == known.content()[..kept];
            model.0.remove(&at);
            known.size = size;
            model.add(heap, tx, moved, known);
            tx.store(moved, &known.content());
        }
        _ => {
            let size = draw.size(1 << 17);
            let known = Known {
                size,
                align: 1 << draw.below(13),
                type_number: draw.below(3),
                seed: draw.below(1 << 20),
            };
            make(heap, tx, model, reads, known)?;
        }
    }
    Ok(())
}

#[test]
fn heap_matches_model() {
    for seed in 1..=6 {
        let mut draw = Draw(seed);
        let mut pool = Pool::new(LEN);
        let mut model = Model::default();
        for _epoch in 0..6 {
            let heap = pool.heap();
            model.check(&heap);
            for _ in 0..120 {
                let steps = 1 + draw.below(8);
                let rolls_back = draw.below(4) == 0;
                let (mut next, mut reads) = (model.clone(), Reads(true));
                let result = heap.run(|tx| {
                    (next, reads) = (model.clone(), Reads(true));
                    for _ in 0..steps {
                        change(&heap, tx, &mut next, &mut reads, &mut draw)?;
                    }
                    if rolls_back { Err(HeapError::InTransaction) } else { Ok(()) }
                });
                match result {
                    Ok(()) => {
                        assert!(reads.0, "a transaction read something else than was stored");
                        model = next;
                    }
                    Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. }) => {}
                    Err(error) => assert!(rolls_back, "{error}"),
                }
            }
            model.check(&heap);
            if draw.below(2) == 0 {
                heap.close().unwrap();
            }
        }
        // Free it all: one object has room for everything again.
        let heap = pool.heap();
        for at in model.0.keys() {
            heap.run(|tx| tx.free(*at)).unwrap();
        }
        Model::default().check(&heap);
        let all = largest(&heap);
        assert!(all > LEN / 2, "{all} bytes in one piece of {LEN}");
    }
}

/// The size of the largest object for which there is room, by trying.
fn largest(heap: &Heap<Medium>) -> u64 {
    let fits = |chunks: u64| {
        let made = heap.run(|tx| tx.alloc(chunks * lode_layout::CHUNK - 64, 16, 1));
        made.is_ok_and(|at| heap.run(|tx| tx.free(at)).is_ok())
    };
    let (mut low, mut high) = (0, LEN / lode_layout::CHUNK);
    while low + 1 < high {
        let middle = low.midpoint(high);
        if fits(middle) { low = middle } else { high = middle }
    }
    low * lode_layout::CHUNK
}

#[test]
fn emptied_pool_holds_as_much_again() {
    let mut pool = Pool::new(FILLED_LEN);
    let heap = pool.heap();
    let empty = heap.stats().unwrap();
    let whole = largest(&heap);
    assert_eq!(whole, empty.largest_free);
    let mut fills = Vec::new();
    for (round, max) in [16, 100, 2000, 70_000, FILLED_LEN, 1, 5000, 16, FILLED_LEN].into_iter().enumerate() {
        let mut draw = Draw(round as u64);
        let mut model = Model::default();
        // Until nothing fits, not even one byte.
        let mut size_max = max;
        let mut bytes = 0;
        while size_max > 0 {
            let size = draw.size(size_max);
            let known = Known {
                size,
                align: 1 << draw.below(if max > 64 { 13 } else { 4 }),
                type_number: 7,
                seed: 3,
            };
            let mut made = PoolOffset::NULL;
            let result = heap.run(|tx| {
                // What an earlier attempt has made is gone.
                model.0.remove(&made);
                made = make(&heap, tx, &mut model, &mut Reads(true), known)?;
                Ok(())
            });
            match result {
                Ok(()) => bytes += size,
                Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. }) => {
                    model.0.remove(&made);
                    size_max /= 2;
                }
                Err(error) => panic!("{error}"),
            }
        }
        fills.push((max, model.0.len(), bytes));
        model.check(&heap);
        for (count, at) in model.0.keys().enumerate() {
            // From two threads, so that one frees what the other made.
            if count % 2 == 0 {
                heap.run(|tx| tx.free(*at)).unwrap();
            }
        }
        std::thread::scope(|scope| {
            let others = model.0.keys().skip(1).step_by(2);
            let freeing = scope.spawn(|| others.for_each(|at| heap.run(|tx| tx.free(*at)).unwrap()));
            // Joined by hand: the end of the scope does not wait for the thread's own storage to be dropped.
            freeing.join().unwrap();
        });
        Model::default().check(&heap);
        assert_eq!(largest(&heap), whole, "after a fill with up to {max} bytes");
        let stats = heap.stats().unwrap();
        assert_eq!(stats.free_bytes(), empty.free_bytes(), "{stats:?}");
    }
    let full = |index: usize| fills[index].2;
    assert!(fills.iter().all(|fill| fill.2 > 0) && full(7) >= full(0) / 10 * 9, "{fills:?}");
}

#[test]
fn zeroing_is_one_entry() {
    let mut pool = Pool::new(4 << 20);
    let heap = pool.heap();
    // More than half of what is free, when the object is there.
    let size = largest(&heap) / 2;
    let at = heap.run(|tx| tx.alloc_zeroed(size, 16, 1)).unwrap();
    assert_eq!(heap.memory().reading(|memory| memory.load8(at.plus(size - 8))).unwrap(), 0);
}

#[test]
fn invalid_alignment_is_refused() {
    let mut pool = Pool::new(1 << 20);
    let heap = pool.heap();
    for align in [3, 12, 48, 8192] {
        assert_eq!(heap.run(|tx| tx.alloc(100, align, 1)), Err(HeapError::Alignment { align }));
    }
    for align in [0, 1, 2, 16, 4096] {
        assert!(heap.run(|tx| tx.alloc(100, align, 1)).unwrap().get().is_multiple_of(align.max(16)));
    }
}
