//! Objects of a heap: allocated, changed, freed, reserved, published, in transactions that end in every way.

use super::objects::{KnownObject, ObjectModel, PoolHeap, content, size, words};
use super::publish::{self, FilledReservation};
use super::{DELIBERATE_ERROR, Ending, Outcome, Sequence, ensure, expect_ok};
use crate::panic_hook::{DeliberatePanic, catch_deliberate};
use crate::progress::{Progress, StepRecorder};
use crate::{Finding, scratch_folder};
use fastrand::Rng;
use lode_fsck::check_pool;
use lode_heap::check::Severity;
use lode_heap::{Access, CreateOptions, Durability, HeapError, LayoutName, OpenOptions, Pin, Pool, Tx};
use lode_index::StoreLayout;
use lode_kv::LAYOUT;
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

/// State in DRAM of one session: the time between two openings of the pool.
struct Session<'h> {
    heap: &'h PoolHeap,
    held: Vec<FilledReservation<'h>>,
    pins: Vec<Pin<'h>>,
}

/// State in which the last step of a session leaves the pool.
enum SessionEnd {
    Last,
    Close,
    Drop,
}

pub(super) fn run(sequence: &Sequence, progress: &Progress) -> Outcome {
    let folder = expect_ok("a folder", scratch_folder())?;
    let path = folder.path().join("heap.pool");
    let layout = expect_ok("a layout", LayoutName::new("attack"))?;
    let options = CreateOptions {
        size_max: None,
        durability: Some(Durability::Line),
        ..CreateOptions::new(SIZE, layout)
    };
    let mut pool = expect_ok("create", Pool::create(&path, &options))?;
    let mut model = ObjectModel::default();
    let mut steps = sequence.steps.iter();
    let mut recorder = progress.thread(0);
    loop {
        let end = run_session(sequence, &mut steps, pool.heap(), &mut model, &mut recorder)?;
        match end {
            SessionEnd::Drop => drop(pool),
            SessionEnd::Last | SessionEnd::Close => expect_ok("close", pool.close())?,
        }
        check(&path)?;
        let opening =
            OpenOptions { durability: Some(Durability::Line), ..OpenOptions::new(Access::ReadWrite) };
        pool = expect_ok("open", Pool::open(&path, &opening))?;
        model.compare(pool.heap())?;
        if matches!(end, SessionEnd::Last) {
            return Ok(());
        }
    }
}

/// Returns a finding if a check of the pool at `path` finds damage.
pub(crate) fn check(path: &Path) -> Outcome {
    let view = expect_ok("map", map_unchecked(path, &OpenOptions::new(Access::ReadOnly)))?;
    let report = check_pool(Arc::new(view), &[&LAYOUT, &StoreLayout]);
    ensure(report.worst() != Some(Severity::Damage), "damage", format_args!("a check finds {report}"))
}

fn run_session<'a>(
    sequence: &Sequence,
    steps: &mut impl Iterator<Item = &'a u64>,
    heap: &PoolHeap,
    model: &mut ObjectModel,
    recorder: &mut StepRecorder<'_>,
) -> Result<SessionEnd, Finding> {
    let mut session = Session { heap, held: Vec::new(), pins: Vec::new() };
    for number in steps {
        let mut rng = sequence.rng(*number);
        let kind = rng.u8(..40);
        recorder.begin(format_args!("heap step {number} of kind {kind}, {} pins", session.pins.len()));
        match kind {
            0..14 => session.transaction(&mut rng, model)?,
            14..20 => session.reserve(&mut rng, model)?,
            20..29 => publish::publish(heap, &mut session.held, &mut rng, model)?,
            29 => drop(session.held.drain(..rng.usize(..=session.held.len()))),
            30 | 31 => session.thread(&mut rng, model)?,
            32 => {
                let count = [1, 3, 20, 150][rng.usize(..4)];
                session.pins.extend((0..count).map(|_| heap.pin()));
            }
            33 | 34 => session.pins.clear(),
            35 => session.fill(&mut rng, model)?,
            36 => return Ok(SessionEnd::Close),
            37 => return Ok(SessionEnd::Drop),
            _ => {}
        }
        if number.is_multiple_of(4) {
            model.compare(heap)?;
        }
    }
    model.compare(heap)?;
    Ok(SessionEnd::Last)
}

impl<'h> Session<'h> {
    /// Returns a finding if an object overlaps a reservation.
    fn check_reservations(&self, model: &ObjectModel) -> Outcome {
        self.held.iter().try_for_each(|held| model.check_no_overlap(held.at(), held.len()))
    }

    fn reserve(&mut self, rng: &mut Rng, model: &ObjectModel) -> Outcome {
        if self.held.len() > 20 {
            self.held.clear();
        }
        let bytes = size(rng);
        match self.heap.reserve(bytes as u64, 1 << rng.u32(..13), rng.u64(1..4)) {
            Ok(reservation) => {
                self.held.push(FilledReservation::fill(reservation, content(rng, bytes))?);
                self.check_reservations(model)
            }
            Err(HeapError::OutOfSpace { .. }) => Ok(()),
            Err(error) => Err(Finding::new("refused", format_args!("reserve: {error}"))),
        }
    }

