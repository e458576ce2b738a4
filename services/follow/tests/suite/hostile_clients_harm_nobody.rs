//! A client that has the right to read, and sends anything, ends its own connection at worst.

use crate::place::{HELLO, Place, read_to_end, send};
use lode_follow::{Connection, FollowError, Request, Response};
use lode_testing::{scaled, seed};
use serde_bytes::ByteBuf;
use std::fs::File;
use std::io::Write;
use std::ops::Bound;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

/// Connects with the proof, and reads the welcome.
fn welcomed(place: &Place) -> UnixStream {
    let mut stream = UnixStream::connect(place.socket()).unwrap();
    send(&stream, HELLO, &[File::open(place.path()).unwrap().as_fd()]);
    let mut hello = [0; 8];
    std::io::Read::read_exact(&mut stream, &mut hello).unwrap();
    assert_eq!(&hello, HELLO);
    assert!(matches!(Response::read(&mut stream), Ok(Some(Response::Welcome { .. }))));
    stream
}

#[test]
fn random_bytes_end_the_connection() {
    let place = Place::new();
    place.put(1, b"one");
    let server = place.serve();
    let good = place.connect();
    let mut random = fastrand::Rng::with_seed(seed(1));
    for round in 0..scaled(100) {
        let mut stream = welcomed(&place);
        let mut bytes = vec![0; random.usize(..300)];
        random.fill(&mut bytes);
        if round % 2 == 0 {
            // A frame of the right length, so that the message itself is decoded.
            bytes.splice(..0, (bytes.len() as u64).to_le_bytes());
        }
        // The server may have ended the connection already.
        let _ = stream.write_all(&bytes);
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        read_to_end(&stream);
    }
    assert_eq!(good.get(good.root(), &1u32.to_be_bytes()).unwrap().as_deref(), Some(&b"one"[..]));
    drop(good);
    place.wait_for_snapshots(0);
    drop(server);
}

#[test]
fn hostile_frames_are_refused() {
    let place = Place::new();
    let server = place.serve();
    let long = (1u64 << 40).to_le_bytes();
    let request = [&9u64.to_le_bytes()[..], &[2, 0, 255, 255, 255, 255, 255, 255, 255]].concat();
    // A request that is right, and a byte after its end.
    let trailed = [2, 0, 0, 0, 0, 0, 0, 0, 1, 0];
    for bytes in [&long[..], &u64::MAX.to_le_bytes(), &[1, 0, 0, 0, 0, 0, 0, 0, 200], &request, &trailed] {
        let mut stream = welcomed(&place);
        stream.write_all(bytes).unwrap();
        let refused = Response::read(&mut stream).unwrap();
        assert!(matches!(refused, Some(Response::Failed { .. })), "{refused:?}");
        assert_eq!(Response::read(&mut stream).unwrap(), None, "the server has ended the connection");
    }
    // A frame that is never completed keeps its snapshot, until the client ends.
    let mut cut = welcomed(&place);
    cut.write_all(&[100, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3]).unwrap();
    place.wait_for_snapshots(1);
    drop(cut);
    place.wait_for_snapshots(0);
    drop(server);
}

/// Requests that name anything as a tree are answered, by an error or with what lies there.
#[test]
fn requests_for_any_offset_are_answered() {
    let place = Place::new();
    (0..500).for_each(|key| place.put(key, b"a value of some length"));
    let server = place.serve();
    let mut stream = welcomed(&place);
    let mut random = fastrand::Rng::with_seed(seed(2));
    let (root, size) = (place.pool.heap().root().unwrap().get(), 1 << 20);
    for _ in 0..scaled(3_000) {
        let at = match random.u8(..4) {
            0 => root,
            1 => random.u64(..),
            _ => random.u64(..size) & !7,
        };
        let key = ByteBuf::from(random.u32(..500).to_be_bytes());
        let request = match random.u8(..6) {
            0 => Request::Get { root: at, key },
            1 => Request::Count { root: at },
            2 => Request::Read { at, len: random.u32(..) },
            3 => Request::Tree { name: "stones".into() },
            4 => Request::Stats,
            _ => {
                let (from, to) = (Bound::Included(key.clone()), Bound::Excluded(key));
                let from = if random.bool() { from } else { Bound::Unbounded };
                let to = if random.bool() { to } else { Bound::Unbounded };
                Request::Scan { root: at, from, to, is_reverse: random.bool(), entries_max: random.u32(..) }
            }
        };
        request.write(&mut stream).unwrap();
        assert!(Response::read(&mut stream).unwrap().is_some(), "{request:?} is answered");
    }
    drop(server);
}

#[test]
fn connections_are_bounded() {
    let place = Place::new();
    let server = place.serve();
    let mut open: Vec<Connection> = (0..64).map(|_| place.connect()).collect();
    let refused = Connection::open(place.path());
    assert!(matches!(refused, Err(FollowError::Failed { .. })), "{refused:?}");
    open.pop();
    place.wait_for_snapshots(63);
    // The connection counts for a moment longer than its snapshot.
    let again = (0..1000).find_map(|_| Connection::open(place.path()).ok().flatten());
    assert!(again.is_some());
    drop(server);
    assert!(open[0].count(open[0].root()).is_err_and(|error| error.is_snapshot_ended()));
}

/// A client that reads nothing of a long answer holds up neither writers, nor other readers, nor the end of the server.
#[test]
fn stalled_reader_blocks_nobody() {
    let place = Place::new();
    place.put(7, &vec![7; 4 << 20]);
    let server = place.serve();
    let stalled = welcomed(&place);
    let root = place.pool.heap().root().unwrap().get();
    Request::Get { root, key: ByteBuf::from(7u32.to_be_bytes()) }.write(&mut &stalled).unwrap();
    let other = place.connect();
    (0..1_000).for_each(|key| place.put(key + 10, b"value"));
    assert_eq!(other.count(other.root()).unwrap(), 1);
    assert_eq!(other.get(other.root(), &7u32.to_be_bytes()).unwrap().unwrap().len(), 4 << 20);
    drop(server);
    assert_eq!(place.pool.heap().snapshot_stats().open, 0);
}
