//! Commands that are wrong: each gets its error, changes nothing, and the connection goes on.

use crate::client::{
    BLOCK, CACHE, Client, EINVAL, ENOSPC, EPERM, FLUSH, FUA, Form, READ, Reply, SIZE, STATUS, Served, TRIM,
    WRITE, ZEROES,
};
use lode_nbd::Export;
use lode_testing::volume::MemoryDevice;
use lode_volume::BlockDevice;
use std::io::Write;
use std::sync::Arc;

const FORMS: [Form; 3] = [Form::Simple, Form::Structured, Form::Extended];

#[test]
fn garbage_ends_the_connection_after_the_replies_before_it() {
    let served = Served::start();
    for form in FORMS {
        let mut client = served.client(form);
        let mut bytes = client.command(WRITE, 0, 5, 0, BLOCK as u64, &[7; BLOCK]);
        bytes.extend_from_slice(&[0xff; 4096]);
        client.stream.write_all(&bytes).unwrap();
        assert_eq!(client.reply(0), Reply { cookie: 5, error: 0, data: vec![] });
        assert!(client.is_ended());
    }
}

#[test]
fn unknown_commands_and_flags_are_refused() {
    let served = Served::start();
    for form in FORMS {
        let mut client = served.client(form);
        for code in [8, 9, 100, 0x7fff, u16::MAX] {
            assert_eq!(client.error(code, 0, 0, 512), EINVAL, "{form:?}: command {code}");
        }
        for code in [READ, FLUSH, TRIM, CACHE, ZEROES, STATUS] {
            let len = if code == FLUSH { 0 } else { BLOCK as u64 };
            assert_eq!(client.error(code, 1 << 15, 0, len), EINVAL, "{form:?}: flag of {code}");
        }
        client.write(0, &[7; BLOCK]);
        assert_eq!(client.read(0, BLOCK), [7; BLOCK]);
    }
}

#[test]
fn requests_past_the_end_change_nothing() {
    let served = Served::start();
    let content: Vec<u8> = (0..SIZE).map(|at| (at / 100) as u8 | 1).collect();
    for form in FORMS {
        let mut client = served.client(form);
        client.write(0, &content);
        let past = [
            (SIZE, 1),
            (SIZE - 1, 2),
            (SIZE - 512, 513),
            (0, SIZE + 1),
            (u64::MAX, 1),
            (u64::MAX - 511, 512),
        ];
        for (offset, len) in past {
            for (code, error) in
                [(READ, EINVAL), (TRIM, EINVAL), (CACHE, EINVAL), (STATUS, EINVAL), (ZEROES, ENOSPC)]
            {
                assert_eq!(client.error(code, 0, offset, len), error, "{form:?}: {code} at {offset}, {len}");
            }
            client.send_write(FUA, 4, offset, &vec![0; len as usize]);
            assert_eq!(client.reply(0), Reply { cookie: 4, error: ENOSPC, data: vec![] });
        }
        for code in [READ, TRIM, CACHE, STATUS, ZEROES] {
            assert_eq!(client.error(code, 0, 0, 0), EINVAL, "{form:?}: {code} of no bytes");
        }
        assert_eq!(client.read(0, SIZE as usize), content);
    }
    assert_eq!(served.device.bytes(), content);
}

#[test]
fn oversized_lengths_are_refused() {
    let served = Served::start();
    let before = served.device.bytes();
    for form in FORMS {
        let mut client = served.client(form);
        let long = (32 << 20) + 1;
        for len in [long, u64::from(u32::MAX)] {
            assert_eq!(client.error(READ, 0, 0, len), EINVAL, "{form:?}");
        }
        // The payload is thrown away as it comes, and the next command is found after it.
        let mut bytes = client.command(WRITE, 0, 6, 0, long, &[1]);
        bytes.resize(bytes.len() + long as usize - 1, 0xff);
        client.stream.write_all(&bytes).unwrap();
        assert_eq!(client.reply(0), Reply { cookie: 6, error: EINVAL, data: vec![] }, "{form:?}");
        assert_eq!(client.read(0, BLOCK), [0; BLOCK]);
    }
    let mut client = served.client(Form::Extended);
    for code in [READ, TRIM, CACHE, STATUS] {
        assert_eq!(client.error(code, 0, 0, u64::MAX), EINVAL);
        assert_eq!(client.error(code, 0, u64::MAX, u64::MAX), EINVAL);
    }
    // A payload of 2^64 - 1 bytes never ends, but is refused at once.
    let bytes = client.command(WRITE, 0, 6, 0, u64::MAX, &[1]);
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.reply(0).error, EINVAL);
    assert_eq!(served.device.bytes(), before);
}

/// With extended headers, the server can't know whether such a write has a payload. If it took the bytes after it for
/// commands, the content of a file could give commands.
#[test]
fn write_without_payload_flag_ends_the_connection() {
    let served = Served::start();
    let mut client = served.client(Form::Extended);
    let evil = client.command(ZEROES, 0, 8, 0, SIZE, &[]);
    client.write(0, &[7; SIZE as usize]);
    let mut bytes = client.command(WRITE, 0, 7, 0, evil.len() as u64, &[]);
    bytes.extend_from_slice(&evil);
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.reply(0), Reply { cookie: 7, error: EINVAL, data: vec![] });
    assert!(client.is_ended());
    assert_eq!(served.device.bytes(), [7; SIZE as usize]);
}

#[test]
fn read_only_exports_refuse_changes() {
    let device = Arc::new(MemoryDevice::new(BLOCK, 128));
    let export = Export::new("disk", Arc::clone(&device) as Arc<dyn BlockDevice>, true).unwrap();
    let served = Served::exports(device, vec![export]);
    for form in FORMS {
        let mut client = served.client(form);
        client.send_write(0, 4, 0, &[7; BLOCK]);
        assert_eq!(client.reply(0), Reply { cookie: 4, error: EPERM, data: vec![] });
        for code in [TRIM, ZEROES] {
            assert_eq!(client.error(code, 0, 0, SIZE), EPERM);
        }
        assert_eq!(client.error(FLUSH, 0, 0, 0), 0);
        assert_eq!(client.read(0, SIZE as usize), [0; SIZE as usize]);
    }
    assert_eq!(served.device.bytes(), [0; SIZE as usize]);
}

#[test]
fn disconnect_is_obeyed_after_the_replies_before_it() {
    let served = Served::start();
    let mut client: Client = served.client(Form::Simple);
    let mut bytes = client.command(WRITE, 0, 5, 0, BLOCK as u64, &[7; BLOCK]);
    bytes.extend_from_slice(&client.command(crate::client::DISC, 0, 6, 0, 0, &[]));
    client.stream.write_all(&bytes).unwrap();
    assert_eq!(client.reply(0).cookie, 5);
    assert!(client.is_ended());
}
