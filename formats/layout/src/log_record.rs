//! The headers of records of append logs.
#![doc = include_str!("log_record.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{LINE, WORD, align_up, record_checksum};
use core::mem::offset_of;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct HeaderBytes {
    crc: u32,
    content_crc: u32,
    position: u64,
    len: u32,
    epoch: u32,
    unproven: u32,
    kind: u32,
}

pub(crate) const TABLE: FormatTable =
    format_table!("log_record", HeaderBytes, [crc, content_crc, position, len, epoch, unproven, kind]);

/// The kind of a record of a log: it decides where the next one begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogRecordKind {
    /// Another record of the same append follows.
    Inner,
    /// Another append follows.
    Last,
    /// Another append follows. This is no record: its content fills the rest of lines that a torn append left.
    Filler,
}

impl LogRecordKind {
    /// Returns the unit in bytes at whose multiples the next record begins.
    #[inline]
    pub fn alignment(self) -> u64 {
        if self == LogRecordKind::Inner { WORD } else { LINE }
    }
}

/// The header of a record of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRecordHeader {
    /// CRC32C of the content.
    pub content_crc: u32,
    /// Position of the header in bytes.
    pub position: u64,
    /// Length of the content in bytes.
    pub len: u32,
    /// Number of the opening that wrote the record.
    pub epoch: u32,
    /// Distance in words back to a position up to which all records were durable before this one was written.
    pub unproven: u32,
    /// Kind of the record.
    pub kind: LogRecordKind,
}

impl LogRecordHeader {
    /// Bytes of a header.
    pub const LEN: usize = size_of::<HeaderBytes>();
    /// Distance in bytes from the position of a record to the word that repeats it.
    pub const POSITION_OFF: u64 = offset_of!(HeaderBytes, position) as u64;
    /// The greatest distance in bytes that a header can have to what it proves.
    pub const UNPROVEN_MAX: u64 = u32::MAX as u64 * WORD;

    /// Returns the seed of the checksums of a log's records.
    pub fn seed(uuid: &[u8; 16], key: [u64; 2]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(uuid), key.as_bytes())
    }

    /// Returns the bytes that a record with a content of `len` bytes takes. The last one of an append takes whole lines.
    pub fn stride(len: u64, kind: LogRecordKind) -> u64 {
        align_up(LogRecordHeader::LEN as u64 + len, kind.alignment())
    }

    /// Returns the position of the content.
    pub fn content(&self) -> u64 {
        self.position + LogRecordHeader::LEN as u64
    }

    /// Returns the position after the record, where the next one begins.
    pub fn next(&self) -> u64 {
        // An append begins at a line.
        align_up(self.content() + u64::from(self.len), self.kind.alignment())
    }

    /// Returns the position up to which all records were durable before this one was written.
    pub fn proven(&self) -> u64 {
        self.position.saturating_sub(u64::from(self.unproven) * WORD)
    }

    /// Returns the bytes of the header.
    pub fn encode(&self, seed: u32) -> [u8; LogRecordHeader::LEN] {
        self.encode_by(seed, record_checksum)
    }

    /// Returns the bytes of the header. `checksum` computes the same as [`record_checksum`], perhaps faster.
    #[inline]
    pub fn encode_by(
        &self,
        seed: u32,
        checksum: impl FnOnce(u32, &[u64]) -> u32,
    ) -> [u8; LogRecordHeader::LEN] {
        let LogRecordHeader { content_crc, position, len, epoch, unproven, kind } = *self;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << u32::BITS;
        // In registers: a load of the whole header would wait for the stores of its fields.
        let [sums, lens, kinds] = [pair(0, content_crc), pair(len, epoch), pair(unproven, kind as u32)];
        let crc = checksum(seed, &[sums, position, lens, kinds]);
        transmute!([sums | u64::from(crc), position, lens, kinds])
    }

    /// Decodes the header at `position`. Returns `None` if there is none.
    #[inline]
    pub fn decode(bytes: [u8; LogRecordHeader::LEN], seed: u32, position: u64) -> Option<LogRecordHeader> {
        let raw: HeaderBytes = transmute!(bytes);
        let mut words: [u64; LogRecordHeader::LEN / WORD as usize] = transmute!(bytes);
        words[0] &= !u64::from(u32::MAX);
        let kind = match raw.kind {
            0 => LogRecordKind::Inner,
            1 => LogRecordKind::Last,
            2 => LogRecordKind::Filler,
            _ => return None,
        };
        if raw.position != position || raw.epoch == 0 || raw.crc != record_checksum(seed, &words) {
            return None;
        }
        let HeaderBytes { content_crc, position, len, epoch, unproven, .. } = raw;
        Some(LogRecordHeader { content_crc, position, len, epoch, unproven, kind })
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn header() -> LogRecordHeader {
        let kind = LogRecordKind::Inner;
        LogRecordHeader { content_crc: 7, position: 4096, len: 33, epoch: 2, unproven: 8, kind }
    }

    #[test]
    fn headers_round_trip_and_detect_bit_flips() {
        for kind in [LogRecordKind::Inner, LogRecordKind::Last, LogRecordKind::Filler] {
            let header = LogRecordHeader { kind, ..header() };
            let bytes = header.encode(5);
            assert_eq!(LogRecordHeader::decode(bytes, 5, 4096), Some(header));
            assert_eq!(LogRecordHeader::decode(bytes, 6, 4096), None, "another log");
            assert_eq!(LogRecordHeader::decode(bytes, 5, 8192), None, "another position");
            for bit in 0..8 * bytes.len() {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(LogRecordHeader::decode(damaged, 5, 4096), None, "bit {bit}");
            }
        }
        assert_eq!(LogRecordHeader::decode([0; LogRecordHeader::LEN], 0, 0), None, "never written");
    }

    #[test]
    fn appends_are_whole_lines() {
        assert_eq!(header().next(), 4096 + 72);
        assert_eq!(LogRecordHeader { kind: LogRecordKind::Last, ..header() }.next(), 4096 + 128);
        assert_eq!((header().content(), header().proven()), (4128, 4032));
        assert_eq!([0, 32, 33].map(|len| LogRecordHeader::stride(len, LogRecordKind::Last)), [64, 64, 128]);
        assert_eq!([0, 32, 33].map(|len| LogRecordHeader::stride(len, LogRecordKind::Inner)), [32, 64, 72]);
    }
}
