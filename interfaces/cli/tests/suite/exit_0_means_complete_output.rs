//! On a corrupt pool, `lode kv` prints only stored values, and ends with 0 only if its output is complete.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{PoolFixture, RunResult, lode, lode_with_stdin, text};
use lode_layout::{Header, decode_root, header, tree_meta};
use std::collections::BTreeMap;
use std::fs;

const PAGE: usize = 4096;
const KEYS: usize = 3000;

/// A closed pool of many keys in a file, its bytes, and each line of an export.
struct PoolImage {
    fixture: PoolFixture,
    whole: Vec<u8>,
    lines: Vec<String>,
}

impl PoolImage {
    fn make() -> PoolImage {
        let fixture = PoolFixture::of_size("1MiB");
        let lines: Vec<String> = (0..KEYS).map(|key| format!("key{key:04}\tbalance={}", key * 7)).collect();
        let text = lines.join("\n") + "\n";
        lode_with_stdin(["kv", "load", fixture.pool(), "--durability", "none"], text.as_bytes()).success();
        let whole = fs::read(&fixture.pool).unwrap();
        PoolImage { fixture, whole, lines }
    }

    /// Runs a command on a pool of these bytes.
    fn run(&self, bytes: &[u8], verb: &[&str], rest: &[&str]) -> RunResult {
        fs::write(&self.fixture.pool, bytes).unwrap();
        lode(verb.iter().chain(&[self.fixture.pool()]).chain(rest).copied())
    }

    /// Returns the bytes of the pool with a change.
    fn with(&self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut bytes = self.whole.clone();
        change(&mut bytes);
        bytes
    }

    /// Returns the last offset of these bytes.
    fn find(&self, wanted: &[u8]) -> usize {
        self.whole.windows(wanted.len()).rposition(|bytes| bytes == wanted).unwrap()
    }

    /// Returns the offset of the slot word that refers to the leaf at `leaf`.
    fn slot_offset(&self, leaf: usize) -> usize {
        let leads_there = |word: &[u8]| {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            word >> 21 << 4 == leaf as u64 && word >> 8 & 7 == 1
        };
        self.whole.chunks(8).rposition(leads_there).unwrap() * 8
    }

    /// Asserts that the output is a part of `all`, in this order, and all of it after exit code 0.
    #[track_caller]
    fn assert_no_wrong_output(&self, ran: &RunResult, all: &[String], damage: &str) {
        let mut expected = all.iter();
        for line in ran.out.lines() {
            assert!(expected.any(|other| other == line), "{line} after {damage}");
        }
        let printed = ran.out.lines().count();
        match ran.code {
            Some(0) => assert_eq!(printed, all.len(), "{damage}"),
            Some(1 | 3) => assert!(ran.err.contains(self.fixture.pool()), "{damage}: {ran:?}"),
            _ => panic!("{damage}: {ran:?}"),
        }
    }
}

#[test]
fn zeroed_page_yields_no_wrong_output() {
    let image = PoolImage::make();
    let used = (0..image.whole.len()).step_by(PAGE).filter(|at| image.whole[*at..at + PAGE] != [0; PAGE]);
    let reversed: Vec<String> = image.lines.iter().rev().cloned().collect();
    let (mut codes, mut pages) = (BTreeMap::new(), 0);
    for at in used {
        pages += 1;
        let damage = format!("zeros at {at:#x}");
        let bytes = image.with(|bytes| bytes[at..at + PAGE].fill(0));
        let export = image.run(&bytes, &["kv", "export"], &[]);
        image.assert_no_wrong_output(&export, &image.lines, &damage);
        *codes.entry(export.code).or_insert(0) += 1;
        let scan = image.run(&bytes, &["kv", "scan", "--reverse"], &[]);
        image.assert_no_wrong_output(&scan, &reversed, &damage);
        assert_eq!(scan.code, export.code, "{damage}: {scan:?} and {export:?}");
        let part = image.run(&bytes, &["kv", "scan", "--prefix", "key2", "--verify"], &[]);
        image.assert_no_wrong_output(&part, &image.lines[2000..], &damage);
        let count = image.run(&bytes, &["kv", "count"], &[]);
        assert!(count.code != Some(0) || count.out == format!("{KEYS}\n"), "{damage}: {count:?}");
        let get = image.run(&bytes, &["kv", "get", "--verify"], &["key1234"]);
        let is_right = get.code == Some(0) && get.out == "balance=8638\n";
        assert!(is_right || get.code == Some(3) || (get.code == Some(1) && !get.err.is_empty()), "{get:?}");
    }
    assert!(pages > 50 && codes[&Some(3)] > 10, "{pages} pages, {codes:?}");
}

