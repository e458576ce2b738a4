//! Sequences of calls have the same results, errno, messages, buffers and files on both libraries.

use lode_capi_compare::{Comparison, Library, Program};

/// Environments of the processes: each variable of libpmem(7) that changes what calls do.
const ENVIRONMENTS: &[&[(&str, &str)]] = &[
    &[],
    &[("PMEM_IS_PMEM_FORCE", "1")],
    &[("PMEM_IS_PMEM_FORCE", "0"), ("PMEM_NO_FLUSH", "1")],
    &[("PMEM_NO_MOVNT", "1"), ("PMEM_NO_CLWB", "1"), ("PMEM_NO_GENERIC_MEMCPY", "1")],
    &[("PMEM_MOVNT_THRESHOLD", "0"), ("PMEM_NO_CLFLUSHOPT", "1"), ("PMEM_NO_CLWB", "1")],
    &[("PMEM_AVX", "0"), ("PMEM_AVX512F", "0"), ("PMEM_NO_FLUSH", "0"), ("PMEM_IS_PMEM_FORCE", "2")],
    &[("PMEM_AVX512F", "0"), ("PMEM_WC_WORKAROUND", "1"), ("PMEM_MMAP_HINT", "10000000000")],
    &[("PMEM_MOVDIR64B", "0"), ("PMEM_MOVNT_THRESHOLD", "5000"), ("PMEM_MMAP_HINT", "none")],
];

#[test]
fn sequences_have_the_answers_of_debians_library() {
    let Some(program) = Program::compile("pmem", Library::PMEM) else { return };
    let seed = lode_testing::seed(1);
    let count = lode_testing::scaled(1500);
    for (index, variables) in ENVIRONMENTS.iter().enumerate() {
        let comparison = Comparison { program: &program, seed: seed.wrapping_add(index as u64), variables };
        if let Err(difference) = comparison.run(0, count) {
            panic!("{difference}");
        }
    }
}
