//! Sets and headers that both sides refuse, for the same reason.

use crate::judge::Pmdk;
use crate::{create, folder, open, options, write_set};
use lode_layout::{PmdkHeaderError, PmdkKind, store_pmdk_checksum};
use lode_pmdk::{ChainFault, OpenOptions, PmdkAccess, PmdkError, PmdkPool, SetError, SetFile};
use std::fs::{self, File};
use std::path::Path;

/// Fails unless both sides refuse the set, and PMDK's words are in both messages.
fn assert_refused(pmdk: Pmdk, path: &Path, words: &str) -> PmdkError {
    let theirs = pmdk.run("log-read", path, &[]).unwrap_err();
    let ours = PmdkPool::open(path, &options(PmdkKind::Log)).unwrap_err();
    assert!(theirs.contains(words), "theirs: {theirs}; wanted: {words}; ours: {ours}");
    assert!(ours.to_string().contains(words), "ours: {ours}; wanted: {words}");
    ours
}

/// The line and the words of PMDK's message are ours.
#[test]
fn set_files_are_refused_as_by_pmdk() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let path = folder.path().join("set");
    for text in [
        "PMEMPOOLSET",
        "PMEMPOOLSET ",
        "PMEMPOOLSET \n2M /a\n",
        "PMEMPOOLSET\n",
        "PMEMPOOLSET\n#2M /a\n\n",
        "PMEMPOOLSET\nREPLICA\n2M /a\n",
        "PMEMPOOLSET\n2M /a\nREPLICA\n",
        "PMEMPOOLSET\n2M /a\nREPLICA\n\nREPLICA\n2M /b\n",
        "PMEMPOOLSET\n2M /a\nREPLICAS\n",
        "PMEMPOOLSET\n2M /a\nREPLICA \n",
        "PMEMPOOLSET\n2M /a\nREPLICA node\n",
        "PMEMPOOLSET\n2M /a\nREPLICA node /set\n",
        "PMEMPOOLSET\n2M /a\nREPLICA node a b\n",
        "PMEMPOOLSET\n2M\n",
        "PMEMPOOLSET\n \n",
        "PMEMPOOLSET\n2M /a b\n",
        "PMEMPOOLSET\n2M a\n",
        "PMEMPOOLSET\n2X a\n",
        "PMEMPOOLSET\n2X /a\n",
        "PMEMPOOLSET\n0 /a\n",
        "PMEMPOOLSET\n2 M /a\n",
        "PMEMPOOLSET\nauto /a\n",
        "PMEMPOOLSET\n2KB /a\n",
        "PMEMPOOLSET\n2mb /a\n",
        "PMEMPOOLSET\nOPTION\n",
        "PMEMPOOLSET\nOPTION # SINGLEHDR\n",
        "PMEMPOOLSET\nOPTION singlehdr\n",
        "PMEMPOOLSET\nOPTION SINGLEHDR other\n",
        "PMEMPOOLSET\nOPTIONS\n",
    ] {
        fs::write(&path, text).unwrap();
        let theirs = pmdk.run("log-read", &path, &[]).unwrap_err();
        let ours = SetFile::parse(text.as_bytes()).unwrap_err();
        // "PATH [the first line must be exactly 'PMEMPOOLSET':1]"
        let shown = theirs.rsplit_once('[').and_then(|(_, rest)| rest.strip_suffix(']')?.rsplit_once(':'));
        let (words, line) = shown.unwrap_or_else(|| panic!("{text:?}: {theirs}"));
        assert!(ours.fault.to_string().starts_with(words), "{text:?}: {words}, ours: {ours}");
        assert_eq!(line, ours.line.to_string(), "{text:?}: {words}");
        let error = PmdkPool::open(&path, &options(PmdkKind::Log)).unwrap_err();
        assert!(matches!(error, PmdkError::SetFile { .. }), "{error}");
    }
}

/// Words, sizes, options and comments that PMDK takes.
#[test]
fn set_files_are_taken_as_by_pmdk() {
    let Some(pmdk) = Pmdk::find() else { return };
    for lines in [
        "2M @/a\n4096K @/b",
        "\t 2MiB\t @/a \t\n#\n\n4096KiB @/b # text\n",
        "2M @/a#text\n4194304B @/b\nOPTION SINGLEHDR\n",
        "OPTIONSINGLEHDR\n2M @/a\n4M @/b\nOPTION SINGLEHDR SINGLEHDR\n",
        "0002M @/a\n4200kB @/b\n",
    ] {
        let folder = folder();
        let path = write_set(folder.path(), lines);
        create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
        pmdk.run("log-append", &path, &["100", "1"]).unwrap();
        pmdk.assert_consistent(&path);
        open(PmdkKind::Log, &path).close().unwrap();
    }
}

