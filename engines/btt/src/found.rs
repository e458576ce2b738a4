//! Arenas that were found on a medium: their info blocks, and where they are.

use crate::error::BttError;
use lode_layout::PoolOffset;
use lode_nvdimm::{BttInfo, InfoBlockError};

/// A copy of an info block, or the reason why it is none.
pub(crate) type InfoCopy = Result<BttInfo, InfoBlockError>;

/// The two copies of an arena's info block, and their offsets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InfoCopies {
    pub(crate) at: [PoolOffset; 2],
    pub(crate) copies: [InfoCopy; 2],
}

impl InfoCopies {
    /// Returns the first valid copy.
    pub(crate) fn choose(&self, arena: u32) -> Result<BttInfo, BttError> {
        let [first, second] = self.copies;
        first.or(second).map_err(|_| match first {
            Err(error) => BttError::Info { arena, at: self.at[0], error },
            Ok(_) => unreachable!("a valid copy was chosen"),
        })
    }
}

/// An arena's info block, and where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundArena {
    pub(crate) index: u32,
    pub(crate) start: PoolOffset,
    pub(crate) info: BttInfo,
    pub(crate) copies: InfoCopies,
}
