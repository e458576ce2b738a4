//! Programs that the bench runs.

use std::env;
use std::path::{Path, PathBuf};

/// Why a row is absent that needs the program `lode`.
pub(crate) const NO_LODE: &str = "there is no program lode: cargo build --release --package lodestone-cli";

/// The program `lode`: beside this one, or where the sources of this one build it, or in PATH.
pub(crate) fn lode() -> Option<PathBuf> {
    let own = env::current_exe().ok()?;
    let beside = own.parent().map(Path::to_owned);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/release");
    let folders = beside.into_iter().chain([built]).chain(path_folders());
    folders.map(|folder| folder.join("lode")).find(|program| program.is_file())
}

/// The program of that name in PATH.
pub(crate) fn in_path(name: &str) -> Option<PathBuf> {
    path_folders().into_iter().map(|folder| folder.join(name)).find(|program| program.is_file())
}

fn path_folders() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}