#[test]
fn headers_are_refused_as_by_pmdk() {
    let Some(pmdk) = Pmdk::find() else { return };
    type Change = fn(&mut [u8]);
    let cases: [(&str, Change, &str); 9] = [
        ("a", |bytes| bytes[0] = b'X', "wrong pool type: \"XMEMLOG"),
        ("b", |bytes| bytes[8] = 7, "pool version 7 (library expects 1)"),
        ("b", |bytes| bytes[0x13] = 0x80, "unknown incompat features: 0x80000000"),
        ("a", |bytes| bytes[0x18] ^= 1, "invalid checksum of pool header"),
        ("b", |bytes| bytes[0x90] ^= 1, "invalid checksum of pool header"),
        (
            "b",
            |bytes| {
                bytes[0x88] = 1;
                store_pmdk_checksum(bytes)
            },
            "wrong architecture flags",
        ),
        (
            "b",
            |bytes| {
                bytes[0x18] ^= 1;
                store_pmdk_checksum(bytes)
            },
            "wrong pool set UUID",
        ),
        (
            "b",
            |bytes| {
                bytes[0x38] ^= 1;
                store_pmdk_checksum(bytes)
            },
            "wrong part UUID",
        ),
        (
            "b",
            |bytes| {
                // One feature alone would be an interrupted change of features, which the open finishes.
                bytes[0x0c] ^= 1;
                bytes[0x10] ^= 4;
                store_pmdk_checksum(bytes)
            },
            "incompatible feature flags",
        ),
    ];
    for (name, change, words) in cases {
        let folder = folder();
        let path = write_set(folder.path(), "2M @/a\n4M @/b\n");
        create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
        let part = folder.path().join(name);
        let mut bytes = fs::read(&part).unwrap();
        change(&mut bytes);
        fs::write(&part, &bytes).unwrap();
        let error = assert_refused(pmdk, &path, words);
        assert!(matches!(error, PmdkError::Header { .. } | PmdkError::Chain { .. }), "{error}");
        assert!(fs::read(&part).unwrap() == bytes);
    }
}

#[test]
fn sets_that_are_not_the_pool_are_refused() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let lines = "2M @/a\n2M @/b\n2M @/c\n";
    let path = write_set(folder.path(), lines);
    create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
    for (lines, words) in [
        ("2M @/a\n2M @/c\n2M @/b\n", "wrong part UUID"),
        ("2M @/a\n2M @/b\n", "wrong part UUID"),
        ("2M @/b\n2M @/c\n", "wrong part UUID"),
        ("OPTION SINGLEHDR\n2M @/a\n2M @/b\n2M @/c\n", "wrong part UUID"),
        ("2M @/a\n3M @/b\n2M @/c\n", "file size does not match config"),
        ("2M @/a\n2M @/b\n2M @/none\n", "No such file"),
        ("2M @/a\n2M @/b\n2M @/c\nREPLICA\n6M @/d\n", ""),
        ("2M @/a\n2M @/a\n2M @/c\n", ""),
        ("2M @/a\n2M @/b\n2M @/set\n", ""),
        ("2M @/a\n2M @\n", "cannot mix directories and files"),
    ] {
        write_set(folder.path(), lines);
        assert_refused(pmdk, &path, words);
    }
    // A link is the same file.
    fs::hard_link(folder.path().join("a"), folder.path().join("link")).unwrap();
    write_set(folder.path(), "2M @/a\n2M @/link\n2M @/c\n");
    let error = assert_refused(pmdk, &path, "");
    assert!(matches!(error, PmdkError::Set { error: SetError::PartTwice(_), .. }), "{error}");
    write_set(folder.path(), lines);
    open(PmdkKind::Log, &path).close().unwrap();
    pmdk.assert_consistent(&path);
}

