//! Symbols, archives and the loader.

use lode_capi_compare::{
    Library, Program, assert_cancelled_threads_finish, assert_log_variables_change_nothing,
    assert_nothing_is_left, assert_static_programs_answer,
};

#[test]
fn symbols_are_debians() {
    Library::PMEMOBJ.compare_shared_object();
}

/// The archive exports what the shared object does: its own copy of Rust's library can't meet another one.
#[test]
fn archive_has_the_exported_symbols_alone() {
    Library::PMEMOBJ.compare_archive();
}

/// A static program is linked with our archive, and answers as on Debian's shared object.
#[test]
fn static_programs_link_with_our_archive() {
    assert_static_programs_answer(Library::PMEMOBJ);
}

/// A program in Rust is linked with our archives as the crate pmdk-sys links it. Its linker may have dropped sections that all copies of Rust's
/// library have.
#[test]
fn rust_programs_link_with_our_archives() {
    let output = Program::link_rust("pmemobj_in_rust", Library::PMEMOBJ).run(true, &[""; 0], &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.starts_with("open \"missing\": No such file"), "{output:?}");
    assert!(text.ends_with("\ntrue\n5 7\n"), "{output:?}");
}

/// Loaded and unloaded again and again, the library leaves nothing in the process, and a child of a fork can store to its pools.
#[test]
fn unloaded_library_leaves_nothing() {
    for force in ["0", "1"] {
        assert_nothing_is_left(Library::PMEMOBJ, &[("PMEM_IS_PMEM_FORCE", force)]);
    }
}

/// pthread_cancel(3) ends a thread after its call of the library, not in it.
#[test]
fn cancelled_threads_finish_their_calls() {
    assert_cancelled_threads_finish(Library::PMEMOBJ, &[("PMEM_IS_PMEM_FORCE", "0")]);
}

/// The variables of PMDK's libraries with assertions, such as PMEMOBJ_LOG_FILE, change nothing and make no file.
#[test]
fn variables_of_logs_change_nothing() {
    assert_log_variables_change_nothing(Library::PMEMOBJ);
}
