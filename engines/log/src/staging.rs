//! Appends on their way: their bytes, before their position is known.

use crate::area::body_crc;
use lode_layout::{LINE, LogFrame, LogFrameHeader, LogFrames};
use lode_pmem::checksum;
use std::cell::Cell;

thread_local! {
    /// The buffer of the thread's last append.
    static BUFFER: Cell<Option<Box<Staging>>> = const { Cell::new(None) };
}

/// Bytes of a buffer that a thread keeps.
const KEPT_MAX: usize = 1 << 20;
/// Bytes that a frame takes in addition to the contents, at most: header, table and the rest of a line.
const FRAME_MAX: usize =
    LogFrameHeader::LEN + LogFrameHeader::table_len(LogFrameHeader::RECORDS_MAX) + LINE as usize;

/// The frames of an append. Their headers wait for the position of the append.
#[derive(Debug, Default)]
pub(crate) struct Staging {
    /// The bytes of the append, and more.
    bytes: Vec<u8>,
    /// Number of bytes of the append, whole lines; while frames are filled, of those before the last one.
    len: usize,
    /// The frames that have all of their records.
    closed: Vec<LogFrame>,
}

/// The ends of the records of a frame: its table, and one more.
type Ends = [[u8; 2]; LogFrameHeader::RECORDS_MAX as usize];

/// Holds what all headers of an append say, and its place.
pub(crate) struct Seal {
    /// Position of the first frame.
    pub(crate) start: u64,
    /// Position up to which all is durable.
    pub(crate) durable: u64,
    pub(crate) epoch: u32,
    /// The seed of the checksums.
    pub(crate) seed: u32,
}

impl Staging {
    /// Returns the buffer of this thread's last append, or a new one.
    #[inline]
    pub(crate) fn take() -> Box<Staging> {
        BUFFER.take().unwrap_or_default()
    }

    /// Keeps the buffer for this thread's next append.
    #[inline]
    pub(crate) fn keep(self: Box<Staging>) {
        if self.bytes.capacity() <= KEPT_MAX {
            BUFFER.set(Some(self));
        }
    }

    /// Puts records into frames: one at least, each of some parts.
    ///
    /// # Errors
    /// If they take more than `max` bytes, fails with their length, as far as it was counted.
    #[inline]
    pub(crate) fn fill<'p>(
        &mut self,
        records: impl Iterator<Item = &'p [&'p [u8]]>,
        max: u64,
    ) -> Result<(), u64> {
        self.closed.clear();
        let mut frames = LogFrames::default();
        // Slices on the stack: the vector of bytes would be looked at again after each store.
        let mut contents = &mut [][..];
        let mut ends: Ends = [[0; 2]; LogFrameHeader::RECORDS_MAX as usize];
        let mut end = 0;
        for parts in records {
            let len = parts.iter().fold(0, |len: u64, part| len.saturating_add(part.len() as u64));
            let before = frames.push(len);
            let LogFrame { count, .. } = frames.last();
            if count == 1 {
                if let Some(frame) = before {
                    self.close_frame(frame, &ends);
                }
                if frames.len() > max {
                    return Err(frames.len());
                }
                (contents, end) = (self.begin_frame(&frames), 0);
            }
            for part in parts {
                let next = end + part.len();
                copy(&mut contents[end..next], part);
                end = next;
            }
            // The end of a long record is not used: it is alone in its frame.
            ends[count as usize - 1] = (end as u16).to_le_bytes();
        }
        self.close_frame(frames.last(), &ends);
        self.len = frames.len() as usize;
        if frames.len() > max { Err(frames.len()) } else { Ok(()) }
    }

    /// Makes room for the last of these frames, which has one record so far. Returns the place of its contents, and more.
    fn begin_frame(&mut self, frames: &LogFrames) -> &mut [u8] {
        self.len = frames.start() as usize;
        let len_max = frames.last().len.max(LogFrameHeader::SHARED_MAX) as usize;
        let end = self.len + len_max + FRAME_MAX;
        if self.bytes.len() < end {
            self.bytes.resize(2 * end, 0);
        }
        &mut self.bytes[self.len + LogFrameHeader::LEN..]
    }

    /// Writes the table of the frame that was begun last, and zeros up to its end.
    #[inline]
    fn close_frame(&mut self, frame: LogFrame, ends: &Ends) {
        let LogFrame { count, len } = frame;
        let bytes = &mut self.bytes[self.len..self.len + LogFrameHeader::stride(count, len) as usize];
        let (table, padding) =
            bytes[LogFrameHeader::LEN + len as usize..].split_at_mut(LogFrameHeader::table_len(count));
        table.copy_from_slice(&ends.as_flattened()[..table.len()]);
        padding.fill(0);
        self.closed.push(frame);
    }

    /// Returns the number of bytes, whole lines.
    pub(crate) fn len(&self) -> u64 {
        self.len as u64
    }

    /// Completes the headers, and gives all lines and their positions to `copy`. The line of a header comes after the others of
    /// its frame: its checksum is computed while they are on their way.
    #[inline]
    pub(crate) fn seal(&mut self, seal: &Seal, mut copy: impl FnMut(u64, &[u8])) {
        let Seal { start, durable, epoch, seed } = *seal;
        let mut at = 0;
        for LogFrame { count, len } in self.closed.iter().copied() {
            let position = start + at as u64;
            let stride = LogFrameHeader::stride(count, len) as usize;
            let frame = &mut self.bytes[at..at + stride];
            if let Some(lines) = frame.get(LINE as usize..).filter(|lines| !lines.is_empty()) {
                copy(position + LINE, lines);
            }
            let (header, body) = frame.split_at_mut(LogFrameHeader::LEN);
            let body_crc = body_crc(&body[..len as usize + LogFrameHeader::table_len(count)], len);
            let unproven = u32::try_from((position - durable) / LINE)
                .expect("an append that is so far ahead waits for a persist");
            let of_frame = LogFrameHeader { body_crc, position, len, epoch, unproven, count };
            header.copy_from_slice(&of_frame.encode_by(seed, checksum));
            copy(position, &frame[..LINE as usize]);
            at += stride;
        }
    }
}

/// Copies bytes, without a call if they are few.
#[inline]
fn copy(into: &mut [u8], from: &[u8]) {
    match from.len() {
        32..=64 => copy_ends::<32>(into, from),
        16..=31 => copy_ends::<16>(into, from),
        8..=15 => copy_ends::<8>(into, from),
        _ => into.copy_from_slice(from),
    }
}

/// Copies from `N` to twice as many bytes: the first `N` and the last ones, which may overlap.
#[inline]
fn copy_ends<const N: usize>(into: &mut [u8], from: &[u8]) {
    if let (Some(to), Some(first)) = (into.first_chunk_mut::<N>(), from.first_chunk()) {
        *to = *first;
    }
    if let (Some(to), Some(last)) = (into.last_chunk_mut::<N>(), from.last_chunk()) {
        *to = *last;
    }
}
