//! Children of forks that a process with threads makes. A child on Debian's library waits for ever for a lock that no thread holds.

use lode_capi_compare::{Library, Program};

/// Children use the pools while the parent's threads read and write at the moment of each fork.
#[test]
fn children_of_threads_use_the_pool() {
    let Some(program) = Program::compile("pmemblk_forks", Library::PMEMBLK) else { return };
    for force in ["0", "1"] {
        let output = program.run(true, &[""; 0], &[("PMEM_IS_PMEM_FORCE", force)]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(text, "children failed 0\n", "PMEM_IS_PMEM_FORCE={force}: {output:?}");
    }
}
