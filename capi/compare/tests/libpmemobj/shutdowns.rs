//! The shutdown state of object pools: the same answers and the same headers on both libraries.

use lode_capi_compare::{Library, Program, SetFolder, Tool, on_library};
use lode_layout::{PmdkShutdown, PmdkShutdownRecord};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The lines of set files, and the first parts of their replicas.
const SETS: [(&str, &[&str]); 3] = [
    ("9M @/a\n", &["a"]),
    ("OPTION SINGLEHDR\n32M @/d\n", &["d/000000.pmem"]),
    ("9M @/a\n9M @/b\nREPLICA\n18M @/c\n", &["a", "c"]),
];
const CONF: &str = "PMEMOBJ_CONF";
/// Both libraries say so, and ours goes on.
const REFUSED: &str = "errno 22 an ADR failure was detected, the pool might be corrupted";

type State = [u8; PmdkShutdown::LEN];

fn state(shutdowns: u64, devices: u64, is_dirty: bool) -> State {
    PmdkShutdown { shutdowns, devices, is_dirty }.encode()
}

fn stored(part: &Path) -> State {
    let mut bytes = [0; PmdkShutdown::LEN];
    File::open(part).unwrap().read_exact_at(&mut bytes, PmdkShutdown::OFF).unwrap();
    bytes
}

fn store(part: &Path, state: &State) {
    File::options().write(true).open(part).unwrap().write_all_at(state, PmdkShutdown::OFF).unwrap();
}

/// Calls the pool with these states in its replicas on both libraries, and compares the answers and the states that they leave.
fn assert_alike(
    program: &Program,
    set: &SetFolder,
    firsts: &[(PathBuf, State)],
    is_sound: bool,
    context: &str,
) {
    let calls =
        [(&["open", "show"][..], ""), (&["open", "show"], "copy_on_write.at_open=1;"), (&["check"], "")];
    for (words, conf) in calls {
        let [theirs, ours] = [false, true].map(|is_ours| {
            firsts.iter().for_each(|(first, state)| store(first, state));
            let answer = set.call_with(program, is_ours, words, &[(CONF, conf)]);
            (answer, firsts.iter().map(|(first, _)| stored(first)).collect::<Vec<State>>())
        });
        let context = format!("{context} {words:?} {conf}");
        match (&theirs.0, &ours.0) {
            (Ok(theirs), Ok(ours)) => assert_eq!((theirs, true), (ours, is_sound), "{context}"),
            (Err(theirs), Err(ours)) => {
                let is_same = theirs.ends_with(REFUSED) && ours.starts_with(theirs.as_str());
                assert!(is_same && !is_sound, "{context}: {ours}");
            }
            _ => panic!("{context}: {theirs:?} {ours:?}"),
        }
        assert_eq!(theirs.1, ours.1, "{context}");
    }
}

/// Each state in each replica, the others of which were closed well: an open, one of a view, and a check.
#[test]
fn states_are_judged_alike() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let mut torn = state(5, 0, true);
    torn[40] ^= 1;
    // No module of this machine has other counts, or another name.
    let sound =
        [[0; PmdkShutdown::LEN], state(0, 0, true), state(5, 0, false), torn].map(|state| (state, true));
    let lost = [state(5, 0, true), state(0, 7, true)].map(|state| (state, false));
    for (lines, firsts) in SETS {
        let set = SetFolder::new(lines);
        set.call(&program, true, &["create", "alloc:9:100"]).unwrap();
        let firsts = firsts.iter().map(|name| set.path().join(name));
        let clean: Vec<(PathBuf, State)> = firsts.map(|first| (first.clone(), stored(&first))).collect();
        for (state, is_sound) in sound.into_iter().chain(lost) {
            for changed in 0..clean.len() {
                let mut firsts = clean.clone();
                firsts[changed].1 = state;
                let context = format!("{lines:?}, replica {changed}, {state:x?}");
                assert_alike(&program, &set, &firsts, is_sound, &context);
            }
        }
    }
}

