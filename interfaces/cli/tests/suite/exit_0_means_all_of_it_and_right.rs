//! Whatever a pool has lost, `lode kv` prints what was stored, and ends with 0 only if that is all that was asked for.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::run::{Place, Ran, lode, lode_reading, text};
use lode_layout::{Header, decode_root, header, tree_meta};
use std::collections::BTreeMap;
use std::fs;

const PAGE: usize = 4096;
const KEYS: usize = 3000;

/// A closed pool of many keys in a file, its bytes, and each line of an export.
struct Victim {
    place: Place,
    whole: Vec<u8>,
    lines: Vec<String>,
}

impl Victim {
    fn make() -> Victim {
        let place = Place::of_size("1MiB");
        let lines: Vec<String> = (0..KEYS).map(|key| format!("key{key:04}\tbalance={}", key * 7)).collect();
        let text = lines.join("\n") + "\n";
        lode_reading(["kv", "load", place.pool(), "--durability", "none"], text.as_bytes()).good();
        let whole = fs::read(&place.pool).unwrap();
        Victim { place, whole, lines }
    }

    /// Runs a command on a pool of these bytes.
    fn run(&self, bytes: &[u8], verb: &[&str], rest: &[&str]) -> Ran {
        fs::write(&self.place.pool, bytes).unwrap();
        lode(verb.iter().chain(&[self.place.pool()]).chain(rest).copied())
    }

    /// The whole pool with a change in it.
    fn with(&self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut bytes = self.whole.clone();
        change(&mut bytes);
        bytes
    }

    /// Where these bytes lie, the first time after the log.
    fn find(&self, wanted: &[u8]) -> usize {
        self.whole.windows(wanted.len()).rposition(|bytes| bytes == wanted).unwrap()
    }

    /// Where the word is by which the slot for the leaf at `leaf` leads there.
    fn slot_of(&self, leaf: usize) -> usize {
        let leads_there = |word: &[u8]| {
            let word = u64::from_le_bytes(word.try_into().unwrap());
            word >> 21 << 4 == leaf as u64 && word >> 8 & 7 == 1
        };
        self.whole.chunks(8).rposition(leads_there).unwrap() * 8
    }

    /// What it printed is a part of `all`, in their order; all of it if it ended with 0.
    #[track_caller]
    fn is_honest(&self, ran: &Ran, all: &[String], damage: &str) {
        let mut expected = all.iter();
        for line in ran.out.lines() {
            assert!(expected.any(|other| other == line), "{line} after {damage}");
        }
        let printed = ran.out.lines().count();
        match ran.code {
            Some(0) => assert_eq!(printed, all.len(), "{damage}"),
            Some(1 | 3) => assert!(ran.err.contains(self.place.pool()), "{damage}: {ran:?}"),
            _ => panic!("{damage}: {ran:?}"),
        }
    }
}

#[test]
fn of_a_pool_with_any_page_of_zeros() {
    let victim = Victim::make();
    let used = (0..victim.whole.len()).step_by(PAGE).filter(|at| victim.whole[*at..at + PAGE] != [0; PAGE]);
    let reversed: Vec<String> = victim.lines.iter().rev().cloned().collect();
    let (mut codes, mut pages) = (BTreeMap::new(), 0);
    for at in used {
        pages += 1;
        let damage = format!("zeros at {at:#x}");
        let bytes = victim.with(|bytes| bytes[at..at + PAGE].fill(0));
        let export = victim.run(&bytes, &["kv", "export"], &[]);
        victim.is_honest(&export, &victim.lines, &damage);
        *codes.entry(export.code).or_insert(0) += 1;
        let scan = victim.run(&bytes, &["kv", "scan", "--reverse"], &[]);
        victim.is_honest(&scan, &reversed, &damage);
        assert_eq!(scan.code, export.code, "{damage}: {scan:?} and {export:?}");
        let part = victim.run(&bytes, &["kv", "scan", "--prefix", "key2", "--verify"], &[]);
        victim.is_honest(&part, &victim.lines[2000..], &damage);
        let count = victim.run(&bytes, &["kv", "count"], &[]);
        assert!(count.code != Some(0) || count.out == format!("{KEYS}\n"), "{damage}: {count:?}");
        let get = victim.run(&bytes, &["kv", "get", "--verify"], &["key1234"]);
        let is_right = get.code == Some(0) && get.out == "balance=8638\n";
        assert!(is_right || get.code == Some(3) || (get.code == Some(1) && !get.err.is_empty()), "{get:?}");
    }
    assert!(pages > 50 && codes[&Some(3)] > 10, "{pages} pages, {codes:?}");
}