    /// Makes some changes in one transaction.
    fn transaction(&mut self, rng: &mut Rng, model: &mut ObjectModel) -> Outcome {
        let (ending, count) = (Ending::draw(rng), 1 + rng.usize(..8));
        let before = model.clone();
        let (mut next, mut finding, mut rounds) = (ObjectModel::default(), Ok(()), 0);
        let choices = rng.fork();
        let result = catch_deliberate(|| {
            self.heap.run(|tx| {
                let mut rng = choices.clone();
                (next, finding) = (before.clone(), Ok(()));
                rounds += 1;
                for step in 0..count {
                    let half = step == count / 2;
                    if half && matches!(ending, Ending::Nested | Ending::NestedError) {
                        let inner = self.heap.run(|tx| {
                            change(tx, &mut rng, &mut next, &mut finding)?;
                            if ending == Ending::Nested { Ok(()) } else { Err(DELIBERATE_ERROR) }
                        });
                        if ending == Ending::Nested {
                            inner?;
                        }
                    }
                    change(tx, &mut rng, &mut next, &mut finding)?;
                }
                match ending {
                    Ending::Error => Err(DELIBERATE_ERROR),
                    Ending::Panic => std::panic::resume_unwind(Box::new(DeliberatePanic)),
                    Ending::Restart if rounds == 1 => Err(tx.restart()),
                    _ => Ok(()),
                }
            })
        });
        finding?;
        match result {
            Some(Ok(())) => {
                ensure(
                    ending.commits(),
                    "committed",
                    format_args!("a transaction that ended by {ending:?}"),
                )?;
                *model = next;
                self.check_reservations(model)
            }
            Some(Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. })) | None => Ok(()),
            Some(Err(error)) => {
                ensure(!ending.commits(), "refused", format_args!("a transaction ({ending:?}): {error}"))
            }
        }
    }

    /// Runs a thread that allocates and frees objects, and ends.
    fn thread(&self, rng: &mut Rng, model: &mut ObjectModel) -> Outcome {
        let mut mine: Vec<(PoolOffset, u64, Vec<u8>)> = Vec::new();
        let (heap, mut choices) = (self.heap, rng.fork());
        let victims = (0..rng.usize(..4)).filter_map(|_| model.pick(rng));
        let victims: Vec<PoolOffset> = victims.filter(|at| model.root != Some(*at)).collect();
        let room = OBJECTS_MAX.saturating_sub(model.all.len());
        let freed = std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                for _ in 0..choices.usize(..20).min(room) {
                    let bytes = small_size(&mut choices);
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
        let freed = expect_ok("a thread", freed.map_err(|_| "it panicked"))?;
        for (at, type_number, content) in mine {
            // The thread freed only after it had made all of its objects.
            model.add(at, KnownObject { type_number, content: Rc::new(content), origin: "a thread's" })?;
        }
        for at in freed {
            model.all.remove(&at);
        }
        self.check_reservations(model)
    }

    /// Fills the pool until it refuses, frees the new objects, and checks that as many fit again.
    fn fill(&self, rng: &mut Rng, model: &mut ObjectModel) -> Outcome {
        let bytes = size(rng).max(512);
        let mut counts = [0; 2];
        for count in &mut counts {
            let mut made = Vec::new();
            loop {
                match self.heap.run(|tx| tx.alloc(bytes as u64, 16, 5)) {
                    Ok(at) => {
                        model.check_no_overlap(at, bytes as u64)?;
                        made.push(at);
                    }
                    Err(HeapError::OutOfSpace { .. } | HeapError::TooLarge { .. }) => break,
                    Err(error) => return Err(Finding::new("refused", format_args!("filling: {error}"))),
                }
            }
            *count = made.len();
            for at in made {
                expect_ok("free", self.heap.run(|tx| tx.free(at)))?;
            }
        }
        // Space that pinned readers might still see is not reused.
        let fits = counts[1] * 100 >= counts[0] * 85 || !self.pins.is_empty();
        ensure(fits, "full", format_args!("{} objects of {bytes} bytes fit, then {}", counts[0], counts[1]))
    }
}

fn small_size(rng: &mut Rng) -> usize {
    super::log_uniform(rng, 4096).max(1)
}

/// Makes one change inside of a transaction. Stores the first finding in `finding`, which is reported at the end.
fn change(
    tx: &Tx<'_, Arc<Mapping>>,
    rng: &mut Rng,
    next: &mut ObjectModel,
    finding: &mut Outcome,
) -> Result<(), HeapError> {
    let mut note = |done: Outcome| {
        if finding.is_ok() {
            *finding = done;
        }
    };
    match (rng.u8(..6), next.pick(rng)) {
        (0 | 1, Some(at)) => {
            tx.free(at)?;
            next.replace_root(tx, at, PoolOffset::NULL);
            note(ensure(tx.free(at) == Err(HeapError::NoObject { at }), "freed-twice", at));
            next.all.remove(&at);
        }
        (2, Some(at)) => {
            let known = next.all[&at].clone();
            let bytes = size(rng);
            let moved = tx.resize(at, bytes as u64, 16)?;
            let content = content(rng, bytes);
            tx.store(moved, &content);
            next.replace_root(tx, at, moved);
            next.all.remove(&at);
            note(next.add(moved, KnownObject { content: Rc::new(content), origin: "resized", ..known }));
        }
        (3, Some(at)) => {
            let known = next.all[&at].clone();
            let bytes = content(rng, known.content.len());
            tx.store(at, &bytes);
            next.all.insert(at, KnownObject { content: Rc::new(bytes), origin: "stored to", ..known });
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
            note(next.add(at, KnownObject { type_number, content: Rc::new(content), origin: "allocated" }));
        }
        _ => {}
    }
    Ok(())
}
