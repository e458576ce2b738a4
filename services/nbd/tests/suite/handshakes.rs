//! The handshake: names, unknown and malformed options, and clients that speak another protocol.

use crate::client::{
    ACK, BLOCK, BLOCKS, Client, ERR_INVALID, ERR_TOO_BIG, ERR_UNKNOWN, ERR_UNSUP, Form, OPT_ABORT,
    OPT_EXPORT_NAME, OPT_EXTENDED_HEADERS, OPT_GO, OPT_INFO, OPT_LIST, OPT_SET_META_CONTEXT,
    OPT_STRUCTURED_REPLY, SIZE, STATUS, Served,
};
use lode_nbd::Export;
use lode_testing::volume::MemoryDevice;
use lode_volume::BlockDevice;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// The data of INFO and GO for an export, without wanted information.
fn named(name: &str) -> Vec<u8> {
    [&(name.len() as u32).to_be_bytes(), name.as_bytes(), &[0, 0]].concat()
}

#[test]
fn garbage_ends_the_connection() {
    let served = Served::start();
    for garbage in [&b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..], &[0xff; 4096], &[0; 4096]] {
        let mut stream = UnixStream::connect(served.socket()).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        // The server may have ended the connection before all of it is written.
        let _ = stream.write_all(garbage);
        assert!(Client { stream, form: Form::Simple }.is_ended());
    }
    let mut client = served.greeted();
    client.stream.write_all(&[b'x'; 16]).unwrap();
    assert!(client.is_ended(), "an option without its first word");
    let mut client = Client::greeted(UnixStream::connect(served.socket()).unwrap(), 1 << 31);
    assert!(client.is_ended(), "an unknown flag");
    served.client(Form::Simple).write(0, &[7; BLOCK]);
}

