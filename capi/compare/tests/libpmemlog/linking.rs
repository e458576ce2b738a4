//! Symbols, archives and the loader.

use lode_capi_compare::{Library, Program};

#[test]
fn symbols_are_debians() {
    Library::PMEMLOG.compare_shared_object();
}

/// The archive exports what the shared object does: its own copy of Rust's library can't meet another one.
#[test]
fn archive_has_the_exported_symbols_alone() {
    Library::PMEMLOG.compare_archive();
}

/// A static program is linked with our archive, and answers as on Debian's shared object.
#[test]
fn static_programs_link_with_our_archive() {
    let Some(shared) = Program::compile("pmemlog_example", Library::PMEMLOG) else { return };
    let theirs = shared.run(false, &[""; 0], &[]);
    let linked = Program::link_statically("pmemlog_example", Library::PMEMLOG).run(true, &[""; 0], &[]);
    for ours in [linked, shared.run(true, &[""; 0], &[])] {
        assert_eq!((theirs.status.code(), ours.status.code()), (Some(0), Some(0)), "{ours:?}");
        assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs.stdout));
    }
}

/// Loaded and unloaded again and again, the library leaves nothing in the process, and a child of a fork can use its pools.
#[test]
fn unloaded_library_leaves_nothing() {
    let Some(program) = Program::compile("pmemlog_lifetime", Library::PMEMLOG) else { return };
    let library = Library::PMEMLOG.ours().join("libpmemlog.so.1");
    for force in ["0", "1"] {
        let output = program.run(true, &[&library], &[("PMEM_IS_PMEM_FORCE", force)]);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "nothing is left\n");
        assert!(output.status.success(), "{}", output.status);
    }
}

/// pthread_cancel(3) ends a thread after its call of the library, not in it.
#[test]
fn cancelled_threads_finish_their_calls() {
    let Some(program) = Program::compile("pmemlog_lifetime", Library::PMEMLOG) else { return };
    let library = Library::PMEMLOG.ours().join("libpmemlog.so.1");
    let output = program.run(true, &[library.as_os_str(), "cancel".as_ref()], &[("PMEM_IS_PMEM_FORCE", "0")]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "the call returned\n", "{}", output.status);
    assert!(output.status.success(), "{}", output.status);
}
