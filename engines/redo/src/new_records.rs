//! The records that a checkpoint appends while it holds all lanes.

use crate::bugs;
use crate::error::LogError;
use crate::group::{Append, NewRecord};
use crate::hooks::NewRecords;
use crate::log::Log;
use lode_layout::{Record, WORD};
use lode_pmem::sync::Ordering;
use lode_pmem::{FaultScope, Medium, Readable, checksum};
use zerocopy::IntoBytes;

/// Appends the first records after a checkpoint.
#[derive(Debug)]
pub(crate) struct CheckpointRecords<'a, M: Medium> {
    pub(crate) log: &'a Log<M>,
    pub(crate) scope: &'a FaultScope,
}

impl<M: Medium> NewRecords<M> for CheckpointRecords<'_, M> {
    fn medium(&self) -> &M {
        &self.log.medium
    }

    fn memory(&self) -> &Readable {
        self.scope.memory(self.log.medium.memory())
    }

    fn words_max(&self) -> usize {
        self.log.record_words_max()
    }

    fn append(&mut self, record: &mut Record) -> Result<(), LogError> {
        if let Some(fault) = self.scope.fault() {
            return Err(fault.into());
        }
        // ORDER: asked after the content of the record is composed. A transaction whose commit was refused has left its stores there, and
        // it returned when the log had failed. Stop here: the slot before it counts.
        if !bugs::LOGGED_AFTER_FAILURE.is_active() {
            self.log.check_not_failed()?;
        }
        let Some(group) = &self.log.group else { return self.append_to_ring(record) };
        // ORDER: acquires the checkpoint that freed the space below the tail.
        let tail = self.log.tails[0].load(Ordering::Acquire);
        let new = NewRecord { record, continued: &[], hooks: &mut (), reserved: 0 };
        match group.append(self.scope, &self.log.medium, new, &self.log.next_sequence.0, tail)? {
            Append::Done(_) => Ok(()),
            Append::NoRoom | Append::GivenUp => Err(LogError::Poisoned),
        }
    }
}

impl<M: Medium> CheckpointRecords<'_, M> {
    fn append_to_ring(&mut self, record: &mut Record) -> Result<(), LogError> {
        let len = record.padded_len() as u64 * WORD;
        let log = self.log;
        log.with_roomiest_ring(len, |ring| {
            let sequence = log.assign_sequence(true);
            let seed = log.checksum_seeds[ring.number];
            let bytes = record.finish(seed, sequence, ring.offset, checksum).as_bytes();
            // ORDER: the record is durable before the slot of this checkpoint. Stop here: the slot before it counts, and the records
            // before this one have all that it holds.
            log.medium.log_write(ring.start.plus(ring.offset), bytes).map_err(LogError::from)?;
            ring.advance(len);
            Ok(())
        })
    }
}
