//! Rings that lanes share: a lane takes one that has room, and goes on in another one when it is full.
//!
//! A lane of any other log has its own ring, and one thread has a sixteenth of the log between two checkpoints. A log that covers
//! memory needs images anew after each checkpoint, so one thread is to have all of it.
//!
//! ```text
//!   commit:      the lane's ring is full -> take the spare ring with the most room, leave the full one
//!   checkpoint:  all lanes leave their rings -> the images of the new epoch -> lanes take rings again -> slot -> tails
//! ```
//!
//! Only a lane appends to a ring, so a ring has one writer at a time. The next writer has taken the ring under the lock, after the last
//! record of the one before was durable. So all that [`ring`](crate::ring) says of rings holds for these.

use crate::error::LogError;
use crate::lane::{LaneState, RingPosition, SpareRings};
use crate::log::Log;
use lode_layout::PoolOffset;
use lode_pmem::biased::BiasedGuard;
use lode_pmem::sync::{AtomicBool, Ordering, SpinMutex, SpinMutexGuard};
use lode_pmem::{Medium, hold};
use std::mem;

impl<M: Medium> Log<M> {
    /// Lets lanes share the rings from now on. The log has a ring for each lane.
    pub(crate) fn share_rings(&mut self) {
        let mut rings = Vec::new();
        for lane in &mut self.lanes.claim_all(&self.medium) {
            rings.push(mem::replace(&mut lane.ring, RingPosition::NONE));
        }
        self.spare_rings = Some(SpareRings { rings: SpinMutex::new(rings), has_room: AtomicBool::new(true) });
    }

    /// Takes the spare ring with the most room instead of that of the lane. Returns false if none has room for `len` bytes.
    #[cold]
    pub(crate) fn take_spare_ring(&self, lane: &mut LaneState, len: u64) -> bool {
        let Some(spare) = &self.spare_rings else { return false };
        let mut rings = hold(&spare.rings, &self.medium);
        let Some(index) = self.roomiest(&rings, len, self.reserved()) else { return false };
        let mut taken = rings.swap_remove(index);
        self.has_room(&mut taken, len, self.reserved());
        let left = mem::replace(&mut lane.ring, taken);
        if !left.is_none() {
            rings.push(left);
        }
        self.note_room(spare, &rings);
        true
    }

    /// Returns true if a lane that fills its ring can go on in a spare one.
    #[inline]
    pub(crate) fn has_spare_ring(&self) -> bool {
        // ORDER: none: an old answer only makes the checkpoint come earlier or later.
        self.spare_rings.as_ref().is_some_and(|spare| spare.has_room.load(Ordering::Relaxed))
    }

    /// Makes all lanes, which the caller holds, leave their rings. Returns the head of each ring, by its number.
    pub(crate) fn leave_rings(
        &self,
        spare: &SpareRings,
        lanes: &mut [BiasedGuard<'_, LaneState>],
    ) -> Vec<u64> {
        let mut rings = hold(&spare.rings, &self.medium);
        let left = lanes.iter_mut().map(|lane| mem::replace(&mut lane.ring, RingPosition::NONE));
        rings.extend(left.filter(|ring| !ring.is_none()));
        debug_assert_eq!(rings.len(), lanes.len(), "the log has a ring for each lane");
        let mut heads = vec![0; rings.len()];
        rings.iter().for_each(|ring| heads[ring.number] = ring.head);
        heads
    }

    /// Moves the rings, all of which are spare and empty, to the area that begins at `start`. The caller holds all lanes.
    pub(crate) fn move_spare_rings(&self, spare: &SpareRings, start: PoolOffset, ring_len: u64) {
        for ring in hold(&spare.rings, &self.medium).iter_mut() {
            let (number, head) = (ring.number, ring.head.next_multiple_of(ring_len));
            let start = start.plus(number as u64 * ring_len);
            *ring = RingPosition { number, start, len: ring_len, head, offset: 0 };
            // ORDER: published with the lanes.
            self.tails[number].store(head, Ordering::Relaxed);
        }
    }

    /// Calls `append` with the spare ring that has the most room. The caller holds all lanes, which have left their rings.
    ///
    /// # Errors
    /// [`LogError::Poisoned`] if none has room for `len` bytes; the error of `append`.
    pub(crate) fn with_roomiest_ring(
        &self,
        len: u64,
        append: impl FnOnce(&mut RingPosition) -> Result<(), LogError>,
    ) -> Result<(), LogError> {
        let spare = self.spare_rings.as_ref().ok_or(LogError::Poisoned)?;
        let mut rings = hold(&spare.rings, &self.medium);
        let index = self.roomiest(&rings, len, 0).ok_or(LogError::Poisoned)?;
        self.has_room(&mut rings[index], len, 0);
        append(&mut rings[index])
    }

    /// Notes that a checkpoint has freed space.
    pub(crate) fn note_free_rings(&self) {
        if let Some(spare) = &self.spare_rings {
            self.note_room(spare, &hold(&spare.rings, &self.medium));
        }
    }

    fn note_room(&self, spare: &SpareRings, rings: &SpinMutexGuard<'_, Vec<RingPosition>>) {
        let has_room = rings.iter().any(|ring| self.used_len(ring) <= ring.len / 2);
        // ORDER: as in `has_spare_ring`.
        spare.has_room.store(has_room, Ordering::Relaxed);
    }

    /// Returns the index of the emptiest of the rings that have room for `len` bytes, with `reserved` bytes left.
    fn roomiest(&self, rings: &[RingPosition], len: u64, reserved: u64) -> Option<usize> {
        let fits = |index: &usize| self.has_room(&mut rings[*index].clone(), len, reserved);
        (0..rings.len()).filter(fits).min_by_key(|index| self.used_len(&rings[*index]))
    }

    /// Returns the bytes of a ring whose records may be needed.
    fn used_len(&self, ring: &RingPosition) -> u64 {
        // ORDER: none: the answer is for a choice.
        ring.head - self.tails[ring.number].load(Ordering::Relaxed)
    }
}
