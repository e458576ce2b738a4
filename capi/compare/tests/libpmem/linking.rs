//! Symbols, archives and the loader.

use lode_capi_compare::{
    Library, Program, assert_cancelled_threads_finish, assert_log_variables_change_nothing,
    assert_nothing_is_left, symbols,
};
use std::path::Path;

/// The calls that 2.1 added to the node of 1.x.
const ADDED: [&str; 3] = ["pmem_log_get_threshold", "pmem_log_set_function", "pmem_log_set_threshold"];

/// The functions that libpmemobj.so.1 calls.
const OF_LODESTONE: [&str; 2] = ["lode_pmem_register", "lode_pmem_unregister"];

#[test]
fn symbols_are_debians_and_those_of_2_1() {
    let ours = symbols(&Library::PMEM.ours().join("libpmem.so.1"));
    assert_eq!(ours.soname, "libpmem.so.1");
    let Some(debians) = Library::PMEM.debians() else {
        return lode_testing::skip("libpmem.so.1", "Debian's library is not installed");
    };
    let mut theirs = symbols(&debians);
    for name in ADDED {
        let symbol = (name.to_owned(), "@@LIBPMEM_1.0".to_owned());
        assert_eq!(theirs.exported.insert(symbol, "func"), None, "{name}");
    }
    for name in OF_LODESTONE {
        let symbol = (name.to_owned(), "@@LODE_1".to_owned());
        assert_eq!(theirs.exported.insert(symbol, "func"), None, "{name}");
    }
    assert_eq!(ours.exported, theirs.exported);
    assert_eq!(ours.soname, theirs.soname);
    assert!(ours.needed.iter().all(|name| !name.contains("ndctl") && !name.contains("daxctl")), "{ours:?}");
}

#[test]
fn library_is_small() {
    let folder = Library::PMEM.ours();
    let len = |name: &str| Path::new(&folder).join(name).metadata().unwrap().len();
    assert!(len("libpmem.so.1") < 1 << 20, "{}", len("libpmem.so.1"));
    let config = std::fs::read_to_string(folder.join("pkgconfig/libpmem.pc")).unwrap();
    assert!(config.contains("Libs: -L${libdir} -lpmem"), "{config}");
}

/// A static program is linked with our archive, and answers as on Debian's shared object.
#[test]
fn static_programs_link_with_our_archive() {
    let Some(shared) = Program::compile("pmem_example", Library::PMEM) else { return };
    let theirs = shared.run(false, &[""; 0], &[]);
    let ours = Program::link_statically("pmem_example", Library::PMEM).run(true, &[""; 0], &[]);
    assert_eq!(theirs.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ours.stdout), String::from_utf8_lossy(&theirs.stdout));
    assert_eq!(ours.status.code(), Some(0));
}

/// The archive exports what the shared object does: its own copy of Rust's library can't meet another one.
#[test]
fn archive_has_the_exported_symbols_alone() {
    Library::PMEM.compare_archive();
}

/// Loaded and unloaded again and again, the library leaves nothing in the process, and a child of a fork can use it.
#[test]
fn unloaded_library_leaves_nothing() {
    assert_nothing_is_left(Library::PMEM, &[]);
}

/// pthread_cancel(3) ends a thread after its call of the library, not in it.
#[test]
fn cancelled_threads_finish_their_calls() {
    // With a hint, a mapping reads /proc/self/maps: a cancellation point of the C library.
    assert_cancelled_threads_finish(Library::PMEM, &[("PMEM_MMAP_HINT", "10000000000")]);
}

/// The variables of PMDK's libraries with assertions, such as PMEM_LOG_FILE, change nothing and make no file.
#[test]
fn variables_of_logs_change_nothing() {
    assert_log_variables_change_nothing(Library::PMEM);
}
