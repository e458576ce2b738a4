//! Sequences of calls have the same results, errno, messages, buffers and files on both libraries.

use lode_capi_compare::{Library, assert_same_answers};

/// Defines a test for each environment of the processes: each variable that changes what calls do.
macro_rules! environments {
    ($($name:ident: $variables:expr;)+) => {$(
        #[test]
        fn $name() {
            assert_same_answers("pmemlog", Library::PMEMLOG, stringify!($name), &$variables);
        }
    )+};
}

environments! {
    plain_environment: [];
    forced_is_pmem: [("PMEM_IS_PMEM_FORCE", "1")];
    forced_no_pmem: [("PMEM_IS_PMEM_FORCE", "0")];
    forced_is_pmem_without_flush: [("PMEM_IS_PMEM_FORCE", "1"), ("PMEM_NO_FLUSH", "1")];
    without_shutdown_state: [("PMEM_IS_PMEM_FORCE", "1"), ("PMEMLOG_CONF", "sds.at_create=0")];
    copy_on_write: [("PMEM_IS_PMEM_FORCE", "1"), ("PMEMLOG_CONF", "copy_on_write.at_open=1")];
    through_the_cache: [("PMEM_IS_PMEM_FORCE", "1"), ("PMEM_NO_MOVNT", "1"), ("PMEM_NO_CLWB", "1"), ("PMEMLOG_CONF", "unknown=1;sds.at_create=x")];
    past_the_cache: [("PMEM_IS_PMEM_FORCE", "1"), ("PMEM_MOVNT_THRESHOLD", "0")];
}

/// Each open touches all pages of a pool.
#[test]
fn prefaulted() {
    let variables = [("PMEMLOG_CONF", "prefault.at_open=1;prefault.at_create=y;")];
    assert_same_answers("pmemlog", Library::PMEMLOG.with_fewer_sequences(), "prefaulted", &variables);
}
