//! The files that hold ranges of a device.

use lode_pmem::{FilePlace, Sysfs};
use rustix::fs::{OFlags, makedev};
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `mountinfo` of this process (proc(5)).
const MOUNTS: &str = "/proc/self/mountinfo";

/// A part of a file that lies on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub file: Range<u64>,
    /// Offset on the device of the first one, in bytes.
    pub device_off: u64,
    /// Bytes of a block of the file system.
    pub block: u64,
}

/// The files that hold ranges of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// The parts of files, in the order of the device.
    pub found: Vec<Holder>,
    /// Number of files and folders that could not be read.
    pub unread: u64,
    /// True if another device, as one of device mapper, uses this one: its files are not searched.
    pub is_composed: bool,
}

/// Returns the files of mounted file systems on `device`, a whole block device, that hold parts of its `ranges`, in bytes.
/// A part that belongs to no file is free, or the file system's own.
///
/// # Errors
/// The mounts can't be read.
///
/// # Cost
/// Asks for the extents of every file on the device.
pub fn holders(device: &str, ranges: &[Range<u64>], sysfs: &Sysfs) -> io::Result<Holders> {
    let mut search = Search {
        device,
        ranges,
        sysfs,
        mounts: HashSet::new(),
        files: HashSet::new(),
        all: Holders::default(),
    };
    search.all.is_composed = sysfs.is_used_by_another(device);
    let mounts = mounts(&fs::read(MOUNTS)?);
    search.mounts = mounts.iter().map(|mount| mount.point.clone()).collect();
    let on_device: Vec<&Mount> = mounts.iter().filter(|mount| sysfs.is_on(mount.dev, device)).collect();
    for mount in &on_device {
        // A mount of a part has no file that a mount of the whole has not.
        let has_whole = on_device.iter().any(|other| other.dev == mount.dev && other.is_whole);
        if mount.is_whole || !has_whole {
            search.below(mount);
        }
    }
    let mut all = search.all;
    all.found.sort_by_key(|holder| holder.device_off);
    Ok(all)
}

struct Search<'a> {
    device: &'a str,
    ranges: &'a [Range<u64>],
    sysfs: &'a Sysfs,
    /// All mount points. Nothing below is on the device, and one may not answer.
    mounts: HashSet<PathBuf>,
    /// The files that were seen, by device and inode.
    files: HashSet<(u64, u64)>,
    all: Holders,
}

impl Search<'_> {
    fn below(&mut self, mount: &Mount) {
        let mut folders = vec![mount.point.clone()];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(&folder) else {
                // A file may be mounted, too.
                match folder.is_dir() {
                    true => self.all.unread += 1,
                    false => self.file(&folder, mount.dev),
                }
                continue;
            };
            for path in entries.flatten().map(|entry| entry.path()) {
                if self.mounts.contains(&path) {
                    continue;
                }
                match fs::symlink_metadata(&path) {
                    Ok(status) if status.is_dir() => folders.push(path),
                    Ok(_) => self.file(&path, mount.dev),
                    Err(_) => {}
                }
            }
        }
    }

    fn file(&mut self, path: &Path, dev: u64) {
        let Ok(status) = fs::symlink_metadata(path) else { return };
        let is_wanted = status.is_file() && status.dev() == dev && status.blocks() > 0;
        if !is_wanted || !self.files.insert((status.dev(), status.ino())) {
            return;
        }
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
        let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
        match opened.and_then(|file| self.parts(&file)) {
            Ok(parts) => self.all.found.extend(parts.into_iter().map(|(file, device_off)| Holder {
                path: path.to_owned(),
                file,
                device_off,
                block: status.blksize(),
            })),
            Err(_) => self.all.unread += 1,
        }
    }

    /// Returns the parts of a file in the ranges: bytes of the file, and the offset of the first one on the device.
    fn parts(&self, file: &File) -> io::Result<Vec<(Range<u64>, u64)>> {
        let Some(place) = FilePlace::of(file, self.sysfs)?.filter(|place| place.device == self.device) else {
            return Ok(Vec::new());
        };
        let mut parts = Vec::new();
        for extent in &place.extents {
            let end = extent.device_off.saturating_add(extent.len);
            for range in self.ranges {
                let (start, end) = (range.start.max(extent.device_off), range.end.min(end));
                if start < end {
                    let file_off = extent.file_off + (start - extent.device_off);
                    parts.push((file_off..file_off + (end - start), start));
                }
            }
        }
        Ok(parts)
    }
}

/// A line of `mountinfo`.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    dev: u64,
    /// True if the root of the file system is mounted, and not a folder or file in it.
    is_whole: bool,
    point: PathBuf,
}

/// Reads the lines of a `mountinfo`: the third word is the device, the fourth the mounted folder, the fifth the point.
fn mounts(bytes: &[u8]) -> Vec<Mount> {
    let mount = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ').skip(2);
        let (major, minor) = std::str::from_utf8(words.next()?).ok()?.split_once(':')?;
        let dev = makedev(major.parse().ok()?, minor.parse().ok()?);
        let is_whole = words.next()? == b"/";
        Some(Mount { dev, is_whole, point: PathBuf::from(OsString::from_vec(unescaped(words.next()?))) })
    };
    bytes.split(|byte| *byte == b'\n').filter_map(mount).collect()
}

/// Replaces the kernel's octal escapes, as `\040` of a blank.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escaped = after.get(..3).filter(|_| *first == b'\\');
        let byte = escaped.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[3..] } else { after };
    }
    bytes
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn mounts_are_read() {
        let text = b"36 35 259:1 / /mnt/pmem\\0400 rw,noatime shared:1 - ext4 /dev/pmem0 rw,dax\n\
            37 35 259:1 /a /mnt/\xff rw - ext4 /dev/pmem0 rw\nshort\n1 2 x:y / /z\n";
        let dev = makedev(259, 1);
        let point = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        assert_eq!(
            mounts(text),
            [
                Mount { dev, is_whole: true, point: point(b"/mnt/pmem 0") },
                Mount { dev, is_whole: false, point: point(b"/mnt/\xff") },
            ]
        );
        assert_eq!(unescaped(b"a\\134b\\"), b"a\\b\\");
    }
}