#[test]
fn half_a_handshake_ends_the_connection() {
    let served = Served::start();
    let whole = [&b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x06"[..], &[0; 6]].concat();
    for len in 0..whole.len() {
        let mut stream = UnixStream::connect(served.socket()).unwrap();
        stream.read_exact(&mut [0; 18]).unwrap();
        stream.write_all(&whole[..len]).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert!(Client { stream, form: Form::Simple }.is_ended(), "after {len} bytes");
    }
}

#[test]
fn bad_options_are_answered_and_the_next_one_works() {
    let served = Served::start();
    let mut client = served.greeted();
    let refused = |client: &mut Client, code, data: &[u8]| {
        let replies = client.ask(code, data);
        assert_eq!(replies.len(), 1, "{replies:?}");
        replies[0].0
    };
    for code in [0, 4, 5, 12, 0x7fff_ffff, u32::MAX] {
        assert_eq!(refused(&mut client, code, b"data"), ERR_UNSUP, "option {code}");
    }
    for code in [OPT_LIST, OPT_STRUCTURED_REPLY, OPT_EXTENDED_HEADERS] {
        assert_eq!(refused(&mut client, code, b"data"), ERR_INVALID, "option {code} has no data");
    }
    for data in
        [&b""[..], b"\0\0\0\x05disk\0\0", b"\xff\xff\xff\xff\0\0", b"\0\0\0\0\0\x02\0\0", b"\0\0\0\0\0\0\0"]
    {
        assert_eq!(refused(&mut client, OPT_GO, data), ERR_INVALID, "{data:?}");
    }
    assert_eq!(refused(&mut client, OPT_SET_META_CONTEXT, &named("disk")), ERR_INVALID);
    assert_eq!(refused(&mut client, 77, &vec![1; 100_000]), ERR_TOO_BIG);
    assert_eq!(refused(&mut client, OPT_LIST, &vec![1; 1 << 20]), ERR_TOO_BIG);
    client.choose(Form::Structured);
    client.write(0, &[7; BLOCK]);
}

#[test]
fn options_without_end_are_given_up() {
    let served = Served::start();
    let mut client = served.greeted();
    let option = b"IHAVEOPT\0\0\0\x4d\0\0\0\0";
    let mut reading = client.stream.try_clone().unwrap();
    let replies = std::thread::spawn(move || {
        let mut replies = Vec::new();
        // It ends with an error if the server has not read all options.
        let _ = reading.read_to_end(&mut replies);
        replies.len() / 20
    });
    while client.stream.write_all(option).is_ok() {}
    assert!(replies.join().unwrap() >= 1000);
}

#[test]
fn exports_are_found_by_name() {
    let device = |count| Arc::new(MemoryDevice::new(BLOCK, count));
    let export = |name: &str, device: &Arc<MemoryDevice>| {
        Export::new(name, Arc::clone(device) as Arc<dyn BlockDevice>, false).unwrap()
    };
    let (one, two) = (device(BLOCKS), device(7));
    let served = Served::exports(Arc::clone(&one), vec![export("one", &one), export("zwei/ü", &two)]);
    let mut client = served.greeted();
    let names = client.ask(OPT_LIST, &[]);
    let expected = [(2, b"\0\0\0\x03one".to_vec()), (2, "\0\0\0\x07zwei/ü".into()), (ACK, vec![])];
    assert_eq!(names, expected);
    let size = |client: &mut Client, name: &str| {
        let replies = client.ask(OPT_INFO, &named(name));
        (replies[0].0 == 3).then(|| u64::from_be_bytes(replies[0].1[2..10].try_into().unwrap()))
    };
    assert_eq!(size(&mut client, "one"), Some(SIZE));
    assert_eq!(size(&mut client, "zwei/ü"), Some(7 * BLOCK as u64));
    assert_eq!(size(&mut client, ""), Some(SIZE), "the first one is the default");
    for unknown in ["two", "on", "one\0", "zwei"] {
        assert_eq!(client.ask(OPT_GO, &named(unknown))[0].0, ERR_UNKNOWN, "{unknown}");
    }
    // Canonical name and sizes of requests.
    let wanted = b"\0\0\0\0\0\x02\0\x01\0\x03";
    let replies = client.ask(OPT_INFO, wanted);
    assert_eq!(replies[1], (3, b"\0\x01one".to_vec()));
    assert_eq!(replies[2], (3, b"\0\x03\0\0\0\x01\0\0\x02\0\x02\0\0\0".to_vec()));
    assert_eq!(client.ask(OPT_ABORT, &[]), [(ACK, vec![])]);
    assert!(client.is_ended());
}

/// Block status for another export than the chosen one is not negotiated.
#[test]
fn block_status_belongs_to_its_export() {
    let device = Arc::new(MemoryDevice::new(BLOCK, BLOCKS));
    let export = |name: &str| Export::new(name, Arc::clone(&device) as Arc<dyn BlockDevice>, false).unwrap();
    let served = Served::exports(Arc::clone(&device), vec![export("one"), export("two")]);
    for (name, error) in [("one", 0), ("two", 22)] {
        let mut client = served.greeted();
        client.ask(OPT_STRUCTURED_REPLY, &[]);
        let query = b"\0\0\0\x03one\0\0\0\x01\0\0\0\x0fbase:allocation";
        assert_eq!(client.ask(OPT_SET_META_CONTEXT, query).len(), 2);
        client.ask(OPT_GO, &named(name));
        client.form = Form::Structured;
        assert_eq!(client.error(STATUS, 0, 0, SIZE), error, "{name}");
    }
}

/// A client that asks again has given up the first choice, whatever the answer is.
#[test]
fn failed_choice_of_block_status_is_no_choice() {
    let served = Served::start();
    let query = b"\0\0\0\0\0\0\0\x01\0\0\0\x0fbase:allocation";
    for again in [&b"malformed"[..], &[0; 100_000], b"\0\0\0\x04none\0\0\0\0", b"\0\0\0\0\0\0\0\0"] {
        let mut client = served.greeted();
        client.ask(OPT_STRUCTURED_REPLY, &[]);
        assert_eq!(client.ask(OPT_SET_META_CONTEXT, query).len(), 2);
        assert_eq!(client.ask(OPT_SET_META_CONTEXT, again).len(), 1);
        client.ask(OPT_GO, &named(""));
        client.form = Form::Structured;
        assert_eq!(client.error(STATUS, 0, 0, SIZE), 22, "{} bytes", again.len());
    }
}

#[test]
fn export_name_has_no_other_answer_than_the_export() {
    let served = Served::start();
    for (flags, zeros) in [(3, 0), (1, 124), (0, 124)] {
        let mut client = Client::greeted(UnixStream::connect(served.socket()).unwrap(), flags);
        client.send_option(OPT_EXPORT_NAME, b"disk");
        assert_eq!(client.u64(), SIZE);
        let mut rest = vec![1; 2 + zeros];
        client.stream.read_exact(&mut rest).unwrap();
        assert!(rest[1] & 1 == 1 && rest[2..].iter().all(|byte| *byte == 0));
        client.write(512, &[7; BLOCK]);
    }
    // An error has no form here.
    for name in [vec![b'x'; 4], vec![b'x'; 5000], vec![b'x'; 100_000]] {
        let mut client = served.greeted();
        client.send_option(OPT_EXPORT_NAME, &name);
        assert!(client.is_ended(), "a name of {} bytes", name.len());
    }
}
