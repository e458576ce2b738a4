//! The simulated medium: memory whose every store can be replayed, reordered, torn and lost.

use crate::machine::{Cpu, Machine, SECTOR};
use crate::poison::Poison;
use crate::schedule::{self, Schedule};
use crate::touched_lines::TouchedLines;
use crate::trace::{MediumEvent, Trace};
use lode_layout::{LINE, PoolOffset, WORD, align_down};
use lode_pmem::{Counter, Durability, Event, LossModel, Medium, Memory, SyncError};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Number of rounds of [`Medium::relax`] after which a lone thread is reported to wait for ever.
const RELAX_MAX: u32 = 10_000;
/// Error number of an input/output error, which a failing sync reports.
const EIO: i32 = 5;

/// A medium in memory, for trying power cuts.
///
/// A load returns the last store at once, as on any machine. The [explorer](crate::explore()) computes the images that
/// a power cut would leave. It records the run of an engine on one such medium and runs the engine's recovery on
/// others. An engine can't tell it from a mapping of the same [`Machine`].
///
/// The contract of [`Medium`] is checked: a range or length that the trait forbids panics.
#[derive(Debug)]
pub struct SimMedium {
    memory: Memory,
    machine: Machine,
    touched: TouchedLines,
    trace: Trace,
    recording: AtomicBool,
    pub(crate) schedule: Option<Arc<Schedule>>,
    drains: Counter,
    failing_drain: Option<u64>,
    is_armed: AtomicBool,
    pub(crate) poison: Option<Arc<Poison>>,
}

impl SimMedium {
    /// Returns zeroed memory of `len` bytes, a multiple of 4096, that behaves as `machine` says.
    ///
    /// # Errors
    /// The error of mmap(2).
    ///
    /// # Panics
    /// Panics if `len` is not a multiple of 4096, or if the durability is [`Durability::None`].
    pub fn new(len: u64, machine: Machine) -> io::Result<SimMedium> {
        assert!(len.is_multiple_of(lode_layout::BLOCK), "{len} bytes are not a whole number of blocks");
        assert!(len / WORD <= u64::from(u32::MAX), "{len} bytes are more than the simulator can number");
        assert!(machine.durability != Durability::None, "nothing is ever durable at durability none");
        Ok(SimMedium::over(Memory::anonymous(len)?, machine, None))
    }

    /// Returns a medium as [`new`](SimMedium::new) does, with a poison that is not armed yet.
    pub(crate) fn with_poison(len: u64, machine: Machine, poison: Arc<Poison>) -> io::Result<SimMedium> {
        let memory = Memory::anonymous_with_losses(len, Arc::clone(&poison) as Arc<dyn LossModel>)?;
        Ok(SimMedium::over(memory, machine, Some(poison)))
    }

    fn over(memory: Memory, machine: Machine, poison: Option<Arc<Poison>>) -> SimMedium {
        let len = memory.len();
        SimMedium {
            memory,
            machine,
            touched: TouchedLines::new((len / LINE) as usize),
            trace: Trace::default(),
            recording: AtomicBool::new(false),
            schedule: None,
            drains: Counter::default(),
            failing_drain: None,
            is_armed: AtomicBool::new(true),
            poison,
        }
    }

    /// Makes the drain or log write with number `nth`, from 0, fail at durability commit. The stores that it was to
    /// make durable are lost or not. All later ones fail, too, as [`Medium::drain`] says.
    #[must_use]
    pub fn failing_drain(mut self, nth: Option<u64>) -> SimMedium {
        self.failing_drain = nth;
        self
    }

    /// Makes logical threads take turns as `schedule` says.
    pub(crate) fn scheduled(mut self, schedule: Option<Arc<Schedule>>) -> SimMedium {
        self.schedule = schedule;
        self
    }

    /// Switches the counting of drains on or off. Only a counted drain can fail.
    pub(crate) fn arm_failing_drain(&self, on: bool) {
        // ORDER: none needed, this happens before the threads start.
        self.is_armed.store(on, Ordering::Relaxed);
    }

    /// Returns the machine whose rules this medium follows.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Starts or ends the recording.
    pub(crate) fn record(&self, on: bool) {
        // ORDER: none needed, the recorded threads start later and end earlier.
        self.recording.store(on, Ordering::Relaxed);
    }

    /// Returns the recorded events.
    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Returns the lines that were stored to.
    pub(crate) fn touched(&self) -> &TouchedLines {
        &self.touched
    }

