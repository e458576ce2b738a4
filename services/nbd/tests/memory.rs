//! The memory of connections. A program of its own, because it measures that of the process.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "the suite uses the rest")]
#[path = "suite/client.rs"]
mod client;

use client::{BLOCK, Form, OPT_EXPORT_NAME, Served};
use lode_nbd::Export;
use lode_testing::volume::MemoryDevice;
use lode_volume::BlockDevice;
use std::io::Read;
use std::sync::Arc;

/// Greatest number of bytes that a connection takes until it is used: pages of its stack and of the receive buffer.
const IDLE_MAX: usize = 64 << 10;
const LARGE: usize = 32 << 20;
/// Each of two buffers keeps 4 MiB; the allocator has its own view of pages.
const KEPT_MAX: usize = 12 << 20;

/// Returns the bytes of memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn connections_take_little_and_give_back_what_large_commands_took() {
    let served = Served::start();
    served.client(Form::Extended).write(0, &[7; BLOCK]);
    let before = resident();
    let idle: Vec<_> = (0..200).map(|_| served.client(Form::Extended)).collect();
    let grown = resident().saturating_sub(before);
    println!("{} bytes of memory for each idle connection", grown / idle.len());
    assert!(grown <= idle.len() * IDLE_MAX, "{grown} bytes for {} connections", idle.len());
    drop(idle);

    let device = Arc::new(MemoryDevice::new(BLOCK, LARGE as u64 / BLOCK as u64));
    let export = Export::new("disk", Arc::clone(&device) as Arc<dyn BlockDevice>, false).unwrap();
    let served = Served::exports(device, vec![export]);
    let mut client = served.greeted();
    client.send_option(OPT_EXPORT_NAME, b"disk");
    client.u64();
    client.stream.read_exact(&mut [0; 2]).unwrap();
    let content = vec![7; LARGE];
    // The device has all of its pages after the first write.
    client.write(0, &content);
    client.write(0, &[1; BLOCK]);
    let before = resident();
    client.write(0, &content);
    assert!(client.read(0, LARGE) == content);
    client.write(0, &[1; BLOCK]);
    client.read(0, BLOCK);
    let grown = resident().saturating_sub(before);
    println!("{grown} bytes are kept after large commands");
    assert!(grown <= KEPT_MAX, "{grown} bytes are kept");
}
