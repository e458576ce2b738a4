//! Block pools of PMDK: what stands before their table.

use crate::error::BttError;
use lode_layout::{PmdkBlk, PmdkHeader, PmdkHeaderError, PmdkKind, PoolOffset};
use lode_nvdimm::{BttInfo, BttVersion};
use lode_pmem::{Fault, Medium};
use uuid::Uuid;

/// The UUIDs of a block pool of PMDK whose headers another layer has checked: they may be those of a pool set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUuids {
    /// That of the pool.
    pub poolset: Uuid,
    /// That of its first part.
    pub part: Uuid,
}

/// A block pool of PMDK.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pool {
    pub(crate) uuids: PoolUuids,
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
        let uuids = PoolUuids { poolset: header.poolset_uuid, part: header.uuid };
        Pool::of_descriptor(uuids, *rest.first_chunk().unwrap_or(&[0; PmdkBlk::LEN])).map(Some)
    }

    /// Reads the pool on `medium` whose headers were checked.
    ///
    /// # Errors
    /// Fails if the descriptor can't be read or used.
    pub(crate) fn read<M: Medium>(medium: &M, uuids: PoolUuids) -> Result<Pool, BttError> {
        let mut descriptor = [0; PmdkBlk::LEN];
        medium.memory().reading(|memory| memory.read(PoolOffset::new(PmdkBlk::OFF), &mut descriptor))?;
        Pool::of_descriptor(uuids, descriptor)
    }

    fn of_descriptor(uuids: PoolUuids, bytes: [u8; PmdkBlk::LEN]) -> Result<Pool, BttError> {
        let damaged = |field| BttError::Pool(PmdkHeaderError::Field(field));
        Ok(Pool { uuids, descriptor: PmdkBlk::decode(bytes).map_err(damaged)? })
    }
}
