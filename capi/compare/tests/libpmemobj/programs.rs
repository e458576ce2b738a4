//! Programs beyond the examples: one in C++ with a wrapper of its own, and the examples under valgrind.

use crate::transactions::printed;
use lode_capi_compare::{Library, Program, assert_memcheck_of_run_is_silent, in_memory, object_example};
use std::process::Command;

/// A run of an example: its name, arguments and input.
type Run = (&'static str, &'static [&'static str], &'static str);

/// Each example, those with most kinds of calls first. The runs of a line share a folder.
const EXAMPLES: &[&[Run]] = &[
    &[("map/mapcli", &["rbtree", "pool", "1"], "i 5\ni 7\nn 40\nc 7\nr 5\np\n")],
    &[("pi", &["pool", "calc", "4", "40"], ""), ("pi", &["pool", "done"], "")],
    &[("setjmp", &[], "")],
    &[("lists", &["pool", "0", "foo", "10"], ""), ("lists", &["pool", "0", "foo", "print"], "")],
    &[("slab_allocator/main", &["pool"], "")],
    &[("map/mapcli", &["btree", "pool", "1"], "i 5\ni 7\nn 40\nc 7\nr 5\np\n")],
    &[("map/mapcli", &["rtree", "pool", "1"], "i 5\ni 7\nn 40\nc 7\nr 5\np\n")],
    &[("map/mapcli", &["skiplist", "pool", "1"], "i 5\ni 7\nn 40\nc 7\nr 5\np\n")],
    &[("map/mapcli", &["hashmap_tx", "pool", "1"], "i 5\ni 7\nn 40\nc 7\nr 5\np\n")],
    &[("map/mapcli", &["hashmap_atomic", "pool", "1"], "i 5\ni 7\nn 40\nc 7\nr 5\np\n")],
    &[("map/mapcli", &["hashmap_rp", "pool", "1"], "i 5\ni 7\nn 40\nc 7\nr 5\np\n")],
    &[("map/data_store", &["hashmap_tx", "pool", "30"], "")],
    &[("libart/arttree", &["-m", "f", "-n", "2", "pool"], "k1\nv1\nk22\nv2\n")],
    &[("string_store/writer", &["pool"], "words\n"), ("string_store/reader", &["pool"], "")],
    &[("string_store_tx/writer", &["pool"], "words\n"), ("string_store_tx/reader", &["pool"], "")],
    &[("string_store_tx_type/writer", &["pool"], "words\n"), ("string_store_tx_type/reader", &["pool"], "")],
    &[("manpage", &[], "")],
    &[("linkedlist/fifo", &["pool", "insert", "a"], ""), ("linkedlist/fifo", &["pool", "remove"], "")],
    &[("btree", &["pool", "i", "5", "five"], ""), ("btree", &["pool", "p"], "")],
    &[("pmemlog/obj_pmemlog", &["c", "pool", "a:hello", "v:one:two:three", "t", "w", "n"], "")],
    &[("pmemlog/obj_pmemlog_macros", &["c", "pool", "a:hello", "v:one:two:three", "t", "w", "n"], "")],
    &[("pmemlog/obj_pmemlog_simple", &["c", "pool", "a:hello", "v:one:two:three", "t", "w", "n"], "")],
    &[("pmemlog/obj_pmemlog_minimal", &["c", "pool", "a:hello", "v:one:two:three", "t", "w", "n"], "")],
    &[("pmemblk/obj_pmemblk", &["c", "pool", "512", "w:3:hello", "r:3", "z:3", "e:4", "r:4"], "")],
    &[("buffons_needle_problem", &["pool", "20"], "")],
];

/// Exceptions leave transactions, which abort: of the program's own, and for want of memory; in nested ones, and in threads.
#[test]
fn wrapper_in_cpp_has_the_same_pools() {
    let Some(program) = Program::compile_cpp("pmemobj_wrapper", Library::PMEMOBJ) else { return };
    let [theirs, ours] = [false, true].map(|is_ours| printed(&program, is_ours, &[]));
    assert_eq!(theirs, ours);
    assert!(ours.contains("threads: count 5 objects 5: 204 203 3 2 1 stage 0\n"), "{ours}");
}

/// valgrind's memcheck finds no wrong access and no lost memory. A soak takes more examples, and others with each seed.
#[test]
fn memcheck_is_silent() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return lode_testing::skip("memcheck_is_silent", "needs valgrind and the examples of libpmemobj-dev");
    }
    let first = lode_testing::seed(0) as usize % EXAMPLES.len();
    let count = EXAMPLES.len().min(lode_testing::scaled(1) as usize);
    for runs in EXAMPLES.iter().cycle().skip(first).take(count) {
        let folder = in_memory();
        for (name, arguments, input) in *runs {
            let Some(program) = object_example(name) else { return };
            let code =
                assert_memcheck_of_run_is_silent(&program, Library::PMEMOBJ, folder.path(), arguments, input);
            // `obj_pmemlog_simple` asks for more than its pool has.
            assert!(code == Some(0) || name.ends_with("_simple"), "{name}: {code:?}");
        }
    }
}
