//! The receive buffer of a connection.

use std::io::{self, ErrorKind, Read};

/// Bytes that the buffer has room for at least. Pages of it that were never used take no memory.
const ROOM: usize = 512 << 10;
/// Room in bytes that is kept for the next large request.
const ROOM_KEPT: usize = 4 << 20;

/// Bytes that were received and not used yet.
#[derive(Debug)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes to throw away before the next one is used.
    skip: u64,
}

impl Inbox {
    pub(crate) fn new() -> Inbox {
        Inbox { bytes: vec![0; ROOM], start: 0, end: 0, skip: 0 }
    }

    /// Returns the bytes that wait.
    pub(crate) fn waiting(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Removes the first `len` bytes that wait, and those to come if there are fewer.
    pub(crate) fn consume(&mut self, len: u64) {
        let here = len.min((self.end - self.start) as u64);
        self.start += here as usize;
        self.skip += len - here;
    }

    /// Receives more, until at least `len` bytes wait. Returns false if the client has ended the connection.
    ///
    /// # Errors
    /// Those of the stream.
    pub(crate) fn fill(&mut self, len: usize, stream: &mut impl Read) -> io::Result<bool> {
        while self.end - self.start < len {
            self.make_room(len);
            let received = match stream.read(&mut self.bytes[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(received) => received,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            self.end += received;
            let skipped = self.skip.min((self.end - self.start) as u64);
            self.start += skipped as usize;
            self.skip -= skipped;
        }
        Ok(true)
    }

    /// Makes room for `len` bytes from the first one on, and for at least one more than there are.
    fn make_room(&mut self, len: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.bytes.len() > ROOM_KEPT && len <= ROOM {
                self.bytes = vec![0; ROOM];
            }
        }
        if self.bytes.len() - self.start >= len && self.end < self.bytes.len() {
            return;
        }
        if self.bytes.len() >= len && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
        } else {
            // The new memory is zero without being touched.
            let mut bytes = vec![0; len.max(ROOM)];
            bytes[..self.end - self.start].copy_from_slice(&self.bytes[self.start..self.end]);
            self.bytes = bytes;
        }
        (self.start, self.end) = (0, self.end - self.start);
    }
}
