//! The logs of PMDK's object pools: redo and undo logs of the lanes, and their extensions in the heap.
#![doc = include_str!("pmdk_ulog.md")]
#![doc = include_str!("pmdk_ulog_entry.md")]

use crate::fletcher::fletcher64_append;
use crate::format_table;
use crate::format_table::FormatTable;
use crate::{InvalidField, LINE, PoolOffset, WORD, Want, align_up, fletcher64_with_hole};
use std::mem::offset_of;
use zerocopy::byteorder::little_endian::U64;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bit of `flags`: the space is the program's.
const USER_OWNED: u64 = 1;
/// Bits of a target that are no offset.
const OPERATION_SHIFT: u32 = 61;
const CHECKSUM: usize = offset_of!(PmdkUlogBytes, checksum);
const ENTRY_CHECKSUM: usize = offset_of!(PmdkUlogEntryBytes, checksum);

pub(crate) const TABLE: FormatTable =
    format_table!("pmdk_ulog", PmdkUlogBytes, [checksum, next, capacity, gen_num, flags, unused]);
pub(crate) const TABLE_ENTRY: FormatTable =
    format_table!("pmdk_ulog_entry", PmdkUlogEntryBytes, [target, checksum, size]);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkUlogBytes {
    checksum: U64,
    next: U64,
    capacity: U64,
    gen_num: U64,
    flags: U64,
    unused: [u8; 24],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct PmdkUlogEntryBytes {
    target: U64,
    checksum: U64,
    size: U64,
}

/// The header of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmdkUlog {
    /// The checksum of a redo log.
    pub checksum: u64,
    /// Offset of the space of the extension; [`NULL`](PoolOffset::NULL) without one.
    pub next: PoolOffset,
    /// Bytes of entries after the header.
    pub capacity: u64,
    /// The number that the checksums of an undo log's entries cover.
    pub gen_num: u64,
    /// True if the program lent the space.
    pub is_user_owned: bool,
}

/// The change of an entry of one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdkWordChange {
    /// The word is replaced by the value.
    Set,
    /// Bits that the value lacks are cleared.
    And,
    /// Bits of the value are set.
    Or,
}

/// The first bytes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmdkUlogEntry {
    /// A change of one word.
    Word {
        /// The word.
        target: PoolOffset,
        /// The change.
        change: PmdkWordChange,
        /// The value.
        value: u64,
    },
    /// A change of a range, whose bytes follow.
    Buffer {
        /// The range's first byte.
        target: PoolOffset,
        /// True if all of the range gets the value of the first byte that follows.
        is_fill: bool,
        /// Checksum of the entry and of the log's `gen_num`.
        checksum: u64,
        /// Bytes of the range.
        size: u64,
    },
}

impl PmdkUlog {
    /// Bytes of a header.
    pub const LEN: usize = size_of::<PmdkUlogBytes>();
    /// Offset of the field `next` in the header.
    pub const NEXT_OFF: u64 = offset_of!(PmdkUlogBytes, next) as u64;
    /// Offset of the field `gen_num` in the header.
    pub const GEN_NUM_OFF: u64 = offset_of!(PmdkUlogBytes, gen_num) as u64;
    /// Bytes of a lane.
    pub const LANE_LEN: u64 = 3072;
    /// Bytes of entries of a lane's internal redo log.
    pub const INTERNAL_CAPACITY: u64 = 192;
    /// Bytes of entries of a lane's external redo log.
    pub const EXTERNAL_CAPACITY: u64 = 640;
    /// Bytes of entries of a lane's undo log.
    pub const UNDO_CAPACITY: u64 = 2048;

