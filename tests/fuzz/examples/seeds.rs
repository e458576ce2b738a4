//! Writes the seeds of all targets into their corpora: `cargo run -p lode-fuzz --example seeds`.

use std::fs;
use std::io;
use std::path::Path;

fn main() -> io::Result<()> {
    for target in lode_fuzz::TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
        fs::create_dir_all(&folder)?;
        for (name, bytes) in (target.seeds)() {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
