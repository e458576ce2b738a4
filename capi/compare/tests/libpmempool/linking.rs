//! Symbols, archives and the loader.

use lode_capi_compare::{
    Library, Program, assert_cancelled_threads_finish, assert_log_variables_change_nothing,
    assert_memcheck_is_silent, assert_nothing_is_left, assert_static_programs_answer, in_memory,
};
use std::process::Command;

#[test]
fn symbols_are_debians() {
    Library::PMEMPOOL.compare_shared_object();
}

/// The archive exports what the shared object does: its own copy of Rust's library can't meet another one.
#[test]
fn archive_has_the_exported_symbols_alone() {
    Library::PMEMPOOL.compare_archive();
}

/// A static program is linked with our archive, and answers as on Debian's shared object.
#[test]
fn static_programs_link_with_our_archive() {
    assert_static_programs_answer(Library::PMEMPOOL);
}

/// Loaded and unloaded again and again, the library leaves nothing in the process, and a child of a fork can use it.
#[test]
fn unloaded_library_leaves_nothing() {
    assert_nothing_is_left(Library::PMEMPOOL, &[]);
}

/// pthread_cancel(3) ends a thread after its call of the library, not in it.
#[test]
fn cancelled_threads_finish_their_calls() {
    assert_cancelled_threads_finish(Library::PMEMPOOL, &[]);
}

#[test]
fn memcheck_is_silent() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return lode_testing::skip("memcheck_is_silent", "needs valgrind");
    }
    let Some(program) = Program::compile("pmempool_example", Library::PMEMPOOL) else { return };
    assert_memcheck_is_silent(&program, Library::PMEMPOOL, in_memory().path(), &[]);
}

/// The variables of PMDK's libraries with assertions, such as PMEMPOOL_LOG_FILE, change nothing and make no file.
#[test]
fn variables_of_logs_change_nothing() {
    assert_log_variables_change_nothing(Library::PMEMPOOL);
}
