//! Frames: 8 bytes that hold the length, little-endian, and a message in the encoding of postcard.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};

/// Longest request in bytes: two keys, and what is around them.
pub(crate) const REQUEST_LEN_MAX: u64 = 256 << 10;
/// Longest response in bytes: the longest value, and what is around it.
pub(crate) const RESPONSE_LEN_MAX: u64 = (4 << 30) + (1 << 20);

/// Writes a message in one frame.
pub(crate) fn write(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut frame = postcard::to_extend(message, vec![0; 8]).map_err(io::Error::other)?;
    let len = (frame.len() as u64 - 8).to_le_bytes();
    frame[..8].copy_from_slice(&len);
    stream.write_all(&frame)
}

/// Reads a message of at most `len_max` bytes. `None` if the stream ends before it. Memory is taken for bytes that have
/// arrived, not for those that were announced.
pub(crate) fn read<T: DeserializeOwned>(stream: &mut impl Read, len_max: u64) -> io::Result<Option<T>> {
    let mut len = [0; 8];
    match read_some(stream, &mut len)? {
        0 => return Ok(None),
        read => stream.read_exact(&mut len[read..])?,
    }
    let len = u64::from_le_bytes(len);
    if len > len_max {
        return Err(invalid("a message is longer than any can be"));
    }
    let mut message = Vec::new();
    if stream.take(len).read_to_end(&mut message)? as u64 != len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    match postcard::take_from_bytes(&message) {
        Ok((message, [])) => Ok(Some(message)),
        Ok(_) => Err(invalid("a message has bytes after its end")),
        Err(_) => Err(invalid("a message can't be decoded")),
    }
}

/// Reads, also when a signal comes in between.
fn read_some(stream: &mut impl Read, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(into) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
