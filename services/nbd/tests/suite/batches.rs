//! The commands that lie in the receive buffer are one batch of the device, and their replies one write.

use crate::client::{BLOCK, BLOCKS, FLUSH, Form, READ, SIZE, Served, TRIM, WRITE, ZEROES};
use lode_nbd::{Export, serve_stream};
use lode_testing::volume::MemoryDevice;
use lode_volume::BlockDevice;
use std::io::{self, Cursor, IoSlice, Read, Write};
use std::sync::Arc;

/// A client that sends all it has to say at once, and counts the writes that it gets.
struct Script {
    sent: Cursor<Vec<u8>>,
    received: Vec<u8>,
    writes: Vec<usize>,
}

impl Read for Script {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.sent.read(into)
    }
}

impl Write for Script {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(from)])
    }

    fn write_vectored(&mut self, from: &[IoSlice<'_>]) -> io::Result<usize> {
        let before = self.received.len();
        from.iter().for_each(|slice| self.received.extend_from_slice(slice));
        self.writes.push(self.received.len() - before);
        Ok(self.received.len() - before)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Serves commands of simple replies that come together. Returns the sizes of batches, and of writes after the handshake.
fn serve(commands: &[u8]) -> (Vec<usize>, Vec<usize>) {
    let device = Arc::new(MemoryDevice::new(BLOCK, BLOCKS));
    let export = Export::new("disk", Arc::clone(&device) as Arc<dyn BlockDevice>, false).unwrap();
    let sent = [b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\0", commands].concat();
    let mut script = Script { sent: Cursor::new(sent), received: Vec::new(), writes: Vec::new() };
    serve_stream(&[export], &mut script).unwrap();
    assert_eq!(script.writes[..2], [18, 10], "greeting and export");
    (device.take_batches(), script.writes.split_off(2))
}

#[test]
fn commands_received_together_are_one_batch_and_one_write() {
    let served = Served::start();
    let client = served.client(Form::Simple);
    let mut commands = Vec::new();
    for at in 0..64 {
        commands.extend(client.command(WRITE, 0, at, at * 512, 512, &[1; BLOCK]));
        commands.extend(client.command(READ, 0, at, 0, 1024, &[]));
        commands.extend(client.command(ZEROES, 0, at, 512, 512, &[]));
        commands.extend(client.command(TRIM, 0, at, 512, 512, &[]));
    }
    // Refused ones need no device.
    commands.extend(client.command(READ, 0, 1, SIZE, 1, &[]));
    assert_eq!(serve(&commands), (vec![256], vec![64 * (4 * 16 + 1024) + 16]));
}

#[test]
fn flushes_and_parts_of_blocks_divide_a_batch() {
    let served = Served::start();
    let client = served.client(Form::Simple);
    let whole = client.command(WRITE, 0, 1, 0, 512, &[1; BLOCK]);
    let part = client.command(WRITE, 0, 1, 700, 5, &[1; 5]);
    let flush = client.command(FLUSH, 0, 1, 0, 0, &[]);
    // The part is read, and written back.
    let commands = [&whole[..], &whole, &part, &whole, &flush, &whole].concat();
    assert_eq!(serve(&commands), (vec![2, 1, 1, 1, 1], vec![6 * 16]));
}

#[test]
fn long_queues_are_batches_of_bounded_size() {
    let served = Served::start();
    let client = served.client(Form::Simple);
    let command = client.command(READ, 0, 1, 0, 512, &[]);
    let (batches, writes) = serve(&command.repeat(1200));
    assert_eq!((batches, writes.len()), (vec![512, 512, 176], 3));
    // 4 MiB of reads at most.
    let command = client.command(READ, 0, 1, 0, SIZE, &[]);
    let (batches, _) = serve(&command.repeat(100));
    assert_eq!(batches, [64, 36]);
}
