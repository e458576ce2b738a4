//! The example of Debian's libpmempool-dev, which repairs a pool: the same output and the same file on both libraries.

use lode_capi_compare::{Library, assert_memcheck_is_silent, assert_same_runs_and_files, example, in_memory};
use std::fs;
use std::process::Command;

const LIBRARY: Library = Library::PMEMPOOL;

/// Returns the bytes of a log that Debian's tool makes; `None`, and a line of a skipped test, if that is not installed.
fn new_log() -> Option<Vec<u8>> {
    let folder = in_memory();
    let mut tool = Command::new("pmempool");
    tool.args(["create", "--size=2M", "log", "pool"]).current_dir(folder.path());
    if !tool.status().is_ok_and(|status| status.success()) {
        lode_testing::skip("example_of_libpmempool", "pmdk-tools is not installed");
        return None;
    }
    Some(fs::read(folder.path().join("pool")).unwrap())
}

/// Sound pools, damage that can be repaired, damage that can't, and no pool.
#[test]
fn manpage() {
    let (Some(program), Some(sound)) = (example(LIBRARY, "manpage.c"), new_log()) else { return };
    // The signature, the major version, the checksum of the header, the descriptor's end, and its offset of the next append.
    for (at, status) in
        [(None, 0), (Some(0), 1), (Some(8), 0), (Some(0xff8), 1), (Some(4104), 0), (Some(4114), 0)]
    {
        let mut bytes = sound.clone();
        if let Some(at) = at {
            bytes[at] ^= 0x55;
        }
        let prepare = |folder: &std::path::Path| fs::write(folder.join("pool"), &bytes).unwrap();
        let text = assert_same_runs_and_files(&program, prepare, &[&[], &[]], &[], &["pool"]);
        assert_eq!(text.matches(&format!("exit status: {status}")).count(), 2, "{at:?}: {text}");
    }
    let text = assert_same_runs_and_files(&program, |_| (), &[&[]], &[], &[]);
    assert!(text.contains("exit status: 1"), "{text}");
}

#[test]
fn memcheck_is_silent_about_the_example() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return lode_testing::skip("memcheck_is_silent", "needs valgrind and the example of libpmempool-dev");
    }
    let (Some(program), Some(mut bytes)) = (example(LIBRARY, "manpage.c"), new_log()) else { return };
    bytes[8] ^= 0x55;
    let folder = in_memory();
    fs::write(folder.path().join("pool"), bytes).unwrap();
    assert_memcheck_is_silent(&program, LIBRARY, folder.path(), &[]);
}
