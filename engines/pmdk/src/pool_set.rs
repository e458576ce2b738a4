//! A pool set on this machine: which files and device-DAX nodes its parts are, and how large.

use crate::error::{PmdkError, SetError};
use crate::file_kind::FileKind;
use crate::seen::Seen;
use crate::set_file::{SetFile, SetPart};
use lode_layout::{BLOCK, align_down};
use lode_pmem::{ProgramBacking, Sysfs};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Digits of the names of parts in folders.
const NAME_DIGITS: usize = 6;
const EXTENSION: &str = "pmem";

/// A pool as its set file describes it, or a pool of a single file. No part has been opened.
#[derive(Clone, Debug)]
pub struct PoolSet {
    /// The set file, or the only part.
    pub(crate) path: PathBuf,
    /// True if there is a set file.
    pub(crate) is_set: bool,
    /// True if only the first part of each replica has a header.
    pub(crate) has_single_header: bool,
    /// True if no part has a header: no pool of this machine is so.
    pub(crate) has_no_headers: bool,
    /// True if the parts are in folders.
    pub(crate) is_in_directories: bool,
    /// The replicas, the master first.
    pub(crate) replicas: Vec<Replica>,
}

/// A replica: parts back to back.
#[derive(Clone, Debug, Default)]
pub struct Replica {
    pub(crate) parts: Vec<Part>,
    /// The folders of its parts, and the bytes that are reserved for each.
    directories: Vec<(PathBuf, u64)>,
}

/// A part of a replica.
#[derive(Clone, Debug)]
pub struct Part {
    pub(crate) path: PathBuf,
    /// Bytes of the file or node.
    pub(crate) size: u64,
    /// The alignment that mappings of the node need, in bytes; `None` for a file.
    pub(crate) device_align: Option<u64>,
}

impl PoolSet {
    /// Describes a new pool of one file.
    pub(crate) fn of_new_file(path: &Path, size: u64) -> PoolSet {
        PoolSet::single(Part { path: path.to_owned(), size, device_align: None })
    }

    fn single(part: Part) -> PoolSet {
        let path = part.path.clone();
        let replicas = vec![Replica { parts: vec![part], directories: Vec::new() }];
        PoolSet {
            path,
            is_set: false,
            has_single_header: false,
            has_no_headers: false,
            is_in_directories: false,
            replicas,
        }
    }

    /// Reads what is at `path`: a set file, or else the only part of a pool. Finds the parts in folders.
    ///
    /// # Errors
    /// [`PmdkError::SetFile`] and [`PmdkError::Set`]; [`PmdkError::Folder`], [`PmdkError::NotDax`] and [`PmdkError::FileType`];
    /// [`PmdkError::Io`] if the file or a folder can't be read. A part that is missing is no error.
    pub fn read(path: &Path, sysfs: &Sysfs) -> Result<PoolSet, PmdkError> {
        let kind = FileKind::find(path)?;
        let metadata = fs::metadata(path).map_err(PmdkError::io("open", path))?;
        match kind {
            FileKind::Device => {
                let (size, align) = device(&metadata, path, sysfs)?;
                return Ok(PoolSet::single(Part { path: path.to_owned(), size, device_align: Some(align) }));
            }
            FileKind::Directory => return Err(PmdkError::Folder { path: path.to_owned() }),
            FileKind::Absent | FileKind::File => {}
        }
        match read_set_text(path)? {
            None => Ok(PoolSet::of_new_file(path, metadata.len())),
            Some(text) => {
                let file = SetFile::parse(&text)
                    .map_err(|error| PmdkError::SetFile { path: path.to_owned(), error })?;
                PoolSet::of_file(path, file, sysfs)
            }
        }
    }

    /// Returns the set file, or the only part.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if there is a set file.
    pub fn is_set(&self) -> bool {
        self.is_set
    }

    /// Returns true if only the first part of each replica has a header.
    pub fn has_single_header(&self) -> bool {
        self.has_single_header
    }

