//! The files whose code this process has loaded.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::{fs, io};

/// A file whose code the process has loaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LoadedFile {
    /// The path.
    pub path: PathBuf,
    /// Numbers of the device and of the file, as the kernel writes them.
    pub number: String,
    /// True if the path no longer leads to the file.
    pub is_deleted: bool,
}

/// Returns the files whose code this process has loaded, each once. Code without a file is left out.
///
/// # Errors
/// Fails if the kernel does not tell them.
pub fn loaded_files() -> io::Result<Vec<LoadedFile>> {
    fs::read("/proc/self/maps").map(|maps| files_of(&maps))
}

/// Returns the files of a list of mappings, whose lines are `ADDRESSES PERMISSIONS OFFSET DEVICE INODE PATH`.
fn files_of(maps: &[u8]) -> Vec<LoadedFile> {
    let mut files: Vec<LoadedFile> = Vec::new();
    for file in maps.split(|byte| *byte == b'\n').filter_map(file_of) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

fn file_of(line: &[u8]) -> Option<LoadedFile> {
    let path = &line[line.iter().position(|byte| *byte == b'/')?..];
    let mut words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let (permissions, number) = (words.nth(1)?, [words.nth(1)?, words.next()?]);
    // Memory that a program made and runs is no file that it has loaded.
    let is_memory = [&b"/memfd:"[..], b"/dev/zero", b"/SYSV"].iter().any(|start| path.starts_with(start));
    if permissions.get(2) != Some(&b'x') || is_memory {
        return None;
    }
    let undeleted = path.strip_suffix(b" (deleted)");
    Some(LoadedFile {
        path: PathBuf::from(OsString::from_vec(unescaped(undeleted.unwrap_or(path)))),
        number: String::from_utf8_lossy(&number.join(&b' ')).into_owned(),
        is_deleted: undeleted.is_some(),
    })
}

/// Puts the ends of lines back, which the kernel writes as octal numbers.
fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    let mut rest = path;
    while let Some((first, after)) = rest.split_first() {
        rest = rest.strip_prefix(b"\\012").unwrap_or(after);
        text.push(if rest.len() + 4 == after.len() + 1 { b'\n' } else { *first });
    }
    text
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn files_with_code_are_listed_once() {
        let maps = b"55d0-55d1 r--p 00000000 08:01 12 /usr/bin/my program\n\
            55d1-55d2 r-xp 00001000 08:01 12 /usr/bin/my program\n\
            55d4-55d5 r-xp 00003000 08:01 12 /usr/bin/my program\n\
            7f00-7f01 rw-p 00000000 00:00 0 \n\
            7f01-7f02 rwxp 00000000 00:00 0 \n\
            7f02-7f03 r-xp 00000000 08:01 13                         /lib/a\\012b\\x.so (deleted)\n\
            7f03-7f04 rwxs 00000000 00:05 14                         /memfd:code (deleted)\n\
            7f04-7f05 r-xp 00000000 00:00 0                          [vdso]\n\
            bad\n";
        let file = |path: &str, number: &str, is_deleted| LoadedFile {
            path: path.into(),
            number: number.into(),
            is_deleted,
        };
        assert_eq!(
            files_of(maps),
            [file("/usr/bin/my program", "08:01 12", false), file("/lib/a\nb\\x.so", "08:01 13", true)]
        );
    }

    #[test]
    fn own_program_is_loaded() {
        let own = std::env::current_exe().unwrap();
        assert!(loaded_files().unwrap().iter().any(|file| file.path == own));
    }
}
