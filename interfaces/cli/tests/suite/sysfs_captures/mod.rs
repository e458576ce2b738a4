#![allow(clippy::unwrap_used, reason = "a test may panic")]
//! Contents of sysfs, captured from kernels in the lab.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use tempfile::TempDir;

/// Attributes that only root can read.
const ROOT_ONLY: [&str; 2] = ["/resource", "/dax_region/align"];

/// Returns a file of `services/platform/tests/sysfs`.
pub(crate) fn capture_text(kernel: &str, file: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../services/platform/tests/sysfs");
    fs::read_to_string(folder.join(format!("{kernel}-{file}.txt"))).unwrap()
}

/// Unpacks a captured sysfs into a folder: as root reads it, or without the attributes for root.
pub(crate) fn unpack_capture(kernel: &str, is_root: bool) -> TempDir {
    let folder = TempDir::new().unwrap();
    let place = |path: &str| {
        let place = folder.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        place
    };
    for line in capture_text(kernel, "tree").lines() {
        if let Some((path, target)) = line.split_once(" -> ") {
            symlink(target, place(path)).unwrap();
            continue;
        }
        let (path, value) = line.split_once(" =").unwrap();
        if is_root || !ROOT_ONLY.iter().any(|name| path.ends_with(name)) {
            let place = place(path);
            let before = fs::read_to_string(&place).unwrap_or_default();
            fs::write(&place, format!("{before}{}\n", value.trim_start())).unwrap();
        }
    }
    folder
}

/// Returns each file of a folder with its content; a link with its target.
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