#[test]
fn new_pools_are_refused_as_by_pmdk() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    fs::create_dir(folder.path().join("folder")).unwrap();
    fs::write(folder.path().join("used"), [1].repeat(2 << 20)).unwrap();
    let path = folder.path().join("set");
    for (lines, words) in [
        ("2M @/a\n2M @/b\nREPLICA\n4M @/c\n", "replication not supported"),
        ("OPTION NOHDRS\n2M @/a\n", "NOHDRS"),
        ("64M @/folder\n", "directory based pools are not supported"),
        ("OPTION SINGLEHDR\n64M @/folder\n64M @/folder\n", "cannot use the same directory twice"),
        ("1M @/a\n4M @/b\n", "smaller than"),
        ("2M @/used\n2M @/b\n", "Non-empty file detected"),
        ("3M @/used\n2M @/b\n", ""),
        ("AUTO @/used\n", "cannot determine size of a part"),
    ] {
        write_set(folder.path(), lines);
        let theirs = pmdk.run("log-create", &path, &["0"]).unwrap_err();
        assert!(theirs.contains(words), "{lines}: {theirs}");
        // What theirs leaves must not be in our way.
        for name in ["a", "b", "c"] {
            let _ = fs::remove_file(folder.path().join(name));
        }
        let ours = create(PmdkKind::Log, &path, None).unwrap_err();
        assert!(ours.to_string().contains(words), "{lines}: {ours}; theirs: {theirs}");
        assert!(["a", "b", "c"].iter().all(|name| !folder.path().join(name).exists()), "{lines}");
    }
    let error = create(PmdkKind::Log, &folder.path().join("small"), Some((2 << 20) - 1)).unwrap_err();
    assert!(matches!(error, PmdkError::ReservedTooLittle { .. }), "{error}");
    let error = create(PmdkKind::Log, &folder.path().join("used"), Some(2 << 20)).unwrap_err();
    assert!(matches!(error, PmdkError::Exists { .. }), "{error}");
    let error = create(PmdkKind::Log, folder.path(), None).unwrap_err();
    assert!(matches!(error, PmdkError::Folder { .. }), "{error}");
}

#[test]
fn pools_of_other_kinds_are_refused() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let path = folder.path().join("blocks");
    create(PmdkKind::Blocks, &path, Some(20 << 20)).unwrap().close().unwrap();
    let error = assert_refused(pmdk, &path, "wrong pool type: \"PMEMBLK");
    assert!(matches!(error, PmdkError::Kind { want: PmdkKind::Log, found: PmdkKind::Blocks, .. }), "{error}");
}

/// Features that a writer must know make a pool read-only, as with PMDK.
#[test]
fn unknown_features_of_writers_allow_reading() {
    let folder = folder();
    let path = folder.path().join("log");
    create(PmdkKind::Log, &path, Some(2 << 20)).unwrap().close().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    bytes[0x14] = 4;
    store_pmdk_checksum(&mut bytes[..4096]);
    fs::write(&path, &bytes).unwrap();
    let pool = open(PmdkKind::Log, &path);
    assert!(pool.is_read_only());
    pool.close().unwrap();
    assert!(fs::read(&path).unwrap() == bytes);
}

/// A repair of bad blocks that was stopped.
#[test]
fn stopped_repairs_are_refused() {
    let Some(pmdk) = Pmdk::find() else { return };
    let folder = folder();
    let path = write_set(folder.path(), "2M @/a\n4M @/b\n");
    create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
    File::create(folder.path().join("set_r0_p1_badblocks.txt")).unwrap();
    let error = assert_refused(pmdk, &path, "a bad block recovery file exists");
    assert!(matches!(error, PmdkError::RecoveryFile { .. }), "{error}");
    let ignoring =
        OpenOptions { ignores_bad_blocks: true, ..OpenOptions::new(PmdkKind::Log, PmdkAccess::ReadWrite) };
    PmdkPool::open(&path, &ignoring).unwrap().close().unwrap();
    // The file of the part that is damaged, or missing.
    let part = folder.path().join("b");
    fs::write(&part, [7].repeat(4 << 20)).unwrap();
    assert_refused(pmdk, &path, "a bad block recovery file exists");
    File::create(folder.path().join("set_r0_p0_badblocks.txt")).unwrap();
    fs::remove_file(&part).unwrap();
    assert_refused(pmdk, &path, "a bad block recovery file exists");
    // That of a missing part does not count.
    fs::remove_file(folder.path().join("set_r0_p0_badblocks.txt")).unwrap();
    assert_refused(pmdk, &path, "No such file");
}

#[test]
fn faults_name_their_part() {
    let folder = folder();
    let path = write_set(folder.path(), "2M @/a\n4M @/b\n");
    create(PmdkKind::Log, &path, None).unwrap().close().unwrap();
    let part = folder.path().join("b");
    let mut bytes = fs::read(&part).unwrap();
    bytes[0x18] ^= 1;
    fs::write(&part, &bytes).unwrap();
    let error = PmdkPool::open(&path, &options(PmdkKind::Log)).unwrap_err();
    assert!(error.is_damage());
    match error {
        PmdkError::Header { path, error: PmdkHeaderError::Checksum { .. } } => assert_eq!(path, part),
        other => panic!("{other}"),
    }
    store_pmdk_checksum(&mut bytes[..4096]);
    fs::write(&part, &bytes).unwrap();
    match PmdkPool::open(&path, &options(PmdkKind::Log)).unwrap_err() {
        PmdkError::Chain { path, fault: ChainFault::PoolSet } => assert_eq!(path, part),
        other => panic!("{other}"),
    }
}
