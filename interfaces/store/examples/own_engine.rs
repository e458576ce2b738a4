//! An own engine under the crash explorer: a ring of the last readings of a sensor.
//!
//! The engine has a data structure that no tree fits, on the heap's transactions. The explorer cuts the power at every
//! store, flush and drain of it, recovers from each state that may be left, twice, and asks if the content is one that
//! the readings which had returned explain. `lode-heap` and `lode-sim` are internal: their calls may change with each
//! release.

use lode_heap::{Heap, HeapError};
use lode_layout::{Geometry, PoolOffset};
use lode_sim::{Actor, HistoryPrefix, Machine, Outcome, Setup, SimMedium, Subject, explore};
use std::sync::Arc;

const READINGS: u64 = 4;
const TYPE_RING: u64 = 0x0072_696E_6700_0001;
const SIZE: u64 = 0x30000;
const UUID: [u8; 16] = *b"a ring of words!";

type Medium = Arc<SimMedium>;

/// The ring: a word with the number of readings so far, then the last of them, on lines of their own.
struct Ring {
    heap: Heap<Medium>,
    at: PoolOffset,
}

impl Ring {
    fn open(medium: Medium, epoch: u64) -> Result<Ring, HeapError> {
        let geometry = Geometry::plan(SIZE).expect("a size");
        let (heap, _) = Heap::open(medium, &geometry, UUID, [epoch; 2])?;
        let at = heap.root()?;
        Ok(Ring { heap, at })
    }

    fn place(&self, number: u64) -> PoolOffset {
        self.at.plus(64 * (1 + number % READINGS))
    }

    /// Adds a reading, and returns its number. One drain: both words, or none.
    fn add(&self, reading: impl Fn(u64) -> u64) -> Result<u64, HeapError> {
        self.heap.run(|tx| {
            let number = tx.read8(self.at)?;
            tx.lock(self.at)?;
            tx.store8(self.place(number), reading(number));
            tx.store8(self.at, number + 1);
            Ok(number)
        })
    }

    /// Returns the number of readings so far, and the last of them in their order.
    fn contents(&self) -> Result<(u64, Vec<u64>), HeapError> {
        let contents = self.heap.memory().reading(|memory| {
            let count = memory.load8(self.at);
            let last = count.saturating_sub(READINGS)..count;
            (count, last.map(|number| memory.load8(self.place(number))).collect())
        });
        Ok(contents?)
    }
}

/// The workload: each reading is its number times 7.
struct RingSubject;

#[derive(Debug)]
struct WrongContent(String);

impl std::fmt::Display for WrongContent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Subject for RingSubject {
    type Engine = Ring;
    type Operation = ();
    type Contents = (u64, Vec<u64>);
    /// The least and the greatest number of readings that may be there.
    type Legal = (u64, u64);
    type Mismatch = WrongContent;
    type Error = HeapError;

    fn size(&self) -> u64 {
        SIZE
    }

    fn format(&self, medium: Medium) -> Result<(), HeapError> {
        let geometry = Geometry::plan(SIZE).expect("a size");
        Heap::format(&medium, &geometry, &UUID, [1; 2])?;
        let (heap, _) = Heap::open(medium, &geometry, UUID, [2; 2])?;
        heap.run(|tx| {
            tx.set_root(tx.alloc_zeroed(64 * (1 + READINGS), 64, TYPE_RING)?);
            Ok::<_, HeapError>(())
        })?;
        heap.close()
    }

    fn start(&self, medium: Medium) -> Result<Ring, HeapError> {
        Ring::open(medium, 3)
    }

    fn run(&self, ring: &Ring, actor: &mut Actor<'_, ()>) {
        for _ in 0..actor.operations {
            let ticket = actor.begin(());
            match ring.add(|number| number * 7) {
                Ok(_) => actor.returned(ticket),
                Err(HeapError::InDoubt(_)) => actor.in_doubt(ticket),
                Err(_) => actor.refused(ticket),
            }
        }
    }

    fn recover(&self, medium: Medium) -> Result<(u64, Vec<u64>), HeapError> {
        Ring::open(medium, 4)?.contents()
    }

    fn legal(&self, history: &HistoryPrefix<()>) -> (u64, u64) {
        let count = |is_there: fn(Outcome) -> bool| {
            history.operations().iter().filter(|operation| is_there(operation.outcome)).count() as u64
        };
        (count(|outcome| outcome == Outcome::Returned), count(|outcome| outcome != Outcome::Refused))
    }

    fn check(&self, legal: &(u64, u64), (count, last): &(u64, Vec<u64>)) -> Result<(), WrongContent> {
        let is_whole =
            (count.saturating_sub(READINGS)..*count).map(|number| number * 7).eq(last.iter().copied());
        if is_whole && (legal.0..=legal.1).contains(count) {
            return Ok(());
        }
        let [least, most] = [legal.0, legal.1];
        Err(WrongContent(format!("{count} readings, the last ones {last:?}; {least} to {most} may be there")))
    }
}

pub(crate) fn main() {
    for machine in Machine::ALL {
        let setup = Setup { machine, threads: 2, operations: 12, images: 400, ..Setup::default() };
        let report = explore(&RingSubject, &setup);
        println!("{machine}: {report}");
        assert!(report.violation.is_none(), "{}", report.violation.expect("just seen"));
    }
}
