//! The circular area of a log.

use crate::bugs;
use lode_layout::{LogDescriptor, LogRecordHeader, PoolOffset, WORD};
use lode_pmem::{Medium, Memory, Readable};

/// The most bytes of one append: so far ahead an opening looks for records that prove a damaged one.
const APPEND_MAX: u64 = 16 << 20;
/// The part of the area that one append may take.
const APPEND_SHARE: u64 = 4;

/// The area: position p lies at p modulo its length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    start: PoolOffset,
    len: u64,
    seed: u32,
}

/// A header that was found, and whether its content is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) header: LogRecordHeader,
    /// True if the content has its checksum.
    pub(crate) is_sound: bool,
}

impl Area {
    pub(crate) fn new(descriptor: &LogDescriptor, uuid: &[u8; 16]) -> Area {
        let LogDescriptor { area_off, area_len, key } = *descriptor;
        Area { start: area_off, len: area_len, seed: LogRecordHeader::seed(uuid, key) }
    }

    /// Returns the length in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// Returns the seed of the checksums of headers.
    pub(crate) fn seed(&self) -> u32 {
        self.seed
    }

    /// Returns the most bytes of one append.
    pub(crate) fn append_max(&self) -> u64 {
        (self.len / APPEND_SHARE).min(APPEND_MAX)
    }

    /// Returns the offset of a position in the pool.
    pub(crate) fn at(&self, position: u64) -> PoolOffset {
        self.start.plus(position % self.len)
    }

    /// Returns how many of `len` bytes from `position` lie before the end of the area.
    fn before_wrap(&self, position: u64, len: usize) -> usize {
        usize::try_from(self.len - position % self.len).map_or(len, |rest| rest.min(len))
    }

    /// Copies bytes past the cache. Position and length are multiples of 8.
    #[inline]
    pub(crate) fn copy<M: Medium>(&self, medium: &M, position: u64, bytes: &[u8]) {
        let (first, second) = bytes.split_at(self.before_wrap(position, bytes.len()));
        medium.copy(self.at(position), first);
        if !second.is_empty() {
            medium.copy(self.start, second);
        }
    }

    /// Reads bytes.
    pub(crate) fn read(&self, memory: &Readable, position: u64, into: &mut [u8]) {
        let (first, second) = into.split_at_mut(self.before_wrap(position, into.len()));
        memory.read(self.at(position), first);
        if !second.is_empty() {
            memory.read(self.start, second);
        }
    }

    /// Returns the header at `position`, if there is one whose record ends at `limit` or before.
    pub(crate) fn header(&self, memory: &Readable, position: u64, limit: u64) -> Option<LogRecordHeader> {
        let mut bytes = [0; LogRecordHeader::LEN];
        self.read(memory, position, &mut bytes);
        let mut header = LogRecordHeader::decode(bytes, self.seed, position);
        if header.is_none() && bugs::POSITION_NOT_COMPARED.is_active() && position >= self.len {
            header = LogRecordHeader::decode(bytes, self.seed, position - self.len)
                .map(|header| LogRecordHeader { position, ..header });
        }
        header.filter(|header| header.next() <= limit)
    }

    /// Reads the record at `position` into `content`.
    pub(crate) fn record(
        &self,
        memory: &Readable,
        position: u64,
        limit: u64,
        content: &mut Vec<u8>,
    ) -> Option<Found> {
        let header = self.header(memory, position, limit)?;
        content.resize(header.len as usize, 0);
        self.read(memory, header.content(), content);
        let is_sound = crc32c::crc32c(content) == header.content_crc;
        Some(Found { header, is_sound })
    }

    /// Returns the position of the first header from `from` up to `to`. Memory that can't be read has none.
    pub(crate) fn search(&self, memory: &Memory, from: u64, to: u64, limit: u64) -> Option<LogRecordHeader> {
        (from..to).step_by(WORD as usize).find_map(|position| {
            let read = |memory: &Readable| {
                let noted = memory.load8(self.at(position + LogRecordHeader::POSITION_OFF));
                // Few words are the number of their own place.
                (noted == position).then(|| self.header(memory, position, limit)).flatten()
            };
            memory.reading(read).ok().flatten()
        })
    }
}