    /// Returns the replicas, the master first.
    pub fn replicas(&self) -> &[Replica] {
        &self.replicas
    }

    /// Returns true if the path is that of a part, or of a file in a folder of parts.
    pub(crate) fn has_part(&self, path: &Path) -> bool {
        self.replicas.iter().any(|replica| {
            let is_in = |(folder, _): &(PathBuf, u64)| path.parent() == Some(folder);
            replica.parts.iter().any(|part| part.path == path) || replica.directories.iter().any(is_in)
        })
    }

    fn of_file(path: &Path, file: SetFile, sysfs: &Sysfs) -> Result<PoolSet, PmdkError> {
        let mut set = PoolSet {
            path: path.to_owned(),
            is_set: true,
            has_single_header: file.has_single_header,
            has_no_headers: file.has_no_headers,
            is_in_directories: false,
            replicas: Vec::new(),
        };
        let mut seen = Seen::default();
        for (index, parts) in file.replicas.into_iter().enumerate() {
            set.replicas.push(Replica::default());
            for (nth, part) in parts.into_iter().enumerate() {
                let is_first = index + nth == 0;
                set.add(part, is_first, &mut seen, sysfs)?;
            }
        }
        if set.is_in_directories {
            for replica in &mut set.replicas {
                replica.load_directories(path, &mut seen)?;
            }
        }
        set.check_parts()?;
        Ok(set)
    }

    fn add(
        &mut self,
        part: SetPart,
        is_first: bool,
        seen: &mut Seen,
        sysfs: &Sysfs,
    ) -> Result<(), PmdkError> {
        let refused = PmdkError::set(&self.path);
        let SetPart { size, path } = part;
        FileKind::find(&path)?;
        let metadata = fs::metadata(&path).ok();
        let is_directory = metadata.as_ref().is_some_and(|metadata| metadata.is_dir());
        if is_first {
            self.is_in_directories = is_directory;
        } else if self.is_in_directories != is_directory {
            return Err(refused(SetError::Mixed));
        }
        if is_directory {
            if !seen.insert(&path, metadata.as_ref()) {
                return Err(refused(SetError::DirectoryTwice(path)));
            }
            let size = size.ok_or_else(|| refused(SetError::AutoSize(path.clone())))?;
            if let Some(replica) = self.replicas.last_mut() {
                replica.directories.push((path, size));
            }
            return Ok(());
        }
        let node = metadata.as_ref().filter(|metadata| metadata.file_type().is_char_device());
        let node = node.map(|metadata| device(metadata, &path, sysfs)).transpose()?;
        let size = match (size, node) {
            (None, None) => return Err(refused(SetError::AutoSize(path))),
            (None, Some((len, _))) => len,
            (Some(want), Some((found, _))) if want != found => {
                return Err(PmdkError::PartSize { path, want, found });
            }
            (Some(size), _) => size,
        };
        if let Some(replica) = self.replicas.last_mut() {
            replica.parts.push(Part { path, size, device_align: node.map(|(_, align)| align) });
        }
        Ok(())
    }

    /// Checks rules between parts.
    fn check_parts(&self) -> Result<(), PmdkError> {
        let refused = PmdkError::set(&self.path);
        for replica in &self.replicas {
            let is_node = |part: &Part| part.device_align.is_some();
            let nodes = replica.parts.iter().filter(|part| is_node(part)).count();
            if nodes > 0 && nodes < replica.parts.len() {
                return Err(refused(SetError::DevicesMixed));
            }
            let is_coarse = |part: &Part| part.device_align.is_some_and(|align| align != BLOCK);
            if nodes > 1 && !self.has_single_header && replica.parts.iter().any(is_coarse) {
                return Err(refused(SetError::DeviceAlignment));
            }
        }
        Ok(())
    }

