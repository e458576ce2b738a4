//! Lost memory below the parts, for pools that look for it at open.

use crate::error::PmdkError;
use crate::locked_part::LockedPart;
use crate::pool_set::PoolSet;
use lode_pmem::{ProgramBacking, Sysfs};
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Refuses a part that has lost ranges, of the pool at `opened`, or of a new one. Needs no root and no library, unless the kernel hides the addresses of a region
/// that has some.
pub(crate) fn check(part: &LockedPart, opened: Option<&Path>, sysfs: &Sysfs) -> Result<(), PmdkError> {
    let (path, lost) = (part.path(), lost_ranges(part, sysfs)?);
    match lost.first() {
        None => Ok(()),
        Some(first) => {
            let (path, count, first) = (path.to_owned(), lost.len(), first.start);
            Err(PmdkError::BadBlocks { path, count, first, opened: opened.map(Path::to_owned) })
        }
    }
}

/// Refuses a pool of which a repair by pmempool-sync(1) was stopped. A part that is missing has no lost ranges.
pub(crate) fn check_recovery_files(set: &PoolSet) -> Result<(), PmdkError> {
    for (replica, of) in set.replicas.iter().enumerate() {
        for (part, _) in of.parts.iter().enumerate().filter(|(_, part)| part.path.exists()) {
            let path = recovery_path(&set.path, replica, part);
            if path.symlink_metadata().is_ok() {
                return Err(PmdkError::RecoveryFile { path });
            }
        }
    }
    Ok(())
}

/// Returns the path of the file in which PMDK keeps the lost ranges of a part while it repairs them.
pub(crate) fn recovery_path(set: &Path, replica: usize, part: usize) -> PathBuf {
    let mut name = set.as_os_str().to_owned();
    name.push(format!("_r{replica}_p{part}_badblocks.txt"));
    PathBuf::from(name)
}

/// Returns the ranges of a part that are lost.
pub(crate) fn lost_ranges(part: &LockedPart, sysfs: &Sysfs) -> Result<Vec<Range<u64>>, PmdkError> {
    let path = part.path();
    let metadata = part.file().metadata().map_err(PmdkError::io("stat", path))?;
    let backing = match metadata.file_type().is_char_device() {
        true => ProgramBacking::of_node(sysfs, metadata.rdev()),
        false => ProgramBacking::of_file(sysfs, metadata.dev()),
    };
    backing.lost_ranges(part.file().as_fd()).map_err(PmdkError::io("read the bad blocks", path))
}

#[cfg(test)]
mod test {
    use super::*;
    use crate::locked_part::PmdkAccess;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// /dev/null as a device-DAX node whose region has lost a sector.
    #[test]
    fn lost_range_is_named() {
        let root = tempfile::tempdir().unwrap();
        let node = Path::new("/dev/null");
        let device = fs::metadata(node).unwrap().rdev();
        let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let region = root.path().join("devices/ndbus0/region0");
        let folder = region.join("dax0.0");
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(root.path().join("dev/char")).unwrap();
        symlink(&folder, root.path().join("dev/char").join(number)).unwrap();
        for (name, text) in [
            ("mappings", "1"),
            ("resource", "0x1000"),
            ("dax0.0/resource", "0x1200"),
            ("dax0.0/size", "8192"),
        ] {
            fs::write(region.join(name), format!("{text}\n")).unwrap();
        }
        let sysfs = Sysfs::at(root.path());
        let part = LockedPart::open(node, PmdkAccess::ReadOnly, None).unwrap();
        check(&part, Some(node), &sysfs).unwrap();
        fs::write(region.join("badblocks"), "8 1\n").unwrap();
        let error = check(&part, Some(node), &sysfs).unwrap_err();
        assert!(matches!(error, PmdkError::BadBlocks { count: 1, first: 3584, .. }), "{error}");
        assert!(error.is_damage() && error.to_string().contains("try to recover the pool -- '/dev/null'"));
        let error = check(&part, None, &sysfs).unwrap_err();
        assert!(!error.is_damage() && error.to_string().contains("cannot be created"), "{error}");
        check(&part, Some(node), &Sysfs::default()).unwrap();
    }
}
