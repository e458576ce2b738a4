//! Settings by their names, and from the environment: the same answers on both libraries.

use lode_capi_compare::{Library, Program};

/// Values of PMEMOBJ_CONF, good and bad ones. PMDK ends the process for a text without a value.
const TEXTS: &[&str] = &[
    "",
    "unknown=1;",
    "tx.cache.size=5",
    "tx.cache.size=-5;",
    "tx.cache.size=x;",
    "tx.cache.size=1K;tx.cache.threshold=7",
    "tx.cache.size=0x10;",
    "heap.alloc_class.129.desc=200,0,500,compact;",
    "heap.alloc_class.129.desc=200,0,500,none;",
    "heap.alloc_class.129.desc=128,64,500,legacy;",
    "heap.alloc_class.129.desc=200,0,500,foo;",
    "heap.alloc_class.129.desc=200,0,500;",
    "heap.alloc_class.129.desc=200,0,500,compact,3;",
    "heap.alloc_class.129.desc=2K,0,500,compact;",
    "heap.alloc_class.129.desc=200,7,500,compact;",
    "heap.alloc_class.new.desc=200,0,500,compact;",
    "heap.alloc_class.5.desc=200,0,500,compact;",
    "heap.alloc_class.300.desc=200,0,500,compact;",
    "heap.narenas.max=5;",
    "heap.arena.create=1;",
    "heap.size.granularity=5000000;",
    "heap.size.granularity=5;",
    "heap.size.granularity=0;",
    "stats.enabled=1;",
    "stats.enabled=both;",
    "stats.enabled=disabled;",
    "stats.enabled=persistent;",
    "stats.enabled=transient;",
    "sds.at_create=7;",
    "sds.at_create=no;prefault.at_open=Y",
    "sds.at_create=x;",
    "heap.arenas_assignment_type=global;",
    "heap.arenas_assignment_type=foo;",
    "heap.arenas_default_max=0;",
    "debug.heap.alloc_pattern=5;",
    "tx.post_commit.queue_depth=5;",
    "stats.heap.curr_allocated=5;",
    "heap.arena.1.automatic=yes;",
    "heap.thread.arena_id=2;",
    "tx.debug.skip_expensive_checks=1;tx.debug.verify_user_buffers=n",
    "tx.debug.skip_expensive_checks=7",
    ";;",
];

fn compare(program: &Program, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let [theirs, ours] = [false, true].map(|is_ours| {
        let output = program.run(is_ours, arguments, variables);
        format!("{}{}", String::from_utf8_lossy(&output.stdout), output.status)
    });
    for (their_line, our_line) in theirs.lines().zip(ours.lines()) {
        assert_eq!(their_line, our_line, "{variables:?}");
    }
    assert_eq!(theirs.lines().count(), ours.lines().count(), "{variables:?}");
    ours
}

#[test]
fn names_are_got_set_and_run_alike() {
    let Some(program) = Program::compile("pmemobj_settings", Library::PMEMOBJ) else { return };
    let text = compare(&program, &[], &[("PMEM_IS_PMEM_FORCE", "1")]);
    assert!(text.contains("0 pool tx.cache.size 0 = 0 [8000 0 0 0]"), "{text}");
}

#[test]
fn variables_are_read_alike() {
    let Some(program) = Program::compile("pmemobj_settings", Library::PMEMOBJ) else { return };
    let mut refused = 0;
    for text in TEXTS {
        let variables = [("PMEM_IS_PMEM_FORCE", "1"), ("PMEMOBJ_CONF", text)];
        refused += usize::from(compare(&program, &["environment"], &variables).contains("no pool"));
    }
    assert!((10..TEXTS.len() - 10).contains(&refused), "{refused} refused");
}
