//! A session of the server of network block devices: whatever a client sends, each reply is the one that the protocol asks
//! for, and the device has the content that the answered changes give it.

mod reference;

use lode_nbd::{Export, serve_stream};
use lode_testing::volume::MemoryDevice;
use lode_volume::BlockDevice;
use std::io::{self, Read, Write};
use std::sync::Arc;

const BLOCK: usize = 512;
const BLOCKS: usize = 16;
/// Name of the only export.
const NAME: &str = "disk";

/// A client that has said all it has to say.
struct Client<'d> {
    sent: &'d [u8],
    /// Greatest number of bytes that the server receives at once.
    piece: usize,
    received: Vec<u8>,
}

impl Read for Client<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = into.len().min(self.piece);
        self.sent.read(&mut into[..len])
    }
}

impl Write for Client<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.received.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves a client. The first byte gives the size of the pieces in which the rest arrives.
pub fn run(data: &[u8]) {
    let Some((piece, sent)) = data.split_first() else { return };
    let piece = if *piece == 0 { usize::MAX } else { usize::from(*piece) };
    let device = Arc::new(MemoryDevice::new(BLOCK, BLOCKS as u64));
    let export = Export::new(NAME, Arc::clone(&device) as Arc<dyn BlockDevice>, false);
    let exports: Vec<_> = export.into_iter().collect();
    let mut client = Client { sent, piece, received: Vec::new() };
    assert!(serve_stream(&exports, &mut client).is_ok(), "the stream gives no error");
    let disk = reference::check(sent, &client.received);
    assert!(device.bytes() == disk, "the content is not that of the answered changes");
}

/// Returns an option.
fn option(code: u32, data: &[u8]) -> Vec<u8> {
    [&b"IHAVEOPT"[..], &code.to_be_bytes(), &(data.len() as u32).to_be_bytes(), data].concat()
}

/// Returns a command, which has its payload's length, or else `len`.
fn command(is_extended: bool, code: u16, flags: u16, offset: u64, len: u64, payload: &[u8]) -> Vec<u8> {
    let magic: u32 = if is_extended { 0x21e4_1c71 } else { 0x2560_9513 };
    let len = if payload.is_empty() { len } else { payload.len() as u64 };
    let flags = if is_extended && !payload.is_empty() { flags | 32 } else { flags };
    let len = len.to_be_bytes();
    let cookie = (u64::from(code) << 32 | offset).to_be_bytes();
    let len = if is_extended { &len[..] } else { &len[4..] };
    let words = [flags.to_be_bytes(), code.to_be_bytes()].concat();
    [&magic.to_be_bytes()[..], &words, &cookie, &offset.to_be_bytes(), len, payload].concat()
}

/// Returns commands of each kind.
fn commands(is_extended: bool) -> Vec<u8> {
    let make = |code, flags, offset, len, payload| command(is_extended, code, flags, offset, len, payload);
    let size = (BLOCK * BLOCKS) as u64;
    [
        make(1, 1, 0, 0, &[7; 1024]),
        make(1, 0, 700, 0, b"a part of a block"),
        make(0, 0, 600, 900, &[]),
        make(7, 0, 0, size, &[]),
        make(7, 8, 1000, 3000, &[]),
        make(4, 0, 100, 2000, &[]),
        make(6, 2, 3, 600, &[]),
        make(6, 16, 2048, 512, &[]),
        make(5, 0, 0, size, &[]),
        make(3, 0, 0, 0, &[]),
        make(0, 0, size - 1, 2, &[]),
        make(6, 0, size, 1, &[]),
        make(1, 0, size - 1, 0, b"past the end"),
        make(9, 0, 0, 0, &[]),
        make(2, 0, 0, 0, &[]),
    ]
    .concat()
}

/// Returns sessions of each form of replies, and sessions that end in the handshake.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let flags = 3_u32.to_be_bytes();
    let context = option(10, b"\0\0\0\x04disk\0\0\0\x01\0\0\0\x0fbase:allocation");
    let go = option(7, b"\0\0\0\0\0\x02\0\x01\0\x03");
    let session = |piece: u8, parts: &[&[u8]]| [&[piece][..], &flags, &parts.concat()].concat();
    vec![
        ("simple", session(0, &[&go, &commands(false)])),
        ("structured", session(50, &[&option(8, &[]), &context, &go, &commands(false)])),
        ("extended", session(0, &[&option(11, &[]), &context, &go, &commands(true)])),
        ("export_name", [&[7, 0, 0, 0, 1][..], &option(1, b"disk"), &commands(false)].concat()),
        (
            "options",
            session(
                0,
                &[
                    &option(3, &[]),
                    &option(6, b"\0\0\0\x04disk\0\0"),
                    &option(6, b"\0\0\0\x04none\0\0"),
                    &option(9, b"\0\0\0\0\0\0\0\x01\0\0\0\x05base:"),
                    &option(5, &[]),
                    &option(2, &[]),
                ],
            ),
        ),
        ("long_option", session(0, &[&option(77, &vec![1; 70_000])[..80], &go])),
        ("oversized", session(0, &[&go, &command(false, 1, 0, 0, 1 << 31, &[])])),
        (
            "no_payload_flag",
            session(
                0,
                &[&option(11, &[]), &go, &command(true, 1, 0, 0, 60, &[]), &command(true, 6, 0, 0, 512, &[])],
            ),
        ),
    ]
}

#[cfg(test)]
mod test {
    use super::*;
    use std::panic::catch_unwind;

    /// A server that answers otherwise, or not at all, would be noticed.
    #[test]
    fn wrong_replies_are_found() {
        for (name, bytes) in seeds() {
            run(&bytes);
            let device = Arc::new(MemoryDevice::new(BLOCK, BLOCKS as u64));
            let exports = [Export::new(NAME, device, false).unwrap()];
            let mut client = Client { sent: &bytes[1..], piece: usize::MAX, received: Vec::new() };
            serve_stream(&exports, &mut client).unwrap();
            reference::check(&bytes[1..], &client.received);
            let cut = &client.received[..client.received.len() - 1];
            assert!(catch_unwind(|| reference::check(&bytes[1..], cut)).is_err(), "{name}");
            let more = [&client.received[..], &[0]].concat();
            assert!(catch_unwind(|| reference::check(&bytes[1..], &more)).is_err(), "{name}");
        }
    }
}
