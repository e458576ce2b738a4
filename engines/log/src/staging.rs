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

/// The records of an append, with room for their headers.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    /// The bytes of the append, and more.
    bytes: Vec<u8>,
    /// Number of bytes of the append, whole lines.
    len: usize,
    /// The headers. Their positions are distances from the start of the append.
    headers: Vec<LogRecordHeader>,
}

impl Staging {
    /// Calls `with` with the records, each of some parts.
    pub(crate) fn with<'p, R>(
        records: impl ExactSizeIterator<Item = &'p [&'p [u8]]>,
        with: impl FnOnce(&mut Staging) -> R,
    ) -> R {
        let mut staging = BUFFER.take().unwrap_or_default();
        staging.len = 0;
        staging.headers.clear();
        staging.headers.reserve(records.len());
        let last = records.len().saturating_sub(1);
        for (index, parts) in records.enumerate() {
            staging.push(parts, if index == last { LogRecordKind::Last } else { LogRecordKind::Inner });
        }
        let result = with(&mut staging);
        if staging.bytes.capacity() <= KEPT_MAX {
            BUFFER.set(Some(staging));
        }
        result
    }

    #[inline]
    fn push(&mut self, parts: &[&[u8]], kind: LogRecordKind) {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        let (start, content) = (self.len, self.len + LogRecordHeader::LEN);
        self.len = align_up((content + len) as u64, kind.alignment()) as usize;
        if self.bytes.len() < self.len {
            self.bytes.resize((2 * self.len).next_multiple_of(LINE as usize), 0);
        }
        let mut crc = 0;
        let mut rest = &mut self.bytes[content..self.len];
        for part in parts {
            let (into, after) = rest.split_at_mut(part.len());
            into.copy_from_slice(part);
            crc = crc32c_append(crc, part);
            rest = after;
        }
        if !rest.is_empty() {
            rest.fill(0);
        }
        let (position, len) = (start as u64, len as u32);
        self.headers.push(LogRecordHeader { content_crc: crc, position, len, epoch: 0, unproven: 0, kind });
    }

    /// Returns the number of bytes, whole lines.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Writes the headers of an append at `start`, and returns its bytes.
    pub(crate) fn seal(&mut self, start: u64, epoch: u32, durable: u64, seed: u32) -> &[u8] {
        for header in &self.headers {
            let at = header.position as usize;
            let position = start + header.position;
            let unproven = u32::try_from((position - durable) / WORD)
                .expect("an append that is so far ahead waits for a persist");
            let header = LogRecordHeader { position, epoch, unproven, ..*header };
            let bytes = header.encode_by(seed, checksum);
            self.bytes[at..at + LogRecordHeader::LEN].copy_from_slice(&bytes);
        }
        &self.bytes[..self.len]
    }
}
