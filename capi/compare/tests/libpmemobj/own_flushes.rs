//! Programs that flush by themselves, or that the environment says to.
#![cfg(target_arch = "x86_64")]

use lode_capi_compare::{Library, Program};
use lode_capi_program::own_flush_of_file;
use std::path::Path;

const LIBRARY: Library = Library::PMEMOBJ;

fn printed(program: &Program, arguments: &[&str], mode: Option<&'static str>) -> String {
    let variables: Vec<_> = mode.map(|mode| ("LODE_OBJ", mode)).into_iter().collect();
    let output = program.run(true, arguments, &variables);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The library finds the instruction in the program. In fast mode recovery puts the bytes of the last transaction there.
#[test]
fn own_flush_survives_a_kill() {
    let Some(program) = Program::compile("pmemobj_own_flush", LIBRARY) else { return };
    for (mode, wanted) in [(None, "1 2\n"), (Some("careful"), "1 2\n"), (Some("fast"), "1 1\n")] {
        assert_eq!(printed(&program, &[], mode), wanted, "{mode:?}");
    }
    // PMDK has no log above the bytes.
    let theirs = program.run(false, &[""; 0], &[]);
    assert_eq!(String::from_utf8_lossy(&theirs.stdout), "1 2\n");
}

#[test]
fn unknown_mode_is_an_invalid_argument() {
    let Some(program) = Program::compile("pmemobj_own_flush", LIBRARY) else { return };
    let text = printed(&program, &["open"], None);
    let message = "LODE_OBJ=\"wrong\" names no mode; set it to fast or careful, or unset it";
    assert_eq!(text, format!("create 0 22 {message}\nthere 0\nopen 0 22 {message}\n"));
}

/// The instructions of our archives lie in a section that is passed over, also in a program.
#[test]
fn code_of_our_archives_is_passed_over() {
    let program = Program::link_archive("pmemobj_example", LIBRARY);
    assert_eq!(own_flush_of_file(program.path()), Ok(None));
    let own = Program::link_archive("pmemobj_own_flush", LIBRARY);
    let found = own_flush_of_file(own.path()).unwrap().unwrap();
    assert!(found.to_string().starts_with("CLFLUSH at 0x"), "{found}");
    for library in Library::ALL {
        let found = own_flush_of_file(&library.ours().join(library.soname())).unwrap();
        // It flushes any memory, and the log does not hear of it.
        let is_told = library.soname() == "libpmem2.so.1";
        assert_eq!(found.is_some(), is_told, "{}: {found:?}", library.soname());
    }
    // It is the section's name that tells them.
    let text = std::fs::read(program.path()).unwrap();
    let renamed = replaced(&text, b".lode_text\0", b".lade_text\0");
    assert!(lode_capi_program::own_flush(&renamed).unwrap().is_some());
}

fn replaced(text: &[u8], name: &[u8], with: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    let at = text.windows(name.len()).position(|window| window == name).unwrap();
    text[at..at + name.len()].copy_from_slice(with);
    text
}

/// The libraries of Debian that programs have most often flush nothing.
#[test]
fn common_programs_flush_nothing() {
    for path in ["/bin/sh", "/usr/bin/cc", "/usr/bin/ld"] {
        if Path::new(path).exists() {
            assert_eq!(own_flush_of_file(Path::new(path)), Ok(None), "{path}");
        }
    }
}