    /// Returns true if the drain that was to fail has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failing_drain.is_some_and(|nth| self.drains.get() > nth)
    }

    fn step(&self) {
        if let Some(schedule) = &self.schedule {
            schedule.step(false);
        }
    }

    /// Takes a step at a call that makes stores durable.
    fn step_durable(&self) {
        if let Some(schedule) = &self.schedule {
            schedule.step(true);
        }
    }

    fn note(&self, events: impl FnOnce(&mut Vec<MediumEvent>)) {
        // ORDER: none needed, see `record`.
        if self.recording.load(Ordering::Relaxed) {
            self.trace.with(events);
        }
    }

    /// Returns true if the range is inside of the memory; raises a fault otherwise.
    fn admit(&self, at: PoolOffset, len: u64) -> bool {
        let inside = at.get().checked_add(len).is_some_and(|end| end <= self.memory.len());
        if !inside {
            self.memory.raise_out_of_range(at, len);
        }
        inside
    }

    /// Stores bytes word by word. Records each word as the event that `event` makes of its number and new value. A
    /// store ends before a lost line. Returns true if all was stored.
    fn put(&self, at: PoolOffset, bytes: &[u8], event: impl Fn(u32, u64) -> MediumEvent) -> bool {
        if !self.admit(at, bytes.len() as u64) {
            return false;
        }
        let lost = self.lost_by_store(&(at.get()..at.get() + bytes.len() as u64));
        let kept = lost.as_ref().map_or(bytes.len(), |lost| lost.start.saturating_sub(at.get()) as usize);
        let bytes = &bytes[..kept];
        self.note(|events| self.words(at, bytes, |word, value| events.push(event(word, value))));
        self.without_poison(|| self.words(at, bytes, |word, value| self.set(word, value)));
        lost.is_none_or(|lost| self.fault_at(&lost))
    }

    /// Raises the fault of a store to a lost line. Returns false, the result of [`put`](SimMedium::put) for such a
    /// store.
    fn fault_at(&self, lost: &Range<u64>) -> bool {
        self.memory.store8(PoolOffset::new(lost.start), 0);
        false
    }

    fn set(&self, word: u32, value: u64) {
        let at = PoolOffset::new(u64::from(word) * WORD);
        self.touched.mark(at.line());
        self.memory.store8(at, value);
    }

    /// Calls `each` with the number and the new value of each word that `bytes` would change at `at`.
    fn words(&self, at: PoolOffset, mut bytes: &[u8], mut each: impl FnMut(u32, u64)) {
        let mut place = at.get();
        while !bytes.is_empty() {
            let start = align_down(place, WORD);
            let skip = (place - start) as usize;
            let (now, rest) = bytes.split_at(bytes.len().min(WORD as usize - skip));
            let mut word = [0; WORD as usize];
            if now.len() < word.len() {
                // Not `load8`, which is a switching point in builds with seeded bugs.
                // This load is not the engine's, so it is neither lost nor counted.
                let read = || self.memory.reading(|memory| memory.read(PoolOffset::new(start), &mut word));
                self.without_poison(read).expect("the range was admitted");
            }
            word[skip..skip + now.len()].copy_from_slice(now);
            each((start / WORD) as u32, u64::from_le_bytes(word));
            place = start + WORD;
            bytes = rest;
        }
    }

    /// Makes the units from `first` to `last` durable.
    fn write_out(&self, first: u32, last: u32) -> Result<(), SyncError> {
        self.check_sync_allowed()?;
        // ORDER: none needed, the baton orders the threads.
        if self.is_armed.load(Ordering::Relaxed) && Some(self.drains.add(1)) == self.failing_drain {
            self.note(|events| events.push(MediumEvent::SyncFailed { first, last }));
            return Err(SyncError { errno: EIO });
        }
        self.note(|events| events.push(MediumEvent::Synced { first, last }));
        Ok(())
    }

    /// Refuses a sync after a failure, for good.
    fn check_sync_allowed(&self) -> Result<(), SyncError> {
        if self.has_failed() { Err(SyncError { errno: EIO }) } else { Ok(()) }
    }

    fn start_write_back(&self, range: Range<u64>) {
        if !range.is_empty() {
            let (first, last) = (self.unit_of(range.start), self.unit_of(range.end - 1));
            self.note(|events| events.push(MediumEvent::Flush { first, last, thread: schedule::current() }));
        }
    }

    fn unit_of(&self, at: u64) -> u32 {
        (at / self.machine.unit()) as u32
    }
}

