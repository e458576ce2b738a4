//! Attributes in the folders of sysfs.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Bytes of the unit in which the kernel counts, in its lists and of partitions.
pub(crate) const SECTOR: u64 = 512;

/// A folder of sysfs. Unreadable attributes are treated as unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysfsFolder(PathBuf);

impl SysfsFolder {
    /// Returns the folder at this path.
    pub fn new(path: impl Into<PathBuf>) -> SysfsFolder {
        SysfsFolder(path.into())
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the folder of this name in it, which may be missing.
    pub fn folder(&self, name: impl AsRef<Path>) -> SysfsFolder {
        SysfsFolder(self.0.join(name))
    }

    /// Returns true if an entry of this name exists.
    pub fn has(&self, name: &str) -> bool {
        fs::symlink_metadata(self.0.join(name)).is_ok()
    }

    /// Returns the text of an attribute.
    pub fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok().map(|text| text.trim().to_owned())
    }

    /// Returns a numeric attribute: decimal, or hexadecimal with the prefix `0x`.
    pub fn number(&self, name: &str) -> Option<u64> {
        number(&self.text(name)?)
    }

    /// Returns a numeric attribute; `None` if it is negative, which stands for no value.
    pub fn non_negative(&self, name: &str) -> Option<i64> {
        self.text(name)?.parse().ok().filter(|number| *number >= 0)
    }

    /// Returns the numbers of an attribute that lists choices.
    pub fn numbers(&self, name: &str) -> Option<Vec<u64>> {
        let text = self.text(name)?;
        Some(text.split_whitespace().filter_map(|word| number(word.trim_matches(['[', ']']))).collect())
    }

    /// Returns the number in brackets of an attribute that lists choices, or its only number.
    pub fn selected(&self, name: &str) -> Option<u64> {
        let text = self.text(name)?;
        let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']')).map(|(word, _)| word);
        number(chosen.unwrap_or(&text))
    }

    /// Returns the ranges of the attribute `badblocks`, in sectors of 512 bytes: lines of a first sector and a count.
    pub fn bad_sectors(&self) -> Vec<Range<u64>> {
        self.text("badblocks").map_or(Vec::new(), |text| sector_ranges(&text))
    }

    /// Returns the driver that is bound to the folder's device.
    pub fn driver(&self) -> Option<String> {
        self.target("driver")
    }

    /// Returns the name of a link's target.
    pub fn target(&self, name: &str) -> Option<String> {
        let target = fs::read_link(self.0.join(name)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }

    /// Returns the names in it, unordered.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    }

    /// Returns the subfolders whose names are `prefix` and a number, with that number.
    pub fn numbered(&self, prefix: &str) -> Vec<(u32, SysfsFolder)> {
        let number = |name: &String| name.strip_prefix(prefix)?.parse().ok();
        self.names().iter().filter_map(|name| Some((number(name)?, self.folder(name)))).collect()
    }

    /// Returns the subfolders whose names are `prefix` and two numbers with a dot between, with those.
    pub fn numbered_pairs(&self, prefix: &str) -> Vec<(u32, u32, SysfsFolder)> {
        let numbers = |name: &String| {
            let (first, second) = name.strip_prefix(prefix)?.split_once('.')?;
            Some((first.parse().ok()?, second.parse().ok()?))
        };
        let found = self.names();
        let found = found.iter().filter_map(|name| numbers(name).map(|(a, b)| (a, b, self.folder(name))));
        found.collect()
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

fn sector_ranges(text: &str) -> Vec<Range<u64>> {
    let range = |line: &str| {
        let (first, count) = line.trim().split_once(' ')?;
        let (first, count) = (first.parse::<u64>().ok()?, count.trim().parse().ok()?);
        Some(first..first.checked_add(count)?)
    };
    text.lines().filter_map(range).collect()
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn sysfs_attributes_are_parsed() {
        let place = tempfile::tempdir().unwrap();
        let folder = SysfsFolder::new(place.path());
        for (name, text) in
            [("size", "4096\n"), ("align", "0x200000\n"), ("node", "-1\n"), ("sizes", "512 [4096] 4104 \n")]
        {
            fs::write(place.path().join(name), text).unwrap();
        }
        std::os::unix::fs::symlink("../bus/nd/drivers/nd_pmem", place.path().join("driver")).unwrap();
        for name in ["namespace3.11", "namespaces", "nmem7", "nmem7x"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        assert_eq!((folder.number("size"), folder.number("align")), (Some(4096), Some(2 << 20)));
        assert_eq!((folder.non_negative("node"), folder.non_negative("size")), (None, Some(4096)));
        assert_eq!(folder.numbers("sizes"), Some(vec![512, 4096, 4104]));
        assert_eq!((folder.selected("sizes"), folder.selected("size")), (Some(4096), Some(4096)));
        assert_eq!((folder.number("none"), folder.number("sizes"), folder.text("nmem7")), (None, None, None));
        assert_eq!(folder.driver().as_deref(), Some("nd_pmem"));
        assert_eq!(folder.numbered("nmem").iter().map(|(number, _)| *number).collect::<Vec<_>>(), [7]);
        let twice = folder.numbered_pairs("namespace");
        assert_eq!(twice.iter().map(|(a, b, _)| (*a, *b)).collect::<Vec<_>>(), [(3, 11)]);
    }

    #[test]
    fn bad_sector_lines_are_ranges() {
        assert_eq!(sector_ranges("8 8\n4096 1\n"), [8..16, 4096..4097]);
        for text in ["", "x 8\n8\n-1 4\n", "18446744073709551615 1\n"] {
            assert!(sector_ranges(text).is_empty(), "{text:?}");
        }
    }
}
