#![allow(clippy::unwrap_used, reason = "a test may panic")]
//! What kernels showed in sysfs, captured in the lab.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// What kernels tell root alone.
const FOR_ROOT: [&str; 2] = ["/resource", "/dax_region/align"];

/// A file of `services/platform/tests/sysfs`.
pub(crate) fn captured(kernel: &str, file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/platform/tests/sysfs");
    fs::read_to_string(folder.join(format!("{kernel}-{file}.txt"))).unwrap()
}

/// A copy of what the kernel showed: to root, or to nobody, whom it tells no physical addresses.
pub(crate) fn unpacked(kernel: &str, is_root: bool) -> TempDir {
    let folder = TempDir::new().unwrap();
    let place = |path: &str| {
        let place = folder.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    };
    for line in captured(kernel, "tree").lines() {
        if let Some((path, target)) = line.split_once(" -> ") {
            symlink(target, place(path)).unwrap();
            continue;
        }
        let (path, value) = line.split_once(" =").unwrap();
        if is_root || !FOR_ROOT.iter().any(|name| path.ends_with(name)) {
            let place = place(path);
            let before = fs::read_to_string(&place).unwrap_or_default();
            fs::write(&place, format!("{before}{}\n", value.trim_start())).unwrap();
        }
    }
    folder
}

/// Each file of a folder with what is in it, links by where they lead.
pub(crate) fn contents(folder: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (kind, path) = (entry.file_type().unwrap(), entry.path());
        if kind.is_dir() {
            found.extend(contents(&path));
        } else {
            let text = fs::read_link(&path).map(|target| target.display().to_string());
            found.push((path.display().to_string(), text.or_else(|_| fs::read_to_string(&path)).unwrap()));
        }
    }
    found.sort();
    found
}
