//! The descriptor of PMDK's log pools.
#![doc = include_str!("pmdk_log.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{BLOCK, InvalidField, PoolOffset, Want, align_down};
use core::mem::offset_of;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

pub(crate) const TABLE: FormatTable = format_table!("pmdk_log", PmdkLogBytes, [start, end, write]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkLogBytes {
    start: U64,
    end: U64,
    write: U64,
}

/// The descriptor of a log pool of PMDK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkLog {
    /// Offset after the log's space in the pool.
    pub end: PoolOffset,
    /// Offset after the last byte of the log.
    pub write: PoolOffset,
}

impl PmdkLog {
    /// Bytes of a descriptor.
    pub const LEN: usize = size_of::<PmdkLogBytes>();
    /// Offset of the descriptor in the pool.
    pub const OFF: PoolOffset = PoolOffset::new(BLOCK);
    /// Offset of the word that commits appends.
    pub const WRITE_OFF: PoolOffset = PoolOffset::new(BLOCK + offset_of!(PmdkLogBytes, write) as u64);
    /// Offset of the first byte of the log.
    pub const START: PoolOffset = PoolOffset::new(2 * BLOCK);
    /// Size of the smallest pool that PMDK opens, in bytes.
    pub const SIZE_MIN: u64 = 2 << 20;

    /// Returns the descriptor of an empty log in a pool of `size` bytes.
    ///
    /// # Errors
    /// Fails if PMDK opens no pool of that size.
    pub fn plan(size: u64) -> Result<PmdkLog, InvalidField> {
        Want::AtLeast(PmdkLog::SIZE_MIN).check("size", 0, size)?;
        Want::AtMost(i64::MAX as u64).check("size", 0, size)?;
        Ok(PmdkLog { end: PoolOffset::new(align_down(size, BLOCK)), write: PmdkLog::START })
    }

    /// Decodes the descriptor of a pool of `size` bytes.
    ///
    /// # Errors
    /// Fails with the first rule that the bytes break.
    pub fn decode(bytes: [u8; PmdkLog::LEN], size: u64) -> Result<PmdkLog, InvalidField> {
        let PmdkLogBytes { start, end, write } = zerocopy::transmute!(bytes);
        let (end, write) = (end.get(), write.get());
        Want::Exactly(PmdkLog::START.get()).check("start", 0, start.get())?;
        Want::Exactly(align_down(size, BLOCK)).check("end", 0, end)?;
        Want::AtLeast(PmdkLog::START.get()).check("write", 0, write)?;
        Want::AtMost(end).check("write", 0, write)?;
        Ok(PmdkLog { end: PoolOffset::new(end), write: PoolOffset::new(write) })
    }

    /// Returns the bytes of the descriptor.
    pub fn encode(self) -> [u8; PmdkLog::LEN] {
        let [start, end, write] = [PmdkLog::START, self.end, self.write].map(|at| at.get().into());
        zerocopy::transmute!(PmdkLogBytes { start, end, write })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    const SIZE: u64 = (2 << 20) + 5;

    #[test]
    fn descriptors_round_trip() {
        let planned = PmdkLog::plan(SIZE).unwrap();
        assert_eq!((planned.end.get(), planned.write.get()), (2 << 20, 8192));
        for write in [8192, 8193, 2 << 20] {
            let descriptor = PmdkLog { write: PoolOffset::new(write), ..planned };
            assert_eq!(PmdkLog::decode(descriptor.encode(), SIZE), Ok(descriptor));
        }
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        let planned = PmdkLog::plan(SIZE).unwrap();
        let refused = |at: usize, value: u64, field: &str| {
            let mut bytes = planned.encode();
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
            assert_eq!(PmdkLog::decode(bytes, SIZE).unwrap_err().field, field);
        };
        refused(0, 4096, "start");
        refused(8, SIZE, "end");
        refused(16, 8191, "write");
        refused(16, (2 << 20) + 1, "write");
        assert_eq!(PmdkLog::plan((2 << 20) - 1).unwrap_err().field, "size");
    }
}
