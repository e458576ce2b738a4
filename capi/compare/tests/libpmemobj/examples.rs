//! The examples of Debian's libpmemobj-dev: the same outputs, and pools with the same objects, on both libraries.
//!
//! Left out: `pminvaders`, which draws on a terminal; `kv_server` and `pmemobjfs`, which need headers of libuv and fuse; `arttree_examine`,
//! which prints offsets; `mapcli ctree`, which ends on Debian's library with a signal, since its values are null.

use crate::object_graph::object_lines;
use lode_capi_compare::{Library, Program, in_memory, object_example, on_library};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A run of a program. The pool is the file `pool` of the current folder.
struct Run {
    /// Name of the example, or `pmempool`.
    program: &'static str,
    arguments: &'static [&'static str],
    input: &'static str,
}

/// The parts of the pools that both libraries write alike.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Alike {
    /// All bytes of the objects, and the way from object to object.
    Contents,
    /// Type numbers and sizes. Objects that were freed leave their bytes, and another allocator gives other blocks; PMDK leaves
    /// bytes of its stack in new objects; locks have bytes of the library.
    Shapes,
}

use Alike::{Contents, Shapes};

const fn run(program: &'static str, arguments: &'static [&'static str]) -> Run {
    Run { program, arguments, input: "" }
}

const fn fed(program: &'static str, arguments: &'static [&'static str], input: &'static str) -> Run {
    Run { program, arguments, input }
}

/// Takes the runs on one library. Returns the outputs, and the lines of the pool's objects.
fn take(is_ours: bool, runs: &[Run], alike: Alike) -> Option<(String, Vec<String>)> {
    let folder = in_memory();
    let mut text = String::new();
    for run in runs {
        let output = start(folder.path(), is_ours, run)?;
        let _ = writeln!(text, "{} {:?}: {output}", run.program, run.arguments);
    }
    let pool = folder.path().join("pool");
    let check = Run { program: "pmempool", arguments: &["check", "-v", "pool"], input: "" };
    text += &start(folder.path(), false, &check)?;
    let mut lines = object_lines(&pool);
    if alike == Shapes {
        let shape = |line: &String| {
            let (before, _) = line.split_once(" content ").unwrap();
            before[before.find("type").unwrap()..].to_owned()
        };
        lines = lines.iter().map(shape).collect();
        lines.sort_unstable();
    }
    Some((text, lines))
}

fn start(folder: &Path, is_ours: bool, run: &Run) -> Option<String> {
    let mut command = match run.program {
        "pmempool" => Command::new("pmempool"),
        name => Command::new(object_example(name)?),
    };
    on_library(&mut command, is_ours.then(|| Library::PMEMOBJ.ours()).as_deref());
    command.args(run.arguments).current_dir(folder).env("PMEM_IS_PMEM_FORCE", "1").env("LC_ALL", "C");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may end before it reads.
    let _ = child.stdin.take().unwrap().write_all(run.input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let [out, errors] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    if is_ours && !output.status.success() {
        // Debian's library does not recover what a process on ours has left that did not close its pool.
        Program::compile("pmemobj_reopen", Library::PMEMOBJ)?.run_in(folder, true, &["pool"], &[]);
    }
    Some(format!("{}\n{out}{errors}", output.status))
}

/// Takes the runs on both libraries and compares outputs and pools. Then each run is on the other library than the one before.
fn compare(runs: &[Run], alike: Alike) {
    if let Some(wanted) = compare_alone(runs, alike) {
        alternate(runs, &wanted);
    }
}

/// Takes the runs on both libraries and compares outputs and pools. Returns the outputs.
fn compare_alone(runs: &[Run], alike: Alike) -> Option<String> {
    let (theirs, ours) = (take(false, runs, alike)?, take(true, runs, alike)?);
    assert_eq!(theirs.0, ours.0);
    for (their_line, our_line) in theirs.1.iter().zip(&ours.1) {
        assert_eq!(their_line, our_line, "\n{:#?}\n{:#?}", theirs.1, ours.1);
    }
    assert_eq!(theirs.1.len(), ours.1.len());
    Some(theirs.0)
}

/// Takes each run on the other library than the one before, in one folder.
fn alternate(runs: &[Run], wanted: &str) {
    for is_first_ours in [false, true] {
        let folder = in_memory();
        let mut text = String::new();
        for (index, run) in runs.iter().enumerate() {
            let is_ours = (index % 2 == 0) == is_first_ours;
            let output = start(folder.path(), is_ours, run).unwrap_or_default();
            let _ = writeln!(text, "{} {:?}: {output}", run.program, run.arguments);
        }
        assert!(wanted.starts_with(&text), "{wanted}\n{text}");
    }
}

const FILL: &str = "i 5\ni 7\ni 5\nn 300\nc 7\nr 5\nr 5\nc 5\ni x\nh\nz\np\n";
const CHANGE: &str = "c 7\nr 7\nn 50\nc 7\nb 2\nd\np\n";

/// Three runs on a map of one kind.
macro_rules! maps {
    ($($name:ident;)+) => {$(
        #[test]
        fn $name() {
            const KIND: &str = stringify!($name);
            let program = "map/mapcli";
            let runs = [
                fed(program, &[KIND, "pool", "1"], FILL),
                fed(program, &[KIND, "pool", "2"], CHANGE),
                fed(program, &[KIND, "pool", "3"], "c 7\np\n"),
            ];
            compare(&runs, Shapes);
        }
    )+};
}

maps! {
    btree;
    rtree;
    rbtree;
    skiplist;
    hashmap_tx;
    hashmap_atomic;
    hashmap_rp;
}

/// Each kind of map is filled, listed and emptied. The program itself compares.
#[test]
fn data_stores() {
    let kinds = ["ctree", "btree", "rbtree", "hashmap_tx", "hashmap_atomic", "hashmap_rp", "skiplist"];
    let count = lode_testing::scaled(2).min(7) as usize;
    for kind in &kinds[..count] {
        let arguments: &'static [&'static str] = Box::leak(Box::new([*kind, "pool", "300"]));
        compare(&[run("map/data_store", arguments), run("map/data_store", arguments)], Shapes);
    }
}

#[test]
fn libart() {
    let program = "libart/arttree";
    let runs = [
        fed(program, &["-m", "f", "-n", "6", "pool"], "k1\nv1\nk22\nv2\nabc\nd\nabd\ne\nabcd\nf\nk22\nnew\n"),
        run(program, &["-m", "s", "k22:x", "pool"]),
        run(program, &["-m", "s", "none:x", "pool"]),
        run(program, &["-m", "d", "pool"]),
        run(program, &["-m", "r", "k1", "pool"]),
        run(program, &["-m", "d", "pool"]),
    ];
    compare(&runs, Shapes);
}

/// The pool is made by `pmempool`, which calls the library, too.
#[test]
fn queue() {
    let program = "queue/queue";
    let runs = [
        run("pmempool", &["create", "--layout", "queue", "obj", "pool"]),
        run(program, &["pool", "show"]),
        run(program, &["pool", "new", "3"]),
        run(program, &["pool", "enqueue", "one"]),
        run(program, &["pool", "enqueue", "two"]),
        run(program, &["pool", "enqueue", "three"]),
        run(program, &["pool", "enqueue", "four"]),
        run(program, &["pool", "dequeue"]),
        run(program, &["pool", "enqueue", "five"]),
        run(program, &["pool", "show"]),
    ];
    compare(&runs, Shapes);
}

/// Three versions: with persists, with transactions, and with types.
#[test]
fn string_stores() {
    for [writer, reader] in [
        ["string_store/writer", "string_store/reader"],
        ["string_store_tx/writer", "string_store_tx/reader"],
        ["string_store_tx_type/writer", "string_store_tx_type/reader"],
    ] {
        compare(
            &[fed(writer, &["pool"], "words\n"), fed(writer, &["pool"], "x\n"), run(reader, &["pool"])],
            Contents,
        );
    }
}

/// Classes of the program, whose objects have no header.
#[test]
fn slab_allocator() {
    compare(&[run("slab_allocator/main", &["pool"]), run("slab_allocator/main", &["pool"])], Contents);
}

/// A longjmp out of the library.
#[test]
fn setjmp() {
    compare(&[run("setjmp", &[]), run("setjmp", &[])], Contents);
    compare(&[run("manpage", &[]), run("manpage", &[])], Contents);
}

/// Atomic lists. Their heads have a lock.
#[test]
fn lists() {
    let add = |list: &'static [&'static str]| run("lists", list);
    let runs = [
        add(&["pool", "0", "foo", "10"]),
        add(&["pool", "0", "foo", "11"]),
        add(&["pool", "0", "bar", "12"]),
        add(&["pool", "9", "bar", "13"]),
        add(&["pool", "10", "bar", "13"]),
        add(&["pool", "0", "foo", "print"]),
        add(&["pool", "0", "bar", "print"]),
        add(&["pool", "9", "bar", "print"]),
    ];
    compare(&runs, Shapes);
}

/// Threads move elements from list to list.
#[test]
fn pi() {
    let runs = [
        run("pi", &["pool", "calc", "1", "1000"]),
        run("pi", &["pool", "done"]),
        run("pi", &["pool", "calc", "4", "4000"]),
        run("pi", &["pool", "todo"]),
        run("pi", &["pool", "print"]),
        run("pi", &["pool", "finish"]),
    ];
    compare(&runs, Shapes);
}

#[test]
fn fifo() {
    let program = "linkedlist/fifo";
    let runs = [
        run(program, &["pool", "print"]),
        run(program, &["pool", "insert", "a"]),
        run(program, &["pool", "insert", "b"]),
        run(program, &["pool", "insert", "c"]),
        run(program, &["pool", "remove"]),
        run(program, &["pool", "print"]),
        run(program, &["pool", "remove"]),
    ];
    compare(&runs, Shapes);
}

#[test]
fn btree_of_words() {
    let runs = [
        run("btree", &["pool", "i", "5", "five"]),
        run("btree", &["pool", "i", "3", "three"]),
        run("btree", &["pool", "i", "8", "eight"]),
        run("btree", &["pool", "f", "3"]),
        run("btree", &["pool", "f", "4"]),
        run("btree", &["pool", "p"]),
    ];
    compare(&runs, Shapes);
}

/// Four logs, made of objects.
#[test]
fn logs() {
    for name in ["obj_pmemlog", "obj_pmemlog_macros", "obj_pmemlog_simple", "obj_pmemlog_minimal"] {
        let program = Box::leak(format!("pmemlog/{name}").into_boxed_str());
        let runs = [
            run(program, &["c", "pool", "a:hello", "v:one:two:three", "t", "w", "n"]),
            run(program, &["o", "pool", "a:more", "w", "t", "r", "a:x", "w"]),
            run(program, &["o", "pool", "w"]),
        ];
        let wanted = compare_alone(&runs, Shapes);
        // The minimal log has its entries in the order of their places, which another allocator does not keep.
        if let Some(wanted) = wanted.filter(|_| name != "obj_pmemlog_minimal") {
            alternate(&runs, &wanted);
        }
    }
}

#[test]
fn blocks() {
    let program = "pmemblk/obj_pmemblk";
    let runs = [
        run(
            program,
            &["c", "pool", "512", "n", "w:3:hello", "r:3", "z:3", "r:3", "e:4", "r:4", "w:4:x", "r:4"],
        ),
        run(program, &["o", "pool", "512", "w:99999999:x", "r:4", "w:5:words", "r:5"]),
    ];
    compare(&runs, Shapes);
}

/// Each trial is a transaction.
#[test]
fn needles() {
    let program = "buffons_needle_problem";
    compare(
        &[run(program, &["pool", "500"]), run(program, &["pool"]), run(program, &["pool", "100"])],
        Contents,
    );
}

/// The outputs of the examples are what their authors meant, so that equal outputs mean something.
#[test]
fn outputs_are_those_of_working_programs() {
    let Some((text, lines)) =
        take(false, &[fed("map/mapcli", &["btree", "pool", "1"], "i 5\nc 5\nc 6\n")], Contents)
    else {
        return;
    };
    assert!(text.contains("seed: 1\n1\n0\n") && text.contains("pool: consistent"), "{text}");
    assert!(lines.len() > 2, "{lines:?}");
}
