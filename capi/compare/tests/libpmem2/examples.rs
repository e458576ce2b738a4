//! The examples of Debian's libpmem2-dev: the same output and the same files on both libraries.

use lode_capi_compare::{Library, Program, in_memory, on_library};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the files of a run, takes the runs one after the other on a library, and returns the outputs and the files.
fn outcome(
    program: &Program,
    is_ours: bool,
    files: &[(&str, u64)],
    runs: &[&[&str]],
    variables: &[(&str, &str)],
) -> String {
    let folder = in_memory();
    for (name, len) in files {
        fs::File::create(folder.path().join(name)).unwrap().set_len(*len).unwrap();
    }
    let mut text = String::new();
    for arguments in runs {
        let output = program.run_in(folder.path(), is_ours, arguments, variables);
        text += &format!(
            "{arguments:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    names.sort();
    for name in names {
        let bytes = fs::read(folder.path().join(&name)).unwrap();
        let sum = bytes.iter().fold(0u64, |sum, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
        text += &format!("{}: {} bytes, sum {sum:x}\n", name.display(), bytes.len());
    }
    text
}

/// Returns the path of an example.
fn source(name: &str) -> PathBuf {
    Path::new("/usr/share/doc/libpmem2-dev/examples").join(name).join(name).with_extension("c")
}

/// Compares an example on both libraries. `words` are in its output. Our messages may go on after Debian's words.
fn compare(name: &str, files: &[(&str, u64)], runs: &[&[&str]], words: &str) {
    let source = source(name);
    if !source.exists() {
        return lode_testing::skip(&format!("{name}_of_libpmem2"), "libpmem2-dev has no examples here");
    }
    let Some(program) = Program::compile_example(&source, Library::PMEM2) else { return };
    for variables in [&[][..], &[("PMEM2_FORCE_GRANULARITY", "CACHE_LINE")]] {
        let [theirs, ours] = [false, true].map(|is_ours| outcome(&program, is_ours, files, runs, variables));
        assert!(theirs.contains(words), "{theirs}");
        assert_eq!(theirs.lines().count(), ours.lines().count(), "{theirs}\n{ours}");
        // One tells how long it took.
        let is_time = |line: &str| ["Time elapsed", "Bandwidth"].iter().any(|word| line.contains(word));
        let lines = theirs.lines().zip(ours.lines()).filter(|(theirs, _)| !is_time(theirs));
        for (theirs, ours) in lines {
            assert!(ours.starts_with(theirs), "{theirs}\n{ours}");
        }
    }
}

#[test]
fn basic() {
    let runs: &[&[&str]] = &[&["file"], &["empty"], &["none"], &[]];
    compare("basic", &[("file", 10_000), ("empty", 0)], runs, "file length is equal 0");
}

#[test]
fn advanced() {
    let runs: &[&[&str]] = &[&["file", "4096", "8192"], &["file", "1", "4096"], &["file", "0", "409600"]];
    compare("advanced", &[("file", 40_960)], runs, "mapping larger than file size");
}

#[test]
fn log() {
    let runs: &[&[&str]] = &[
        &["log", "appendv", "2", "one ", "two", "dump"],
        &["log", "append", "three", "dump"],
        &["log", "rewind", "dump", "append", "four", "dump"],
    ];
    compare("log", &[("log", 1 << 20)], runs, "one two");
}

#[test]
fn map_multiple_files() {
    let files = [("a", 2 << 20), ("b", 4 << 20), ("c", 2 << 20), ("odd", 4097)];
    let runs: &[&[&str]] = &[&["a", "b", "c"], &["a", "odd"], &["a", "none"]];
    compare("map_multiple_files", &files, runs, "exit status: 0");
}

#[test]
fn redo() {
    let runs: &[&[&str]] = &[&["add", "pool", "1", "10", "7", "70"], &["print", "pool"], &["check", "pool"]];
    compare("redo", &[("pool", 1 << 20)], runs, "70");
}

#[test]
fn ringbuf() {
    let runs: &[&[&str]] = &[&["ring", "64", "100"], &["ring", "64", "1000"], &["ring", "8", "3"]];
    compare("ringbuf", &[("ring", 1 << 20)], runs, "exit status: 0");
}

#[test]
fn unsafe_shutdown() {
    let runs: &[&[&str]] = &[&["write", "file", "text"], &["read", "file"], &["read", "none"]];
    compare("unsafe_shutdown", &[("file", 1 << 20)], runs, "exit status: 1");
}

/// Valgrind's memcheck has no word about our library, and the examples leak nothing of it.
#[test]
fn memcheck_is_silent() {
    if Command::new("valgrind").arg("--version").output().is_err() || !source("basic").exists() {
        return lode_testing::skip("memcheck_is_silent", "needs valgrind and the examples of libpmem2-dev");
    }
    let runs: [(&str, &[&str]); 5] = [
        ("basic", &["file"]),
        ("advanced", &["file", "0", "8192"]),
        ("log", &["file", "append", "x", "dump"]),
        ("redo", &["add", "file", "1", "10"]),
        ("map_multiple_files", &["file", "second"]),
    ];
    for (name, arguments) in runs {
        let Some(program) = Program::compile_example(&source(name), Library::PMEM2) else { return };
        let folder = in_memory();
        for name in ["file", "second"] {
            fs::File::create(folder.path().join(name)).unwrap().set_len(2 << 20).unwrap();
        }
        let mut command = Command::new("valgrind");
        on_library(&mut command, Some(&Library::PMEM2.ours()));
        command.args(["-q", "--leak-check=full", "--errors-for-leak-kinds=definite", "--error-exitcode=99"]);
        let output = command.arg(program.path()).args(arguments).current_dir(folder.path()).output().unwrap();
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.code() == Some(0) && !words.contains("=="),
            "{name}: {}\n{words}",
            output.status
        );
    }
}
