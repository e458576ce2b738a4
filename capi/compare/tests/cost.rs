//! The instructions that each call executes: write-backs, stores past the cache, fences, in their order. CONTRIBUTING.md,
//! "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_capi_compare::{Library, Program};
use lode_testing::cost;

/// Environments: each way to make stores durable.
const ENVIRONMENTS: [(&str, &[(&str, &str)]); 5] = [
    ("flush", &[("PMEM_NO_FLUSH", "0")]),
    ("flush in order", &[("PMEM_NO_FLUSH", "0"), ("PMEM_NO_CLWB", "1"), ("PMEM_NO_CLFLUSHOPT", "1")]),
    ("no flush", &[("PMEM_NO_FLUSH", "1")]),
    ("through the cache", &[("PMEM_NO_FLUSH", "0"), ("PMEM_NO_MOVNT", "1")]),
    ("past the cache", &[("PMEM_NO_FLUSH", "0"), ("PMEM_MOVNT_THRESHOLD", "0")]),
];

/// Environments of libpmem2: each granularity, and each way to make stores durable with the one of lines.
const GRANULARITIES: [(&str, &[(&str, &str)]); 6] = [
    ("libpmem2, lines", &[("PMEM2_FORCE_GRANULARITY", "CACHE_LINE")]),
    (
        "libpmem2, lines, flush in order",
        &[("PMEM2_FORCE_GRANULARITY", "CACHE_LINE"), ("PMEM_NO_CLWB", "1"), ("PMEM_NO_CLFLUSHOPT", "1")],
    ),
    (
        "libpmem2, lines, through the cache",
        &[("PMEM2_FORCE_GRANULARITY", "CACHE_LINE"), ("PMEM_NO_MOVNT", "1")],
    ),
    (
        "libpmem2, lines, past the cache",
        &[("PMEM2_FORCE_GRANULARITY", "CACHE_LINE"), ("PMEM_MOVNT_THRESHOLD", "0")],
    ),
    ("libpmem2, bytes", &[("PMEM2_FORCE_GRANULARITY", "BYTE")]),
    ("libpmem2, pages", &[("PMEM2_FORCE_GRANULARITY", "PAGE")]),
];

#[test]
fn costs_match_golden_file() {
    let flags = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    if !flags.contains("clwb") && !flags.contains("clflushopt") {
        return lode_testing::skip("costs_match_golden_file", "needs an x86-64 CPU with CLWB or CLFLUSHOPT");
    }
    let Some(program) = Program::compile("pmem_instructions", Library::PMEM) else { return };
    let Some(second) = Program::compile("pmem2_instructions", Library::PMEM2) else { return };
    let mut table = String::new();
    for (name, variables) in ENVIRONMENTS {
        // The loader binds all functions before the first call.
        let variables: Vec<_> = variables.iter().copied().chain([("LD_BIND_NOW", "1")]).collect();
        table.push_str(&measured(name, &program, &variables));
    }
    for (name, variables) in GRANULARITIES {
        let variables: Vec<_> = variables.iter().copied().chain([("LD_BIND_NOW", "1")]).collect();
        table.push_str(&measured(name, &second, &variables));
    }
    cost::compare(&table, env!("CARGO_PKG_NAME"), include_str!("cost.golden"));
}

/// Returns the table of a program's run.
fn measured(name: &str, program: &Program, variables: &[(&str, &str)]) -> String {
    let output = program.run(true, &[""; 0], variables);
    assert!(output.status.success(), "{}", output.status);
    format!("{name}\n{}", String::from_utf8(output.stdout).unwrap())
}
