//! Pools that another version or another kind of machine wrote: a clear error, and nothing is written.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, lode};
use lode_layout::header;
use std::fs;

/// Offsets of the copies of the header.
const COPIES: [usize; 2] = [0, header::LEN];
/// Fields that keep their place in every version.
const ENDIAN_MARK: usize = 0x08;
const MAJOR: usize = 0x10;
const INCOMPAT: usize = 0x18;
const RO_COMPAT: usize = 0x20;

const READS: [&[&str]; 5] =
    [&["pool", "info"], &["pool", "stats"], &["pool", "check"], &["kv", "count"], &["kv", "export"]];
/// Arguments before and after the pool.
const WRITES: [(&[&str], &[&str]); 5] = [
    (&["kv", "put"], &["k", "w"]),
    (&["kv", "delete"], &["k"]),
    (&["kv", "load"], &["/dev/null"]),
    (&["pool", "grow"], &["--size", "16MiB"]),
    (&["pool", "repair"], &[]),
];

/// Returns a pool with a key, after a change of both copies of its header with valid checksums, and its bytes.
fn with_changed_headers(change: impl Fn(&mut [u8])) -> (PoolFixture, Vec<u8>) {
    let fixture = PoolFixture::new();
    lode(["kv", "put", fixture.pool(), "k", "v"]).success();
    let mut bytes = fs::read(&fixture.pool).unwrap();
    for at in COPIES {
        let copy = &mut bytes[at..at + header::LEN];
        change(copy);
        let (content, crc) = copy.split_at_mut(header::LEN - 4);
        crc.copy_from_slice(&crc32c::crc32c_append(crc32c::crc32c(content), &[0; 4]).to_le_bytes());
    }
    fs::write(&fixture.pool, &bytes).unwrap();
    (fixture, bytes)
}

fn reads(pool: &str) -> Vec<Vec<&str>> {
    READS.iter().map(|words| words.iter().copied().chain([pool]).collect()).collect()
}

fn writes(pool: &str) -> Vec<Vec<&str>> {
    let words = |(before, after): &(&[&'static str], &[&'static str])| {
        before.iter().copied().chain([pool]).chain(after.iter().copied()).collect()
    };
    WRITES.iter().map(words).collect()
}

/// Asserts that every command refuses the pool with these messages.
#[track_caller]
fn assert_all_reject(change: impl Fn(&mut [u8]), why: &[&str]) {
    let (fixture, bytes) = with_changed_headers(change);
    for arguments in reads(fixture.pool()).into_iter().chain(writes(fixture.pool())) {
        let error = lode(&arguments).failure(1, why);
        assert!(error.contains(fixture.pool()), "{arguments:?}: {error}");
        assert!(fs::read(&fixture.pool).unwrap() == bytes, "{arguments:?} wrote");
    }
}

#[test]
fn other_byte_order_is_rejected() {
    let turn = |copy: &mut [u8]| copy[ENDIAN_MARK..ENDIAN_MARK + 8].reverse();
    assert_all_reject(turn, &["export its content on the machine that made it"]);
}

#[test]
fn future_major_version_is_rejected() {
    let why = ["has format 9.", "use the version of Lodestone that made the pool, or a newer one"];
    assert_all_reject(|copy| copy[MAJOR] = 9, &why);
}

/// A pool of a format before the first one that is kept.
#[test]
fn older_major_version_is_rejected() {
    let why =
        ["has format 0.", "export its content with the version of Lodestone that made it", "a new pool"];
    assert_all_reject(|copy| copy[MAJOR] = 0, &why);
}

#[test]
fn unknown_incompat_features_are_rejected() {
    let why = ["features", "0x20", "use the version of Lodestone that made the pool, or a newer one"];
    assert_all_reject(|copy| copy[INCOMPAT] = 0x20, &why);
}

#[test]
fn unknown_ro_compat_features_reject_writers() {
    let (fixture, bytes) = with_changed_headers(|copy| copy[RO_COMPAT + 1] = 1);
    for arguments in reads(fixture.pool()) {
        lode(&arguments).success();
    }
    assert_eq!(lode(["kv", "get", fixture.pool(), "k"]).success(), "v\n");
    for arguments in writes(fixture.pool()) {
        lode(&arguments).failure(1, &[fixture.pool(), "can't write: 0x100", "open it for reading"]);
        assert!(fs::read(&fixture.pool).unwrap() == bytes, "{arguments:?} wrote");
    }
}
