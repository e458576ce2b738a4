//! The state of append logs: where they begin, and up to where they are known to be durable.
#![doc = include_str!("log_state.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{InvalidField, LINE, WORD, Want};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

const MAGIC: u64 = u64::from_le_bytes(*b"LdLogSta");

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct StateBytes {
    magic: u64,
    epoch: u32,
    spare: u32,
    head: u64,
    end: u64,
    reserved: [u32; 7],
    crc: u32,
}

pub(crate) const TABLE: FormatTable =
    format_table!("log_state", StateBytes, [magic, epoch, spare, head, end, reserved, crc]);

/// The head of a log, and the position up to which all records are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState {
    /// Number of the opening that wrote the state. Later records have it.
    pub epoch: u32,
    /// Position of the first live record.
    pub head: u64,
    /// Position up to which all records were durable when the state was written.
    pub end: u64,
}

/// Reasons why a copy of a state can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogStateError {
    /// The bytes do not begin with the magic number.
    #[error("there is no state of a log")]
    Absent,
    /// The checksum does not fit.
    #[error("the checksum of the state does not fit")]
    Checksum,
    /// A field breaks a rule.
    #[error(transparent)]
    Field(#[from] InvalidField),
}

impl LogState {
    /// Words of a state.
    pub const WORDS: usize = size_of::<StateBytes>() / WORD as usize;
    /// The greatest position: no sum of positions can wrap here.
    pub const POSITION_MAX: u64 = 1 << 62;

    /// Returns the words of the state in the pool `uuid`.
    pub fn encode(&self, uuid: &[u8; 16]) -> [u64; LogState::WORDS] {
        let LogState { epoch, head, end } = *self;
        let mut bytes = StateBytes { magic: MAGIC, epoch, spare: 0, head, end, reserved: [0; 7], crc: 0 };
        bytes.crc = crc(&bytes, uuid);
        transmute!(bytes)
    }

    /// Decodes the state of the log of the pool `uuid`, whose area has `area_len` bytes.
    ///
    /// # Errors
    /// Fails with the first rule that the words break.
    pub fn decode(
        words: [u64; LogState::WORDS],
        uuid: &[u8; 16],
        area_len: u64,
    ) -> Result<LogState, LogStateError> {
        let raw: StateBytes = transmute!(words);
        if raw.magic != MAGIC {
            return Err(LogStateError::Absent);
        }
        if raw.crc != crc(&raw, uuid) {
            return Err(LogStateError::Checksum);
        }
        let StateBytes { epoch, head, end, .. } = raw;
        Want::AtLeast(1).check("epoch", 0, epoch.into())?;
        Want::AtMost(LogState::POSITION_MAX).check("head", 0, head)?;
        Want::MultipleOf(LINE).check("end", 0, end)?;
        Want::AtLeast(head).check("end", 0, end)?;
        Want::AtMost(head + area_len).check("end", 0, end)?;
        Ok(LogState { epoch, head, end })
    }
}

fn crc(bytes: &StateBytes, uuid: &[u8; 16]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(uuid), &bytes.as_bytes()[..offset_of!(StateBytes, crc)])
}

#[cfg(test)]
mod test {
    use super::*;

    const UUID: [u8; 16] = [9; 16];

    fn state() -> LogState {
        LogState { epoch: 3, head: 1033, end: 4096 }
    }

    #[test]
    fn states_round_trip_and_detect_bit_flips() {
        let words = state().encode(&UUID);
        assert_eq!(LogState::decode(words, &UUID, 4096), Ok(state()));
        assert_eq!(LogState::decode(words, &[8; 16], 4096), Err(LogStateError::Checksum), "another pool");
        for bit in 0..64 * words.len() {
            let mut damaged = words;
            damaged[bit / 64] ^= 1 << (bit % 64);
            assert!(LogState::decode(damaged, &UUID, 4096).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        let refused = |change: fn(&mut LogState), field: &str| {
            let mut changed = state();
            change(&mut changed);
            match LogState::decode(changed.encode(&UUID), &UUID, 4096) {
                Err(LogStateError::Field(found)) => assert_eq!(found.field, field),
                other => panic!("{field}: {other:?}"),
            }
        };
        refused(|it| it.epoch = 0, "epoch");
        refused(|it| it.head = u64::MAX - 7, "head");
        refused(|it| it.end = 4104, "end");
        refused(|it| it.end = 1024, "end");
        refused(|it| it.end = 5184, "end");
    }
}
