//! The mode of a process's pools: by the variable LODE_OBJ, or by a look at the code that the process has loaded.

use lode_capi_entry::Failure;
use lode_capi_program::{ForcedMode, LoadedFile, VARIABLE, loaded_files, reason_of};
use lode_obj::Mode;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Files that are remembered; more are read again at each open.
const FILES: usize = 256;

/// A number for each file that flushes nothing by itself, 0 for none. It takes no lock and no memory, so a fork at any moment and an
/// unloaded library leave nothing.
static CLEAN: [AtomicU64; FILES] = [const { AtomicU64::new(0) }; FILES];

/// Returns the mode for a pool that is opened now.
///
/// # Errors
/// EINVAL if the variable names no mode.
///
/// # Cost
/// Reads the code of all files that the process has loaded since the last call, unless the variable is set.
pub(crate) fn mode(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Mode, Failure> {
    if let Some(value) = variable(VARIABLE) {
        return match ForcedMode::of(&value) {
            Ok(ForcedMode::Fast) => Ok(Mode::Fast),
            Ok(ForcedMode::Careful) => Ok(Mode::Careful),
            Err(unknown) => Err(Failure::invalid(unknown.to_string())),
        };
    }
    let is_clean = loaded_files().is_ok_and(|files| files.iter().all(is_clean));
    Ok(if is_clean { Mode::Fast } else { Mode::Careful })
}

/// Returns true if the file's code flushes nothing by itself.
fn is_clean(file: &LoadedFile) -> bool {
    let mut hasher = DefaultHasher::new();
    file.hash(&mut hasher);
    // A file that was built anew may have the same number.
    if let Ok(metadata) = file.path.metadata() {
        (metadata.dev(), metadata.ino(), metadata.len()).hash(&mut hasher);
        let [modified, changed] =
            [(metadata.mtime(), metadata.mtime_nsec()), (metadata.ctime(), metadata.ctime_nsec())];
        (modified, changed).hash(&mut hasher);
    }
    let number = hasher.finish().max(1);
    // ORDER: a number says all that there is to know.
    if CLEAN.iter().any(|clean| clean.load(Ordering::Relaxed) == number) {
        return true;
    }
    let is_clean = reason_of(file).is_none();
    if is_clean {
        let take = |clean: &&AtomicU64| {
            // ORDER: as above.
            clean.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let _ = CLEAN.iter().find(take);
    }
    is_clean
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn variable_decides() {
        let of = |value: &str| mode(&|name| (name == "LODE_OBJ").then(|| value.into()));
        assert_eq!((of("fast"), of("careful")), (Ok(Mode::Fast), Ok(Mode::Careful)));
        for value in ["", "Fast", "careful "] {
            let failure = of(value).unwrap_err();
            assert_eq!(failure.errno, libc::EINVAL);
            assert!(
                ["LODE_OBJ", "fast", "careful"].iter().all(|word| failure.text.contains(word)),
                "{failure:?}"
            );
        }
    }

    #[test]
    fn changed_files_are_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        std::fs::copy("/bin/sh", &path).unwrap();
        let file = LoadedFile { path: path.clone(), number: "08:01 12".into(), is_deleted: false };
        assert!(is_clean(&file));
        assert!(is_clean(&file), "it is remembered");
        std::fs::write(&path, "no program").unwrap();
        assert!(!is_clean(&file), "it is another file now");
        for other in [
            LoadedFile { number: "08:01 13".into(), ..file.clone() },
            LoadedFile { is_deleted: true, ..file.clone() },
            LoadedFile { path: folder.path().join("missing"), ..file },
        ] {
            assert!(!is_clean(&other), "{other:?}");
        }
    }
}
