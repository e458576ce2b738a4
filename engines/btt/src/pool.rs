//! Block pools of PMDK: what stands before their table.

use crate::error::BttError;
use lode_layout::{PmdkBlk, PmdkHeader, PmdkHeaderError, PmdkKind, PoolOffset};
use lode_nvdimm::{BttInfo, BttVersion};
use lode_pmem::{Fault, Medium};

/// A block pool of PMDK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) header: PmdkHeader,
    pub(crate) descriptor: PmdkBlk,
}

impl Pool {
    /// Finds the pool on `medium`. A start that can't be read is none: tables of version 1.1 leave it unused.
    ///
    /// # Errors
    /// Fails if there is a pool that can't be used.
    pub(crate) fn find<M: Medium>(medium: &M) -> Result<Option<Pool>, BttError> {
        let mut bytes = [0; PmdkBlk::TABLE_OFF as usize];
        if medium.memory().len() < PmdkBlk::TABLE_OFF {
            return Ok(None);
        }
        let read = medium.memory().reading(|memory| memory.read(PoolOffset::NULL, &mut bytes));
        let (header, rest) = bytes.split_at(PmdkBlk::OFF as usize);
        // A table of version 1.1 does not clear the header of the pool that was there before.
        let is_newer_table = BttInfo::decode(rest).is_ok_and(|info| info.version == BttVersion::V1_1);
        let is_pool = header.starts_with(&PmdkHeader::BLOCKS_WORD.to_le_bytes());
        if read.is_err_and(|_: Fault| true) || is_newer_table || !is_pool {
            return Ok(None);
        }
        let header = PmdkHeader::decode(header).map_err(BttError::Pool)?;
        debug_assert_eq!(header.kind, PmdkKind::Blocks, "the signature of a block pool");
        if header.shutdown.unwrap_or_default().was_open_on_modules() {
            return Err(BttError::OpenInCrash);
        }
        let descriptor = *rest.first_chunk().unwrap_or(&[0; PmdkBlk::LEN]);
        let descriptor =
            PmdkBlk::decode(descriptor).map_err(|field| BttError::Pool(PmdkHeaderError::Field(field)))?;
        Ok(Some(Pool { header, descriptor }))
    }
}
