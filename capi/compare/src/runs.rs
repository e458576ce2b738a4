//! Runs of an example of Debian's on both libraries, one after the other in a folder.

use crate::{Library, Program, in_memory, on_library};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Takes the runs on both libraries, each in a folder of its own that `prepare` fills, and compares the outputs. Our messages may
/// go on after Debian's words. Returns the output on ours.
///
/// # Panics
/// If the outputs differ.
pub fn assert_same_runs(
    program: &Program,
    prepare: impl Fn(&Path),
    runs: &[&[&str]],
    variables: &[(&str, &str)],
) -> String {
    assert_same_runs_and_files(program, prepare, runs, variables, &[])
}

/// Compares the outputs as [`assert_same_runs`] does, and the content of the files with these names, which must be there afterwards.
///
/// # Panics
/// If they differ.
pub fn assert_same_runs_and_files(
    program: &Program,
    prepare: impl Fn(&Path),
    runs: &[&[&str]],
    variables: &[(&str, &str)],
    names: &[&str],
) -> String {
    let [theirs, ours] = [false, true].map(|is_ours| {
        let folder = in_memory();
        prepare(folder.path());
        let mut text = String::new();
        for arguments in runs {
            let output = program.run_in(folder.path(), is_ours, arguments, variables);
            let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
            text += &format!("{arguments:?}: {}\n{out}{errors}", output.status);
        }
        let files: Vec<_> = names.iter().map(|name| fs::read(folder.path().join(name)).unwrap()).collect();
        (text, files)
    });
    for (index, name) in names.iter().enumerate() {
        assert!(theirs.1[index] == ours.1[index], "{name} differs: {}", ours.0);
    }
    let [theirs, ours] = [theirs.0, ours.0];
    assert_eq!(theirs.lines().count(), ours.lines().count(), "{theirs}\n{ours}");
    for (theirs, ours) in theirs.lines().zip(ours.lines()) {
        assert!(ours.starts_with(theirs), "{theirs}\n{ours}");
    }
    ours
}

/// Compiles the example at `path` below the documentation of the library's package. Its pool is the file `pool` in the current
/// folder. `None`, and a line of a skipped test, if it is not installed.
pub fn example(library: Library, path: &str) -> Option<Program> {
    let source = Path::new("/usr/share/doc").join(format!("lib{}-dev/examples", library.name)).join(path);
    let Ok(text) = fs::read_to_string(&source) else {
        lode_testing::skip(&format!("{path}_of_lib{}", library.name), "the package has no examples here");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    // Beside the headers of the example.
    for entry in fs::read_dir(source.parent().unwrap()).unwrap() {
        let entry = entry.unwrap();
        if entry.path().extension().is_some_and(|extension| extension == "h") {
            fs::copy(entry.path(), folder.path().join(entry.file_name())).unwrap();
        }
    }
    let copy = folder.path().join("example.c");
    // 1 GiB on two libraries is more than the test needs.
    let text = text.replace("./pmem-fs/", "/pmem-fs/").replace("/pmem-fs/myfile", "pool");
    let text = text.replace("1 << 30", "1 << 25");
    fs::write(&copy, text).unwrap();
    Program::compile_example(&copy, library)
}

/// Runs the program under valgrind's memcheck on our library.
///
/// # Panics
/// If memcheck has a word about it, or if the program fails.
pub fn assert_memcheck_is_silent(program: &Program, library: Library, folder: &Path, arguments: &[&str]) {
    let code = assert_memcheck_of_run_is_silent(program.path(), library, folder, arguments, "");
    assert_eq!(code, Some(0));
}

/// Runs the program at `path` as [`assert_memcheck_is_silent`] does, with this standard input. Returns its exit code.
///
/// # Panics
/// If memcheck has a word about it.
pub fn assert_memcheck_of_run_is_silent(
    path: &Path,
    library: Library,
    folder: &Path,
    arguments: &[&str],
    input: &str,
) -> Option<i32> {
    let mut command = Command::new("valgrind");
    on_library(&mut command, Some(&library.ours()));
    // The programs append bytes of padding that they have not set, which msync(2) would read.
    command.env("PMEM_IS_PMEM_FORCE", "1");
    command.args(["-q", "--error-exitcode=99"]);
    // A program may end without a close, and what leads to its pool may lead to the middle of a block.
    let leaks = ["--leak-check=full", "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite"];
    command.args(leaks);
    command.arg(path).args(arguments).current_dir(folder).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may end before it reads.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() != Some(99) && !words.contains("=="), "{}\n{words}", output.status);
    output.status.code()
}
