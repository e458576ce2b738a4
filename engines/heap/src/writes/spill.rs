//! The commit of a long transaction: its entries go to free space, and a short record leads to them.

use super::write_set::WriteSet;
use crate::alloc::allocator::Allocator;
use crate::alloc::space::Span;
use crate::error::HeapError;
use lode_layout::{CHUNK, Entries, Entry, RECORD_HEADER_WORDS, Record, WORD, align_up};
use lode_pmem::{Durability, FaultScope, Medium};
use lode_redo::{CommitHooks, ContinuedRange, bugs};
use zerocopy::IntoBytes;

/// Least length of a part in words, unless it is the last one: 1 MiB.
const PART_WORDS_MIN: u64 = (1 << 20) / WORD;
/// Number of parts into which the entries are divided if they are many. The record has room for as many.
const PARTS: u64 = 48;
/// Words of the longest entry of an overlay: a line, or some bytes of a word.
const ENTRY_WORDS: usize = 9;

/// Commits `writes` and returns the sequence number; `None` if `hooks` give up the commit. The space that its entries take
/// is used again only when the checkpoint covers the record.
///
/// # Cost
/// One drain; two at durability commit, and if new spans were written in place. Private memory of a 48th of the
/// entries, or 1 MiB.
#[cold]
pub(crate) fn commit_spilled<M: Medium>(
    allocator: Allocator<'_, M>,
    scope: &FaultScope,
    writes: &mut WriteSet,
    hooks: &mut impl CommitHooks,
) -> Result<Option<u64>, HeapError> {
    let log = allocator.log();
    log.begin_epoch()?;
    let mut spill = Spill {
        allocator,
        part: Record::new(),
        part_words: (writes.log_words() / PARTS).max(PART_WORDS_MIN) as usize,
        record: Record::new(),
        continued: Vec::new(),
        spans: Vec::new(),
    };
    let written = FaultScope::run(|| spill.write(writes)).map_err(HeapError::from).flatten();
    let written =
        written.and_then(|()| Ok(log.commit_in(scope, &mut spill.record, &spill.continued, hooks)?));
    // In doubt, the record may lead to the spans: no thread gets them before the pool is opened again.
    let free_from = match written {
        Ok(Some(sequence)) => Some(sequence),
        Err(HeapError::InDoubt(_)) => None,
        Ok(None) | Err(_) => Some(0),
    };
    if let Some(sequence) = free_from {
        allocator.retire_entries(sequence, spill.spans);
    }
    written
}

/// Entries on their way to free spans.
struct Spill<'a, M: Medium> {
    allocator: Allocator<'a, M>,
    /// Entries that are in no span yet.
    part: Record,
    /// Length of a part in words.
    part_words: usize,
    /// The record that leads to the parts.
    record: Record,
    continued: Vec<ContinuedRange>,
    spans: Vec<Span>,
}

impl<M: Medium> Spill<'_, M> {
    /// Makes the changes durable, and the record that leads to them complete. Nothing leads to them yet.
    fn write(&mut self, writes: &mut WriteSet) -> Result<(), HeapError> {
        let medium = self.allocator.log().medium();
        writes.make_long(medium);
        let mut pushed = Ok(());
        writes.for_each_entry(|entry| {
            if pushed.is_ok() {
                pushed = self.push(entry);
            }
        });
        pushed?;
        self.write_part()?;
        let is_in_place = writes.flush_in_place(medium);
        let is_synced_with_record = medium.durability() != Durability::Commit;
        if !is_in_place && is_synced_with_record || bugs::SPILL_NOT_DRAINED.is_active() {
            return Ok(());
        }
        // ORDER: the record has no checksum of content in place, so that content is durable before the record is
        // written. At durability commit a log write syncs nothing else, so the entries are, too. Stop here: nothing
        // leads to them, and the descriptors of new spans say that they are free.
        // After a failed sync the log accepts nothing more, as after any other.
        medium.drain().map_err(|_| HeapError::Poisoned).inspect_err(|_| self.allocator.log().fail())
    }

    fn push(&mut self, entry: Entry<'_>) -> Result<(), HeapError> {
        if self.part.len() + ENTRY_WORDS > RECORD_HEADER_WORDS + self.part_words {
            self.write_part()?;
        }
        self.part.push(entry);
        Ok(())
    }

    /// Writes the entries to free spans, and the entries that lead to them to the record. No entry is divided.
    fn write_part(&mut self) -> Result<(), HeapError> {
        let body = self.part.body();
        let mut rest = body;
        while !rest.is_empty() {
            let wanted = rest.len() as u64 * WORD;
            let chunks = align_up(rest.len() as u64 * WORD, CHUNK) / CHUNK;
            let longest = || self.allocator.take_longest(chunks);
            let span =
                longest().map_or_else(|| self.allocator.reclaim_for(longest), |span| Ok(Some(span)))?;
            let span = span.ok_or_else(|| self.allocator.out_of_space(wanted))?;
            self.spans.push(span);
            let (part, later) = rest.split_at(entries_within(rest, (span.len() / WORD) as usize));
            rest = later;
            let bytes = part.as_bytes();
            self.record.push(Entry::Continue {
                at: span.start,
                len: bytes.len() as u64,
                crc: crc32c::crc32c(bytes),
            });
            if self.record.len() > self.allocator.log().record_words_max() {
                return Err(HeapError::OutOfSpace { wanted });
            }
            self.continued.push((span.start, bytes.len() as u64));
            self.allocator.log().medium().copy(span.start, bytes);
        }
        self.part.clear();
        Ok(())
    }
}

/// Returns the length in words of the entries at the start of `body` that end within `words_max` words.
fn entries_within(body: &[u64], words_max: usize) -> usize {
    if body.len() <= words_max {
        return body.len();
    }
    let mut entries = Entries::new(body);
    let mut end = 0;
    while entries.next().is_some() && body.len() - entries.rest().len() <= words_max {
        end = body.len() - entries.rest().len();
    }
    end
}
