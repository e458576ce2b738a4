//! Objects of a heap: allocated, changed, freed, reserved, published, in transactions that end in every way.

use super::objects::{Known, Objects, PoolHeap, content, size, words};
use super::publish::{self, Held};
use super::{Done, EARLY, Ending, Sequence, ensure, must};
use crate::panics::{Deliberate, deliberate};
use crate::progress::{Progress, Steps};
use crate::{Finding, scratch};
use fastrand::Rng;
use lode_fsck::check_pool;
use lode_heap::check::Severity;
use lode_heap::{Access, CreateOptions, Durability, HeapError, LayoutName, OpenOptions, Pin, Pool, Tx};
use lode_layout::PoolOffset;
use lode_pmem::Mapping;
use lode_pool::map_unchecked;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of the pool.
const SIZE: u64 = 4 << 20;
/// Number of objects above which steps allocate only to fill the pool.
const OBJECTS_MAX: usize = 400;

/// State in DRAM of one life of the pool.
struct Life<'h> {
    heap: &'h PoolHeap,
    held: Vec<Held<'h>>,
    pins: Vec<Pin<'h>>,
}

/// State in which the last step of a life leaves the pool.
enum Leave {
    Stay,
    Close,
    Drop,
}

pub(super) fn run(sequence: &Sequence, progress: &Progress) -> Done {
    let folder = must("a folder", scratch())?;
    let path = folder.path().join("heap.pool");
    let layout = must("a layout", LayoutName::new("attack"))?;
    let options = CreateOptions { durability: Some(Durability::Line), ..CreateOptions::new(SIZE, layout) };
    let mut pool = must("create", Pool::create(&path, &options))?;
    let mut model = Objects::default();
    let mut steps = sequence.steps.iter();
    let mut noted = progress.thread(0);
    loop {
        let leave = live(sequence, &mut steps, pool.heap(), &mut model, &mut noted)?;
        match leave {
            Leave::Drop => drop(pool),
            Leave::Stay | Leave::Close => must("close", pool.close())?,
        }
        check(&path)?;
        let opening =
            OpenOptions { durability: Some(Durability::Line), ..OpenOptions::new(Access::ReadWrite) };
        pool = must("open", Pool::open(&path, &opening))?;
        model.compare(pool.heap())?;
        if matches!(leave, Leave::Stay) {
            return Ok(());
        }
    }
}

/// Returns a finding if a check of the pool at `path` finds damage.
pub(crate) fn check(path: &Path) -> Done {
    let view = must("map", map_unchecked(path, &OpenOptions::new(Access::ReadOnly)))?;
    let report = check_pool(Arc::new(view), &[]);
    ensure(report.worst() != Some(Severity::Damage), "damage", format_args!("a check finds {report}"))
}

fn live<'a>(
    sequence: &Sequence,
    steps: &mut impl Iterator<Item = &'a u64>,
    heap: &PoolHeap,
    model: &mut Objects,
    noted: &mut Steps<'_>,
) -> Result<Leave, Finding> {
    let mut life = Life { heap, held: Vec::new(), pins: Vec::new() };
    for number in steps {
        let mut rng = sequence.rng(*number);
        let kind = rng.u8(..40);
        noted.begin(format_args!("heap step {number} of kind {kind}, {} pins", life.pins.len()));
        match kind {
            0..14 => life.transaction(&mut rng, model)?,
            14..20 => life.reserve(&mut rng, model)?,
            20..29 => publish::publish(heap, &mut life.held, &mut rng, model)?,
            29 => drop(life.held.drain(..rng.usize(..=life.held.len()))),
            30 | 31 => life.thread(&mut rng, model)?,
            32 => {
                let count = [1, 3, 20, 150][rng.usize(..4)];
                life.pins.extend((0..count).map(|_| heap.pin()));
            }
            33 | 34 => life.pins.clear(),
            35 => life.fill(&mut rng, model)?,
            36 => return Ok(Leave::Close),
            37 => return Ok(Leave::Drop),
            _ => {}
        }
        if number.is_multiple_of(4) {
            model.compare(heap)?;
        }
    }
    model.compare(heap)?;
    Ok(Leave::Stay)
}

impl<'h> Life<'h> {
    /// Returns a finding if an object overlaps a reservation.
    fn clear_of_held(&self, model: &Objects) -> Done {
        self.held.iter().try_for_each(|held| model.clear_of(held.at(), held.len()))
    }

    fn reserve(&mut self, rng: &mut Rng, model: &Objects) -> Done {
        if self.held.len() > 20 {
            self.held.clear();
        }
        let bytes = size(rng);
        match self.heap.reserve(bytes as u64, 1 << rng.u32(..13), rng.u64(1..4)) {
            Ok(reservation) => {
                self.held.push(Held::fill(reservation, content(rng, bytes))?);
                self.clear_of_held(model)
            }
            Err(HeapError::OutOfSpace { .. }) => Ok(()),
            Err(error) => Err(Finding::new("refused", format_args!("reserve: {error}"))),
        }
    }

