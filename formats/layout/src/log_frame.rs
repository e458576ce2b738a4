//! The frames of append logs, which hold their records.
#![doc = include_str!("log_frame.md")]

use crate::format_table;
use crate::format_table::FormatTable;
use crate::{LINE, WORD, align_down, align_up, record_checksum};
use core::mem::offset_of;
use core::ops::Range;
use zerocopy::{FromBytes, Immutable, IntoBytes, transmute};

#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct HeaderBytes {
    crc: u32,
    body_crc: u32,
    position: u64,
    len: u32,
    epoch: u32,
    unproven: u32,
    count: u32,
}

pub(crate) const TABLE: FormatTable =
    format_table!("log_frame", HeaderBytes, [crc, body_crc, position, len, epoch, unproven, count]);

/// Bytes of an entry of the table of a frame.
const ENTRY_LEN: usize = size_of::<u16>();

/// The header of a frame of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFrameHeader {
    /// CRC32C of the body: the contents and the table.
    pub body_crc: u32,
    /// Position of the header in bytes.
    pub position: u64,
    /// Length of all contents in bytes.
    pub len: u32,
    /// Number of the opening that wrote the frame.
    pub epoch: u32,
    /// Distance in lines back to a position up to which all records were durable before this frame was written.
    pub unproven: u32,
    /// Number of records.
    pub count: u32,
}

impl LogFrameHeader {
    /// Bytes of a header.
    pub const LEN: usize = size_of::<HeaderBytes>();
    /// The most records of a frame. Each has a position inside of the frame's first line.
    pub const RECORDS_MAX: u32 = LINE as u32;
    /// The most bytes of the contents of a frame with several records.
    pub const SHARED_MAX: u32 = 4096;
    /// Distance in bytes from the position of a frame to the word that repeats it.
    pub const POSITION_OFF: u64 = offset_of!(HeaderBytes, position) as u64;
    /// The greatest distance in bytes that a frame can have to what it proves.
    pub const UNPROVEN_MAX: u64 = u32::MAX as u64 * LINE;

    /// Returns the seed of the checksums of a log's headers.
    pub fn seed(uuid: &[u8; 16], key: [u64; 2]) -> u32 {
        crc32c::crc32c_append(crc32c::crc32c(uuid), key.as_bytes())
    }

    /// Returns the position of the frame that has the record at `position`, if there is one.
    #[inline]
    pub const fn frame_of(position: u64) -> u64 {
        align_down(position, LINE)
    }

    /// Returns the index in its frame of the record at `position`.
    #[inline]
    pub const fn index_of(position: u64) -> u32 {
        (position % LINE) as u32
    }

    /// Returns the bytes of the table of a frame with `count` records.
    #[inline]
    pub const fn table_len(count: u32) -> usize {
        count.saturating_sub(1) as usize * ENTRY_LEN
    }

    /// Returns the bytes that a frame with `count` records takes, whose contents have `len` bytes.
    #[inline]
    pub const fn stride(count: u32, len: u32) -> u64 {
        align_up((LogFrameHeader::LEN + LogFrameHeader::table_len(count)) as u64 + len as u64, LINE)
    }

    /// Returns the position of the body.
    pub fn body(&self) -> u64 {
        self.position + LogFrameHeader::LEN as u64
    }

    /// Returns the bytes of the body: the contents and the table.
    pub fn body_len(&self) -> usize {
        self.len as usize + LogFrameHeader::table_len(self.count)
    }

    /// Returns the position after the frame, where the next one begins.
    pub fn next(&self) -> u64 {
        self.position + LogFrameHeader::stride(self.count, self.len)
    }

    /// Returns the position up to which all records were durable before this frame was written.
    pub fn proven(&self) -> u64 {
        self.position.saturating_sub(u64::from(self.unproven) * LINE)
    }

    /// Returns the end of the record `index` in the contents. `None` if the frame has no such record, or if `table` is too short.
    #[inline]
    fn end_of(&self, table: &[u8], index: u32) -> Option<usize> {
        match self.count.checked_sub(index)? {
            0 => None,
            1 => Some(self.len as usize),
            _ => table
                .as_chunks::<ENTRY_LEN>()
                .0
                .get(index as usize)
                .map(|end| u16::from_le_bytes(*end).into()),
        }
    }

    /// Returns where the body has the content of the record `index`. `None` if there is no such record, or if the table is
    /// invalid there.
    pub fn content(&self, body: &[u8], index: u32) -> Option<Range<usize>> {
        let (contents, table) = body.split_at_checked(self.len as usize)?;
        let start = match index.checked_sub(1) {
            Some(before) => self.end_of(table, before)?,
            None => 0,
        };
        let end = self.end_of(table, index)?;
        (start <= end && end <= contents.len()).then_some(start..end)
    }

