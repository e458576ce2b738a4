//! Pools that the library refuses for what their header says: the same errno, and a message that begins with Debian's words.

use lode_capi_compare::{Library, Program, SetFolder, assert_same_under_limits};
use lode_layout::store_pmdk_checksum;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes of a header.
const LEN: usize = 4096;

/// Fields of the header, by their offsets, and the bytes in the place of theirs.
const CHANGES: &[(&str, usize, &[&[u8]])] = &[
    ("signature", 0, &[b"PMEMOBJX", b"PMEMLOG\0", b"PMEMBLK\0", b"XXXXXXXX"]),
    ("major", 8, &[&[0], &[1], &[2], &[3], &[4], &[5], &[7], &[6, 1], &[255, 255, 255, 255]]),
    ("compat", 12, &[&[0], &[2], &[3], &[0, 0, 0, 128], &[255, 255, 255, 255]]),
    ("incompat", 16, &[&[8], &[14], &[16], &[6, 1], &[6, 0, 0, 64], &[255, 255, 255, 255]]),
    ("ro_compat", 20, &[&[1], &[2], &[0, 0, 0, 128], &[255, 255, 255, 255]]),
    ("UUID of the set", 24, &[&[0; 16], &[7]]),
    ("UUID", 40, &[&[0; 16], &[7]]),
    ("previous part", 56, &[&[7], &[0; 16]]),
    ("next replica", 104, &[&[7], &[0; 16]]),
    ("alignments", 128, &[&[0], &[255], &[0; 8]]),
    ("class", 136, &[&[0], &[1], &[3]]),
    ("data", 137, &[&[0], &[2], &[3]]),
    ("reserved", 138, &[&[1], &[0, 0, 0, 1]]),
    // EM_386, EM_AARCH64, EM_PPC64, EM_RISCV.
    ("machine", 142, &[&[0, 0], &[3, 0], &[183, 0], &[21, 0], &[243, 0]]),
    ("unused", 200, &[&[1]]),
    ("end of what the checksum covers", 2047, &[&[1]]),
    ("past the checksum", 2048, &[&[1]]),
    ("layout", 4096, &[b"layouT", b"layout2", b"\0", &[b'l'; 1024]]),
    ("descriptor", 5120, &[&[1], &[0; 8], &[255; 8]]),
    ("lanes", 5128, &[&[1], &[0; 8], &[0; 16]]),
    ("heap", 5144, &[&[1], &[0; 8]]),
];

fn store(pool: &Path, bytes: &[u8]) {
    File::options().write(true).open(pool).unwrap().write_all_at(bytes, 0).unwrap();
}

/// Returns true for the differences that are wanted: an open settles an interrupted change of a feature, and the feature that a pool has while
/// it is open is known to us alone.
fn is_wanted(field: &str, value: &[u8], words: &[&str]) -> bool {
    match field {
        "compat" => value == [0] && words[0] == "open",
        "incompat" => value == [255; 4],
        _ => false,
    }
}

#[test]
fn headers_are_refused_alike() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    // The name of a set file, of which the program opens a pool as well.
    let set = SetFolder::new("");
    let pool = set.path().join("set");
    fs::remove_file(&pool).unwrap();
    File::create(&pool).unwrap().set_len(8 << 20).unwrap();
    set.call(&program, false, &["create", "alloc:9:100"]).unwrap();
    // A pool that an open has taken for sound may have been changed past its header.
    let whole = fs::read(&pool).unwrap();
    let sound = whole[..2 * LEN].to_vec();
    let (mut refused, mut accepted) = (0, 0);
    for (field, at, values) in CHANGES {
        for (value, is_sealed) in values.iter().flat_map(|value| [(value, true), (value, false)]) {
            if !is_sealed && *at > 2048 {
                continue;
            }
            let mut changed = sound.clone();
            changed[*at..at + value.len()].copy_from_slice(value);
            if is_sealed {
                store_pmdk_checksum(&mut changed[..LEN]);
            }
            for words in [&["check"][..], &["open", "show"]] {
                let [theirs, ours] = [false, true].map(|is_ours| {
                    store(&pool, &whole);
                    store(&pool, &changed);
                    set.call(&program, is_ours, words)
                });
                let context = format!("{field} {value:?} sealed {is_sealed} {words:?}");
                refused += usize::from(theirs.is_err());
                accepted += usize::from(theirs.is_ok());
                let is_same = match (&theirs, &ours) {
                    (Ok(theirs), Ok(ours)) => theirs == ours,
                    (Err(theirs), Err(ours)) => ours.starts_with(theirs.as_str()),
                    _ => false,
                };
                assert!(
                    is_same || is_wanted(field, value, words),
                    "{context}: {theirs:?}
{ours:?}"
                );
            }
        }
    }
    assert!(refused > 150 && accepted > 10, "{refused} refused, {accepted} accepted");
    store(&pool, &sound);
    for is_ours in [true, false] {
        assert!(set.call(&program, is_ours, &["open", "show"]).unwrap().starts_with("9 objects"));
    }
}

/// A process with little of everything gets errno, and loses nothing. A set takes one descriptor for each part.
#[test]
fn limits_are_kept() {
    assert_same_under_limits("pmemobj_limits", Library::PMEMOBJ);
}
