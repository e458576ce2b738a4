//! The libraries that a program runs on.

use crate::symbols;
use std::collections::BTreeSet;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library of the C ABI.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// The name without `lib`: `pmem`.
    pub name: &'static str,
    /// The name of the crate's archive: `lode_capi_pmem`.
    archive: &'static str,
    /// Sequences of a test of its answers. One of a library of pools makes files, so it takes some hundred times as long.
    pub(crate) sequences: u64,
}

impl Library {
    /// libpmem.
    pub const PMEM: Library = Library { name: "pmem", archive: "lode_capi_pmem", sequences: 12_500 };
    /// libpmem2.
    pub const PMEM2: Library = Library { name: "pmem2", archive: "lode_capi_pmem2", sequences: 12_500 };
    /// libpmemlog.
    pub const PMEMLOG: Library = Library { name: "pmemlog", archive: "lode_capi_pmemlog", sequences: 500 };
    /// libpmemblk.
    pub const PMEMBLK: Library = Library { name: "pmemblk", archive: "lode_capi_pmemblk", sequences: 500 };

    /// libpmempool.
    pub const PMEMPOOL: Library =
        Library { name: "pmempool", archive: "lode_capi_pmempool", sequences: 1_000 };

    /// libpmemobj.
    pub const PMEMOBJ: Library = Library { name: "pmemobj", archive: "lode_capi_pmemobj", sequences: 250 };

    /// All of them.
    pub const ALL: [Library; 6] = [
        Library::PMEM,
        Library::PMEM2,
        Library::PMEMLOG,
        Library::PMEMBLK,
        Library::PMEMPOOL,
        Library::PMEMOBJ,
    ];

    /// Returns the library with a fifth of the sequences, for an environment in which each call takes long.
    #[must_use]
    pub fn with_fewer_sequences(self) -> Library {
        Library { sequences: self.sequences / 5, ..self }
    }

    /// Returns the folder with our library, of the archive that cargo built for the running test.
    ///
    /// # Cost
    /// A call of the linker for each build, and a look at a folder after that.
    pub fn ours(self) -> PathBuf {
        let program = std::env::current_exe().unwrap();
        let built = program.parent().unwrap();
        let archive = newest(built, self.archive);
        let capi = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        // What libpmemobj.so.1 takes of libpmem.so.1 is in the same folder.
        let beside = (self.name == "pmemobj").then(|| Library::PMEM.ours());
        let stamp = stamp(&archive, &self.sources(&capi)) ^ beside.as_ref().map_or(0, hash);
        let folder = built.join("capi").join(format!("{}-{stamp:016x}", self.name));
        if !folder.exists() {
            let libraries = built.join("capi");
            fs::create_dir_all(&libraries).unwrap();
            let work = tempfile::tempdir_in(&libraries).unwrap();
            let new = work.path().join("lib");
            if let Some(beside) = beside {
                fs::create_dir(&new).unwrap();
                for name in ["libpmem.so.1", "libpmem.so", "libpmem.a"] {
                    fs::copy(beside.join(name), new.join(name)).unwrap();
                }
            }
            let linked =
                Command::new(capi.join("link.sh")).arg(self.name).arg(archive).arg(&new).status().unwrap();
            assert!(linked.success(), "capi/link.sh failed");
            // Fails if another test was faster; its files are the same.
            let renamed = fs::rename(&new, &folder);
            assert!(renamed.is_ok() || folder.exists(), "{renamed:?}");
        }
        folder
    }

    /// Returns the files that make our library of an archive.
    fn sources(self, capi: &Path) -> [PathBuf; 3] {
        let of_library = |end: &str| capi.join(self.name).join(format!("lib{}.{end}", self.name));
        [capi.join("link.sh"), of_library("map"), of_library("pc.in")]
    }

    /// Returns the path of Debian's shared object; `None` if it is not installed.
    pub fn debians(self) -> Option<PathBuf> {
        let name = format!("lib{}.so.1", self.name);
        let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        path.is_absolute().then_some(path)
    }

