//! A device that fails: the answer to the request, and to the ones after it.

use crate::client::{BLOCK, EIO, FLUSH, FUA, Form, READ, Reply, SIZE, Served, TRIM, WRITE, ZEROES};
use std::io::Write;

#[test]
fn poisoned_block_fails_its_requests_alone() {
    let served = Served::start();
    served.device.poison(5);
    for form in [Form::Simple, Form::Structured, Form::Extended] {
        let mut client = served.client(form);
        // One batch: the requests around the poisoned block succeed.
        let mut bytes = Vec::new();
        for block in 3..8_u64 {
            bytes.extend(client.command(WRITE, 0, block, block * 512, 512, &[block as u8; BLOCK]));
        }
        for block in 3..8_u64 {
            bytes.extend(client.command(READ, 0, 10 + block, block * 512, 512, &[]));
        }
        client.stream.write_all(&bytes).unwrap();
        for block in 3..8 {
            let error = if block == 5 { EIO } else { 0 };
            assert_eq!(client.reply(0), Reply { cookie: block, error, data: vec![] });
        }
        for block in 3..8 {
            let error = if block == 5 { EIO } else { 0 };
            let data = if block == 5 { vec![] } else { vec![block as u8; BLOCK] };
            assert_eq!(client.reply(BLOCK), Reply { cookie: 10 + block, error, data });
        }
        // A part of it, and ranges that touch it.
        client.send_write(0, 1, 5 * 512 + 7, &[1; 9]);
        assert_eq!(client.reply(0).error, EIO);
        for code in [READ, ZEROES] {
            assert_eq!(client.error(code, 0, 4 * 512 + 1, 1000), EIO);
        }
        client.write(6 * 512 + 1, &[1; 9]);
    }
}

#[test]
fn failed_flush_stops_the_writes_of_all_clients() {
    let served = Served::start();
    let (mut one, mut two) = (served.client(Form::Simple), served.client(Form::Structured));
    one.write(0, &[1; BLOCK]);
    served.device.fail_flushes();
    assert_eq!(two.error(FLUSH, 0, 0, 0), EIO);
    for client in [&mut one, &mut two] {
        client.send_write(0, 1, 0, &[2; BLOCK]);
        assert_eq!(client.reply(0).error, EIO);
        // A part of a block.
        client.send_write(0, 1, 3, &[2; 5]);
        assert_eq!(client.reply(0).error, EIO);
        assert_eq!(client.error(ZEROES, 0, 0, SIZE), EIO);
        assert_eq!(client.error(TRIM, 0, 0, SIZE), EIO);
        assert_eq!(client.error(FLUSH, 0, 0, 0), EIO, "no later flush hides it");
        assert_eq!(client.read(0, BLOCK), [1; BLOCK]);
    }
    let mut later = served.client(Form::Extended);
    later.send_write(FUA, 1, 0, &[2; BLOCK]);
    assert_eq!(later.reply(0).error, EIO);
    assert_eq!(later.read(0, BLOCK), [1; BLOCK]);
}

#[test]
fn flush_covers_what_other_connections_wrote() {
    let served = Served::start();
    let (mut one, mut two) = (served.client(Form::Simple), served.client(Form::Extended));
    one.write(0, &[1; BLOCK]);
    one.write(1024 + 5, &[2; 7]);
    assert_eq!(served.device.durable(), [0; SIZE as usize]);
    assert_eq!(two.error(FLUSH, 0, 0, 0), 0);
    assert_eq!(served.device.durable(), served.device.bytes());
    assert_eq!(served.device.durable()[1024..][..16], *b"\0\0\0\0\0\x02\x02\x02\x02\x02\x02\x02\0\0\0\0");
}

/// A kill after an answer may lose the memory of the process: whole blocks, parts of blocks and zeros.
#[test]
fn changes_in_a_process_cache_are_durable_when_answered() {
    let served = Served::start();
    let mut client = served.client(Form::Simple);
    client.write(5 * BLOCK as u64, &[9; BLOCK]);
    served.device.lose_cache_with_process();
    client.write(0, &[1; BLOCK]);
    client.write(1024 + 500, &[2; 600]);
    assert_eq!(client.error(ZEROES, 0, 5 * BLOCK as u64, BLOCK as u64), 0);
    assert_eq!(served.device.durable(), served.device.bytes());
    assert_eq!(served.device.durable()[..BLOCK], [1; BLOCK]);
}

/// Forced unit access makes its own range durable, for parts of blocks and zeros, too.
#[test]
fn fua_makes_its_range_durable() {
    let served = Served::start();
    let mut client = served.client(Form::Simple);
    client.write(0, &[9; 8 * BLOCK]);
    client.send_write(FUA, 1, 0, &[1; BLOCK]);
    client.send_write(FUA, 2, 1024 + 500, &[2; 600]);
    client.send(ZEROES, FUA, 3, 5 * 512, 512);
    for cookie in 1..=3 {
        assert_eq!(client.reply(0), Reply { cookie, error: 0, data: vec![] });
    }
    let (bytes, durable) = (served.device.bytes(), served.device.durable());
    for block in [0, 2, 3, 4, 5] {
        assert_eq!(durable[block * BLOCK..][..BLOCK], bytes[block * BLOCK..][..BLOCK], "block {block}");
    }
    assert_eq!(durable[7 * BLOCK..][..BLOCK], [0; BLOCK], "written without FUA");
}
