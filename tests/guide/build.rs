//! Writes each program of the pages into a file of its own, and the list of them all.

#[allow(
    dead_code,
    unreachable_pub,
    reason = "a part of the library, and this program needs the blocks alone"
)]
#[path = "src/page.rs"]
mod page;

use page::{Block, PAGES, Page};
use std::fmt::Write;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?;
    let folder = Path::new(&folder);
    let (mut modules, mut list) = (String::new(), String::new());
    for name in PAGES {
        let page = Page::read(name)?;
        println!("cargo::rerun-if-changed={}", page.path.display());
        let programs = page.blocks.iter().filter_map(|block| match block {
            Block::Program { number, text, .. } => Some((number, text)),
            Block::Session { .. } => None,
        });
        for (number, text) in programs {
            let page = name.trim_end_matches(".md").to_lowercase().replace(['/', '-'], "_");
            let module = format!("{page}_{number}");
            let file = folder.join(format!("{module}.rs"));
            // The list calls it.
            fs::write(&file, text.replacen("\nfn main()", "\npub(super) fn main()", 1))?;
            let _ = writeln!(modules, "#[path = {file:?}]\nmod {module};");
            let _ = writeln!(list, "    (\"{name}\", {number}, || Ok({module}::main()?)),");
        }
    }
    let list = format!(
        "{modules}\n/// The programs: page, number, `main`.\n#[allow(clippy::needless_question_mark, reason = \"their errors have other types\")]\nconst PROGRAMS: &[(&str, usize, Main)] = &[\n{list}];\n"
    );
    fs::write(folder.join("programs.rs"), list)
}