    /// Checks that our archive exports the symbols of our shared object, and no others, and that it has no section groups.
    ///
    /// # Panics
    /// If it does not.
    pub fn compare_archive(self) {
        let folder = self.ours();
        let mut names = Command::new("nm");
        names.args(["--defined-only", "--extern-only"]).arg(folder.join(format!("lib{}.a", self.name)));
        let text = String::from_utf8(names.output().unwrap().stdout).unwrap();
        let defined = text.lines().filter(|line| line.starts_with("00"));
        let found: BTreeSet<&str> = defined.clone().filter_map(|line| line.split(' ').nth(2)).collect();
        let exported = symbols(&folder.join(self.soname())).exported;
        assert_eq!(found, exported.keys().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>());
        assert_eq!(found.len(), defined.count(), "{text}");
        // A program in Rust has groups of the same names, and its linker would keep one of each.
        let mut groups = Command::new("readelf");
        groups.arg("--section-groups").arg(folder.join(format!("lib{}.a", self.name)));
        let text = String::from_utf8(groups.output().unwrap().stdout).unwrap();
        assert!(text.contains("There are no section groups"), "{text}");
    }

    /// Checks that our shared object exports Debian's symbols in its nodes, and no others but in nodes of its own; that it needs no library that a
    /// minimal system lacks, and is small; and that programs find it by pkg-config.
    ///
    /// # Panics
    /// If it does not.
    pub fn compare_shared_object(self) {
        let folder = self.ours();
        let ours = symbols(&folder.join(self.soname()));
        assert_eq!(ours.soname, self.soname());
        let is_foreign = |name: &&String| {
            let is_own = self.name == "pmemobj" && *name == "libpmem.so.1";
            !is_own && ["ndctl", "daxctl", "pmem"].iter().any(|word| name.contains(word))
        };
        assert_eq!(ours.needed.iter().find(is_foreign), None);
        let len = folder.join(self.soname()).metadata().unwrap().len();
        // The limit is that of a release build, which `make capi` makes.
        let max = if self.name == "pmemobj" { 2 << 20 } else { 1 << 20 };
        assert!(len < if cfg!(debug_assertions) { 2 * max } else { max }, "{len}");
        let config = fs::read_to_string(folder.join(format!("pkgconfig/lib{}.pc", self.name))).unwrap();
        assert!(config.contains(&format!("Libs: -L${{libdir}} -l{}", self.name)), "{config}");
        let Some(debians) = self.debians() else {
            return lode_testing::skip(&self.soname(), "Debian's library is not installed");
        };
        let theirs = symbols(&debians);
        // Nodes of Lodestone's own, for its other libraries.
        let is_pmdks = |(_, node): &&(String, String)| !node.contains("@LODE_");
        assert_eq!(
            ours.exported.iter().filter(|(name, _)| is_pmdks(name)).collect::<Vec<_>>(),
            theirs.exported.iter().collect::<Vec<_>>()
        );
    }

    /// Returns the file name of the shared object.
    pub fn soname(self) -> String {
        format!("lib{}.so.1", self.name)
    }
}

/// Returns a number that changes with each build of the library in a folder, which has that in its name.
fn hash(folder: &PathBuf) -> u64 {
    let mut hasher = DefaultHasher::new();
    folder.hash(&mut hasher);
    hasher.finish()
}

/// Returns a number that changes with each build of the archive, and with the content of the other files.
fn stamp(archive: &Path, sources: &[PathBuf]) -> u64 {
    let mut hasher = DefaultHasher::new();
    fs::metadata(archive).unwrap().modified().unwrap().hash(&mut hasher);
    sources.iter().for_each(|source| fs::read(source).unwrap().hash(&mut hasher));
    hasher.finish()
}

/// Returns the archive of the crate that cargo built last: other builds have archives in the same folder.
fn newest(built: &Path, crate_name: &str) -> PathBuf {
    let entries = fs::read_dir(built).unwrap().map(|entry| entry.unwrap().path());
    let archives = entries.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(&format!("lib{crate_name}-")) && name.ends_with(".a")
    });
    let found = archives.max_by_key(|path| fs::metadata(path).unwrap().modified().unwrap());
    found.unwrap_or_else(|| panic!("no archive of {crate_name} in {}", built.display()))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn each_change_makes_another_library() {
        let folder = tempfile::tempdir().unwrap();
        let capi = folder.path();
        fs::create_dir(capi.join("pmem")).unwrap();
        let archive = capi.join("a");
        let sources = Library::PMEM.sources(capi);
        [&archive].into_iter().chain(&sources).for_each(|path| fs::write(path, "1").unwrap());
        let mut stamps = vec![stamp(&archive, &sources)];
        assert_eq!(stamp(&archive, &sources), stamps[0]);
        for source in &sources {
            fs::write(source, "2").unwrap();
            stamps.push(stamp(&archive, &sources));
        }
        fs::File::options().write(true).open(&archive).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        stamps.push(stamp(&archive, &sources));
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len(), 5);
    }
}
