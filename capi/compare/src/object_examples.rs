//! The examples of libpmemobj-dev, and programs with their maps: the sources, compiled once for all runs of the tests.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the examples.
const EXAMPLES: &str = "/usr/share/doc/libpmemobj-dev/examples";

/// The map, with all its kinds but the programs.
const MAP: &[&str] = &[
    "map/map.c",
    "map/map_btree.c",
    "map/map_ctree.c",
    "map/map_hashmap_atomic.c",
    "map/map_hashmap_rp.c",
    "map/map_hashmap_tx.c",
    "map/map_rbtree.c",
    "map/map_rtree.c",
    "map/map_skiplist.c",
    "hashmap/hashmap_atomic.c",
    "hashmap/hashmap_rp.c",
    "hashmap/hashmap_tx.c",
    "list_map/skiplist_map.c",
    "tree_map/btree_map.c",
    "tree_map/ctree_map.c",
    "tree_map/rbtree_map.c",
    "tree_map/rtree_map.c",
];

/// Words of the sources that the tests change: pools that are smaller, in the current folder, and numbers that each run has alike.
const CHANGES: [(&str, &str); 5] = [
    ("/pmem-fs/myfile", "pool"),
    ("1 << 30", "1 << 25"),
    ("1024 * 1024 * 100", "1024 * 1024 * 40"),
    ("160 * 1024 * 1024", "16 * 1024 * 1024"),
    ("time(NULL)", "7"),
];

/// Compiles the program of this name below the folder of the examples. `None`, and a line of a skipped test, if they are not
/// installed.
///
/// # Cost
/// A second for each change of the sources; the program stays beside the running test.
pub fn object_example(name: &str) -> Option<PathBuf> {
    compiled(name, &sources(name))
}

/// Compiles `c/NAME.c` with the maps of the examples, as [`object_example`] compiles an example.
///
/// # Cost
/// As [`object_example`].
pub(crate) fn program_with_maps(name: &str) -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(name).with_extension("c");
    let maps = MAP.iter().map(|path| (*path).to_owned());
    compiled(name, &std::iter::once(own.display().to_string()).chain(maps).collect::<Vec<_>>())
}

/// Returns the program of these sources, which are below the folder of the examples unless their paths are absolute.
fn compiled(name: &str, sources: &[String]) -> Option<PathBuf> {
    if !Path::new(EXAMPLES).is_dir() {
        lode_testing::skip("examples_of_libpmemobj", "the package has no examples here");
        return None;
    }
    let headers = Path::new(env!("CARGO_MANIFEST_DIR")).join("c");
    let sources: Vec<PathBuf> = sources.iter().map(|path| Path::new(EXAMPLES).join(path)).collect();
    let mut hasher = DefaultHasher::new();
    (CHANGES, fs::read(headers.join("ex_common.h")).unwrap()).hash(&mut hasher);
    sources.iter().for_each(|source| fs::read(source).unwrap().hash(&mut hasher));
    let cache = std::env::current_exe().unwrap().with_file_name("libpmemobj-examples");
    let program = cache.join(format!("{}-{:016x}", name.replace('/', "_"), hasher.finish()));
    if !program.exists() {
        fs::create_dir_all(&cache).unwrap();
        let work = tempfile::tempdir_in(&cache).unwrap();
        let new = work.path().join("program");
        compile(&sources, &headers, work.path(), &new);
        fs::rename(&new, &program).unwrap();
    }
    Some(program)
}

fn compile(sources: &[PathBuf], headers: &Path, work: &Path, program: &Path) {
    let mut compiler = Command::new("cc");
    // The tree of `libart` defines a table in its header. The variables of `setjmp` have the values of the example without optimisation.
    compiler.args(["-O0", "-w", "-Wl,-z,muldefs"]).arg(format!("-I{}", headers.display()));
    for folder in ["", "map", "hashmap", "tree_map", "list_map", "libart"] {
        compiler.arg(format!("-I{EXAMPLES}/{folder}"));
    }
    for source in sources {
        let text = fs::read_to_string(source).unwrap();
        let text = CHANGES.iter().fold(text, |text, (old, new)| text.replace(old, new));
        let copy = work.join(source.file_name().unwrap());
        fs::write(&copy, text).unwrap();
        compiler.arg(format!("-I{}", source.parent().unwrap().display())).arg(copy);
    }
    let compiled = compiler.arg("-o").arg(program).args(["-lpmemobj", "-lpthread", "-lm"]).status();
    assert!(compiled.unwrap().success(), "{sources:?} do not compile");
}

/// Returns the sources of a program.
fn sources(name: &str) -> Vec<String> {
    let own = format!("{name}.c");
    let with = |others: &[&str]| {
        let others = others.iter().map(|path| (*path).to_owned());
        std::iter::once(own.clone()).chain(others).collect()
    };
    match name {
        "map/mapcli" | "map/data_store" => with(MAP),
        "slab_allocator/main" => with(&["slab_allocator/slab_allocator.c"]),
        "libart/arttree" => with(&["libart/art.c"]),
        _ => with(&[]),
    }
}
