//! Compiles the floors, the drivers of libpmem, libpmemblk and libpmemlog, and those of libpmemobj together with the trees and the hash map
//! that its Debian package installs as examples.
//!
//! The examples are never part of this repository: they are unpacked from the package's documentation into the
//! build folder, and become one compilation unit with our drivers.

use flate2::read::GzDecoder;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "/usr/share/doc/libpmemobj-dev/examples";
/// The files of the examples that each driver includes.
const DRIVERS: [(&str, &[&str]); 2] = [
    ("pmemobj", &["libart/art.c", "libart/art.h"]),
    (
        "containers",
        &[
            "tree_map/btree_map.c",
            "tree_map/btree_map.h",
            "hashmap/hashmap.h",
            "hashmap/hashmap_internal.h",
            "hashmap/hashmap_tx.c",
            "hashmap/hashmap_tx.h",
        ],
    ),
];

/// The files of the examples that the driver of libpmemobj in the C ABI is linked with.
const OBJECTS: [&str; 10] = [
    "libart/art.c",
    "libart/art.h",
    "tree_map/btree_map.c",
    "tree_map/btree_map.h",
    "tree_map/rbtree_map.c",
    "tree_map/rbtree_map.h",
    "hashmap/hashmap.h",
    "hashmap/hashmap_internal.h",
    "hashmap/hashmap_tx.c",
    "hashmap/hashmap_tx.h",
];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for (driver, files) in DRIVERS {
        let folder = out.join(driver);
        unpack(files, &folder)?;
        let source = format!("c/{driver}.c");
        let mut build = cc::Build::new();
        build.file(&source).include(&folder).define("NDEBUG", None);
        // The examples are foreign code, so their warnings are not fixed here. Both sides are built for plain x86-64.
        build.opt_level(2).warnings(false).flag("-w").compile(&format!("lode_bench_{driver}"));
        println!("cargo::rerun-if-changed={source}");
    }
    for name in ["floor", "pmemblk", "pmemlog"] {
        let source = format!("c/{name}.c");
        cc::Build::new().file(&source).opt_level(2).compile(&format!("lode_bench_{name}"));
        println!("cargo::rerun-if-changed={source}");
    }
    link_driver(&out, &["pmem"], &[], &["-lpmem", "-lpmem2"])?;
    link_driver(&out, &["pools"], &[], &["-lpmemlog", "-lpmemblk"])?;
    link_driver(&out, &["objects", "traps"], &OBJECTS, &["-lpmemobj"])?;
    link_driver(&out, &["sample", "traps"], &[], &[])?;
    let all = ["-Wl,--no-as-needed", "-lpmem", "-lpmem2", "-lpmemlog", "-lpmemblk", "-lpmempool"];
    link_driver(&out, &["start"], &[], &all)?;
    println!("cargo::rerun-if-changed=c/traps.h");
    for library in ["pmemobj", "pmemblk", "pmemlog", "rocksdb"] {
        println!("cargo::rustc-link-lib={library}");
    }
    println!("cargo::rerun-if-changed={EXAMPLES}");
    Ok(())
}

/// Unpacks files of the examples into a folder. Returns their paths.
fn unpack(files: &[&str], folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    let mut paths = Vec::new();
    for file in files {
        let path = folder.join(Path::new(file).file_name().ok_or("a file has a name")?);
        fs::write(&path, example(file)?)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Links a driver of the C ABI, a program of its own with the name of its first source, with files of the examples: the loader
/// chooses its libraries.
fn link_driver(out: &Path, names: &[&str], files: &[&str], libraries: &[&str]) -> Result<(), Box<dyn Error>> {
    let own: Vec<String> = names.iter().map(|name| format!("c/{name}.c")).collect();
    let name = names[0];
    let program = out.join(format!("{name}-driver"));
    let folder = out.join(format!("{name}-examples"));
    let unpacked = unpack(files, &folder)?;
    let sources = unpacked.iter().filter(|path| path.extension().is_some_and(|extension| extension == "c"));
    let mut compiler = cc::Build::new().opt_level(2).get_compiler().to_command();
    compiler.arg("-w").arg("-DNDEBUG").arg("-I").arg(&folder).arg("-o").arg(&program).args(&own);
    let linked = compiler.args(sources).args(libraries).status()?;
    if !linked.success() {
        return Err(format!("{} does not link; install the packages of packages.txt", own.join(" ")).into());
    }
    println!("cargo::rustc-env=LODE_BENCH_{}_DRIVER={}", name.to_uppercase(), program.display());
    own.iter().for_each(|source| println!("cargo::rerun-if-changed={source}"));
    Ok(())
}

/// The text of one file of an example, which the package may have compressed.
fn example(name: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let plain = Path::new(EXAMPLES).join(name);
    if plain.exists() {
        return Ok(fs::read(plain)?);
    }
    let packed = Path::new(EXAMPLES).join(format!("{name}.gz"));
    let file = File::open(&packed)
        .map_err(|error| format!("{}: {error}; install the packages of packages.txt", packed.display()))?;
    let mut text = Vec::new();
    GzDecoder::new(file).read_to_end(&mut text)?;
    Ok(text)
}
