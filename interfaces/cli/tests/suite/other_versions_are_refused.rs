//! Pools that another version or another kind of machine wrote: a clear error, and nothing is written.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::run::{Place, lode};
use lode_layout::header;
use std::fs;

/// Where the copies of the header are.
const COPIES: [usize; 2] = [0, header::LEN];
/// Fields that keep their place in every version.
const ENDIAN_MARK: usize = 0x08;
const MAJOR: usize = 0x10;
const INCOMPAT: usize = 0x18;
const RO_COMPAT: usize = 0x20;

const READS: [&[&str]; 5] =
    [&["pool", "info"], &["pool", "stats"], &["pool", "check"], &["kv", "count"], &["kv", "export"]];
/// Words before and after the pool.
const WRITES: [(&[&str], &[&str]); 5] = [
    (&["kv", "put"], &["k", "w"]),
    (&["kv", "delete"], &["k"]),
    (&["kv", "load"], &["/dev/null"]),
    (&["pool", "grow"], &["--size", "16MiB"]),
    (&["pool", "repair"], &[]),
];

/// A pool with a key, both copies of whose header were then changed and sealed.
fn changed(change: impl Fn(&mut [u8])) -> (Place, Vec<u8>) {
    let place = Place::new();
    lode(["kv", "put", place.pool(), "k", "v"]).good();
    let mut bytes = fs::read(&place.pool).unwrap();
    for at in COPIES {
        let copy = &mut bytes[at..at + header::LEN];
        change(copy);
        let (content, crc) = copy.split_at_mut(header::LEN - 4);
        crc.copy_from_slice(&crc32c::crc32c_append(crc32c::crc32c(content), &[0; 4]).to_le_bytes());
    }
    fs::write(&place.pool, &bytes).unwrap();
    (place, bytes)
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

/// Every command refuses the pool and says these things.
#[track_caller]
fn all_refuse(change: impl Fn(&mut [u8]), why: &[&str]) {
    let (place, bytes) = changed(change);
    for arguments in reads(place.pool()).into_iter().chain(writes(place.pool())) {
        let error = lode(&arguments).fails(1, why);
        assert!(error.contains(place.pool()), "{arguments:?}: {error}");
        assert!(fs::read(&place.pool).unwrap() == bytes, "{arguments:?} wrote");
    }
}

#[test]
fn a_pool_of_a_machine_with_the_other_byte_order() {
    let turn = |copy: &mut [u8]| copy[ENDIAN_MARK..ENDIAN_MARK + 8].reverse();
    all_refuse(turn, &["export its content on the machine that made it"]);
}

#[test]
fn a_pool_of_a_future_format() {
    let why = ["has format 9.", "use the version of Lodestone that made the pool, or a newer one"];
    all_refuse(|copy| copy[MAJOR] = 9, &why);
}

#[test]
fn a_pool_with_features_that_nobody_may_ignore() {
    let why = ["features", "0x20", "use the version of Lodestone that made the pool, or a newer one"];
    all_refuse(|copy| copy[INCOMPAT] = 0x20, &why);
}

#[test]
fn a_pool_with_features_that_a_writer_must_know() {
    let (place, bytes) = changed(|copy| copy[RO_COMPAT + 1] = 1);
    for arguments in reads(place.pool()) {
        lode(&arguments).good();
    }
    assert_eq!(lode(["kv", "get", place.pool(), "k"]).good(), "v\n");
    for arguments in writes(place.pool()) {
        lode(&arguments).fails(1, &[place.pool(), "can't write: 0x100", "open it for reading"]);
        assert!(fs::read(&place.pool).unwrap() == bytes, "{arguments:?} wrote");
    }
}
