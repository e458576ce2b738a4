//! Compiles the floors, the drivers of libpmemblk and libpmemlog, and that of libpmemobj together with the tree that its
//! Debian package installs as an example.
//!
//! The example is never part of this repository: it is unpacked from the package's documentation into the
//! build folder, and becomes one compilation unit with our driver.

use flate2::read::GzDecoder;
use std::error::Error;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

const EXAMPLE: &str = "/usr/share/doc/libpmemobj-dev/examples/libart";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    for name in ["art.c", "art.h"] {
        fs::write(out.join(name), example(name)?)?;
    }
    let mut driver = cc::Build::new();
    driver.file("c/pmemobj.c").include(&out).define("NDEBUG", None);
    // The example is foreign code, so its warnings are not fixed here. Both sides are built for plain x86-64.
    driver.opt_level(2).warnings(false).flag("-w").compile("lode_bench_pmemobj");
    for name in ["floor", "pmemblk", "pmemlog"] {
        let source = format!("c/{name}.c");
        cc::Build::new().file(&source).opt_level(2).compile(&format!("lode_bench_{name}"));
        println!("cargo::rerun-if-changed={source}");
    }
    for library in ["pmemobj", "pmemblk", "pmemlog", "rocksdb"] {
        println!("cargo::rustc-link-lib={library}");
    }
    println!("cargo::rerun-if-changed=c/pmemobj.c");
    println!("cargo::rerun-if-changed={EXAMPLE}");
    Ok(())
}

/// The text of one file of the example, which the package may have compressed.
fn example(name: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let plain = Path::new(EXAMPLE).join(name);
    if plain.exists() {
        return Ok(fs::read(plain)?);
    }
    let packed = Path::new(EXAMPLE).join(format!("{name}.gz"));
    let file = File::open(&packed)
        .map_err(|error| format!("{}: {error}; install the packages of packages.txt", packed.display()))?;
    let mut text = Vec::new();
    GzDecoder::new(file).read_to_end(&mut text)?;
    Ok(text)
}
