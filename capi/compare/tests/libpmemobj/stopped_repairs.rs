//! Object pools of which a repair of lost memory was stopped: both libraries refuse them, before they look at the parts.

use lode_capi_compare::{Library, Program, SetFolder, Tool, on_library};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::Command;

const REFUSED: &str = "errno 22 error: a bad block recovery file exists, run 'pmempool sync --bad-blocks' utility to try to recover the pool";

/// Runs a change of a feature by Debian's tool on Debian's library.
fn change_feature(set: &SetFolder, change: &str) {
    let mut tool = Command::new("pmempool");
    on_library(&mut tool, None);
    tool.args(["feature", change, "CHECK_BAD_BLOCKS", "set"]).current_dir(set.path());
    assert!(tool.status().unwrap().success());
}

/// Asserts that both refuse the pool, or neither.
fn assert_answers(program: &Program, set: &SetFolder, is_refused: bool, context: &str) {
    for words in [&["open"][..], &["check"]] {
        for is_ours in [false, true] {
            let answer = set.call(program, is_ours, words);
            let says = answer.as_ref().is_err_and(|text| text.contains(REFUSED));
            assert_eq!(says, is_refused, "{context} {words:?}, ours: {is_ours}: {answer:?}");
        }
    }
}

#[test]
fn pools_under_repair_are_refused() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    if Tool::find().is_none() {
        return;
    }
    let set = SetFolder::new("9M @/a\n8M @/b\nREPLICA\n17M @/c\n");
    set.call(&program, true, &["create", "alloc:9:100"]).unwrap();
    for (name, is_refused) in [("r0_p1", true), ("r1_p0", true), ("r0_p2", false), ("r2_p0", false)] {
        let file = set.path().join(format!("set_{name}_badblocks.txt"));
        File::create(&file).unwrap();
        assert_answers(&program, &set, is_refused, name);
        fs::remove_file(file).unwrap();
    }
    let file = set.path().join("set_r0_p0_badblocks.txt");
    File::create(&file).unwrap();
    // A pool that does not look for lost memory is opened.
    for (change, is_refused) in [("--disable", false), ("--enable", true)] {
        change_feature(&set, change);
        assert_answers(&program, &set, is_refused, change);
    }
    // The damage may be the reason of the repair.
    let [first, second] = ["a", "b"].map(|name| set.path().join(name));
    for part in [&first, &second] {
        File::options().write(true).open(part).unwrap().write_all_at(&[7; 16], 0x28).unwrap();
        assert_answers(&program, &set, true, "a damaged header");
    }
    fs::remove_file(second).unwrap();
    assert_answers(&program, &set, true, "a missing part");
    fs::remove_file(file).unwrap();
    assert_answers(&program, &set, false, "a missing part");
}

#[test]
fn single_file_under_repair_is_refused() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let set = SetFolder::new("9M @/a\n");
    set.call(&program, true, &["create", "alloc:9:100"]).unwrap();
    fs::rename(set.path().join("a"), set.path().join("set")).unwrap();
    for (number, is_refused) in [(1, false), (0, true)] {
        File::create(set.path().join(format!("set_r0_p{number}_badblocks.txt"))).unwrap();
        assert_answers(&program, &set, is_refused, "a single file");
    }
}
