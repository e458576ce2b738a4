//! A check finds every flipped bit in a header copy without writing, and a repair uses the other copy. If no copy is
//! certainly right, repair refuses instead of guessing.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_layout::{Durability, Geometry, Header, HeaderError, LayoutName, PoolOffset, header};
use lode_pmem::{Counted, Counts, Medium};
use lode_pool::{
    Damage, HeaderCopy, HeaderCopyError, Headers, PoolError, check_headers, format, repair_headers,
};
use lode_testing::memory;
use uuid::Uuid;

const SIZE: u64 = Geometry::SIZE_MIN;
const COPIES: [HeaderCopy; 2] = [HeaderCopy::A, HeaderCopy::B];

fn pool(uuid: u128, updates: usize) -> Vec<u8> {
    let layout = LayoutName::new("kv").unwrap();
    let geometry = Geometry::plan(SIZE).unwrap();
    let header = Header::new(Uuid::from_u128(uuid), layout, geometry, Durability::Line, 1);
    let medium = memory::persistent(SIZE);
    let mut headers = format(&medium, header, |_, _| Ok::<(), PoolError>(())).unwrap();
    for durability in [Durability::None, Durability::Commit].into_iter().cycle().take(updates) {
        headers.force_durability(&medium, durability).unwrap();
    }
    memory::bytes(&medium)
}

fn copy_from(target: &mut [u8], source: &[u8], copy: HeaderCopy) {
    let at = copy.at().get() as usize;
    target[at..at + header::LEN].copy_from_slice(&source[at..at + header::LEN]);
}

/// A file cut short loses the page of the second copy, as a module loses a line.
#[test]
fn update_of_lost_memory_fails() {
    let good = pool(1, 1);
    let (file, medium) = memory::file(good.len() as u64);
    medium.store(PoolOffset::NULL, &good);
    let mut headers = Headers::read(&medium).unwrap();
    file.set_len(HeaderCopy::B.at().get()).unwrap();
    let changed = headers.force_durability(&medium, Durability::Commit);
    assert!(matches!(changed, Err(PoolError::Memory { .. })), "{changed:?}");
    let again = headers.force_durability(&medium, Durability::Line);
    assert!(matches!(again, Err(PoolError::Memory { .. } | PoolError::Poisoned)), "{again:?}");
    // One copy is whole, the old one or the new one.
    assert!(HeaderCopy::A.read(&medium).is_ok());
}

#[test]
fn flipped_bits_of_either_copy_are_found() {
    let good = pool(1, 0);
    let medium = memory::from_bytes(&good);
    assert_eq!(check_headers(&medium), []);
    assert_eq!(repair_headers(&medium).unwrap(), None);
    let whole = *Headers::read(&medium).unwrap().current();
    for copy in COPIES {
        for bit in 0..header::LEN * 8 {
            let at = copy.at().get() + bit as u64 / 8;
            let flipped = good[at as usize] ^ 1 << (bit % 8);
            medium.memory().store(PoolOffset::new(at), &[flipped]);
            let damage = check_headers(&medium);
            assert!(
                matches!(damage[..], [Damage::Copy { copy: found, .. }] if found == copy),
                "bit {bit} of copy {copy}: {damage:?}"
            );
            if bit % 97 == 0 {
                // Opening uses the other copy, and reports the damage.
                let headers = Headers::read(&medium).unwrap();
                assert_eq!((headers.current(), headers.damage().unwrap().0), (&whole, copy));
                assert_eq!(repair_headers(&medium).unwrap(), Some(copy));
                assert!(memory::bytes(&medium) == good, "bit {bit} of copy {copy} was not repaired");
            }
            medium.memory().store(PoolOffset::new(at), &good[at as usize..][..1]);
        }
    }
}

#[test]
fn check_never_writes() {
    let mut bytes = pool(1, 0);
    bytes[40] ^= 1;
    let medium = Counted::new(memory::from_bytes(&bytes));
    assert_eq!(check_headers(&medium).len(), 1);
    Headers::read(&medium).unwrap();
    assert!(memory::bytes(&medium) == bytes && medium.counts() == Counts::default());
}

#[test]
fn two_corrupt_copies_are_refused() {
    let mut bytes = pool(1, 0);
    bytes[100] ^= 1;
    bytes[0x1000 + 200] ^= 1;
    let medium = Counted::new(memory::from_bytes(&bytes));
    assert!(matches!(
        check_headers(&medium)[..],
        [Damage::Copy { copy: HeaderCopy::A, .. }, Damage::Copy { copy: HeaderCopy::B, .. }]
    ));
    for error in [Headers::read(&medium).unwrap_err(), repair_headers(&medium).unwrap_err()] {
        let PoolError::Headers {
            a: HeaderCopyError::Invalid(HeaderError::Checksum { .. }),
            b: HeaderCopyError::Invalid(HeaderError::Checksum { .. }),
        } = error
        else {
            panic!("{error}")
        };
        assert!(
            error.to_string().ends_with("no copy is left to repair from: restore the pool from a backup")
        );
    }
    assert!(memory::bytes(&medium) == bytes && medium.counts() == Counts::default());
}

