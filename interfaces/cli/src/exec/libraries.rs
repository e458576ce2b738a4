//! The folder of our libraries, and what changes for a program.

use super::elf::Elf;
use crate::failure::Failure;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The libraries that Lodestone has.
const SONAMES: [&str; 6] = [
    "libpmem.so.1",
    "libpmem2.so.1",
    "libpmemlog.so.1",
    "libpmemblk.so.1",
    "libpmemobj.so.1",
    "libpmempool.so.1",
];

/// The folder of our libraries.
#[derive(Debug)]
pub(super) struct Libraries {
    folder: PathBuf,
}

/// The libraries that a program is linked with.
#[derive(Debug)]
pub(super) struct Linked {
    /// Those that change.
    pub(super) changed: Vec<Change>,
    /// All of them, as the program finds them with ours.
    pub(super) files: Vec<PathBuf>,
}

/// A library of a program that changes.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: &'static str,
    /// The system's file; `None` if the loader finds none.
    pub(super) from: Option<PathBuf>,
    pub(super) to: PathBuf,
}

impl Libraries {
    /// Finds the folder: beside this program, where an installation puts it, or where `make capi` does.
    pub(super) fn find() -> Result<Libraries, Failure> {
        let own =
            env::current_exe().ok().and_then(|path| path.parent().map(Path::to_owned)).unwrap_or_default();
        // target/release/lode: target/capi/lib.
        let candidates = ["capi/lib", "../lib/lodestone", "../capi/lib"].map(|folder| own.join(folder));
        let found = candidates.iter().find(|folder| SONAMES.iter().all(|name| folder.join(name).exists()));
        let folder = found.and_then(|folder| folder.canonicalize().ok()).ok_or_else(|| {
            let folders = candidates.map(|folder| folder.display().to_string()).join(", ");
            Failure::usage_error(format!(
                "finding the libraries: {} are not together in any of {folders}; run `make capi` in the sources",
                SONAMES.join(", ")
            ))
        })?;
        Ok(Libraries { folder })
    }

    /// Returns the folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns true if a path of a library leads to the folder, by links and dots or without.
    fn has(&self, path: &Path) -> bool {
        path.parent()
            .and_then(|folder| folder.canonicalize().ok())
            .is_some_and(|folder| folder == self.folder)
    }

    /// Returns the names under which programs find the libraries.
    pub(super) fn sonames() -> &'static [&'static str] {
        &SONAMES
    }

    /// Returns the value of LD_LIBRARY_PATH: our folder, and then those that the user has set.
    pub(super) fn search_path(&self) -> OsString {
        let mut path = self.folder.clone().into_os_string();
        if let Some(users) = env::var_os("LD_LIBRARY_PATH").filter(|users| !users.is_empty()) {
            path.push(":");
            path.push(users);
        }
        path
    }

    /// Asks the program's own loader for the libraries that the program is linked with, directly or by another library.
    pub(super) fn of_program(&self, elf: &Elf) -> Linked {
        let (before, after) = (listed(elf, None), listed(elf, Some(self.search_path())));
        let change = |name: &'static str| {
            let to = resolved(&after, name).filter(|path| self.has(path))?;
            Some(Change { name, from: resolved(&before, name), to })
        };
        Linked {
            changed: SONAMES.into_iter().filter_map(change).collect(),
            files: after.lines().filter_map(path_of).collect(),
        }
    }

    /// Returns the first library that the program gets in place of ours: that of a DT_RPATH, of the program's own or of a library that it
    /// needs, or one that either names by its path.
    pub(super) fn in_place_of_ours(&self, elf: &Elf) -> Option<PathBuf> {
        let is_other = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default();
            SONAMES.iter().any(|soname| name == *soname) && !self.has(path)
        };
        listed(elf, Some(self.search_path())).lines().filter_map(path_of).find(is_other)
    }
}

/// Returns the list of the program's own loader: the libraries that it finds with this LD_LIBRARY_PATH. It runs no code of the program.
fn listed(elf: &Elf, path: Option<OsString>) -> String {
    let Some(loader) = elf.loader() else { return String::new() };
    let mut command = Command::new(loader);
    command.arg("--list").arg(elf.path());
    if let Some(path) = path {
        command.env("LD_LIBRARY_PATH", path);
    }
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).into_owned()
}

/// Returns the path of a library in a list of the loader, whose lines are `NAME => PATH (ADDRESS)`.
fn resolved(list: &str, name: &str) -> Option<PathBuf> {
    let is_named = |line: &&str| line.trim().strip_prefix(name).is_some_and(|rest| rest.starts_with(" => "));
    path_of(list.lines().find(is_named)?)
}

/// Returns the path in a line of the list, which is the name itself for a library that is linked by its path.
fn path_of(line: &str) -> Option<PathBuf> {
    let line = line.split_once(" => ").map_or(line.trim(), |(_, path)| path);
    let path = line.rsplit_once(" (").map_or(line, |(path, _)| path);
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn lists_of_the_loader_are_parsed() {
        let list = "\tlinux-vdso.so.1 (0x00007ffe)\n\tlibpmem.so.1 => /usr/my lib/libpmem.so.1 (0x00007f)\n\t\
                    libpmem2.so.1 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(resolved(list, "libpmem.so.1"), Some("/usr/my lib/libpmem.so.1".into()));
        assert_eq!(resolved(list, "libpmem2.so.1"), None);
        assert_eq!(resolved(list, "libpmemobj.so.1"), None);
        let paths: Vec<_> = list.lines().filter_map(path_of).collect();
        assert_eq!(paths, ["/usr/my lib/libpmem.so.1", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from));
    }
}