/// A pool is dirty while it is open, and after a kill; a close clears that, also that of a child which has taken the pool over.
#[test]
fn open_pools_are_dirty() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    for (lines, firsts) in SETS {
        for is_ours in [false, true] {
            let set = SetFolder::new(lines);
            let is_dirty = |name: &&str| {
                let part = set.path().join(name);
                let mut header = [0; 4096];
                File::open(&part).unwrap().read_exact_at(&mut header, 0).unwrap();
                let found = lode_layout::PmdkPartHeader::decode(&header).unwrap().shutdown;
                matches!(found, PmdkShutdownRecord::Stored(PmdkShutdown { is_dirty: true, .. }))
            };
            let assert_dirty = |wanted: bool, words: &[&str]| {
                let found: Vec<bool> = firsts.iter().map(is_dirty).collect();
                assert_eq!(found, vec![wanted; firsts.len()], "{lines:?} {is_ours} {words:?}");
            };
            for words in [
                &["create", "alloc:9:100", "kill"][..],
                &["open", "alloc:9:100"],
                &["open", "fork", "alloc:9:100", "kill"],
                &["open", "fork", "alloc:9:100", "show"],
            ] {
                let answer = set.call(&program, is_ours, words);
                // A child that has closed its output may not have released the locks yet.
                set.names()
                    .iter()
                    .for_each(|name| File::open(set.path().join(name)).unwrap().lock().unwrap());
                let is_killed = words.contains(&"kill");
                // The status is that of the parent, which has left the pool to its child.
                assert_eq!(answer.is_err(), is_killed && !words.contains(&"fork"), "{words:?}: {answer:?}");
                assert_dirty(is_killed, words);
            }
            assert!(set.call(&program, !is_ours, &["open", "show"]).unwrap().starts_with("36 objects"));
            set.assert_consistent();
        }
    }
}

/// A pool that was made without the state has none, and none is looked at.
#[test]
fn pools_without_the_state_keep_none() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    for is_ours in [false, true] {
        let (lines, firsts) = SETS[2];
        let set = SetFolder::new(lines);
        set.call_with(&program, is_ours, &["create", "alloc:9:100"], &[(CONF, "sds.at_create=0;")]).unwrap();
        for state in [[0; PmdkShutdown::LEN], state(5, 0, true)] {
            for opened_by in [false, true] {
                firsts.iter().for_each(|name| store(&set.path().join(name), &state));
                set.call(&program, opened_by, &["open", "alloc:9:100"]).unwrap();
                for name in firsts {
                    assert_eq!(stored(&set.path().join(name)), state, "{is_ours} {opened_by}");
                }
            }
        }
    }
}

/// A pool that ours left in a crash which has lost stores is refused, until our libpmempool has reset the state.
#[test]
fn lost_stores_of_a_killed_program_are_repaired() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    if Tool::find().is_none() {
        return;
    }
    let set = SetFolder::new(SETS[0].0);
    set.call(&program, true, &["create", "alloc:9:100", "kill"]).unwrap_err();
    store(&set.path().join("a"), &state(5, 0, true));
    let refused = set.call(&program, true, &["open"]).unwrap_err();
    assert!(refused.contains(REFUSED), "{refused}");
    let mut tool = Command::new("pmempool");
    on_library(&mut tool, Some(&Library::PMEMPOOL.ours()));
    let repaired = tool.args(["check", "-vary", "set"]).current_dir(set.path()).output().unwrap();
    let text = String::from_utf8_lossy(&repaired.stdout);
    assert!(text.contains("resetting pool_hdr.sds") && text.contains("set: repaired"), "{text}");
    for is_ours in [true, false] {
        assert!(set.call(&program, is_ours, &["open", "show"]).unwrap().starts_with("9 objects"));
    }
}