#[test]
fn newer_copy_wins_and_stale_copy_is_clean() {
    let (old, new) = (pool(1, 1), pool(1, 2));
    for behind in COPIES {
        let mut bytes = new.clone();
        copy_from(&mut bytes, &old, behind);
        let medium = memory::from_bytes(&bytes);
        assert_eq!(check_headers(&medium), []);
        let mut headers = Headers::read(&medium).unwrap();
        assert!(headers.is_stale());
        assert_eq!(headers.current().durability_forced, Some(Durability::Commit));
        headers.complete_update(&medium).unwrap();
        assert!(!headers.is_stale() && memory::bytes(&medium) == new);
    }
}

#[test]
fn conflicting_copies_are_refused() {
    let (one, two) = (pool(1, 1), pool(2, 2));
    let mut bytes = one.clone();
    copy_from(&mut bytes, &two, HeaderCopy::B);
    let medium = memory::from_bytes(&bytes);
    let (a, b) = (Uuid::from_u128(1), Uuid::from_u128(2));
    assert_eq!(check_headers(&medium), [Damage::TwoPools { a, b }]);
    assert!(matches!(Headers::read(&medium), Err(PoolError::TwoPools { .. })));
    assert!(matches!(repair_headers(&medium), Err(PoolError::TwoPools { .. })));

    let mut differing = *Headers::read(&memory::from_bytes(&one)).unwrap().current();
    differing.created = 2;
    bytes[..header::LEN].copy_from_slice(&one[..header::LEN]);
    bytes[0x1000..0x2000].copy_from_slice(&differing.encode());
    let medium = memory::from_bytes(&bytes);
    assert_eq!(check_headers(&medium), [Damage::CopiesDiffer { generation: 2 }]);
    assert!(matches!(Headers::read(&medium), Err(PoolError::CopiesDiffer { generation: 2 })));
    assert!(matches!(repair_headers(&medium), Err(PoolError::CopiesDiffer { .. })));
    assert!(memory::bytes(&medium) == bytes);
}

#[test]
fn incompatible_copy_is_not_overruled() {
    let good = pool(1, 0);
    // Byte order: the mark reads backwards. Format: 2. Features: one that this code does not know.
    let changes: [(usize, &[u8]); 3] = [(8, &[1, 2, 3, 4, 5, 6, 7, 8]), (0x10, &[2]), (0x18, &[1])];
    for (at, new) in changes {
        for copy in COPIES {
            let mut bytes = good.clone();
            let start = copy.at().get() as usize;
            bytes[start + at..][..new.len()].copy_from_slice(new);
            fix_checksum(&mut bytes[start..start + header::LEN]);
            let medium = memory::from_bytes(&bytes);
            assert_eq!(check_headers(&medium).len(), 1);
            for error in [Headers::read(&medium).unwrap_err(), repair_headers(&medium).unwrap_err()] {
                assert!(
                    matches!(error, PoolError::Incompatible { copy: found, .. } if found == copy),
                    "{error}"
                );
            }
            assert!(memory::bytes(&medium) == bytes);
        }
    }
}

#[test]
fn truncated_pool_is_found() {
    let good = pool(1, 0);
    let found = SIZE - 4096;
    let medium = memory::from_bytes(&good[..found as usize]);
    assert_eq!(check_headers(&medium), [Damage::Truncated { want: SIZE, found }]);
    let error = Headers::read(&medium).unwrap_err();
    assert!(matches!(error, PoolError::Truncated { want: SIZE, .. }), "{error}");
    assert_eq!(repair_headers(&medium).unwrap(), None);
    for len in [1, 4095, 4096, 5000, 8191] {
        let medium = memory::from_bytes(&good[..len]);
        assert!(!check_headers(&medium).is_empty(), "{len} bytes");
        assert!(Headers::read(&medium).is_err(), "{len} bytes");
    }
}

#[test]
fn unknown_ro_compat_features_refuse_writers() {
    let mut bytes = pool(1, 0);
    for copy in COPIES {
        let start = copy.at().get() as usize;
        bytes[start + 0x20] = 1;
        bytes[start + 0x900] = 1;
        fix_checksum(&mut bytes[start..start + header::LEN]);
    }
    let medium = Counted::new(memory::from_bytes(&bytes));
    let mut headers = Headers::read(&medium).unwrap();
    let error = headers.force_durability(&medium, Durability::Byte).unwrap_err();
    assert!(matches!(error, PoolError::UnknownRoCompat { unknown: 1 }), "{error}");
    assert!(memory::bytes(&medium) == bytes && medium.counts() == Counts::default());
}

/// Writes a valid checksum to changed bytes.
fn fix_checksum(copy: &mut [u8]) {
    let (body, crc) = copy.split_at_mut(header::LEN - 4);
    let sum = crc32c::crc32c_append(crc32c::crc32c(body), &[0; 4]);
    crc.copy_from_slice(&sum.to_le_bytes());
}