    /// Adds the first part to each replica in folders that has no part, if `size` returns one for its path.
    pub(crate) fn add_first_parts(&mut self, size: impl Fn(&Path) -> Option<u64>) {
        for replica in self.replicas.iter_mut().filter(|replica| replica.parts.is_empty()) {
            let first = replica.part_in_folder(0, 0);
            let first = first.and_then(|part| size(&part.path).map(|size| Part { size, ..part }));
            replica.parts.extend(first);
        }
    }

    /// Returns the part of `size` bytes that each replica in folders gets next.
    pub(crate) fn next_parts(&self, size: u64) -> Vec<Part> {
        let next = |replica: &Replica| replica.part_in_folder(replica.parts.len(), size);
        self.replicas.iter().filter_map(next).collect()
    }

    /// Adds to each replica in folders the parts that the replica with most parts has more, with their sizes.
    pub(crate) fn add_missing_parts(&mut self) {
        let longest = self.replicas.iter().max_by_key(|replica| replica.parts.len());
        let sizes: Vec<u64> =
            longest.into_iter().flat_map(|replica| &replica.parts).map(|part| part.size).collect();
        for replica in &mut self.replicas {
            for (index, size) in sizes.iter().enumerate().skip(replica.parts.len()) {
                let part = replica.part_in_folder(index, *size);
                replica.parts.extend(part);
            }
        }
    }

    /// Returns the bytes that a pool in these parts has: those of the smallest replica.
    ///
    /// # Errors
    /// [`PmdkError::Set`] if the parts are too large together.
    pub fn net_size(&self) -> Result<u64, PmdkError> {
        let sizes = self.replicas.iter().map(|replica| replica.net_size(self.has_single_header));
        let sizes: Option<Vec<u64>> = sizes.collect();
        let least = sizes.and_then(|sizes| sizes.into_iter().min());
        least.ok_or_else(|| PmdkError::set(&self.path)(SetError::TooLarge))
    }

    /// Returns the bytes of address space to reserve.
    pub(crate) fn reserved(&self) -> Result<u64, PmdkError> {
        let of = |replica: &Replica| {
            replica.directories.iter().try_fold(0_u64, |sum, (_, size)| sum.checked_add(*size))
        };
        let sizes: Option<Vec<u64>> = self.replicas.iter().map(of).collect();
        let sizes = sizes.ok_or_else(|| PmdkError::set(&self.path)(SetError::TooLarge))?;
        Ok(sizes.into_iter().filter(|size| *size > 0).min().unwrap_or(0))
    }

    /// Checks that the folders reserve as many bytes as their parts have. Returns the bytes of the pool.
    pub(crate) fn check_reserved(&self) -> Result<u64, PmdkError> {
        let (need, reserved) = (self.net_size()?, self.reserved()?);
        if reserved > 0 && need > reserved {
            return Err(PmdkError::set(&self.path)(SetError::Reservation { need, reserved }));
        }
        Ok(need)
    }

    /// Refuses a part that was seen before, perhaps by another path.
    pub(crate) fn check_apart(&self, part: &Part, seen: &mut Seen) -> Result<(), PmdkError> {
        if seen.insert(&part.path, fs::metadata(&part.path).ok().as_ref()) {
            return Ok(());
        }
        Err(PmdkError::set(&self.path)(SetError::PartTwice(part.path.clone())))
    }

    /// Returns the bytes of the set file if it is the part, too. Its creation has the set file locked.
    pub(crate) fn len_as_part(&self, part: &Part) -> Option<u64> {
        let [set, part] = [&self.path, &part.path].map(|path| fs::metadata(path).ok());
        let (set, part) = (set.filter(|_| self.is_set)?, part?);
        ((set.dev(), set.ino()) == (part.dev(), part.ino())).then_some(set.len())
    }

    /// Returns the bytes of a part that are before its content in the pool: its header, but for the first part of a replica.
    pub(crate) fn skipped(&self, index: usize) -> u64 {
        if index == 0 || self.has_single_header { 0 } else { BLOCK }
    }

