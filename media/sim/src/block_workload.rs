//! The workload of block devices: requests that meet at few blocks, and what blocks hold.

use crate::{Actor, BlockRequest};
use lode_pmem::Counter;

/// Bytes of a word.
const WORD: usize = 8;

/// The content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockContent {
    /// The word that fills the block.
    Whole(u64),
    /// Words that differ: the first one that is not the first of the block, and the first of the block.
    Torn(u64, u64),
}

impl BlockContent {
    /// The zeros of a block.
    pub const ZERO: BlockContent = BlockContent::Whole(0);

    /// Returns the content of a block that has these bytes, one word or more.
    pub fn of(bytes: &[u8]) -> BlockContent {
        let words = bytes.as_chunks::<WORD>().0;
        let first = u64::from_le_bytes(words[0]);
        let other = words.iter().map(|word| u64::from_le_bytes(*word)).find(|word| *word != first);
        other.map_or(BlockContent::Whole(first), |other| BlockContent::Torn(other, first))
    }

    /// Returns the bytes of a block of `len` bytes that its word fills; the first of them if they differ.
    pub fn bytes(self, len: usize) -> Vec<u8> {
        let (BlockContent::Whole(word) | BlockContent::Torn(word, _)) = self;
        word.to_le_bytes().repeat(len / WORD)
    }
}

/// Requests to a block device, as [`BlockWorkload::run`] chooses them.
#[derive(Debug)]
pub struct BlockWorkload<'a> {
    /// Number of blocks of the device, 2 or more.
    pub block_count: u64,
    /// The word of the next write. All threads share it, so no two writes have the same.
    pub value: &'a Counter,
    /// Number of blocks of a large request; 0 if there are none.
    pub large_request: usize,
}

impl BlockWorkload<'_> {
    /// Runs the operations of a thread. `request` runs one, and returns what it read. A request of one step that failed with
    /// an error for which `is_refusal` is true has changed nothing.
    pub fn run<E>(
        &self,
        actor: &mut Actor<'_, BlockRequest<BlockContent>>,
        request: impl Fn(&BlockRequest<BlockContent>) -> Result<Option<BlockContent>, E>,
        is_refusal: impl Fn(&E) -> bool,
    ) {
        // Most requests meet at few blocks.
        let few = if actor.rng.bool() { 2 } else { self.block_count };
        for _ in 0..actor.operations {
            let block = actor.rng.u64(..few) as usize;
            let chosen = self.choose(actor, block);
            let ticket = actor.begin(chosen.clone());
            match request(&chosen) {
                Ok(seen) => {
                    if seen.is_some() {
                        actor.revise(ticket, BlockRequest::Read { block, seen });
                    }
                    actor.returned(ticket);
                }
                Err(error) if is_one_step(&chosen) && is_refusal(&error) => actor.refused(ticket),
                Err(_) => actor.in_doubt(ticket),
            }
        }
    }

    /// Returns a request for `block`, and perhaps others.
    fn choose(
        &self,
        actor: &mut Actor<'_, BlockRequest<BlockContent>>,
        block: usize,
    ) -> BlockRequest<BlockContent> {
        let value = BlockContent::Whole(self.value.add(1));
        let write = |value, is_fua| BlockRequest::Write { blocks: vec![(block, value)], is_fua };
        match actor.rng.u8(..16) {
            0..4 => BlockRequest::Read { block, seen: None },
            4..6 => BlockRequest::Flush,
            6 => write(value, true),
            7 => write(BlockContent::ZERO, false),
            8 => BlockRequest::Trim { blocks: vec![block] },
            9 => {
                let count = self.block_count as usize;
                let next = (block + actor.rng.usize(1..count)) % count;
                BlockRequest::Write {
                    blocks: vec![(block, value), (next, or_zeros(value, 2))],
                    is_fua: false,
                }
            }
            10 if self.large_request > 0 => {
                let last = self.large_request - 1;
                let of = |block| if block == last { or_zeros(value, 3) } else { value };
                let blocks = (0..self.large_request).map(|block| (block, of(block))).collect();
                BlockRequest::Write { blocks, is_fua: actor.rng.bool() }
            }
            _ => write(value, false),
        }
    }
}

/// Returns zeros for each `period`th value, so that a request mixes both, and else the value itself.
fn or_zeros(value: BlockContent, period: u64) -> BlockContent {
    match value {
        BlockContent::Whole(word) if word % period == 0 => BlockContent::ZERO,
        value => value,
    }
}

/// Returns true if the request is one call of the device, which was refused as a whole.
fn is_one_step(request: &BlockRequest<BlockContent>) -> bool {
    !matches!(request, BlockRequest::Write { blocks, is_fua } if *is_fua || blocks.len() > 1)
}