    /// Decodes the header of a log that has at most `capacity_max` bytes for entries.
    ///
    /// # Errors
    /// The capacity, if it breaks its rule.
    pub fn decode(bytes: [u8; PmdkUlog::LEN], capacity_max: u64) -> Result<PmdkUlog, InvalidField> {
        let raw: PmdkUlogBytes = zerocopy::transmute!(bytes);
        let capacity = raw.capacity.get();
        Want::AtMost(capacity_max).check("capacity", 0, capacity)?;
        Want::MultipleOf(LINE).check("capacity", 0, capacity)?;
        Ok(PmdkUlog {
            checksum: raw.checksum.get(),
            next: PoolOffset::new(raw.next.get()),
            capacity,
            gen_num: raw.gen_num.get(),
            is_user_owned: raw.flags.get() & USER_OWNED != 0,
        })
    }

    /// Returns the bytes of the header.
    pub fn encode(&self) -> [u8; PmdkUlog::LEN] {
        let mut raw = PmdkUlogBytes::new_zeroed();
        raw.checksum = self.checksum.into();
        raw.next = self.next.get().into();
        raw.capacity = self.capacity.into();
        raw.gen_num = self.gen_num.into();
        raw.flags = if self.is_user_owned { USER_OWNED } else { 0 }.into();
        zerocopy::transmute!(raw)
    }

    /// Returns the checksum of a redo log, given its header followed by its entries.
    ///
    /// # Panics
    /// Panics if `log` is shorter than a header.
    pub fn redo_checksum(log: &[u8]) -> u64 {
        fletcher64_with_hole(log, CHECKSUM)
    }
}

impl PmdkUlogEntry {
    /// Bytes of an entry of one word.
    pub const WORD_LEN: u64 = 2 * WORD;
    /// Bytes of an entry of a range, before the range's own.
    pub const BUFFER_LEN: u64 = size_of::<PmdkUlogEntryBytes>() as u64;

    /// Decodes the first bytes of an entry; of those of one word, the last 8 do not count. `None` if the target is 0, or its
    /// operation is unknown: no entry is there.
    pub fn decode(bytes: [u8; PmdkUlogEntry::BUFFER_LEN as usize]) -> Option<PmdkUlogEntry> {
        let raw: PmdkUlogEntryBytes = zerocopy::transmute!(bytes);
        let (word, second) = (raw.target.get(), raw.checksum.get());
        if word == 0 {
            return None;
        }
        let target = PoolOffset::new(word & ((1 << OPERATION_SHIFT) - 1));
        let of_word = |change| Some(PmdkUlogEntry::Word { target, change, value: second });
        match word >> OPERATION_SHIFT {
            0 => of_word(PmdkWordChange::Set),
            1 => of_word(PmdkWordChange::And),
            2 => of_word(PmdkWordChange::Or),
            operation @ (5 | 6) => Some(PmdkUlogEntry::Buffer {
                target,
                is_fill: operation == 5,
                checksum: second,
                size: raw.size.get(),
            }),
            _ => None,
        }
    }

    /// Returns the bytes of an entry of one word.
    pub fn encode_word(target: PoolOffset, change: PmdkWordChange, value: u64) -> [u8; 16] {
        let operation = match change {
            PmdkWordChange::Set => 0,
            PmdkWordChange::And => 1,
            PmdkWordChange::Or => 2,
        };
        let word = target.get() | operation << OPERATION_SHIFT;
        zerocopy::transmute!([U64::new(word), U64::new(value)])
    }

    /// Returns the bytes of an entry that replaces a range, with padding and checksum.
    pub fn encode_buffer(target: PoolOffset, bytes: &[u8], gen_num: u64) -> Vec<u8> {
        let size = bytes.len() as u64;
        let head = PmdkUlogEntryBytes {
            target: (target.get() | 6 << OPERATION_SHIFT).into(),
            checksum: 0.into(),
            size: size.into(),
        };
        let mut entry = [head.as_bytes(), bytes].concat();
        entry.resize(align_up(entry.len() as u64, LINE) as usize, 0);
        let checksum = PmdkUlogEntry::buffer_checksum(&entry, gen_num);
        entry[ENTRY_CHECKSUM..ENTRY_CHECKSUM + 8].copy_from_slice(&checksum.to_le_bytes());
        entry
    }