    /// Returns true if the body has its length, and its table is valid: no record ends before it begins, or after the contents.
    pub fn has_valid_table(&self, body: &[u8]) -> bool {
        let is_sorted = |table: &[u8]| {
            let ends = table.as_chunks::<ENTRY_LEN>().0.iter().map(|end| u16::from_le_bytes(*end).into());
            ends.chain([self.len]).is_sorted()
        };
        body.len() == self.body_len() && body.get(self.len as usize..).is_some_and(is_sorted)
    }

    /// Returns the bytes of the header.
    pub fn encode(&self, seed: u32) -> [u8; LogFrameHeader::LEN] {
        self.encode_by(seed, record_checksum)
    }

    /// Returns the bytes of the header. `checksum` computes the same as [`record_checksum`], perhaps faster.
    #[inline]
    pub fn encode_by(
        &self,
        seed: u32,
        checksum: impl FnOnce(u32, &[u64]) -> u32,
    ) -> [u8; LogFrameHeader::LEN] {
        let LogFrameHeader { body_crc, position, len, epoch, unproven, count } = *self;
        let pair = |low: u32, high: u32| u64::from(low) | u64::from(high) << u32::BITS;
        // In registers: a load of the whole header would wait for the stores of its fields.
        let [sums, lens, counts] = [pair(0, body_crc), pair(len, epoch), pair(unproven, count)];
        let crc = checksum(seed, &[sums, position, lens, counts]);
        transmute!([sums | u64::from(crc), position, lens, counts])
    }

    /// Decodes the header at `position`. Returns `None` if there is none.
    #[inline]
    pub fn decode(bytes: [u8; LogFrameHeader::LEN], seed: u32, position: u64) -> Option<LogFrameHeader> {
        let raw: HeaderBytes = transmute!(bytes);
        let mut words: [u64; LogFrameHeader::LEN / WORD as usize] = transmute!(bytes);
        words[0] &= !u64::from(u32::MAX);
        let len_max = match raw.count {
            1 => u32::MAX,
            2..=LogFrameHeader::RECORDS_MAX => LogFrameHeader::SHARED_MAX,
            _ => return None,
        };
        let is_valid = raw.position == position && raw.epoch != 0 && raw.len <= len_max;
        if !is_valid || raw.crc != record_checksum(seed, &words) {
            return None;
        }
        let HeaderBytes { body_crc, position, len, epoch, unproven, count, .. } = raw;
        Some(LogFrameHeader { body_crc, position, len, epoch, unproven, count })
    }
}

/// The records of a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogFrame {
    /// Their number.
    pub count: u32,
    /// Bytes of their contents.
    pub len: u32,
}

/// The frames of the records of one append.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogFrames {
    /// Distance in bytes of the last frame from the first one.
    start: u64,
    /// The last frame.
    last: LogFrame,
}

impl LogFrames {
    /// Puts a record of `len` bytes into the last frame, or into a new one: then it returns the frame before it. A length of more
    /// than 32 bits counts as the greatest of 32 bits.
    #[inline]
    pub fn push(&mut self, len: u64) -> Option<LogFrame> {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let LogFrame { count, len: before } = self.last;
        let shared = before.saturating_add(len);
        if count == 0 || (count < LogFrameHeader::RECORDS_MAX && shared <= LogFrameHeader::SHARED_MAX) {
            self.last = LogFrame { count: count + 1, len: shared };
            return None;
        }
        self.start = self.len();
        self.last = LogFrame { count: 1, len };
        Some(LogFrame { count, len: before })
    }

    /// Returns the distance of the position of the last record from that of the first one; 0 if there is none.
    pub fn position(&self) -> u64 {
        self.start.saturating_add(self.last.count.saturating_sub(1).into())
    }

    /// Returns the last frame.
    #[inline]
    pub fn last(&self) -> LogFrame {
        self.last
    }

    /// Returns the distance in bytes of the last frame from the first one.
    #[inline]
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns the bytes of all frames.
    #[allow(clippy::len_without_is_empty, reason = "bytes, and no items")]
    #[inline]
    pub fn len(&self) -> u64 {
        match self.last.count {
            0 => 0,
            count => self.start.saturating_add(LogFrameHeader::stride(count, self.last.len)),
        }
    }
}

#[cfg(test)]
mod test {
    use super::*;

    fn header() -> LogFrameHeader {
        LogFrameHeader { body_crc: 7, position: 4096, len: 33, epoch: 2, unproven: 1, count: 1 }
    }

