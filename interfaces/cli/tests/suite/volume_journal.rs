//! The journal of a client: for each block of a volume, the values that it may have.
#![allow(dead_code, clippy::unwrap_used, reason = "each test program uses a part, and a test may panic")]

use anyhow::{Result, ensure};
use std::collections::HashSet;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;

/// What a client knows of the blocks that it writes.
pub(crate) struct Journal {
    blocks: Vec<Values>,
    /// The numbers of the writes whose content is zeros: trims, too.
    zeros: HashSet<u64>,
    /// True if a block that was not durable may be a mixture of its values, as on a raw volume.
    is_torn_allowed: bool,
}

/// The values of a block. They are the numbers of writes, which grow; 0 stands for no write.
#[derive(Clone, Default)]
struct Values {
    durable: u64,
    /// Those that were sent after it, answered or not.
    later: Vec<u64>,
}

/// Returns the content of a block with this value.
pub(crate) fn content(value: u64) -> Vec<u8> {
    value.to_be_bytes().repeat(BLOCK / 8)
}

impl Journal {
    /// Returns the journal of so many blocks that have no write.
    pub(crate) fn new(blocks: usize, format: &str) -> Journal {
        let (blocks, zeros) = (vec![Values::default(); blocks], HashSet::new());
        Journal { blocks, zeros, is_torn_allowed: format == "raw" }
    }

    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Notes that a write was sent.
    pub(crate) fn sent(&mut self, block: usize, value: u64) {
        self.blocks[block].later.push(value);
    }

    /// Notes that a request was sent that makes a block zeros.
    pub(crate) fn sent_zeros(&mut self, block: usize, value: u64) {
        self.zeros.insert(value);
        self.sent(block, value);
    }

    /// Notes that a write is not lost by what comes: no older one is left to be found.
    pub(crate) fn durable(&mut self, block: usize, value: u64) {
        let values = &mut self.blocks[block];
        values.durable = values.durable.max(value);
        values.later.retain(|later| *later > values.durable);
    }

    /// Compares the volume with the journal: each block has its durable value or a later one, and is whole.
    ///
    /// # Errors
    /// The first block that is wrong.
    pub(crate) fn compare(&self, volume: &[u8]) -> Result<()> {
        ensure!(volume.len() >= self.len() * BLOCK, "{} bytes", volume.len());
        for (block, (values, bytes)) in self.blocks.iter().zip(volume.chunks(BLOCK)).enumerate() {
            let found: Vec<u64> =
                bytes.chunks(8).map(|word| u64::from_be_bytes(word.try_into().unwrap())).collect();
            let Values { durable, later } = values;
            ensure!(
                self.is_torn_allowed || found.iter().all(|word| *word == found[0]),
                "block {block} is torn: it has {} and {:?}",
                found[0],
                found.iter().find(|word| **word != found[0])
            );
            let word_of = |value: &u64| if self.zeros.contains(value) { 0 } else { *value };
            let legal: Vec<u64> = later.iter().chain([durable]).map(word_of).collect();
            let wrong = found.iter().find(|word| !legal.contains(word));
            ensure!(
                wrong.is_none(),
                "block {block} has {wrong:?}, durable is {durable}, later were {later:?}"
            );
        }
        Ok(())
    }

    /// Takes the whole blocks of the volume for durable: they were read after a restart.
    pub(crate) fn adopt(&mut self, volume: &[u8]) {
        for (values, bytes) in self.blocks.iter_mut().zip(volume.chunks(BLOCK)) {
            let found = u64::from_be_bytes(bytes[..8].try_into().unwrap());
            if bytes == content(found) {
                *values = Values { durable: found, later: Vec::new() };
            }
        }
    }
}
