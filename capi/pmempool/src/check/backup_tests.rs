//! Backups that must not touch the pool, and their errors.

use super::{Answer, Arguments, Check, Flags, PoolType, Status, Verdict};
use lode_layout::{PmdkHeader, PmdkKind};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use uuid::Uuid;

const LEN: usize = 2 << 20;
const ALL: u32 = Flags::REPAIR | Flags::ADVANCED | Flags::ALWAYS_YES | Flags::VERBOSE | Flags::FORMAT_STR;

/// A folder with a log pool whose header is damaged, and the path of the pool.
fn damaged() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool");
    let mut bytes =
        PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 3).encode().to_vec();
    bytes[0x700] ^= 1;
    bytes.resize(LEN, 0);
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// A folder with a set of two parts without a pool, and the path of the set file.
fn set(folder: &Path, name: &str, parts: [&str; 2]) -> PathBuf {
    let lines = parts.iter().map(|part| format!("2M {}\n", folder.join(part).display()));
    let path = folder.join(name);
    fs::write(&path, format!("PMEMPOOLSET\n{}", lines.collect::<String>())).unwrap();
    path
}

/// Repairs the pool after a backup. Returns the verdict, the number of the error, and the messages.
fn repair(path: &Path, backup: &Path) -> (Verdict, Option<i32>, String) {
    let mut check = Check::begin(Arguments {
        path: path.to_owned(),
        backup: Some(backup.to_owned()),
        pool_type: PoolType::Unknown,
        flags: Flags(ALL),
        time_text: |_| String::new(),
    })
    .unwrap();
    let (mut texts, mut errno) = (String::new(), None);
    while let Some(status) = check.next(Answer::Yes) {
        let (Status::Info(text) | Status::Error(text) | Status::Question(text)) = status;
        texts = format!("{texts}{text}\n");
        errno = check.take_errno().or(errno);
    }
    (check.end(), errno, texts)
}

#[test]
fn backup_onto_the_pool_is_refused() {
    let (folder, path) = damaged();
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    let hard = folder.path().join("hard");
    fs::hard_link(&path, &hard).unwrap();
    let (before, ino) = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().ino());
    for backup in [&path, &link, &hard] {
        let (verdict, errno, texts) = repair(&path, backup);
        assert_eq!((verdict, errno), (Verdict::CannotRepair, Some(libc::EINVAL)), "{texts}");
        assert!(texts.contains("is the pool itself"), "{texts}");
        assert_eq!(fs::metadata(&path).unwrap().ino(), ino);
        assert!(fs::read(&path).unwrap() == before);
    }
}

#[test]
fn backup_set_that_names_a_part_of_the_pool_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (name, byte) in [("a", 1), ("b", 2), ("c", 3)] {
        fs::write(folder.path().join(name), vec![byte; LEN]).unwrap();
    }
    let path = set(folder.path(), "set", ["a", "b"]);
    for parts in [["b", "c"], ["c", "a"], ["a", "b"]] {
        let backup = set(folder.path(), "backup", parts);
        let (verdict, errno, texts) = repair(&path, &backup);
        assert_eq!((verdict, errno), (Verdict::CannotRepair, Some(libc::EINVAL)), "{texts}");
        assert!(texts.contains("is the pool itself"), "{texts}");
        for (name, byte) in [("a", 1), ("b", 2), ("c", 3)] {
            assert!(fs::read(folder.path().join(name)).unwrap() == vec![byte; LEN], "{name}");
        }
    }
}

#[test]
fn backup_through_a_link_replaces_the_file_that_it_leads_to() {
    let (folder, path) = damaged();
    let before = fs::read(&path).unwrap();
    fs::create_dir(folder.path().join("far")).unwrap();
    let (old, link) = (folder.path().join("far/old"), folder.path().join("link"));
    fs::write(&old, vec![7; LEN]).unwrap();
    symlink(&old, &link).unwrap();
    repair(&path, &link);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read(&old).unwrap() == before);
}

#[test]
fn failed_backup_tells_its_reason() {
    let (folder, path) = damaged();
    let (verdict, errno, texts) = repair(&path, &folder.path().join("missing/backup"));
    assert_eq!((verdict, errno), (Verdict::Error, Some(libc::ENOENT)), "{texts}");
    assert!(texts.contains("cannot perform backup"), "{texts}");
}