    #[test]
    fn headers_round_trip_and_detect_bit_flips() {
        for count in [1, 2, 64] {
            let header = LogFrameHeader { count, ..header() };
            let bytes = header.encode(5);
            assert_eq!(LogFrameHeader::decode(bytes, 5, 4096), Some(header));
            assert_eq!(LogFrameHeader::decode(bytes, 6, 4096), None, "another log");
            assert_eq!(LogFrameHeader::decode(bytes, 5, 8192), None, "another position");
            for bit in 0..8 * bytes.len() {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(LogFrameHeader::decode(damaged, 5, 4096), None, "bit {bit}");
            }
        }
        assert_eq!(LogFrameHeader::decode([0; LogFrameHeader::LEN], 0, 0), None, "never written");
    }

    #[test]
    fn fields_out_of_range_are_refused() {
        let decoded = |count: u32, len: u32, epoch: u32| {
            let header = LogFrameHeader { count, len, epoch, ..header() };
            LogFrameHeader::decode(header.encode(5), 5, 4096) == Some(header)
        };
        let shared_max = LogFrameHeader::SHARED_MAX;
        assert!(decoded(1, u32::MAX, 1) && decoded(64, shared_max, 1));
        assert!(
            !decoded(0, 0, 1) && !decoded(65, 0, 1) && !decoded(2, shared_max + 1, 1) && !decoded(1, 0, 0)
        );
    }

    #[test]
    fn frames_are_whole_lines() {
        assert_eq!([0, 32, 33].map(|len| LogFrameHeader::stride(1, len)), [64, 64, 128]);
        assert_eq!([0, 1, 2, 64].map(LogFrameHeader::table_len), [0, 0, 2, 126]);
        assert_eq!(LogFrameHeader::stride(1, u32::MAX), (1 << 32) + 64);
        let header = LogFrameHeader { count: 6, ..header() };
        assert_eq!((header.next(), header.body(), header.body_len()), (4096 + 128, 4128, 33 + 10));
        assert_eq!((header.proven(), LogFrameHeader { position: 0, ..header }.proven()), (4032, 0));
        assert_eq!((LogFrameHeader::frame_of(4101), LogFrameHeader::index_of(4101)), (4096, 5));
    }

    #[test]
    fn contents_lie_where_the_table_says() {
        let header = LogFrameHeader { count: 3, len: 10, ..header() };
        let body = |first: u16, second: u16| {
            [&[9; 10], [first, second].map(u16::to_le_bytes).as_flattened()].concat()
        };
        let found = body(4, 4);
        assert_eq!(
            [0, 1, 2, 3].map(|index| header.content(&found, index)),
            [Some(0..4), Some(4..4), Some(4..10), None]
        );
        assert!(header.has_valid_table(&found) && header.has_valid_table(&body(0, 10)));
        for (first, second) in [(5, 4), (4, 11), (u16::MAX, 10), (11, 11)] {
            assert!(!header.has_valid_table(&body(first, second)), "{first} {second}");
        }
        assert!(!header.has_valid_table(&[]), "too short");
        let one = LogFrameHeader { count: 1, ..header };
        assert_eq!((one.content(&[9; 10], 0), one.content(&[9; 10], 1)), (Some(0..10), None));
    }

    #[test]
    fn records_share_frames_up_to_their_limits() {
        let place = |lens: &[u64]| {
            let mut frames = LogFrames::default();
            let mut closed = Vec::new();
            let positions: Vec<u64> = lens
                .iter()
                .map(|len| {
                    closed.extend(frames.push(*len));
                    frames.position()
                })
                .collect();
            (positions, closed, frames)
        };
        assert_eq!((LogFrames::default().len(), LogFrames::default().position()), (0, 0));
        let (positions, closed, frames) = place(&[0; 65]);
        assert!(positions.into_iter().eq((0..64).chain([192])));
        assert_eq!(
            (closed, frames.last()),
            (vec![LogFrame { count: 64, len: 0 }], LogFrame { count: 1, len: 0 })
        );
        assert_eq!((frames.start(), frames.len()), (192, 192 + 64));
        // A record that fits exactly, one that does not, and a long one.
        let (positions, closed, frames) = place(&[4000, 96, 1, 4097, 0]);
        assert_eq!(positions, [0, 1, 4160, 4224, 8384]);
        assert_eq!(closed.iter().map(|frame| frame.count).collect::<Vec<_>>(), [2, 1, 1]);
        assert_eq!(frames.len(), 8384 + 64);
        let (_, _, frames) = place(&[u64::MAX; 3]);
        assert_eq!(frames.len(), 3 * ((1 << 32) + 64));
    }
}