    /// Returns the bytes that the entry takes in its log; `None` if that is no number.
    pub fn len_in_log(&self) -> Option<u64> {
        match self {
            PmdkUlogEntry::Word { .. } => Some(PmdkUlogEntry::WORD_LEN),
            PmdkUlogEntry::Buffer { size, .. } => size
                .checked_add(PmdkUlogEntry::BUFFER_LEN)
                .filter(|len| *len <= u64::MAX - LINE)
                .map(|len| align_up(len, LINE)),
        }
    }

    /// Returns the place of the change: its first byte, and its length in bytes.
    pub fn range(&self) -> (PoolOffset, u64) {
        match *self {
            PmdkUlogEntry::Word { target, .. } => (target, WORD),
            PmdkUlogEntry::Buffer { target, size, .. } => (target, size),
        }
    }

    /// Returns the checksum of an entry of a range, given all its bytes with the padding, in a log of this `gen_num`.
    ///
    /// # Panics
    /// Panics if `entry` is shorter than the head of one.
    pub fn buffer_checksum(entry: &[u8], gen_num: u64) -> u64 {
        fletcher64_append(fletcher64_with_hole(entry, ENTRY_CHECKSUM), &gen_num.to_le_bytes())
    }
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let log = PmdkUlog {
            checksum: 1,
            next: PoolOffset::new(0x3c_0010),
            capacity: 192,
            gen_num: 3,
            is_user_owned: true,
        };
        assert_eq!(PmdkUlog::decode(log.encode(), 192), Ok(log));
        assert_eq!(PmdkUlog::decode(log.encode(), 191).unwrap_err().field, "capacity");
        assert!(PmdkUlog::decode(PmdkUlog { capacity: 65, ..log }.encode(), 192).is_err());
    }

    #[test]
    fn word_entries_round_trip() {
        let target = PoolOffset::new(0x1234_5678);
        for change in [PmdkWordChange::Set, PmdkWordChange::And, PmdkWordChange::Or] {
            let mut bytes = [0xFF; 24];
            bytes[..16].copy_from_slice(&PmdkUlogEntry::encode_word(target, change, 77));
            let entry = PmdkUlogEntry::decode(bytes).unwrap();
            assert_eq!(entry, PmdkUlogEntry::Word { target, change, value: 77 });
            assert_eq!((entry.len_in_log(), entry.range()), (Some(16), (target, 8)));
        }
        assert_eq!(PmdkUlogEntry::decode([0; 24]), None);
        assert_eq!(PmdkUlogEntry::decode([0xFF; 24]), None, "operation 7");
    }

    #[test]
    fn buffer_entries_round_trip() {
        let target = PoolOffset::new(0x3c_0550);
        for len in [0, 1, 40, 41, 104, 1000] {
            let bytes = PmdkUlogEntry::encode_buffer(target, &vec![7; len], 5);
            let entry = PmdkUlogEntry::decode(bytes[..24].try_into().unwrap()).unwrap();
            let PmdkUlogEntry::Buffer { is_fill, checksum, size, .. } = entry else { panic!("{entry:?}") };
            assert_eq!((is_fill, size, entry.len_in_log()), (false, len as u64, Some(bytes.len() as u64)));
            assert_eq!(checksum, PmdkUlogEntry::buffer_checksum(&bytes, 5));
            assert_ne!(checksum, PmdkUlogEntry::buffer_checksum(&bytes, 6));
        }
    }

    #[test]
    fn huge_sizes_have_no_length() {
        for size in [u64::MAX, u64::MAX - 24, u64::MAX - 87] {
            let entry = PmdkUlogEntry::Buffer { target: PoolOffset::NULL, is_fill: true, checksum: 0, size };
            assert_eq!(entry.len_in_log(), None);
        }
    }
}
