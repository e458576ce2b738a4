//! Settings by their names, and from the environment: the same answers on both libraries.

use super::transactions::{assert_same_cases, printed};
use lode_capi_compare::{Library, Program, SetFolder};
use std::fs;

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

/// Texts of a file of settings, good and bad ones.
const FILES: &[&str] = &[
    "",
    "tx.cache.size=5;",
    "tx.cache.size=5;\n",
    "tx.cache.size=5\n",
    "# a comment\ntx.cache.size=5; # another\nheap.size.granularity=5000000;\n",
    "tx.cache.size = 5 ;\n\theap.size.granularity\t=\n5000000\n;\n",
    "#tx.cache.size=5;",
    "tx.cache.size=5;#",
    "heap.alloc_class.129.desc=200,0,500,compact;\nstats.enabled=both;\n",
    "heap.alloc_class.129.desc=200, 0, 500, compact;\n",
    "unknown=1;\n",
    "tx.cache.size=x;\n",
    "heap.size.granularity=5;\n",
    "sds.at_create=0;prefault.at_open=1;\ntx.debug.skip_expensive_checks=1",
];

/// Also beside the text of the other variable, which is read before.
#[test]
fn files_are_read_alike() {
    let Some(program) = Program::compile("pmemobj_settings", Library::PMEMOBJ) else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("settings");
    let mut refused = 0;
    for text in FILES {
        fs::write(&file, text).unwrap();
        for conf in ["", "tx.cache.size=77777;tx.cache.threshold=9;"] {
            let path = file.to_str().unwrap();
            let variables =
                [("PMEM_IS_PMEM_FORCE", "1"), ("PMEMOBJ_CONF_FILE", path), ("PMEMOBJ_CONF", conf)];
            refused += usize::from(compare(&program, &["environment"], &variables).contains("no pool"));
        }
    }
    assert!((4..2 * FILES.len() - 4).contains(&refused), "{refused} refused");
    for path in ["", "/dev/null"] {
        let variables = [("PMEM_IS_PMEM_FORCE", "1"), ("PMEMOBJ_CONF_FILE", path)];
        compare(&program, &["environment"], &variables);
    }
    // PMDK's library ends the process when it is loaded.
    let long = folder.path().join("long");
    fs::write(&long, format!("tx.cache.size=5;#{}\n", "x".repeat(2 << 20))).unwrap();
    for path in [long.to_str().unwrap(), folder.path().to_str().unwrap(), "missing"] {
        let variables = [("PMEM_IS_PMEM_FORCE", "1"), ("PMEMOBJ_CONF_FILE", path)];
        let [theirs, ours] = [false, true].map(|is_ours| program.run(is_ours, &["environment"], &variables));
        assert!(!theirs.status.success() && theirs.stdout.is_empty(), "{path}: {theirs:?}");
        let text = String::from_utf8_lossy(&ours.stdout);
        assert!(ours.status.success() && text.ends_with("no pool, errno 22\n"), "{path}: {ours:?}");
    }
}

/// A program changes a private copy of the pool: the files stay as they were, and the next open finds the pool as it was. Ours makes no
/// new part in a directory either.
#[test]
fn private_copies_leave_the_files() {
    let Some(program) = Program::compile("pmemobj_set", Library::PMEMOBJ) else { return };
    let copy = [("PMEMOBJ_CONF", "copy_on_write.at_open=1;")];
    for lines in ["9M @/a\n", "9M @/a\n9M @/b\n", "9M @/a\nREPLICA\n9M @/b\n", "OPTION SINGLEHDR\n32M @/d\n"]
    {
        for is_maker_ours in [false, true] {
            let set = SetFolder::new(lines);
            set.call(&program, is_maker_ours, &["create", "alloc:30:1000", "alloc:3:300000"]).unwrap();
            // An open leaves other numbers in the pool.
            let shown = set.call(&program, true, &["open", "show"]).unwrap();
            let content = |names: &[String]| {
                let read = |name: &String| (name.clone(), fs::read(set.path().join(name)).unwrap());
                names.iter().map(read).collect::<Vec<_>>()
            };
            let (names, before) = (set.names(), content(&set.names()));
            for is_ours in [true, false] {
                let words = ["open", "change:7", "free:3", "tx:20:3000", "change:8", "fill:200000", "show"];
                let changed = set.call_with(&program, is_ours, &words, &copy).unwrap();
                assert_ne!(changed, shown);
                let killed = set.call_with(&program, is_ours, &["open", "change:7", "kill"], &copy);
                assert!(killed.unwrap_err().starts_with("signal: 9"));
                assert!(content(&names) == before, "{lines}, made by ours: {is_maker_ours}, ours: {is_ours}");
                assert!(!is_ours || set.names() == names, "{lines}: {:?}", set.names());
            }
            for is_ours in [false, true] {
                assert_eq!(set.call(&program, is_ours, &["open", "show"]).unwrap(), shown);
            }
        }
    }
}

/// Ours are also exact whatever is enabled.
#[test]
fn statistics_are_pmdks() {
    assert_same_cases("pmemobj_statistics");
    let Some(program) = Program::compile("pmemobj_statistics", Library::PMEMOBJ) else { return };
    let own = printed(&program, true, &["own"]);
    assert_eq!(own.matches("all 1 runs 1 active 1 opened 1 1\n").count(), 4, "{own}");
}