#[test]
fn zeroed_node_is_reported() {
    let image = PoolImage::make();
    // The top node of the tree: the child of the one slot of its root object.
    let geometry = Header::decode(&image.whole[..header::LEN]).unwrap().geometry;
    let word = |at: usize| u64::from_le_bytes(image.whole[at..at + 8].try_into().unwrap());
    let root = decode_root(word(geometry.extents()[0].start.get() as usize)).unwrap().get() as usize;
    assert_eq!(word(root), tree_meta());
    let node = (word(root + 8) >> 21 << 4) as usize;
    let bytes = image.with(|bytes| bytes[node..node + 48].fill(0));
    for verb in [&["kv", "export"][..], &["kv", "scan"], &["kv", "scan", "--from", "key1"]] {
        let ran = image.run(&bytes, verb, &[]);
        assert_eq!(ran.out, "", "{verb:?}");
        ran.failure(
            3,
            &[image.fixture.pool(), "keys are skipped", "the node of the tree", "lode pool repair"],
        );
    }
    image.run(&bytes, &["kv", "count"], &[]).failure(3, &[image.fixture.pool(), "lode pool check"]);
    // The tree is empty and no node is corrupt: only the count shows the loss.
    let bytes = image.with(|bytes| bytes[root + 8..root + 16].fill(0));
    for verb in ["export", "scan"] {
        let ran = image.run(&bytes, &["kv", verb], &[]);
        ran.failure(
            3,
            &["0 keys are printed, and the tree has counted 3000", "lode pool check", "lode pool repair"],
        );
    }
    let counted = image.run(&bytes, &["kv", "count"], &[]);
    counted.failure(3, &["leads to 0 keys, and has counted 3000"]);
}

#[test]
fn corrupt_value_is_not_printed() {
    let image = PoolImage::make();
    let at = image.find(b"balance=7007") + 8;
    let bytes = image.with(|bytes| bytes[at] = b'9');
    for more in [&[][..], &["--verify"]] {
        let ran = image.run(&bytes, &[&["kv", "get"], more].concat(), &["key1001"]);
        assert_eq!(ran.out, "");
        ran.failure(3, &[image.fixture.pool(), "the checksum of the leaf", "lode pool check"]);
    }
    assert_eq!(image.run(&bytes, &["kv", "get"], &["key1000"]).success(), "balance=7000\n");
    // All other keys are printed, and the range of the missing one is reported.
    let export = image.run(&bytes, &["kv", "export"], &[]);
    assert_eq!(export.out.lines().count(), KEYS - 1);
    export.failure(
        3,
        &["keys after key1000 and before key1002 are skipped", "2999 keys are printed", "damage in 1 places"],
    );
    let scan = image.run(&bytes, &["kv", "scan", "--reverse", "--prefix", "key1001"], &["--json"]);
    assert_eq!(scan.out, "");
    scan.failure(3, &["\"after\":null", "the checksum of the leaf"]);
    let whole = image.run(&bytes, &["kv", "scan", "--prefix", "key2"], &[]).success();
    assert_eq!(whole.lines().count(), 1000, "the range has no damage");
}

#[test]
fn verified_get_proves_absence() {
    let image = PoolImage::make();
    let missing = image.run(&image.whole, &["kv", "get", "--verify"], &["key12345"]);
    assert_eq!((missing.code, missing.err.as_str()), (Some(1), ""));
    // A flipped bit of the key in its leaf: the lookup fails, and does not report an absent key.
    let key = image.find(b"key1001");
    let bytes = image.with(|bytes| bytes[key + 6] ^= 2);
    for verb in ["get", "delete"] {
        image.run(&bytes, &["kv", verb], &["key1001"]).failure(3, &["the checksum of the leaf"]);
    }
    image.run(&bytes, &["kv", "delete"], &["--prefix", "key1"]).failure(3, &["the checksum of the leaf"]);
    // A zeroed slot: a lookup reports an absent key without proof; a proof fails.
    let slot = image.slot_offset(key - 16);
    let bytes = image.with(|bytes| bytes[slot..slot + 8].fill(0));
    assert_eq!(image.run(&bytes, &["kv", "get"], &["key1001"]).code, Some(1));
    let unproven = image.run(&bytes, &["kv", "get", "--verify"], &["key1001"]);
    unproven.failure(3, &[text(&image.fixture.pool), "the key is not found", "damage", "lode pool check"]);
    let part = ["kv", "scan", "--prefix", "key1001", "--verify"];
    image.run(&bytes, &part, &[]).failure(3, &[image.fixture.pool(), "lode pool check"]);
    let export = image.run(&bytes, &["kv", "export"], &[]);
    assert_eq!(export.out.lines().count(), KEYS - 1);
    export.failure(3, &["2999 keys are printed", "lode pool repair"]);
}
