//! The libraries that a program runs on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

/// A library of the C ABI.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// The name without `lib`: `pmem`.
    pub name: &'static str,
    /// The name of the crate's archive: `lode_capi_pmem`.
    archive: &'static str,
}

impl Library {
    /// libpmem.
    pub const PMEM: Library = Library { name: "pmem", archive: "lode_capi_pmem" };

    /// Returns the folder with our library, of the archive that cargo built for the running test.
    ///
    /// # Cost
    /// A call of the linker for each build, and a look at a folder after that.
    pub fn ours(self) -> PathBuf {
        let program = std::env::current_exe().unwrap();
        let built = program.parent().unwrap();
        let archive = newest(built, self.archive);
        let modified = fs::metadata(&archive).unwrap().modified().unwrap();
        let stamp = modified.duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let folder = built.join("capi").join(format!("{}-{stamp}", self.name));
        if !folder.exists() {
            let capi = built.join("capi");
            fs::create_dir_all(&capi).unwrap();
            let work = tempfile::tempdir_in(&capi).unwrap();
            let new = work.path().join("lib");
            let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../link.sh");
            let linked = Command::new(script).arg(self.name).arg(archive).arg(&new).status().unwrap();
            assert!(linked.success(), "capi/link.sh failed");
            // Fails if another test was faster; its files are the same.
            let renamed = fs::rename(&new, &folder);
            assert!(renamed.is_ok() || folder.exists(), "{renamed:?}");
        }
        folder
    }

    /// Returns the path of Debian's shared object; `None` if it is not installed.
    pub fn debians(self) -> Option<PathBuf> {
        let name = format!("lib{}.so.1", self.name);
        let output = Command::new("cc").arg(format!("-print-file-name={name}")).output().ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
        path.is_absolute().then_some(path)
    }

    /// Returns the file name of the shared object.
    pub fn soname(self) -> String {
        format!("lib{}.so.1", self.name)
    }
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