#[test]
fn a_node_of_zeros_hides_no_keys_in_silence() {
    let victim = Victim::make();
    // The top of the tree, behind the one slot of its root object.
    let geometry = Header::decode(&victim.whole[..header::LEN]).unwrap().geometry;
    let word = |at: usize| u64::from_le_bytes(victim.whole[at..at + 8].try_into().unwrap());
    let root = decode_root(word(geometry.extents()[0].start.get() as usize)).unwrap().get() as usize;
    assert_eq!(word(root), tree_meta());
    let node = (word(root + 8) >> 21 << 4) as usize;
    let bytes = victim.with(|bytes| bytes[node..node + 48].fill(0));
    for verb in [&["kv", "export"][..], &["kv", "scan"], &["kv", "scan", "--from", "key1"]] {
        let ran = victim.run(&bytes, verb, &[]);
        assert_eq!(ran.out, "", "{verb:?}");
        ran.fails(3, &[victim.place.pool(), "keys are not seen", "the node of the tree", "lode pool repair"]);
    }
    victim.run(&bytes, &["kv", "count"], &[]).fails(3, &[victim.place.pool(), "lode pool check"]);
    // Nothing at all is left: no damage is met, and the count alone tells.
    let bytes = victim.with(|bytes| bytes[root + 8..root + 16].fill(0));
    for verb in ["export", "scan"] {
        let ran = victim.run(&bytes, &["kv", verb], &[]);
        ran.fails(
            3,
            &["0 keys are printed, and the tree has counted 3000", "lode pool check", "lode pool repair"],
        );
    }
    let counted = victim.run(&bytes, &["kv", "count"], &[]);
    counted.fails(3, &["leads to 0 keys, and has counted 3000"]);
}

#[test]
fn a_wrong_digit_is_not_printed() {
    let victim = Victim::make();
    let at = victim.find(b"balance=7007") + 8;
    let bytes = victim.with(|bytes| bytes[at] = b'9');
    for more in [&[][..], &["--verify"]] {
        let ran = victim.run(&bytes, &[&["kv", "get"], more].concat(), &["key1001"]);
        assert_eq!(ran.out, "");
        ran.fails(3, &[victim.place.pool(), "the checksum of the leaf", "lode pool check"]);
    }
    assert_eq!(victim.run(&bytes, &["kv", "get"], &["key1000"]).good(), "balance=7000\n");
    // All the others are printed, and it is said between which keys one is missing.
    let export = victim.run(&bytes, &["kv", "export"], &[]);
    assert_eq!(export.out.lines().count(), KEYS - 1);
    export.fails(
        3,
        &[
            "keys after key1000 and before key1002 are not seen",
            "2999 keys are printed",
            "damage in 1 places",
        ],
    );
    let scan = victim.run(&bytes, &["kv", "scan", "--reverse", "--prefix", "key1001"], &["--json"]);
    assert_eq!(scan.out, "");
    scan.fails(3, &["\"after\":null", "the checksum of the leaf"]);
    let whole = victim.run(&bytes, &["kv", "scan", "--prefix", "key2"], &[]).good();
    assert_eq!(whole.lines().count(), 1000, "the range has no damage");
}

#[test]
fn a_key_is_absent_by_proof() {
    let victim = Victim::make();
    let missing = victim.run(&victim.whole, &["kv", "get", "--verify"], &["key12345"]);
    assert_eq!((missing.code, missing.err.as_str()), (Some(1), ""));
    // A bit of the key in its leaf: not there under its name, and not said to be absent.
    let key = victim.find(b"key1001");
    let bytes = victim.with(|bytes| bytes[key + 6] ^= 2);
    for verb in ["get", "delete"] {
        victim.run(&bytes, &["kv", verb], &["key1001"]).fails(3, &["the checksum of the leaf"]);
    }
    // Its slot: a lookup can't tell, and says so; a proof fails.
    let slot = victim.slot_of(key - 16);
    let bytes = victim.with(|bytes| bytes[slot..slot + 8].fill(0));
    assert_eq!(victim.run(&bytes, &["kv", "get"], &["key1001"]).code, Some(1));
    let unproven = victim.run(&bytes, &["kv", "get", "--verify"], &["key1001"]);
    unproven.fails(3, &[text(&victim.place.pool), "the key is not found", "damage", "lode pool check"]);
    let part = ["kv", "scan", "--prefix", "key1001", "--verify"];
    victim.run(&bytes, &part, &[]).fails(3, &[victim.place.pool(), "lode pool check"]);
    let export = victim.run(&bytes, &["kv", "export"], &[]);
    assert_eq!(export.out.lines().count(), KEYS - 1);
    export.fails(3, &["2999 keys are printed", "lode pool repair"]);
}
