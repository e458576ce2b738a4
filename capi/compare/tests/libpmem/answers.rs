//! Sequences of calls have the same results, errno, messages, buffers and files on both libraries.

use lode_capi_compare::{Library, assert_same_answers};

/// Defines a test for each environment of the processes: each variable of libpmem(7) that changes what calls do.
macro_rules! environments {
    ($($name:ident: $variables:expr;)+) => {$(
        #[test]
        fn $name() {
            assert_same_answers("pmem", Library::PMEM, stringify!($name), &$variables);
        }
    )+};
}

environments! {
    plain_environment: [];
    forced_is_pmem: [("PMEM_IS_PMEM_FORCE", "1")];
    forced_no_pmem_without_flush: [("PMEM_IS_PMEM_FORCE", "0"), ("PMEM_NO_FLUSH", "1")];
    copies_through_the_cache: [("PMEM_NO_MOVNT", "1"), ("PMEM_NO_CLWB", "1"), ("PMEM_NO_GENERIC_MEMCPY", "1")];
    copies_past_the_cache: [("PMEM_MOVNT_THRESHOLD", "0"), ("PMEM_NO_CLFLUSHOPT", "1"), ("PMEM_NO_CLWB", "1")];
    narrow_registers: [("PMEM_AVX", "0"), ("PMEM_AVX512F", "0"), ("PMEM_NO_FLUSH", "0"), ("PMEM_IS_PMEM_FORCE", "2")];
    mapping_hint: [("PMEM_AVX512F", "0"), ("PMEM_WC_WORKAROUND", "1"), ("PMEM_MMAP_HINT", "10000000000")];
    long_threshold: [("PMEM_MOVDIR64B", "0"), ("PMEM_MOVNT_THRESHOLD", "5000"), ("PMEM_MMAP_HINT", "none")];
}
