//! Appends on their way: their bytes, before their position is known.

use lode_layout::{LINE, LogRecordHeader, LogRecordKind, WORD, align_up};
use lode_pmem::{checksum, crc32c_append};
use std::cell::Cell;

thread_local! {
    /// The buffer of the thread's last append.
    static BUFFER: Cell<Option<Staging>> = const { Cell::new(None) };
}

/// Bytes of a buffer that a thread keeps.
const KEPT_MAX: usize = 1 << 20;

/// The records of an append. Their headers wait for the position of the append.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    /// The bytes of the append, and more.
    bytes: Vec<u8>,
    /// Number of bytes of the append, whole lines.
    len: usize,
    records: Vec<Staged>,
}

/// A record of an append, without what its position decides.
#[derive(Clone, Copy, Debug)]
struct Staged {
    /// Distance of its header from the start of the append.
    at: u32,
    len: u32,
    content_crc: u32,
}

impl Staging {
    /// Calls `with` with the records, each of some parts.
    pub(crate) fn with<'p, R>(
        records: impl ExactSizeIterator<Item = &'p [&'p [u8]]>,
        with: impl FnOnce(&mut Staging) -> R,
    ) -> R {
        let mut staging = BUFFER.take().unwrap_or_default();
        staging.len = 0;
        staging.records.clear();
        staging.records.reserve(records.len());
        for parts in records {
            staging.push(parts);
        }
        staging.fill_line();
        let result = with(&mut staging);
        if staging.bytes.capacity() <= KEPT_MAX {
            BUFFER.set(Some(staging));
        }
        result
    }

    /// Adds a record. The caller has checked that the length of all fits.
    #[inline]
    fn push(&mut self, parts: &[&[u8]]) {
        let at = align_up(self.len as u64, LogRecordKind::Inner.alignment()) as usize;
        let len: usize = parts.iter().fold(0, |len, part| len + part.len());
        let content = at + LogRecordHeader::LEN;
        self.make_room(content + len);
        if self.len < at {
            self.bytes[self.len..at].fill(0);
        }
        self.len = content + len;
        let (mut crc, mut rest) = (0, &mut self.bytes[content..]);
        for part in parts {
            let (into, after) = rest.split_at_mut(part.len());
            into.copy_from_slice(part);
            crc = crc32c_append(crc, part);
            rest = after;
        }
        self.records.push(Staged { at: at as u32, len: len as u32, content_crc: crc });
    }

    /// Makes the bytes at least `len`, and up to a line more.
    #[inline]
    fn make_room(&mut self, len: usize) {
        if self.bytes.len() < len + LINE as usize {
            self.bytes.resize((2 * len).next_multiple_of(LINE as usize) + LINE as usize, 0);
        }
    }

    /// Fills the rest of the last line with zeros.
    fn fill_line(&mut self) {
        let end = align_up(self.len as u64, LINE) as usize;
        if self.len < end {
            self.bytes[self.len..end].fill(0);
            self.len = end;
        }
    }

    /// Returns the number of bytes, whole lines.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Writes the headers of an append at `start`, and returns its bytes.
    pub(crate) fn seal(&mut self, start: u64, epoch: u32, durable: u64, seed: u32) -> &[u8] {
        let last = self.records.len().saturating_sub(1);
        for (index, Staged { at, len, content_crc }) in self.records.iter().copied().enumerate() {
            let position = start + u64::from(at);
            let unproven = u32::try_from((position - durable) / WORD)
                .expect("an append that is so far ahead waits for a persist");
            let kind = if index == last { LogRecordKind::Last } else { LogRecordKind::Inner };
            let header = LogRecordHeader { content_crc, position, len, epoch, unproven, kind };
            let at = at as usize;
            self.bytes[at..at + LogRecordHeader::LEN].copy_from_slice(&header.encode_by(seed, checksum));
        }
        &self.bytes[..self.len]
    }
}
