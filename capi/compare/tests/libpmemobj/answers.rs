//! Sequences of calls have the same results, errno and messages on both libraries.

use lode_capi_compare::{Library, assert_same_answers};

/// Defines a test for each environment of the processes: each variable that changes what calls do.
macro_rules! environments {
    ($($name:ident: $variables:expr;)+) => {$(
        #[test]
        fn $name() {
            assert_same_answers("drawn_obj", Library::PMEMOBJ, stringify!($name), &$variables);
        }
    )+};
}

environments! {
    forced_is_pmem: [("PMEM_IS_PMEM_FORCE", "1")];
    forced_is_pmem_without_flush: [("PMEM_IS_PMEM_FORCE", "1"), ("PMEM_NO_FLUSH", "1")];
    // PMDK allocates extensions of its logs, of the size of the cache and 192 bytes. A size that was asked for keeps its class when the
    // program makes another one, so this is a size that no sequence has.
    settings: [
        ("PMEM_IS_PMEM_FORCE", "1"),
        ("PMEMOBJ_CONF", "sds.at_create=0;tx.cache.size=1048576;tx.debug.skip_expensive_checks=1;prefault.at_open=1;"),
    ];
    few_lanes: [("PMEM_IS_PMEM_FORCE", "1"), ("PMEMOBJ_NLANES", "1")];
}

/// Each persist is a system call on Debian's library.
#[test]
fn forced_no_pmem() {
    let variables = [("PMEM_IS_PMEM_FORCE", "0")];
    assert_same_answers("drawn_obj", Library::PMEMOBJ.with_fewer_sequences(), "forced_no_pmem", &variables);
}