    /// Makes some changes in one transaction.
    fn transaction(&mut self, rng: &mut Rng, model: &mut Objects) -> Done {
        let (ending, count) = (Ending::draw(rng), 1 + rng.usize(..8));
        let before = model.clone();
        let (mut next, mut broken, mut rounds) = (Objects::default(), Ok(()), 0);
        let choices = rng.fork();
        let result = deliberate(|| {
            self.heap.run(|tx| {
                let mut rng = choices.clone();
                (next, broken) = (before.clone(), Ok(()));
                rounds += 1;
                for step in 0..count {
                    let half = step == count / 2;
                    if half && matches!(ending, Ending::Nested | Ending::NestedError) {
                        let inner = self.heap.run(|tx| {
                            change(tx, &mut rng, &mut next, &mut broken)?;
                            if ending == Ending::Nested { Ok(()) } else { Err(EARLY) }
                        });
                        if ending == Ending::Nested {
                            inner?;
                        }
                    }
                    change(tx, &mut rng, &mut next, &mut broken)?;
                }
                match ending {
                    Ending::Error => Err(EARLY),
                    Ending::Panic => std::panic::resume_unwind(Box::new(Deliberate)),
                    Ending::Restart if rounds == 1 => Err(tx.restart()),
                    _ => Ok(()),
                }
            })
        });
        broken?;
        match result {
            Some(Ok(())) => {
                ensure(
                    ending.commits(),
                    "committed",
                    format_args!("a transaction that ended by {ending:?}"),
                )?;
                *model = next;
                self.clear_of_held(model)
            }
            Some(Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. })) | None => Ok(()),
            Some(Err(error)) => {
                ensure(!ending.commits(), "refused", format_args!("a transaction ({ending:?}): {error}"))
            }
        }
    }

    /// Runs a thread that allocates and frees objects, and ends.
    fn thread(&self, rng: &mut Rng, model: &mut Objects) -> Done {
        let mut mine: Vec<(PoolOffset, u64, Vec<u8>)> = Vec::new();
        let (heap, mut choices) = (self.heap, rng.fork());
        let victims = (0..rng.usize(..4)).filter_map(|_| model.any(rng));
        let victims: Vec<PoolOffset> = victims.filter(|at| model.root != Some(*at)).collect();
        let room = OBJECTS_MAX.saturating_sub(model.all.len());
        let freed = std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                for _ in 0..choices.usize(..20).min(room) {
                    let bytes = magnitude_small(&mut choices);
                    let content = content(&mut choices, bytes);
                    let type_number = choices.u64(1..4);
                    let made = heap.run(|tx| tx.alloc_with(&words(&content), 16, type_number));
                    if let Ok(at) = made {
                        mine.push((at, type_number, content));
                    }
                }
                victims.into_iter().filter(|at| heap.run(|tx| tx.free(*at)).is_ok()).collect::<Vec<_>>()
            });
            work.join()
        });
        let freed = must("a thread", freed.map_err(|_| "it panicked"))?;
        for (at, type_number, content) in mine {
            // The thread freed only after it had made all of its objects.
            model.add(at, Known { type_number, content: Rc::new(content), origin: "a thread's" })?;
        }
        for at in freed {
            model.all.remove(&at);
        }
        self.clear_of_held(model)
    }

    /// Fills the pool until it refuses, frees the new objects, and checks that as many fit again.
    fn fill(&self, rng: &mut Rng, model: &mut Objects) -> Done {
        let bytes = size(rng).max(512);
        let mut counts = [0; 2];
        for count in &mut counts {
            let mut made = Vec::new();
            loop {
                match self.heap.run(|tx| tx.alloc(bytes as u64, 16, 5)) {
                    Ok(at) => {
                        model.clear_of(at, bytes as u64)?;
                        made.push(at);
                    }
                    Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. }) => break,
                    Err(error) => return Err(Finding::new("refused", format_args!("filling: {error}"))),
                }
            }
            *count = made.len();
            for at in made {
                must("free", self.heap.run(|tx| tx.free(at)))?;
            }
        }
        // Space that pinned readers might still see is not reused.
        let fits = counts[1] * 100 >= counts[0] * 85 || !self.pins.is_empty();
        ensure(fits, "full", format_args!("{} objects of {bytes} bytes fit, then {}", counts[0], counts[1]))
    }
}

fn magnitude_small(rng: &mut Rng) -> usize {
    super::magnitude(rng, 4096).max(1)
}

/// Makes one change inside of a transaction. Notes the first finding in `broken`, which is reported at the end.
fn change(
    tx: &Tx<'_, Arc<Mapping>>,
    rng: &mut Rng,
    next: &mut Objects,
    broken: &mut Done,
) -> Result<(), HeapError> {
    let mut note = |done: Done| {
        if broken.is_ok() {
            *broken = done;
        }
    };
    match (rng.u8(..6), next.any(rng)) {
        (0 | 1, Some(at)) => {
            tx.free(at)?;
            next.uproot(tx, at, PoolOffset::NULL);
            note(ensure(tx.free(at) == Err(HeapError::NoObject { at }), "freed-twice", at));
            next.all.remove(&at);
        }
        (2, Some(at)) => {
            let known = next.all[&at].clone();
            let bytes = size(rng);
            let moved = tx.resize(at, bytes as u64, 16)?;
            let content = content(rng, bytes);
            tx.store(moved, &content);
            next.uproot(tx, at, moved);
            next.all.remove(&at);
            note(next.add(moved, Known { content: Rc::new(content), origin: "resized", ..known }));
        }
        (3, Some(at)) => {
            let known = next.all[&at].clone();
            let bytes = content(rng, known.content.len());
            tx.store(at, &bytes);
            next.all.insert(at, Known { content: Rc::new(bytes), origin: "stored to", ..known });
        }
        _ if next.all.len() < OBJECTS_MAX => {
            let bytes = size(rng);
            let (content, type_number) = (content(rng, bytes), rng.u64(1..4));
            let align = 1 << rng.u32(4..13);
            let at = if rng.bool() {
                tx.alloc_with(&words(&content), align, type_number)?
            } else {
                let at = tx.alloc(bytes as u64, align, type_number)?;
                tx.store(at, &content);
                at
            };
            if rng.u8(..4) == 0 {
                tx.set_root(at);
                next.root = Some(at);
            }
            note(next.add(at, Known { type_number, content: Rc::new(content), origin: "allocated" }));
        }
        _ => {}
    }
    Ok(())
}
