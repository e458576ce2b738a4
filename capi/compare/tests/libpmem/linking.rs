//! Symbols, archives and the loader.

use lode_capi_compare::{Library, symbols};
use std::path::Path;

/// The calls that 2.1 added to the node of 1.x.
const ADDED: [&str; 3] = ["pmem_log_get_threshold", "pmem_log_set_function", "pmem_log_set_threshold"];

#[test]
fn symbols_are_debians_and_those_of_2_1() {
    let ours = symbols(&Library::PMEM.ours().join("libpmem.so.1"));
    assert_eq!(ours.soname, "libpmem.so.1");
    let Some(debians) = Library::PMEM.debians() else {
        return lode_testing::skip("libpmem.so.1", "Debian's library is not installed");
    };
    let mut theirs = symbols(&debians);
    for name in ADDED {
        let function = ("func", "@@LIBPMEM_1.0".to_owned());
        assert_eq!(theirs.exported.insert(name.to_owned(), function), None, "{name}");
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
