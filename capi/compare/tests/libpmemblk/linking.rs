//! Symbols, archives and the loader.

use lode_capi_compare::{
    Library, assert_cancelled_threads_finish, assert_log_variables_change_nothing, assert_nothing_is_left,
    assert_static_programs_answer,
};

#[test]
fn symbols_are_debians() {
    Library::PMEMBLK.compare_shared_object();
}

/// The archive exports what the shared object does: its own copy of Rust's library can't meet another one.
#[test]
fn archive_has_the_exported_symbols_alone() {
    Library::PMEMBLK.compare_archive();
}

/// A static program is linked with our archive, and answers as on Debian's shared object.
#[test]
fn static_programs_link_with_our_archive() {
    assert_static_programs_answer(Library::PMEMBLK);
}

/// Loaded and unloaded again and again, the library leaves nothing in the process, and a child of a fork can use its pools.
#[test]
fn unloaded_library_leaves_nothing() {
    for force in ["0", "1"] {
        assert_nothing_is_left(Library::PMEMBLK, &[("PMEM_IS_PMEM_FORCE", force)]);
    }
}

/// pthread_cancel(3) ends a thread after its call of the library, not in it.
#[test]
fn cancelled_threads_finish_their_calls() {
    assert_cancelled_threads_finish(Library::PMEMBLK, &[("PMEM_IS_PMEM_FORCE", "0")]);
}

/// The variables of PMDK's libraries with assertions, such as PMEMBLK_LOG_FILE, change nothing and make no file.
#[test]
fn variables_of_logs_change_nothing() {
    assert_log_variables_change_nothing(Library::PMEMBLK);
}
