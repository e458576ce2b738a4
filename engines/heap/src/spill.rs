//! Records that are too long for a ring: their entries go to free space, and a short record leads to them.

use crate::alloc::allocator::Allocator;
use crate::alloc::central::BlockOrSpan;
use crate::error::HeapError;
use crate::writeset::WriteSet;
use lode_layout::{CHUNK, Entry, PoolOffset, Record, WORD, align_up};
use lode_pmem::{Durability, FaultScope, Medium};
use zerocopy::IntoBytes;

/// Commits `writes` and returns the sequence number. The space that its entries take is used again only when the
/// checkpoint covers the record.
#[cold]
pub(crate) fn commit_spilled<M: Medium>(
    allocator: Allocator<'_, M>,
    scope: &FaultScope,
    writes: &mut WriteSet,
) -> Result<u64, HeapError> {
    let log = allocator.log();
    log.check_accepts_records()?;
    let body = writes.record().body().to_vec();
    let mut record = Record::new();
    let mut spans = Vec::new();
    let mut rest = &body[..];
    let written = loop {
        if rest.is_empty() {
            break log.commit_in(scope, &mut record, &body).map_err(HeapError::from);
        }
        let chunks = align_up(rest.len() as u64 * WORD, CHUNK) / CHUNK;
        let longest = || allocator.take_longest(chunks);
        let span = match longest().map_or_else(|| allocator.reclaim_for(longest), |span| Ok(Some(span))) {
            Ok(Some(span)) => span,
            Ok(None) => break Err(HeapError::OutOfSpace { wanted: rest.len() as u64 * WORD }),
            Err(error) => break Err(error),
        };
        spans.push(span);
        let (part, later) = rest.split_at(rest.len().min((span.len() / WORD) as usize));
        rest = later;
        let crc = crc32c::crc32c(part.as_bytes());
        record.push(Entry::Continue { at: span.start, len: part.as_bytes().len() as u64, crc });
        if record.len() > log.record_words_max() {
            break Err(HeapError::OutOfSpace { wanted: rest.len() as u64 * WORD });
        }
        if let Err(error) = write_spilled(log.medium(), span.start, part) {
            break Err(error);
        }
    };
    // In doubt, the record may lead to the spans: no thread gets them before the pool is opened again.
    let free_from = match written {
        Ok(sequence) => Some(sequence),
        Err(HeapError::InDoubt(_)) => None,
        Err(_) => Some(0),
    };
    if let Some(sequence) = free_from {
        allocator.retire(sequence, spans.into_iter().map(BlockOrSpan::Span));
    }
    written
}

/// Writes entries to free space. They are durable with the record that leads to them, or before.
fn write_spilled<M: Medium>(medium: &M, at: PoolOffset, words: &[u64]) -> Result<(), HeapError> {
    if medium.durability() != Durability::Commit {
        // No record may lead to entries that are not there.
        return Ok(FaultScope::run(|| medium.copy(at, words.as_bytes()))?);
    }
    let mut padded = words.to_vec();
    padded.resize(align_up(words.len() as u64, medium.log_block() / WORD) as usize, 0);
    // ORDER: the entries are durable before the record that leads to them is written. Stop here: nothing
    // leads to them.
    medium.log_write(at, padded.as_bytes()).map_err(HeapError::from)
}