    /// Returns the number of parts of a replica that begin before the end of a pool of `size` bytes. In directories a replica may have
    /// more of them.
    pub(crate) fn used_count(&self, replica: &Replica, size: u64) -> usize {
        if !self.is_in_directories {
            return replica.parts.len();
        }
        let mut start = 0_u64;
        let ends = replica.parts.iter().map(|part| {
            let begin = start;
            start = start.saturating_add(align_down(part.size, BLOCK));
            begin
        });
        ends.take_while(|begin| *begin < size).count()
    }

    /// Returns all parts, those of the master first, each with whether it has a header.
    pub(crate) fn all_parts(&self) -> impl Iterator<Item = (&Part, bool)> {
        self.replicas.iter().flat_map(|replica| {
            let count = self.header_count(replica);
            replica.parts.iter().enumerate().map(move |(index, part)| (part, index < count))
        })
    }

    /// Returns the number of parts of a replica that have a header.
    pub(crate) fn header_count(&self, replica: &Replica) -> usize {
        if self.has_single_header { 1.min(replica.parts.len()) } else { replica.parts.len() }
    }
}

impl Part {
    /// Returns the file or device-DAX node.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns its bytes, as the set file says, or as the kernel says of a node with AUTO and of a file in a folder.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns true for a device-DAX node.
    pub fn is_device(&self) -> bool {
        self.device_align.is_some()
    }
}

impl Replica {
    /// Returns the parts in their order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Returns the folders of the parts.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.directories.iter().map(|(path, _)| &**path)
    }

    /// Returns the part with this index, in the folder that is its turn; `None` if the replica has no folders.
    fn part_in_folder(&self, index: usize, size: u64) -> Option<Part> {
        let turn = index.checked_rem(self.directories.len())?;
        let (directory, _) = self.directories.get(turn)?;
        let path = directory.join(format!("{index:0NAME_DIGITS$}.{EXTENSION}"));
        Some(Part { path, size, device_align: None })
    }

    /// Returns the bytes of the parts, in whole pages, without the headers that lie between them.
    pub(crate) fn net_size(&self, has_single_header: bool) -> Option<u64> {
        let whole = |part: &Part| align_down(part.size, BLOCK);
        let size = self.parts.iter().try_fold(0_u64, |sum, part| sum.checked_add(whole(part)))?;
        let headers = if has_single_header { 0 } else { self.parts.len().saturating_sub(1) as u64 };
        Some(size.saturating_sub(headers * BLOCK))
    }

    /// Finds the parts in the folders, by their numbers.
    fn load_directories(&mut self, set: &Path, seen: &mut Seen) -> Result<(), PmdkError> {
        let mut found: Vec<(usize, Part)> = Vec::new();
        for (directory, _) in &self.directories {
            let refused = PmdkError::io("read the directory", directory);
            for entry in fs::read_dir(directory).map_err(&refused)? {
                let entry = entry.map_err(&refused)?;
                if Path::new(&entry.file_name()).extension() != Some(OsStr::new(EXTENSION)) {
                    continue;
                }
                let path = entry.path();
                let metadata = fs::metadata(&path).map_err(&refused)?;
                if !metadata.is_file() {
                    continue;
                }
                if !seen.insert(&path, Some(&metadata)) {
                    return Err(PmdkError::set(set)(SetError::PartTwice(path)));
                }
                let Some(index) = part_index(&entry.file_name()) else {
                    return Err(PmdkError::set(set)(SetError::OddName(path)));
                };
                found.push((index, Part { path, size: metadata.len(), device_align: None }));
            }
        }
        found.sort_by_key(|(index, _)| *index);
        for (want, (index, part)) in found.into_iter().enumerate() {
            if index != want {
                let directory = self.directories.first().map(|(path, _)| path.clone()).unwrap_or_default();
                let error = match index < want {
                    true => SetError::PartTwice(part.path),
                    false => SetError::Missing { index: want, directory },
                };
                return Err(PmdkError::set(set)(error));
            }
            self.parts.push(part);
        }
        Ok(())
    }
}

