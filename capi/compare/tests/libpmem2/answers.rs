//! Sequences of calls have the same results, messages, memory and files on both libraries.

use lode_capi_compare::{Library, assert_same_answers};

/// Defines a test for each environment of the processes: each variable of libpmem2(7) that changes what calls do.
macro_rules! environments {
    ($($name:ident: $variables:expr;)+) => {$(
        #[test]
        fn $name() {
            assert_same_answers("pmem2", Library::PMEM2, stringify!($name), &$variables);
        }
    )+};
}

environments! {
    granularity_is_found: [];
    forced_lines: [("PMEM2_FORCE_GRANULARITY", "CACHE_LINE")];
    forced_bytes: [("PMEM2_FORCE_GRANULARITY", "byte"), ("PMEM_NO_FLUSH", "0")];
    forced_pages: [("PMEM2_FORCE_GRANULARITY", "Page"), ("PMEM_IS_PMEM_FORCE", "1")];
    lines_through_the_cache: [("PMEM2_FORCE_GRANULARITY", "cacheline"), ("PMEM_NO_MOVNT", "1"), ("PMEM_NO_CLWB", "1")];
    lines_past_the_cache: [
        ("PMEM2_FORCE_GRANULARITY", "Cache_Line"), ("PMEM_MOVNT_THRESHOLD", "0"), ("PMEM_NO_CLFLUSHOPT", "1"),
        ("PMEM_NO_CLWB", "1")
    ];
    lines_in_narrow_registers: [
        ("PMEM2_FORCE_GRANULARITY", "CACHE_LINE"), ("PMEM_AVX", "0"), ("PMEM_AVX512F", "0"),
        ("PMEM_MOVNT_THRESHOLD", "5000")
    ];
    unknown_granularity: [("PMEM2_FORCE_GRANULARITY", "CACHE_LINES"), ("PMEM_NO_FLUSH", "1")];
}
