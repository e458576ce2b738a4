//! The circular area of a log.

use crate::bugs;
use crate::error::Damage;
use lode_layout::{LINE, LogDescriptor, LogFrameHeader, PoolOffset};
use lode_pmem::{Medium, Memory, Readable, crc32c};

/// The most bytes of one append: so far ahead an opening looks for frames that prove a damaged one.
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

/// A header that was found, and whether its body is sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) header: LogFrameHeader,
    /// True if the body has its checksum, and its table is valid.
    pub(crate) is_sound: bool,
}

impl Area {
    pub(crate) fn new(descriptor: &LogDescriptor, uuid: &[u8; 16]) -> Area {
        let LogDescriptor { area_off, area_len, key } = *descriptor;
        Area { start: area_off, len: area_len, seed: LogFrameHeader::seed(uuid, key) }
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

    /// Returns the position up to which appends may go while the log begins at `head`: the frame of the head stays.
    pub(crate) fn limit(&self, head: u64) -> u64 {
        LogFrameHeader::frame_of(head) + self.len
    }

    /// Returns the offset of a position in the pool.
    pub(crate) fn at(&self, position: u64) -> PoolOffset {
        self.start.plus(position % self.len)
    }

    /// Returns the damage of the frames from `position` up to `next`.
    pub(crate) fn damage(&self, position: u64, next: u64) -> Damage {
        Damage::Records { position, len: next - position, at: self.at(position) }
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

    /// Returns the header of the frame at `position`, if there is one that ends at `limit` or before.
    pub(crate) fn header(&self, memory: &Readable, position: u64, limit: u64) -> Option<LogFrameHeader> {
        let mut bytes = [0; LogFrameHeader::LEN];
        self.read(memory, position, &mut bytes);
        let mut header = LogFrameHeader::decode(bytes, self.seed, position);
        if header.is_none() && bugs::POSITION_NOT_COMPARED.is_active() && position >= self.len {
            header = LogFrameHeader::decode(bytes, self.seed, position - self.len)
                .map(|header| LogFrameHeader { position, ..header });
        }
        header.filter(|header| header.next() <= limit)
    }

    /// Reads the frame at `position`, and its body into `body`.
    pub(crate) fn frame(
        &self,
        memory: &Readable,
        position: u64,
        limit: u64,
        body: &mut Vec<u8>,
    ) -> Option<Found> {
        let header = self.header(memory, position, limit)?;
        body.resize(header.body_len(), 0);
        self.read(memory, header.body(), body);
        let is_sound = body_crc(body, header.len) == header.body_crc && header.has_valid_table(body);
        Some(Found { header, is_sound })
    }

    /// Returns the first header from `from` up to `to`. Memory that can't be read has none.
    pub(crate) fn search(&self, memory: &Memory, from: u64, to: u64, limit: u64) -> Option<LogFrameHeader> {
        (from..to).step_by(LINE as usize).find_map(|position| {
            let read = |memory: &Readable| {
                let noted = memory.load8(self.at(position + LogFrameHeader::POSITION_OFF));
                // Few words are the number of their own place.
                (noted == position).then(|| self.header(memory, position, limit)).flatten()
            };
            memory.reading(read).ok().flatten()
        })
    }
}

/// Returns the checksum of the body of a frame whose contents have `len` bytes.
#[inline]
pub(crate) fn body_crc(body: &[u8], len: u32) -> u32 {
    let covered = if bugs::TABLE_NOT_COVERED.is_active() { len as usize } else { body.len() };
    crc32c(&body[..covered])
}

/// Returns the index of the record at `position` in the frame of that header. `None` if it has no such record.
#[inline]
pub(crate) fn index_in(header: &LogFrameHeader, position: u64) -> Option<u32> {
    let index = LogFrameHeader::index_of(position);
    if bugs::INDEX_NOT_COMPARED.is_active() {
        return Some(index.min(header.count - 1));
    }
    (index < header.count).then_some(index)
}
