//! Appends on their way: their bytes, before their position is known.

use lode_layout::{LINE, LogRecordHeader, LogRecordKind, WORD, align_up};
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
    bytes: Vec<u8>,
    /// The headers. Their positions are distances from the start of the append.
    headers: Vec<LogRecordHeader>,
}

impl Staging {
    /// Calls `with` with the records, each of some parts.
    pub(crate) fn with<'p, R>(
        records: impl Iterator<Item = &'p [&'p [u8]]>,
        with: impl FnOnce(&mut Staging) -> R,
    ) -> R {
        let mut staging = BUFFER.take().unwrap_or_default();
        staging.bytes.clear();
        staging.headers.clear();
        records.for_each(|parts| staging.push(parts));
        staging.end();
        let result = with(&mut staging);
        if staging.bytes.capacity() <= KEPT_MAX {
            BUFFER.set(Some(staging));
        }
        result
    }

    fn push(&mut self, parts: &[&[u8]]) {
        self.pad(WORD);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LogRecordHeader::LEN]);
        let content = self.bytes.len();
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        let content = &self.bytes[content..];
        self.headers.push(LogRecordHeader {
            content_crc: crc32c::crc32c(content),
            position: start as u64,
            len: content.len() as u32,
            epoch: 0,
            unproven: 0,
            kind: LogRecordKind::Inner,
        });
    }

    fn end(&mut self) {
        if let Some(last) = self.headers.last_mut() {
            last.kind = LogRecordKind::Last;
        }
        self.pad(LINE);
    }

    fn pad(&mut self, to: u64) {
        let len = align_up(self.bytes.len() as u64, to);
        self.bytes.resize(len as usize, 0);
    }

    /// Returns the number of bytes, whole lines.
    pub(crate) fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// Writes the headers of an append at `start`, and returns its bytes.
    pub(crate) fn seal(&mut self, start: u64, epoch: u32, durable: u64, seed: u32) -> &[u8] {
        for header in &self.headers {
            let at = header.position as usize;
            let position = start + header.position;
            let unproven = u32::try_from((position - durable) / WORD)
                .expect("an append that is so far ahead waits for a persist");
            let bytes = LogRecordHeader { position, epoch, unproven, ..*header }.encode(seed);
            self.bytes[at..at + LogRecordHeader::LEN].copy_from_slice(&bytes);
        }
        &self.bytes
    }
}
