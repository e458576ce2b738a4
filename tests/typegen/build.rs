//! Draws the families of a seed, and writes their programs.

#![allow(dead_code, unreachable_pub, reason = "parts of the library; this program needs the sources alone")]

#[path = "src/change.rs"]
mod change;
#[path = "src/content.rs"]
mod content;
#[path = "src/draw.rs"]
mod draw;
#[path = "src/model.rs"]
mod model;
#[path = "src/node.rs"]
mod node;
#[path = "src/source.rs"]
mod source;
#[path = "src/step.rs"]
mod step;
#[path = "src/types.rs"]
mod types;

use source::Source;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};
use types::Family;

/// The seed of `make test`.
const SEED: u64 = 11;
/// Families of `make test`.
const FAMILIES: u64 = 8;
/// Largest factor by which there are more: the compiler takes seconds for each.
const BUDGET_MAX: f64 = 5.0;

fn main() -> io::Result<()> {
    let setting = |name: &str| {
        println!("cargo::rerun-if-env-changed={name}");
        env::var(name).ok()
    };
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    let seed = setting("LODE_SEED").and_then(|seed| seed.parse().ok()).unwrap_or(SEED);
    let budget = setting("LODE_BUDGET").and_then(|budget| budget.parse().ok()).unwrap_or(1.0_f64);
    let count = (FAMILIES as f64 * budget.clamp(1.0, BUDGET_MAX)) as u64;
    println!("cargo::rustc-env=TYPEGEN_SEED={seed}");
    println!("cargo::rustc-env=TYPEGEN_FAMILIES={count}");
    let (mut modules, mut list) = (String::new(), String::new());
    for number in 0..count {
        let family = Family::new(seed.wrapping_add(number));
        for version in 0..family.versions.len() {
            let module = format!("family{number}_version{version}");
            let _ =
                writeln!(modules, "mod {module} {{\nuse super::*;\n{}}}", Source::program(&family, version));
            let _ = writeln!(list, "({number}, \"{version}\", program::<{module}::RootObject>),");
        }
        let module = format!("family{number}_types");
        let _ = writeln!(modules, "mod {module} {{\nuse super::*;\n{}}}", Source::types(&family, 1));
        let _ = writeln!(list, "({number}, \"types\", refused::<{module}::RootObject>),");
    }
    let list = format!("pub(crate) const PROGRAMS: &[(u64, &str, fn(Call<'_>))] = &[\n{list}];\n{modules}");
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    fs::write(Path::new(&folder).join("programs.rs"), list)
}
