//! Libraries that are loaded, unloaded, linked statically, and left by a thread that ends.

use crate::{Library, Program, in_memory};
use std::ffi::OsStr;
use std::fs;

/// Checks that a static program that is linked with our archive, and a dynamic one on our shared object, answer as on Debian's.
pub fn assert_static_programs_answer(library: Library) {
    let name = format!("{}_example", library.name);
    let Some(shared) = Program::compile(&name, library) else { return };
    let theirs = shared.run(false, &[""; 0], &[]);
    let linked = Program::link_statically(&name, library).run(true, &[""; 0], &[]);
    for ours in [linked, shared.run(true, &[""; 0], &[])] {
        assert_eq!((theirs.status.code(), ours.status.code()), (Some(0), Some(0)), "{ours:?}");
        assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs.stdout));
    }
}

/// Checks that the library leaves nothing in the process when it is loaded and unloaded again and again, and that a child of a fork
/// can use it.
pub fn assert_nothing_is_left(library: Library, variables: &[(&str, &str)]) {
    assert_lifetime(library, &[], variables, "nothing is left\n");
}

/// Checks that pthread_cancel(3) ends a thread after its call of the library, not in it.
pub fn assert_cancelled_threads_finish(library: Library, variables: &[(&str, &str)]) {
    assert_lifetime(library, &["cancel"], variables, "the call returned\n");
}

/// Runs the program of the library's lifetime, which prints one line.
fn assert_lifetime(library: Library, words: &[&str], variables: &[(&str, &str)], printed: &str) {
    let Some(program) = Program::compile(&format!("{}_lifetime", library.name), library) else { return };
    let path = library.ours().join(format!("lib{}.so.1", library.name));
    let arguments: Vec<&OsStr> = [path.as_os_str()].into_iter().chain(words.iter().map(OsStr::new)).collect();
    let output = program.run(true, &arguments, variables);
    assert_eq!(String::from_utf8_lossy(&output.stdout), printed, "{}", output.status);
    assert!(output.status.success(), "{}", output.status);
}

/// Checks that the variables by which PMDK's libraries with assertions write logs change nothing, and make no file, on either library.
pub fn assert_log_variables_change_nothing(library: Library) {
    let Some(program) = Program::compile(&format!("{}_example", library.name), library) else { return };
    let prefix = library.name.to_uppercase();
    let [level, file] = ["LEVEL", "FILE"].map(|end| format!("{prefix}_LOG_{end}"));
    let set = [(level.as_str(), "10"), (file.as_str(), "log"), ("PMDK_NO_ABORT_MSG", "1")];
    for is_ours in [false, true] {
        let outcome = |variables: &[(&str, &str)]| {
            let folder = in_memory();
            let output = program.run_in(folder.path(), is_ours, &[""; 0], variables);
            let entries = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<_> = entries.collect();
            names.sort();
            (output, names)
        };
        let without = outcome(&[]);
        assert!(without.0.status.success(), "{without:?}");
        assert_eq!(outcome(&set), without);
    }
}
