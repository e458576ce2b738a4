//! The instructions that each call executes: write-backs, stores past the cache, fences, in their order; and the system calls that sync, of calls
//! that take long. CONTRIBUTING.md, "Costs", says how to change it.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_capi_compare::{
    Files, KilledRun, Killer, Library, Moment, Program, Tool, ToolRun, in_memory, on_library,
};
use lode_testing::cost;
use std::fmt::Write as _;
use std::fs;

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
    let flags = fs::read_to_string("/proc/cpuinfo").unwrap();
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
    let golden = include_str!("cost.golden");
    let pools = [Library::PMEMLOG, Library::PMEMBLK].map(costs_of_pools).into_iter();
    let pools: Option<String> = pools.chain([costs_of_libpmempool()]).collect();
    let Some(pools) = pools else {
        // The rest needs what is not here, as a skipped test has told.
        assert!(golden.starts_with(&table), "the golden file does not begin with:\n{table}");
        return;
    };
    table.push_str(&pools);
    cost::compare(&table, env!("CARGO_PKG_NAME"), golden);
}

/// Returns the table of a program's run.
fn measured(name: &str, program: &Program, variables: &[(&str, &str)]) -> String {
    let output = program.run(true, &[""; 0], variables);
    assert!(output.status.success(), "{}", output.status);
    format!("{name}\n{}", String::from_utf8(output.stdout).unwrap())
}

/// Returns the costs of a library's calls: the instructions of those that are short, and the system calls of the others.
fn costs_of_pools(library: Library) -> Option<String> {
    let calls = Program::compile(&format!("{}_costs", library.name), library)?;
    let set = Program::compile(&format!("{}_set", library.name), library)?;
    let killer = Killer::compile()?;
    let arguments: [&[&str]; 3] = match library.name {
        "pmemblk" => [&["create", "512"], &["read", "0"], &["check"]],
        _ => [&["create"], &["read"], &["check"]],
    };
    let mut table = String::new();
    for (name, is_pmem) in [("flush", "1"), ("msync", "0")] {
        let variables = [("PMEM_IS_PMEM_FORCE", is_pmem), ("LD_BIND_NOW", "1")];
        table.push_str(&measured(&format!("lib{}, {name}", library.name), &calls, &variables));
        let folder = in_memory();
        let path = folder.path().display();
        let size = if library.name == "pmemblk" { 9 } else { 2 };
        fs::write(folder.path().join("set"), format!("PMEMPOOLSET\n{size}M {path}/a\n{size}M {path}/b\n"))
            .unwrap();
        for (call, arguments) in ["create and close", "open, read and close", "check"].iter().zip(arguments) {
            let mut command = killer.command(Moment::NEVER, set.path().as_os_str());
            on_library(command.args(arguments).current_dir(folder.path()), Some(&library.ours()));
            let run = KilledRun::of(&command.envs(variables).output().unwrap());
            assert_eq!(run.status, Some(0), "{call}: {}", run.output);
            add_syncs(&mut table, &format!("set of two parts: {call}"), &run);
        }
    }
    Some(table)
}

/// Returns the system calls of libpmempool's calls, which store through files.
fn costs_of_libpmempool() -> Option<String> {
    let (tool, killer) = (Tool::find()?, Killer::compile()?);
    let path = |name: &str| tool.folder().join(name).display().to_string();
    let mut table = "libpmempool\n".to_owned();
    for (lines, name) in [
        (format!("8M {}\n8M {}\nREPLICA\n8M {}\n8M {}\n", path("a"), path("b"), path("c"), path("d")), "set"),
        (format!("8M {}\n8M {}\n", path("a"), path("b")), "less"),
    ] {
        fs::write(tool.folder().join(name), format!("PMEMPOOLSET\n{lines}")).unwrap();
    }
    tool.make(&["create", "obj", "set"]);
    let sound = tool.files();
    let mut damaged = sound.clone();
    damaged.get_mut("a").unwrap()[60] ^= 1;
    let mut incomplete = sound.clone();
    incomplete.remove("d");
    let mut alone = tool.take(true, &sound, &[ToolRun::of(&["transform", "set", "less"])]).files;
    alone.retain(|name, _| name != "c" && name != "d");
    let without =
        tool.take(true, &sound, &[ToolRun::of(&["feature", "-d", "CHECK_BAD_BLOCKS", "set"])]).files;
    tool.take(true, &Files::new(), &[]);
    tool.make(&["create", "log", "-s", "2M", "log"]);
    let mut unlinked = tool.files();
    unlinked.get_mut("log").unwrap()[60] ^= 1;
    for (name, files, arguments) in [
        ("feature_query", &sound, &["feature", "-q", "SHUTDOWN_STATE", "set"][..]),
        ("feature_disable, 4 headers", &sound, &["feature", "-d", "SHUTDOWN_STATE", "set"]),
        ("feature_enable, 4 headers", &without, &["feature", "-e", "CHECK_BAD_BLOCKS", "set"]),
        ("check", &sound, &["check", "set"]),
        ("check with a repair", &unlinked, &["check", "-r", "-y", "-a", "log"]),
        ("sync, nothing to do", &sound, &["sync", "set"]),
        ("sync, a missing part", &incomplete, &["sync", "set"]),
        ("sync, a damaged header", &damaged, &["sync", "set"]),
        ("transform, a new replica", &alone, &["transform", "less", "set"]),
        ("transform, a replica less", &sound, &["transform", "set", "less"]),
        ("rm", &sound, &["rm", "set"]),
    ] {
        let run = tool.kill_at(&killer, files, &ToolRun::of(arguments), Moment::NEVER);
        assert_eq!(run.status, Some(0), "{name}: {}", run.output);
        add_syncs(&mut table, name, &run);
    }
    Some(table)
}

fn add_syncs(table: &mut String, name: &str, run: &KilledRun) {
    writeln!(table, "{name:40} m{} s{}", run.mapping_syncs, run.file_syncs).unwrap();
}
