//! The Debian package of the libraries: while it is installed, the loader finds ours; removed again, all is as before.
#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use lode_capi_compare::Library;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's folder of libraries, below a root.
const DEBIANS: &str = "usr/lib/x86_64-linux-gnu";

/// Runs a program, which must succeed. Returns its output.
fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {}: {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a package of the libraries that cargo built for the running test. Returns its path.
fn package(folder: &Path) -> PathBuf {
    let libraries = folder.join("lib");
    fs::create_dir(&libraries).unwrap();
    for library in Library::ALL {
        let name = format!("lib{}.so.1", library.name);
        fs::copy(library.ours().join(&name), libraries.join(&name)).unwrap();
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../package.sh");
    let target = folder.join("deb");
    let [script, libraries, target] = [&script, &libraries, &target].map(|path| path.to_str().unwrap());
    PathBuf::from(run(script, &[libraries, "1.2.3", target]).trim())
}

/// A folder in which dpkg installs packages as in `/`, with Debian's libraries.
struct Root {
    folder: tempfile::TempDir,
}

impl Root {
    fn new() -> Root {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for path in [DEBIANS, "etc/ld.so.conf.d", "var/lib/dpkg/info", "var/lib/dpkg/updates"] {
            fs::create_dir_all(at(path)).unwrap();
        }
        fs::write(at("var/lib/dpkg/status"), "").unwrap();
        fs::write(at("etc/ld.so.conf"), "include /etc/ld.so.conf.d/*.conf\n").unwrap();
        fs::write(at("etc/ld.so.conf.d/fakeroot-x86_64-linux-gnu.conf"), "/usr/lib/fakeroot\n").unwrap();
        fs::write(at("etc/ld.so.conf.d/x86_64-linux-gnu.conf"), format!("/{DEBIANS}\n")).unwrap();
        for library in Library::ALL {
            let theirs = library.debians().unwrap();
            fs::copy(theirs, at(DEBIANS).join(format!("lib{}.so.1", library.name))).unwrap();
        }
        Root { folder }
    }

    fn dpkg(&self, arguments: &[&str]) {
        let root = format!("--root={}", self.folder.path().display());
        // The root has no libc6 to depend on.
        run("dpkg", &[&[root.as_str(), "--force-depends"], arguments].concat());
    }

    /// Returns where the loader finds each library, as ldconfig, which dpkg runs for the package, writes it into the cache.
    fn found(&self) -> BTreeMap<String, String> {
        let root = self.folder.path().to_str().unwrap();
        run("/sbin/ldconfig", &["-r", root]);
        let mut found = BTreeMap::new();
        for line in run("/sbin/ldconfig", &["-r", root, "-p"]).lines() {
            let Some((name, path)) = line.trim().split_once(" => ") else { continue };
            let name = name.split(' ').next().unwrap();
            // The first one counts.
            found.entry(name.to_owned()).or_insert_with(|| path.to_owned());
        }
        found
    }

    /// Returns the files below the folder, but for those of dpkg and ldconfig themselves.
    fn files(&self) -> Vec<String> {
        let root = self.folder.path().to_str().unwrap();
        let listed =
            run("find", &[root, "-path", "*/var", "-prune", "-o", "-not", "-name", "ld.so.cache", "-print"]);
        let mut files: Vec<String> = listed.lines().map(str::to_owned).collect();
        files.sort();
        files
    }
}

#[test]
fn installed_package_comes_first_and_leaves_nothing() {
    if let Some(missing) = Library::ALL.into_iter().find(|library| library.debians().is_none()) {
        lode_testing::skip("package_of_libraries", format!("lib{} is not installed", missing.name));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let package = package(folder.path());
    let root = Root::new();
    let (files, found) = (root.files(), root.found());
    assert_eq!(found["libpmem.so.1"], format!("/{DEBIANS}/libpmem.so.1"));

    root.dpkg(&["--install", package.to_str().unwrap()]);
    let ours = root.found();
    for library in Library::ALL {
        let name = format!("lib{}.so.1", library.name);
        assert_eq!(ours[&name], format!("/usr/lib/lodestone-pmdk/{name}"));
    }
    assert!(files.iter().all(|file| Path::new(file).exists()), "Debian's files stay");

    root.dpkg(&["--remove", "lodestone-pmdk"]);
    assert_eq!(root.found(), found);
    assert_eq!(root.files(), files);
    fs::remove_file(&package).unwrap();
}

#[test]
fn package_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let package = package(folder.path());
    let package = package.to_str().unwrap();
    let field = |name: &str| run("dpkg-deb", &["--field", package, name]).trim().to_owned();
    assert_eq!(field("Package"), "lodestone-pmdk");
    assert_eq!(field("Version"), "1.2.3");
    assert_eq!(field("Conflicts") + &field("Replaces") + &field("Provides"), "");
    let depends = field("Depends");
    assert!(depends.starts_with("libc6 (>= 2."), "{depends}");
    // Its files are root's, whoever made it, and lie in places of its own.
    let listed = run("dpkg-deb", &["--contents", package]);
    for line in listed.lines().filter(|line| !line.ends_with('/')) {
        assert!(line.contains(" root/root ") && line.contains("lodestone-pmdk"), "{line}");
    }
    let control = run("dpkg-deb", &["--ctrl-tarfile", package]);
    assert!(!control.contains("conffiles"), "`apt remove` would leave a file of the loader");
}