/// Returns the number in the name of a part in a folder, such as `000000.pmem`.
fn part_index(name: &OsStr) -> Option<usize> {
    let name = Path::new(name);
    let stem = name.file_stem()?.to_str()?;
    let is_part =
        name.extension() == Some(OsStr::new(EXTENSION)) && stem.bytes().all(|byte| byte.is_ascii_digit());
    if is_part { stem.parse().ok() } else { None }
}

/// Returns size and alignment of a device-DAX node.
fn device(metadata: &fs::Metadata, path: &Path, sysfs: &Sysfs) -> Result<(u64, u64), PmdkError> {
    let backing = ProgramBacking::of_node(sysfs, metadata.rdev());
    let number = |name| backing.node_text(name).and_then(|text| text.parse::<u64>().ok());
    match (number("size"), number("align")) {
        (Some(size), Some(align)) if backing.is_dax_node() && align.is_power_of_two() => Ok((size, align)),
        _ => Err(PmdkError::NotDax { path: path.to_owned() }),
    }
}

/// Returns true if a file begins as a set file does.
///
/// # Errors
/// That of the read.
pub fn begins_as_set(file: &File) -> io::Result<bool> {
    let mut start = [0; 16];
    let len = file.read_at(&mut start, 0)?;
    Ok(SetFile::is_announced(&start[..len]))
}

/// Returns the open file if it begins as a set file does.
fn open_set_file(path: &Path) -> Result<Option<File>, PmdkError> {
    let file = File::open(path).map_err(PmdkError::io("open", path))?;
    Ok(begins_as_set(&file).map_err(PmdkError::io("read", path))?.then_some(file))
}

/// Returns the text of a set file; `None` if the file is none.
fn read_set_text(path: &Path) -> Result<Option<Vec<u8>>, PmdkError> {
    let Some(file) = open_set_file(path)? else { return Ok(None) };
    let mut text = Vec::new();
    let most = SetFile::LEN_MAX as u64 + 1;
    file.take(most).read_to_end(&mut text).map_err(PmdkError::io("read", path))?;
    Ok(Some(text))
}

#[cfg(test)]
mod test {
    use super::*;
    use std::os::unix::fs::symlink;

