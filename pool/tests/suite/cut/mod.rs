#![allow(clippy::unwrap_used, reason = "a test may panic")]
//! A medium of rung `line` that collects the images which a power cut at each of its drains could leave.

use lode_layout::{LINE, PoolOffset, align_down};
use lode_pmem::{Medium, Memory, Rung, SyncError};
use std::collections::BTreeMap;
use std::sync::Mutex;

/// An image that a power cut could leave, and the drain during which the power was cut.
pub(crate) struct Image {
    /// Number of the incomplete drain, from 0.
    pub(crate) drain: usize,
    /// The lines that differ from the initial content.
    lines: BTreeMap<u64, [u8; LINE as usize]>,
}

#[derive(Default)]
struct State {
    /// The lines made durable since the start.
    durable: BTreeMap<u64, [u8; LINE as usize]>,
    /// The lines stored to since they were last durable; true if their write-back was started.
    pending: BTreeMap<u64, bool>,
    drains: usize,
    images: Vec<Image>,
    /// Number of the drain that the device refuses, if any.
    refused: Option<usize>,
}

pub(crate) struct CutMedium {
    initial: Vec<u8>,
    memory: Memory,
    state: Mutex<State>,
}

impl CutMedium {
    pub(crate) fn new(bytes: Vec<u8>) -> CutMedium {
        let memory = Memory::anonymous(bytes.len() as u64).unwrap();
        memory.store(PoolOffset::NULL, &bytes);
        CutMedium { initial: bytes, memory, state: Mutex::default() }
    }

    /// Refuses the drain with this number, counted from 0.
    pub(crate) fn refuse(&self, drain: usize) {
        self.state.lock().unwrap().refused = Some(drain);
    }

    pub(crate) fn drains(&self) -> usize {
        self.state.lock().unwrap().drains
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.memory.len() as usize];
        self.memory.reading(|memory| memory.read(PoolOffset::NULL, &mut bytes)).unwrap();
        bytes
    }

    /// Changes a byte without the knowledge of the medium, as a fault of the device does.
    pub(crate) fn corrupt(&self, at: u64, byte: u8) {
        self.memory.store(PoolOffset::new(at), &[byte]);
    }

    /// Returns the images that power cuts during the drains so far, and one after them, could leave.
    pub(crate) fn take_images(&self) -> Vec<Image> {
        self.cut();
        std::mem::take(&mut self.state.lock().unwrap().images)
    }

    /// Takes the content of an image.
    pub(crate) fn show(&self, image: &Image) {
        let mut state = self.state.lock().unwrap();
        for line in state.durable.keys().chain(state.pending.keys()) {
            let at = *line as usize;
            self.memory.store(PoolOffset::new(*line), &self.initial[at..at + LINE as usize]);
        }
        for (line, bytes) in &image.lines {
            self.memory.store(PoolOffset::new(*line), bytes);
        }
        *state = State { durable: image.lines.clone(), ..State::default() };
    }

    fn dirty(&self, at: PoolOffset, len: u64, flushed: bool) {
        let mut state = self.state.lock().unwrap();
        for line in lines(at, len).filter(|line| *line < self.memory.len()) {
            state.pending.insert(line, flushed);
        }
    }

    fn line(&self, line: u64) -> [u8; LINE as usize] {
        let mut bytes = [0; LINE as usize];
        self.memory.reading(|memory| memory.read(PoolOffset::new(line), &mut bytes)).unwrap();
        bytes
    }

    /// Keeps the images of a cut now: with no pending line, all of them, the first and the last half, each single one,
    /// and all but one. Of many lines, only some are chosen for the last two.
    fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        let pending: Vec<u64> = state.pending.keys().copied().collect();
        let single: Vec<usize> = (0..pending.len()).step_by(pending.len() / 130 + 1).collect();
        let half = pending.len() / 2;
        let mut keep = |chosen: &dyn Fn(usize) -> bool| {
            let mut lines = state.durable.clone();
            let left = pending.iter().enumerate().filter(|(index, _)| chosen(*index));
            lines.extend(left.map(|(_, line)| (*line, self.line(*line))));
            let drain = state.drains;
            state.images.push(Image { drain, lines });
        };
        keep(&|_| false);
        keep(&|_| true);
        keep(&|index| index < half);
        keep(&|index| index >= half);
        for one in single {
            keep(&|index| index == one);
            keep(&|index| index != one);
        }
    }
}

fn lines(at: PoolOffset, len: u64) -> impl Iterator<Item = u64> {
    let first = align_down(at.get(), LINE);
    (first..at.get() + len).step_by(LINE as usize)
}

impl Medium for CutMedium {
    fn memory(&self) -> &Memory {
        &self.memory
    }
    fn rung(&self) -> Rung {
        Rung::Line
    }
    fn log_block(&self) -> u64 {
        LINE
    }
    fn store8(&self, at: PoolOffset, value: u64) {
        self.memory.store8(at, value);
        self.dirty(at, 8, false);
    }
    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        self.memory.store(at, bytes);
        self.dirty(at, bytes.len() as u64, false);
    }
    fn compare_exchange8(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.memory.compare_exchange8(at, current, new)?;
        self.dirty(at, 8, false);
        Ok(found)
    }
    fn copy(&self, at: PoolOffset, bytes: &[u8]) {
        self.memory.store(at, bytes);
        self.dirty(at, bytes.len() as u64, true);
    }
    fn flush(&self, at: PoolOffset, len: u64) {
        let mut state = self.state.lock().unwrap();
        for line in lines(at, len) {
            state.pending.entry(line).and_modify(|flushed| *flushed = true);
        }
    }
    fn drain(&self) -> Result<(), SyncError> {
        self.cut();
        let mut state = self.state.lock().unwrap();
        let number = state.drains;
        state.drains += 1;
        if state.refused == Some(number) {
            return Err(SyncError { errno: 5 });
        }
        let (flushed, dirty) =
            std::mem::take(&mut state.pending).into_iter().partition(|(_, flushed)| *flushed);
        state.pending = dirty;
        let flushed: BTreeMap<u64, bool> = flushed;
        state.durable.extend(flushed.into_keys().map(|line| (line, self.line(line))));
        Ok(())
    }
    fn log_write(&self, at: PoolOffset, bytes: &[u8]) -> Result<(), SyncError> {
        self.copy(at, bytes);
        self.drain()
    }
}
