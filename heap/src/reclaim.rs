//! Reclaiming: how what was freed, and can't be used yet, is made free when a transaction finds no space.
//!
//! A transaction is refused only when all of this was done, by itself or by another thread while it waited, and the
//! space is still not there. What other threads keep for themselves stays theirs while they run: some free blocks of
//! each size and type that they use.

use crate::alloc::limbo::Freed;
use crate::alloc::{Block, Span};
use crate::heap::holds;
use crate::session::State;
use crate::sync::SpinMutexGuard;
use crate::{Heap, HeapError};
use lode_layout::{Descriptor, Record};
use lode_pmem::Medium;

impl<M: Medium> Heap<M> {
    /// Takes a span of free chunks. When there is none, all that can be reclaimed is.
    pub(crate) fn find_span(
        &self,
        state: &mut State,
        chunks: u64,
        align: u64,
    ) -> Result<Option<Span>, HeapError> {
        if chunks > self.space.chunks() {
            return Ok(None);
        }
        match self.take_span(chunks, align) {
            Some(span) => Ok(Some(span)),
            None => self.reclaim_for(state, || self.take_span(chunks, align)),
        }
    }

    pub(crate) fn take_span(&self, chunks: u64, align: u64) -> Option<Span> {
        self.shared.central.take_span(&self.space, self.memory(), chunks, align)
    }

    /// Makes free what was freed, until `find` finds something.
    #[cold]
    pub(crate) fn reclaim_for(
        &self,
        state: &mut State,
        find: impl Fn() -> Option<Span>,
    ) -> Result<Option<Span>, HeapError> {
        self.give_up_blocks(state);
        let _alone = self.reclaim_alone();
        // Maybe another thread has just reclaimed it.
        if let Some(span) = find() {
            return Ok(Some(span));
        }
        if self.waits_for_checkpoint() {
            self.log.checkpoint()?;
            self.take_ripe();
            if let Some(span) = find() {
                return Ok(Some(span));
            }
        }
        self.give_up_empty_superblocks()?;
        let span = find();
        state.starved |= span.is_none();
        Ok(span)
    }

    /// Makes free what the calling thread's last transaction had to leave, if it was refused, because it was pinned
    /// itself. Whether there was any: then it is worth another attempt.
    #[cold]
    pub(crate) fn reclaim(&self) -> bool {
        let session = self.session();
        let state = &mut *session.state.borrow_mut();
        state.was_starved && (self.give_up_blocks(state) || self.waits_for_checkpoint())
    }

    /// Waits until no other thread reclaims: what it is about to make free is on no list meanwhile.
    fn reclaim_alone(&self) -> SpinMutexGuard<'_, ()> {
        for round in 0.. {
            if let Some(alone) = self.shared.reclaiming.try_lock() {
                return alone;
            }
            self.medium().relax(round);
        }
        unreachable!("the loop ends with the lock")
    }

    /// Gives the free blocks of the calling thread to all, so that superblocks without a used block show. Whether
    /// something that was freed is free now.
    fn give_up_blocks(&self, state: &mut State) -> bool {
        for (key, mut blocks) in state.magazines.take_all() {
            // Those of superblocks that the transaction itself makes are not known to the others yet.
            let inside = |block: &Block| state.made.iter().any(|made| holds(made.span, block.at));
            let own: Vec<Block> = blocks.extract_if(.., |block| inside(block)).collect();
            state.magazines.of(key).extend(own);
            self.shared.central.give_blocks(key, blocks.into_iter());
        }
        self.shared.bury(&mut state.limbo);
        self.take_ripe()
    }

    /// Gives back what was freed, is covered by the checkpoint and held by no reader. Whether there was any.
    pub(crate) fn take_ripe(&self) -> bool {
        let oldest = self.shared.readers.oldest();
        // Locked until all is given back, for whoever looks for it next.
        let mut limbo = self.shared.limbo();
        let ripe = limbo.take_ripe(self.log.checkpointed(), oldest);
        for freed in &ripe {
            match *freed {
                Freed::Block(key, block) => self.shared.central.give_blocks(key, [block].into_iter()),
                Freed::Span(span) => self.shared.central.give_span(span),
            }
        }
        !ripe.is_empty()
    }

    /// Whether a checkpoint is all that keeps something freed from being free.
    fn waits_for_checkpoint(&self) -> bool {
        let oldest = self.shared.readers.oldest();
        self.shared.limbo().waits_for_checkpoint(self.log.checkpointed(), oldest)
    }

    /// Makes free chunks of the superblocks that have no block in use: by a record of its own, since they are
    /// nobody's, and a checkpoint, after which no record is left that could be replayed over them.
    fn give_up_empty_superblocks(&self) -> Result<(), HeapError> {
        let empty = self.shared.central.take_empty_superblocks(&self.space);
        // As many descriptors as fit a record with certainty.
        for part in empty.chunks(self.log.record_words_max() / 4) {
            let mut record = Record::new();
            for span in part {
                let at = self.space.descriptor_at(span.start).expect("spans lie in extents");
                record.push_word(at, Descriptor::Free.encode());
            }
            self.log.commit_apart(&mut record)?;
            self.log.checkpoint()?;
            for span in part {
                self.shared.central.give_span(*span);
            }
        }
        Ok(())
    }
}
