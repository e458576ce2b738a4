//! Structured and extended replies, decoded by hand: Debian 12's clients do not speak extended headers.

use crate::client::{
    ACK, BLOCK, EINVAL, ERR_INVALID, FLUSH, Form, OPT_EXPORT_NAME, OPT_EXTENDED_HEADERS, OPT_GO,
    OPT_STRUCTURED_REPLY, READ, REQ_ONE, SIZE, STATUS, Served, WRITE, ZEROES,
};
use std::io::Read;

#[track_caller]
fn expect(client: &mut crate::client::Client, expected: &[&[u8]]) {
    let expected = expected.concat();
    let mut bytes = vec![0; expected.len()];
    client.stream.read_exact(&mut bytes).unwrap();
    assert_eq!(bytes, expected);
}

#[test]
fn structured_replies_have_their_exact_bytes() {
    let served = Served::start();
    let mut client = served.client(Form::Structured);
    client.send(READ, 0, 0x0102_0304_0506_0708, 512, 3);
    let cookie = b"\x01\x02\x03\x04\x05\x06\x07\x08";
    expect(&mut client, &[b"\x66\x8e\x33\xef\0\x01\0\x01", cookie, b"\0\0\0\x0b\0\0\0\0\0\0\x02\0\0\0\0"]);
    client.send_write(0, 1, 512, &[7; BLOCK]);
    expect(&mut client, &[b"\x67\x44\x66\x98\0\0\0\0", b"\0\0\0\0\0\0\0\x01"]);
    client.send(STATUS, 0, 2, 0, 2048);
    let head: &[u8] = b"\x66\x8e\x33\xef\0\x01\0\x05\0\0\0\0\0\0\0\x02";
    let extents: &[u8] = b"\0\0\x02\0\0\0\0\x03\0\0\x02\0\0\0\0\0\0\0\x04\0\0\0\0\x03";
    expect(&mut client, &[head, b"\0\0\0\x1c\0\0\0\x01", extents]);
    // Parts of blocks, one extent.
    client.send(STATUS, REQ_ONE, 2, 600, 3000);
    expect(&mut client, &[head, b"\0\0\0\x0c\0\0\0\x01", b"\0\0\x01\xa8\0\0\0\0"]);
}

#[test]
fn extended_replies_have_their_exact_bytes() {
    let served = Served::start();
    let mut client = served.client(Form::Extended);
    let head = |kind: &[u8], cookie: u8, offset: u64, len: u64| {
        let cookie = u64::from(cookie).to_be_bytes();
        [b"\x6e\x8a\x27\x8c\0\x01", kind, &cookie, &offset.to_be_bytes(), &len.to_be_bytes()].concat()
    };
    client.send(READ, 0, 9, 512, 3);
    expect(&mut client, &[&head(&[0, 1], 9, 512, 11), b"\0\0\0\0\0\0\x02\0\0\0\0"]);
    client.send_write(0, 1, 512, &[7; BLOCK]);
    expect(&mut client, &[&head(&[0, 0], 1, 512, 0)]);
    client.send(FLUSH, 0, 2, 0, 0);
    expect(&mut client, &[&head(&[0, 0], 2, 0, 0)]);
    client.send(STATUS, 0, 3, 512, 1024);
    let extents: &[u8] = b"\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0\x03";
    expect(&mut client, &[&head(&[0, 6], 3, 512, 40), b"\0\0\0\x01\0\0\0\x02", extents]);
    client.send(ZEROES, 0, 4, 0, SIZE);
    expect(&mut client, &[&head(&[0, 0], 4, 0, 0)]);
    client.send(READ, 0, 5, SIZE, 1);
    let message = b"the command, its flags or its range are wrong";
    let len = message.len() as u8;
    let error = [&[0, 0, 0, EINVAL as u8, 0, len], &message[..]].concat();
    expect(&mut client, &[&head(&[0x80, 1], 5, SIZE, 6 + u64::from(len)), &error]);
}

/// The protocol: extended headers replace structured replies, and neither is asked for again. qemu answers the same.
#[test]
fn forms_are_chosen_once() {
    let served = Served::start();
    let mut client = served.greeted();
    assert_eq!(client.ask(OPT_STRUCTURED_REPLY, &[])[0].0, ACK);
    assert_eq!(client.ask(OPT_STRUCTURED_REPLY, &[])[0].0, ERR_INVALID);
    assert_eq!(client.ask(OPT_EXTENDED_HEADERS, &[])[0].0, ACK);
    assert_eq!(client.ask(OPT_EXTENDED_HEADERS, &[])[0].0, ERR_INVALID);
    // REP_ERR_EXT_HEADER_REQD
    assert_eq!(client.ask(OPT_STRUCTURED_REPLY, &[])[0].0, 0x8000_000a);
    client.ask(OPT_GO, b"\0\0\0\0\0\0");
    client.form = Form::Extended;
    client.write(0, &[1; BLOCK]);
    // A client with extended headers must not use the option without a form of errors.
    let mut client = served.greeted();
    assert_eq!(client.ask(OPT_EXTENDED_HEADERS, &[])[0].0, ACK);
    client.send_option(OPT_EXPORT_NAME, b"disk");
    assert!(client.is_ended());
    let mut client = served.greeted();
    assert_eq!(client.ask(OPT_STRUCTURED_REPLY, &[])[0].0, ACK);
    client.send_option(OPT_EXPORT_NAME, b"disk");
    assert_eq!(client.u64(), SIZE);
}

#[test]
fn forms_are_not_taken_back() {
    let served = Served::start();
    let mut client = served.client(Form::Extended);
    client.write(0, &[1; BLOCK]);
    // The old form of a command is garbage now.
    client.form = Form::Simple;
    client.send(WRITE, 0, 1, 0, 0);
    client.send(WRITE, 0, 1, 0, 0);
    assert!(client.is_ended());
}
