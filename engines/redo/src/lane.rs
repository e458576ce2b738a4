//! Lanes: the state that a thread has to itself from assigning a sequence number to the end of its write-backs.

use crate::dirty::DirtyLines;
use lode_layout::PoolOffset;
use lode_pmem::biased::{Bias, Biased, BiasedGuard, Owner};
use lode_pmem::sync::{AtomicBool, AtomicUsize, Ordering, SpinMutex, asymmetric, thread_local};
use lode_pmem::{Counter, Medium};
use std::cell::Cell;

/// A ring, and the place of its next record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingPosition {
    pub(crate) number: usize,
    /// Offset of the ring in the pool.
    pub(crate) start: PoolOffset,
    /// Length of the ring in bytes.
    pub(crate) len: u64,
    /// Position of the next record, in bytes since the log epoch began, without wrapping.
    pub(crate) head: u64,
    /// The same position as an offset in the ring.
    pub(crate) offset: u64,
}

impl RingPosition {
    /// No ring: it has room for no record.
    pub(crate) const NONE: RingPosition =
        RingPosition { number: 0, start: PoolOffset::NULL, len: 0, head: u64::MAX / 2, offset: 0 };

    pub(crate) fn is_none(&self) -> bool {
        self.len == 0
    }

    /// Moves on after a record of `len` bytes.
    #[inline]
    pub(crate) fn advance(&mut self, len: u64) {
        self.head += len;
        self.offset += len;
        debug_assert_eq!(self.head % self.len, self.offset % self.len, "the head is where the offset is");
    }
}

/// The rings that no lane has, of a log whose lanes share them.
#[derive(Debug)]
pub(crate) struct SpareRings {
    pub(crate) rings: SpinMutex<Vec<RingPosition>>,
    /// True if one of them is at most half full.
    pub(crate) has_room: AtomicBool,
}

/// The part of a lane that belongs to the thread that holds it.
#[derive(Debug)]
pub(crate) struct LaneState {
    /// The ring to which the lane appends. Unused at durability commit, where all lanes share one.
    pub(crate) ring: RingPosition,
    /// Bytes of entries outside of the rings since the last checkpoint.
    pub(crate) continued: u64,
    /// Lines written back since the last checkpoint.
    pub(crate) dirty: DirtyLines,
    /// The thread that held the lane last.
    holder: Owner,
}

/// A lane. A thread holds it from before it assigns a sequence number until its write-backs are done, or until its
/// transaction returns before its sync. So a thread that holds all lanes, and has written back all records, knows that no
/// transaction is between the two.
#[derive(Debug)]
#[repr(align(128))]
struct Lane {
    state: Biased<LaneState>,
}

/// All lanes of a log.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: Box<[Lane]>,
    /// Number of lanes in use, the first ones. It only grows, while all lanes are held.
    used: AtomicUsize,
    /// The lane that the next thread tries first if it has held none.
    next: Counter,
}

