//! The frame whose records a walk returns.

use crate::area::index_in;
use lode_layout::LogFrameHeader;
use std::mem;

/// The last frame that a walk has read, if it has several records: so its checksum is computed once, and not for each of them.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    header: Option<LogFrameHeader>,
    body: Vec<u8>,
}

impl Frame {
    /// Returns the header if the frame was kept and is that of the record at `position`.
    pub(crate) fn kept(&self, position: u64) -> Option<LogFrameHeader> {
        self.header.filter(|header| header.position == LogFrameHeader::frame_of(position))
    }

    /// Keeps no frame.
    pub(crate) fn forget(&mut self) {
        self.header = None;
    }

    /// Makes `into` the content of the record at `position` of the intact frame of that header, and keeps the frame. Unless it
    /// was kept before, `into` has its body. Returns the position of the next record. `None` if the frame has no such record.
    pub(crate) fn take(&mut self, header: &LogFrameHeader, position: u64, into: &mut Vec<u8>) -> Option<u64> {
        if header.count == 1 {
            self.forget();
            return cut(header, position, into);
        }
        if self.kept(position).is_none() {
            mem::swap(&mut self.body, into);
            self.header = Some(*header);
        }
        let index = index_in(header, position)?;
        let content = header.content(&self.body, index)?;
        into.clear();
        into.extend_from_slice(&self.body[content]);
        Some(after(header, position, index))
    }
}

/// Makes `body`, which is that of the frame of this header, the content of its record at `position`. Returns the position of the
/// next record. `None` if the frame has no such record.
pub(crate) fn cut(header: &LogFrameHeader, position: u64, body: &mut Vec<u8>) -> Option<u64> {
    let index = index_in(header, position)?;
    let content = header.content(body, index)?;
    let len = content.len();
    body.copy_within(content, 0);
    body.truncate(len);
    Some(after(header, position, index))
}

/// Returns the position of the record after that at `position`, which has this index in the frame.
fn after(header: &LogFrameHeader, position: u64, index: u32) -> u64 {
    if index + 1 == header.count { header.next() } else { position + 1 }
}