    /// Returns a sysfs in which /dev/null and /dev/zero are device-DAX nodes of 4 MiB with these alignments.
    fn nodes(aligns: [&str; 2]) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("dev/char")).unwrap();
        for (node, align) in ["/dev/null", "/dev/zero"].into_iter().zip(aligns) {
            let device = fs::metadata(node).unwrap().rdev();
            let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
            let folder = root.path().join("devices/ndbus0/region0/dax").join(&number);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("size"), "4194304\n").unwrap();
            fs::write(folder.join("align"), format!("{align}\n")).unwrap();
            symlink("../../bus/dax", folder.join("subsystem")).unwrap();
            symlink(&folder, root.path().join("dev/char").join(&number)).unwrap();
        }
        let sysfs = Sysfs::at(root.path());
        (root, sysfs)
    }

    /// Reads a set file with these lines.
    fn read(lines: &str, sysfs: &Sysfs) -> Result<PoolSet, PmdkError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("set");
        fs::write(&path, format!("PMEMPOOLSET\n{lines}")).unwrap();
        PoolSet::read(&path, sysfs)
    }

    #[test]
    fn nodes_have_their_size_and_alignment() {
        let (_root, sysfs) = nodes(["4096", "4096"]);
        let set = read("AUTO /dev/null\n4M /dev/zero\n", &sysfs).unwrap();
        let parts: Vec<(u64, bool)> =
            set.replicas()[0].parts().iter().map(|part| (part.size(), part.is_device())).collect();
        assert_eq!(parts, [(4 << 20, true), (4 << 20, true)]);
        assert_eq!(set.net_size().unwrap(), (8 << 20) - 4096);
        let error = read("AUTO /dev/null\n2M /dev/zero\n", &sysfs).unwrap_err();
        assert!(matches!(error, PmdkError::PartSize { want: 0x20_0000, found: 0x40_0000, .. }), "{error}");
        let single = PoolSet::read(Path::new("/dev/zero"), &sysfs).unwrap();
        assert_eq!((single.is_set(), single.net_size().unwrap()), (false, 4 << 20));
        let error = PoolSet::read(Path::new("/dev/full"), &sysfs).unwrap_err();
        assert!(matches!(error, PmdkError::NotDax { .. }), "{error}");
    }

    #[test]
    fn nodes_are_not_mixed_and_have_small_pages_or_a_single_header() {
        let fault = |lines: &str, sysfs: &Sysfs| match read(lines, sysfs).unwrap_err() {
            PmdkError::Set { error, .. } => error,
            other => panic!("{other}"),
        };
        let (_root, sysfs) = nodes(["4096", "2097152"]);
        let two = "AUTO /dev/null\nAUTO /dev/zero\n";
        assert_eq!(fault(two, &sysfs), SetError::DeviceAlignment);
        read(&format!("OPTION SINGLEHDR\n{two}"), &sysfs).unwrap();
        read("AUTO /dev/zero\n", &sysfs).unwrap();
        assert_eq!(fault("AUTO /dev/null\n2M /none\n", &sysfs), SetError::DevicesMixed);
        assert_eq!(fault("AUTO /none\n", &sysfs), SetError::AutoSize("/none".into()));
    }

    /// Comparing each part with all the others would take hours.
    #[test]
    fn large_set_file_is_read_at_once() {
        let lines: String = (0..50_000).map(|number| format!("2M /none/{number}\n")).collect();
        let set = read(&lines, &Sysfs::default()).unwrap();
        assert_eq!(set.replicas()[0].parts().len(), 50_000);
    }

    fn set(single: bool, sizes: &[&[u64]]) -> PoolSet {
        let part = |size: &u64| Part { path: PathBuf::from("/none"), size: *size, device_align: None };
        let replica =
            |sizes: &&[u64]| Replica { parts: sizes.iter().map(part).collect(), directories: Vec::new() };
        PoolSet {
            path: PathBuf::from("/set"),
            is_set: true,
            has_single_header: single,
            has_no_headers: false,
            is_in_directories: false,
            replicas: sizes.iter().map(replica).collect(),
        }
    }

    /// poolset(5): the sum of the parts in whole pages, of which each but the first lacks its header.
    #[test]
    fn net_size_leaves_headers_out() {
        let parts: &[&[u64]] = &[&[10 << 20, (4 << 20) + 4095, 4 << 20]];
        assert_eq!(set(false, parts).net_size().unwrap(), (18 << 20) - 2 * 4096);
        assert_eq!(set(true, parts).net_size().unwrap(), 18 << 20);
        assert_eq!(
            set(false, &[&[9 << 20], &[8 << 20]]).net_size().unwrap(),
            8 << 20,
            "the smallest replica"
        );
        let error = set(false, &[&[u64::MAX, 4096, 4096]]).net_size().unwrap_err();
        assert!(matches!(error, PmdkError::Set { error: SetError::TooLarge, .. }), "{error}");
    }

    #[test]
    fn names_of_parts_in_folders_are_numbers() {
        for (name, index) in [("000000.pmem", Some(0)), ("000012.pmem", Some(12)), ("7.pmem", Some(7))] {
            assert_eq!(part_index(OsStr::new(name)), index);
        }
        for name in ["000000", "x.pmem", "-1.pmem", "1.pmemx", ".pmem", "000000.pmem.lode-create"] {
            assert_eq!(part_index(OsStr::new(name)), None, "{name}");
        }
    }
}