impl Medium for SimMedium {
    fn memory(&self) -> &Memory {
        &self.memory
    }

    fn durability(&self) -> Durability {
        self.machine.durability
    }

    fn log_block(&self) -> u64 {
        self.machine.unit()
    }

    fn keeps_order_in_lines(&self) -> bool {
        self.machine.cpu == Cpu::X86 || self.machine.durability == Durability::Commit
    }

    fn store8(&self, at: PoolOffset, value: u64) {
        self.step();
        if !at.get().is_multiple_of(WORD) {
            return self.memory.raise_out_of_range(at, WORD);
        }
        self.put(at, &value.to_le_bytes(), |word, value| MediumEvent::Store { word, value });
    }

    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.step();
        self.put(at, bytes, |word, value| MediumEvent::Store { word, value });
    }

    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        self.step();
        let found = self.memory.compare_exchange8(at, current, new);
        let is_kept = self.lost(&(at.get()..at.get().saturating_add(WORD))).is_none();
        if found.is_ok() && is_kept && at.get().is_multiple_of(WORD) && at.get() < self.memory.len() {
            self.touched.mark(at.line());
            self.note(|events| {
                events.push(MediumEvent::Store { word: (at.get() / WORD) as u32, value: new })
            });
        }
        found
    }

    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        let (place, len) = (at.get(), bytes.len() as u64);
        assert!(place.is_multiple_of(WORD) && len.is_multiple_of(WORD), "a copy is of whole words");
        self.step_durable();
        let thread = schedule::current();
        match self.machine.durability {
            Durability::Commit => self.put(at, bytes, |word, value| MediumEvent::Store { word, value }),
            _ => self.put(at, bytes, |word, value| MediumEvent::Copy { word, value, thread }),
        };
    }

    fn flush(&self, at: PoolOffset, len: u64) {
        self.step();
        if len == 0 || !self.admit(at, len) {
            return;
        }
        let all = at.get()..at.get() + len;
        match self.lost(&all) {
            Some(lost) if self.machine.durability == Durability::Line => {
                self.start_write_back(all.start..lost.start);
                self.start_write_back(lost.end..all.end);
                self.fault_at(&lost);
            }
            _ => self.start_write_back(all),
        }
    }

    fn drain(&self) -> Result<(), SyncError> {
        self.step_durable();
        match self.machine.durability {
            Durability::Commit => self.write_out(0, self.unit_of(self.memory.len()) - 1),
            _ => {
                self.note(|events| events.push(MediumEvent::Drain { thread: schedule::current() }));
                Ok(())
            }
        }
    }

    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        let (len, block) = (bytes.len() as u64, self.log_block());
        let is_whole = at.get().is_multiple_of(block) && len.is_multiple_of(block);
        assert!(is_whole, "a log write is of whole log blocks");
        self.step_durable();
        self.check_sync_allowed()?;
        if len == 0 || !self.admit(at, len) {
            return Ok(());
        }
        let thread = schedule::current();
        let last_word = (SECTOR / WORD - 1) as u32;
        let all = match self.machine.durability {
            Durability::Commit => self.put(at, bytes, |word, value| {
                let last = word & last_word == last_word;
                MediumEvent::Log { word, value, last }
            }),
            Durability::Byte => self.put(at, bytes, |word, value| MediumEvent::Store { word, value }),
            _ => self.put(at, bytes, |word, value| MediumEvent::Copy { word, value, thread }),
        };
        if !all {
            return Err(SyncError { errno: EIO });
        }
        // Another thread may run between the write and its completion.
        self.step_durable();
        if self.machine.durability == Durability::Commit {
            let (first, last) = (self.unit_of(at.get()), self.unit_of(at.get() + len - 1));
            return self.write_out(first, last);
        }
        self.note(|events| events.push(MediumEvent::Drain { thread }));
        Ok(())
    }

    fn relax(&self, round: u32) {
        match &self.schedule {
            Some(schedule) if schedule.is_shared() => schedule.relax(),
            _ => assert!(round < RELAX_MAX, "the only thread waits for another one"),
        }
    }

    fn wait_while(&self, _event: &Event, blocked: &mut dyn FnMut() -> bool) {
        match &self.schedule {
            Some(schedule) if schedule.is_shared() => schedule.wait_while(blocked),
            _ => assert!(!blocked(), "the only thread waits for another one"),
        }
    }
}
