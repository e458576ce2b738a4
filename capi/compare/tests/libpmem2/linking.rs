//! Symbols, archives and the loader.

use lode_capi_compare::{
    Library, Program, assert_cancelled_threads_finish, assert_log_variables_change_nothing,
    assert_nothing_is_left, symbols,
};
use std::collections::BTreeSet;

/// The calls that 2.0 removed, with its new node.
const REMOVED: [&str; 4] =
    ["pmem2_config_set_vdm", "pmem2_memcpy_async", "pmem2_memmove_async", "pmem2_memset_async"];

/// Debian's symbols are in the node of 1.x, and all but the removed ones in the node of 2.x, too: there is the default.
#[test]
fn symbols_are_debians_and_those_of_2_0() {
    let ours = symbols(&Library::PMEM2.ours().join("libpmem2.so.1"));
    assert_eq!(ours.soname, "libpmem2.so.1");
    let Some(debians) = Library::PMEM2.debians() else {
        return lode_testing::skip("libpmem2.so.1", "Debian's library is not installed");
    };
    let theirs = symbols(&debians);
    assert_eq!((theirs.exported.len(), &theirs.soname), (53, &ours.soname));
    let mut wanted = BTreeSet::new();
    for ((name, version), kind) in &theirs.exported {
        assert_eq!((version.as_str(), *kind), ("@@LIBPMEM2_1.0", "func"), "{name}");
        if REMOVED.contains(&name.as_str()) {
            wanted.insert((name.clone(), version.clone()));
        } else {
            wanted.extend(["@LIBPMEM2_1.0", "@@LIBPMEM2_2.0"].map(|node| (name.clone(), node.to_owned())));
        }
    }
    assert_eq!(wanted.len(), 53 + 49);
    assert!(ours.exported.values().all(|kind| *kind == "func"));
    assert_eq!(ours.exported.into_keys().collect::<BTreeSet<_>>(), wanted);
    assert!(
        ours.needed.iter().all(|name| !name.contains("ndctl") && !name.contains("daxctl")),
        "{:?}",
        ours.needed
    );
}

#[test]
fn library_is_small() {
    let folder = Library::PMEM2.ours();
    let len = folder.join("libpmem2.so.1").metadata().unwrap().len();
    assert!(len < 1 << 20, "{len}");
    let config = std::fs::read_to_string(folder.join("pkgconfig/libpmem2.pc")).unwrap();
    assert!(config.contains("Libs: -L${libdir} -lpmem2"), "{config}");
}

/// A static program is linked with our archive, and answers as on Debian's shared object. Our messages may go on.
#[test]
fn static_programs_link_with_our_archive() {
    let Some(shared) = Program::compile("pmem2_example", Library::PMEM2) else { return };
    let theirs = shared.run(false, &[""; 0], &[]);
    let linked = Program::link_statically("pmem2_example", Library::PMEM2).run(true, &[""; 0], &[]);
    for ours in [linked, shared.run(true, &[""; 0], &[])] {
        assert_eq!((theirs.status.code(), ours.status.code()), (Some(0), Some(0)));
        for (ours, theirs) in [(&ours.stdout, &theirs.stdout), (&ours.stderr, &theirs.stderr)] {
            let (ours, theirs) = (String::from_utf8_lossy(ours), String::from_utf8_lossy(theirs));
            assert_eq!(ours.lines().count(), theirs.lines().count(), "{ours}{theirs}");
            assert!(
                ours.lines().zip(theirs.lines()).all(|(ours, theirs)| ours.starts_with(theirs)),
                "{ours}{theirs}"
            );
        }
    }
}

/// A program that is linked with our shared object asks for the node of 2.x.
#[test]
fn new_programs_get_the_node_of_2_0() {
    let Some(program) = Program::link("pmem2_example", Library::PMEM2) else { return };
    let text = String::from_utf8_lossy(&std::fs::read(program.path()).unwrap()).into_owned();
    assert!(text.contains("LIBPMEM2_2.0") && !text.contains("LIBPMEM2_1.0"));
    assert_eq!(program.run(true, &[""; 0], &[]).status.code(), Some(0));
}

/// The archive exports what the shared object does: its own copy of Rust's library can't meet another one.
#[test]
fn archive_has_the_exported_symbols_alone() {
    Library::PMEM2.compare_archive();
}

/// Loaded and unloaded again and again, the library leaves nothing in the process, and a child of a fork can use it.
#[test]
fn unloaded_library_leaves_nothing() {
    assert_nothing_is_left(Library::PMEM2, &[]);
}

/// pthread_cancel(3) ends a thread after its call of the library, not in it.
#[test]
fn cancelled_threads_finish_their_calls() {
    assert_cancelled_threads_finish(Library::PMEM2, &[]);
}

/// The variables of PMDK's libraries with assertions, such as PMEM2_LOG_FILE, change nothing and make no file.
#[test]
fn variables_of_logs_change_nothing() {
    assert_log_variables_change_nothing(Library::PMEM2);
}
