//! Programs of Debian that run on our libraries, not compiled anew.

use crate::{Library, in_memory, on_library};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Runs one of Debian's programs on our library, which the loader must have taken. `None`, and a line of a skipped test, if
/// it is not installed.
///
/// # Panics
/// If the program runs on Debian's library.
pub fn run_on_ours(
    program: &str,
    library: Library,
    arguments: &[&str],
    variables: &[(&str, &str)],
    folder: &Path,
) -> Option<Output> {
    let ours = library.ours();
    let notes = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    on_library(&mut command, Some(&ours));
    // The loader notes the files that it loads, also plugins, in a file for each process.
    command.env("LD_DEBUG", "files").env("LD_DEBUG_OUTPUT", notes.path().join("loader"));
    command.args(arguments).envs(variables.iter().copied()).current_dir(folder);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            lode_testing::skip(&format!("{program}_on_ours"), format!("{program} does not start: {error}"));
            return None;
        }
    };
    let notes = fs::read_dir(notes.path()).unwrap();
    let notes = notes.map(|file| fs::read(file.unwrap().path()).unwrap()).collect::<Vec<_>>().concat();
    let notes = String::from_utf8_lossy(&notes).into_owned();
    let loaded = |path: &Path| notes.contains(&format!("calling init: {}\n", path.display()));
    assert!(loaded(&ours.join(library.soname())), "{program} does not run on our library:\n{notes}");
    assert!(library.debians().is_none_or(|theirs| !loaded(&theirs)), "{program}:\n{notes}");
    Some(output)
}

/// Checks that random writes of an engine of fio are read back with their checksums. `file` is its name for a file of 4 MiB and more.
///
/// # Panics
/// If they are not.
pub fn assert_fio_verifies(engine: &str, library: Library, file: &str) {
    let folder = in_memory();
    let job = "--name=job --size=4M --bs=4k --rw=randwrite --iodepth=1 --direct=1 --thread --verify=crc32c --do_verify=1 \
               --verify_fatal=1 --output-format=terse";
    let names = [format!("--ioengine={engine}"), format!("--filename={file}")];
    let words: Vec<&str> = job.split_whitespace().chain(names.iter().map(String::as_str)).collect();
    // The engines take files of persistent memory only.
    let variables = [("PMEM_IS_PMEM_FORCE", "1")];
    let Some(output) = run_on_ours("fio", library, &words, &variables, folder.path()) else { return };
    assert!(output.status.success(), "{output:?}");
    // Terse format 3: field 5 is the error, field 6 KiB read, field 47 KiB written.
    let terse = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = terse.lines().find(|line| line.starts_with("3;")).unwrap_or_else(|| panic!("{terse}"));
    let fields: Vec<&str> = line.split(';').collect();
    assert_eq!((fields[4], fields[5], fields[46]), ("0", "4096", "4096"), "{line}");
}
