//! Object pools with a replica, by both libraries in turn, after kills, and made anew from the replica.

use lode_capi_compare::{Library, Program, SetFolder};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The lines of set files, and the first parts of master and replica. PMDK makes parts of 8 MiB and more anew.
const SETS: [(&str, [&str; 2]); 2] = [
    ("10M @/a\n8M @/b\nREPLICA\n18M @/c\n", ["a", "c"]),
    ("OPTION SINGLEHDR\n32M @/d\nREPLICA\n32M @/e\n", ["d/000000.pmem", "e/000000.pmem"]),
];
const HEADER_LEN: usize = 4096;
/// Bytes after the state in which PMDK keeps addresses of the process that has the pool open, in the master alone.
const RUNTIME: std::ops::Range<usize> = 0x1840..0x2000;

fn make(lines: &str) -> SetFolder {
    let set = SetFolder::new(lines);
    fs::create_dir(set.path().join("e")).unwrap();
    set
}

/// Asserts that the first parts are equal but for their headers, and for what PMDK does not keep.
fn assert_equal(set: &SetFolder, parts: [&str; 2], context: &str) {
    let [master, replica] = parts.map(|name| fs::read(set.path().join(name)).unwrap());
    let both = master.iter().zip(&replica).enumerate().skip(HEADER_LEN);
    assert!(both.len() > 7 << 20);
    let first = both.filter(|(at, _)| !RUNTIME.contains(at)).find(|(_, (left, right))| left != right);
    assert_eq!(first, None, "{context}");
}

#[test]
fn replicas_are_kept_equal() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    for (lines, parts) in SETS {
        for is_first_ours in [true, false] {
            let set = make(lines);
            let call = |is_ours: bool, words: &[&str]| set.call(&program, is_ours, words).unwrap();
            let words = ["open", "step:8388608", "change:1", "free:5", "tx:3:3000", "alloc:20:3000", "show"];
            call(is_first_ours, &["create", "step:8388608", "alloc:40:3000", "tx:40:9000", "alloc:3:400000"]);
            let mut shown = call(is_first_ours, &words);
            // PMDK's leave bytes of free space in the master alone.
            if is_first_ours {
                assert_equal(&set, parts, lines);
            }
            for is_ours in [!is_first_ours, is_first_ours] {
                assert_eq!(call(is_ours, &["open", "show"]), shown);
                shown = call(is_ours, &words);
            }
            set.assert_consistent();
            // The master is lost.
            fs::remove_file(set.path().join(parts[0])).unwrap();
            for is_ours in [true, false] {
                let refused = set.call(&program, is_ours, &["open"]);
                assert!(refused.is_err_and(|text| text.contains("missing") || text.contains("errno 2 ")));
            }
            call(false, &["sync"]);
            for is_ours in [true, false] {
                assert_eq!(call(is_ours, &["open", "show"]), shown, "{lines}");
            }
        }
    }
}

#[test]
fn replicas_are_equal_after_kills() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let mut random = fastrand::Rng::with_seed(lode_testing::seed(1));
    for (lines, parts) in SETS {
        let set = make(lines);
        set.call(&program, true, &["create", "alloc:200:300", "tx:20:9000"]).unwrap();
        for round in 0..lode_testing::scaled(4) {
            let change = format!("change:{round}");
            let words = ["open", "step:8388608", &change, "tx:40:700", "free:3", "alloc:40:900", "kill"];
            if round == 0 {
                set.call(&program, true, &words).unwrap_err();
            } else {
                set.kill(&program, &words, random.u64(2_000..15_000));
            }
            // PMDK takes neither replica for a pool of its own.
            let refused = set.call(&program, false, &["open"]);
            assert!(round > 0 || refused.is_err_and(|text| text.contains("errno 22 ")));
            let shown = set.call(&program, true, &["open", "show"]).unwrap();
            assert_equal(&set, parts, lines);
            assert_eq!(set.call(&program, false, &["open", "show"]).unwrap(), shown);
        }
    }
}

/// A replica that is damaged or missing refuses the open, in the words of PMDK.
#[test]
fn damaged_replica_is_refused() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let (lines, [_, replica]) = SETS[0];
    for damage in 0..6 {
        let set = make(lines);
        set.call(&program, false, &["create", "alloc:9:100"]).unwrap();
        let path = set.path().join(replica);
        let file = File::options().write(true).open(&path).unwrap();
        match damage {
            0 => file.write_all_at(&[0; HEADER_LEN], 0).unwrap(),
            1 => file.write_all_at(&[7; 16], 0x28).unwrap(),
            2 => file.set_len(11 << 20).unwrap(),
            // The descriptor, and the header of the heap.
            3 => file.write_all_at(&[7; 8], 0x1400).unwrap(),
            4 => file.write_all_at(&[7; 8], 0x30_2000).unwrap(),
            _ => fs::remove_file(&path).unwrap(),
        }
        let [theirs, ours] = [false, true].map(|is_ours| set.call(&program, is_ours, &["open"]).unwrap_err());
        let message = |text: &str| {
            text.split_once("errno ").and_then(|(_, rest)| Some(rest.split_once(' ')?.1.to_owned()))
        };
        let [theirs, ours] = [theirs, ours].map(|text| message(&text).unwrap());
        assert!(ours.starts_with(&theirs), "{damage}: {theirs} | {ours}");
    }
}