thread_local! {
    /// The lane that this thread held last, in any log.
    static HINT: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl Lanes {
    /// Makes `count` lanes, and uses the first `used` of them.
    pub(crate) fn new(count: usize, used: usize) -> Lanes {
        let state = || LaneState {
            ring: RingPosition::NONE,
            continued: 0,
            dirty: DirtyLines::new(),
            holder: Owner::NONE,
        };
        debug_assert!(used <= count, "lanes in use exist");
        let lanes = (0..count).map(|_| Lane { state: Biased::new(state()) }).collect();
        Lanes { lanes, used: AtomicUsize::new(used), next: Counter::new(0) }
    }

    /// Number of lanes in use.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // ORDER: acquires the rings of lanes that came into use.
        self.used.load(Ordering::Acquire)
    }

    fn used(&self) -> &[Lane] {
        &self.lanes[..self.len()]
    }

    /// Holds a lane that is biased to this thread or free, preferably the one that it held last. Waits when there is
    /// none.
    #[inline]
    pub(crate) fn claim<M: Medium>(&self, medium: &M) -> (usize, BiasedGuard<'_, LaneState>) {
        let hint = HINT.with(Cell::get);
        if let Some(lane) = self.lanes.get(hint)
            && hint < self.len()
        {
            if let Some(state) = lane.state.enter() {
                return (hint, state);
            }
            if let Some(mut state) = lane.state.try_lock() {
                state.holder = Owner::current();
                return (hint, state);
            }
        }
        self.claim_any(medium)
    }

    /// Biases the first lane to this thread alone, since no other thread has used a log that was opened just now.
    pub(crate) fn bias_to_opener<M: Medium>(&self, medium: &M) {
        let mut lanes = self.claim_all(medium);
        let used: Vec<bool> = (0..lanes.len()).map(|index| index == 0).collect();
        lanes[0].holder = Owner::current();
        bias_used(&mut lanes, &used);
    }

    /// Holds the lane of this thread if its bias is exclusive: no other thread holds a lane meanwhile.
    #[inline]
    pub(crate) fn enter_exclusive(&self) -> Option<BiasedGuard<'_, LaneState>> {
        // A thread that has held none may have opened the log.
        let lane = self.lanes.get(HINT.with(Cell::get)).unwrap_or(&self.lanes[0]);
        lane.state.enter().filter(BiasedGuard::is_exclusive)
    }

    #[cold]
    fn claim_any<M: Medium>(&self, medium: &M) -> (usize, BiasedGuard<'_, LaneState>) {
        let start = match HINT.with(Cell::get) {
            usize::MAX => self.next.add(1) as usize,
            hint => hint,
        };
        for round in 0.. {
            if let Some((index, mut state)) = self.find(start, medium) {
                state.holder = Owner::current();
                HINT.with(|hint| hint.set(index));
                return (index, state);
            }
            medium.relax(round);
        }
        unreachable!("the loop ends with a lane")
    }

    /// Finds a lane that can be held without waiting for a transaction, searching from `start` on. Prefers a lane
    /// that is biased to this thread, then a free one, then one that is biased to another thread, which may have
    /// ended.
    fn find<M: Medium>(&self, start: usize, medium: &M) -> Option<(usize, BiasedGuard<'_, LaneState>)> {
        let count = self.len();
        let around = (0..count).map(|step| (start % count + step) % count);
        let free = |index: usize| self.lanes[index].state.try_lock().map(|state| (index, state));
        let mine = |index: usize| self.lanes[index].state.enter().map(|state| (index, state));
        let found = around.clone().find_map(mine).or_else(|| around.clone().find_map(free));
        if found.is_some() || self.end_exclusive_bias(medium) {
            return found.or_else(|| around.clone().find_map(free));
        }
        let another = |bias| matches!(bias, Bias::To(_));
        let revoked = |index: usize| Some((index, self.lanes[index].state.revoke(another, wait_on(medium))?));
        around.clone().find_map(revoked)
    }

    /// Opens the closed lanes if one lane had the exclusive bias. Returns false if none was.
    fn end_exclusive_bias<M: Medium>(&self, medium: &M) -> bool {
        let exclusive = |bias| matches!(bias, Bias::Exclusive(_));
        let mut revoked = self.used().iter().filter_map(|lane| lane.state.revoke(exclusive, wait_on(medium)));
        let Some(mut state) = revoked.next() else { return false };
        let holder = state.holder;
        state.bias(Bias::To(holder));
        self.used().iter().for_each(|lane| lane.state.open());
        true
    }

    /// Holds all lanes. Waits for transactions that are in their drain, never for a user's closure.
    pub(crate) fn claim_all<M: Medium>(&self, medium: &M) -> Vec<BiasedGuard<'_, LaneState>> {
        loop {
            let used = self.used();
            let held = Biased::lock_all(used.iter().map(|lane| &lane.state), wait_on(medium));
            // Lanes come into use with all others held, so none does from now on.
            if used.len() == self.len() {
                return held;
            }
        }
    }

    /// Holds the lanes after those in use, up to `used` in all. No other thread holds one of them. The caller holds the
    /// lanes in use.
    pub(crate) fn claim_unused<M: Medium>(&self, used: usize, medium: &M) -> Vec<BiasedGuard<'_, LaneState>> {
        let unused = self.lanes.get(self.len()..used).unwrap_or_default();
        Biased::lock_all(unused.iter().map(|lane| &lane.state), wait_on(medium))
    }

    /// Uses the first `used` lanes, whose rings are set.
    pub(crate) fn use_lanes(&self, used: usize) {
        // ORDER: releases the rings of the lanes that come into use.
        self.used.fetch_max(used.min(self.lanes.len()), Ordering::Release);
    }
}

/// Biases each lane that was `used` to the thread that held it last. A single such lane gets an exclusive bias.
pub(crate) fn bias_used(lanes: &mut [BiasedGuard<'_, LaneState>], used: &[bool]) {
    if !asymmetric::is_available() {
        return;
    }
    let is_exclusive = used.iter().filter(|used| **used).count() == 1;
    for (lane, used) in lanes.iter_mut().zip(used) {
        let bias = match (*used, is_exclusive) {
            (true, true) => Bias::Exclusive(lane.holder),
            (true, false) => Bias::To(lane.holder),
            (false, true) => Bias::Closed,
            (false, false) => Bias::None,
        };
        lane.bias(bias);
    }
}

fn wait_on<M: Medium>(medium: &M) -> impl FnMut(u32) {
    |round| medium.relax(round)
}
