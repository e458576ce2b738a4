//! Repairs of headers, and checks that the program ends before.

use super::{Answer, Arguments, Check, Flags, PoolType, Status, Verdict};
use lode_layout::{PmdkFeatures, PmdkHeader, PmdkKind, PmdkLog, StoredPmdkHeader};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use uuid::Uuid;

const REPAIR: u32 = Flags::REPAIR | Flags::ADVANCED | Flags::VERBOSE | Flags::FORMAT_STR;

/// A folder with a set with OPTION SINGLEHDR whose header was changed, and the paths of the set and of its first part.
fn single(change: impl FnOnce(&mut [u8; 4096])) -> (TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let parts = ["a", "b"].map(|name| folder.path().join(name));
    let lines = parts.iter().map(|part| format!("2M {}\n", part.display())).collect::<String>();
    let path = folder.path().join("set");
    fs::write(&path, format!("PMEMPOOLSET\nOPTION SINGLEHDR\n{lines}")).unwrap();
    let mut header = StoredPmdkHeader::new(
        PmdkHeader::new(PmdkKind::Log, Uuid::from_u128(1), Uuid::from_u128(2), 3).encode(),
    );
    let mut features = PmdkFeatures::DEFAULT;
    features.incompat |= PmdkFeatures::SINGLE_HEADER;
    header.set_features(features);
    header.store_checksum();
    let mut bytes = *header.bytes();
    change(&mut bytes);
    let size = 4 << 20;
    for part in &parts {
        fs::write(part, vec![0; 2 << 20]).unwrap();
    }
    let first = fs::File::options().write(true).open(&parts[0]).unwrap();
    first.write_all_at(&bytes, 0).unwrap();
    first.write_all_at(&PmdkLog::plan(size).unwrap().encode(), 4096).unwrap();
    let [first, _] = parts;
    (folder, path, first)
}

fn begin(path: &Path, flags: u32) -> Check {
    Check::begin(Arguments {
        path: path.to_owned(),
        backup: None,
        pool_type: PoolType::Unknown,
        flags: Flags(flags),
        time_text: |_| String::new(),
    })
    .unwrap()
}

fn run(path: &Path, flags: u32) -> (Verdict, String) {
    let (mut check, mut texts) = (begin(path, flags), String::new());
    while let Some(status) = check.next(Answer::Yes) {
        let (Status::Info(text) | Status::Error(text) | Status::Question(text)) = status;
        texts = format!("{texts}{text}\n");
    }
    (check.end(), texts)
}

#[test]
fn repaired_header_of_a_set_with_one_header_says_so() {
    // Its time of creation, SINGLEHDR, and a feature that is unknown.
    for at in [0x78, 16, 17] {
        let (_folder, path, first) = single(|bytes| bytes[at] ^= 1);
        let (verdict, texts) = run(&path, REPAIR | Flags::ALWAYS_YES);
        assert_eq!(verdict, Verdict::Repaired, "{texts}");
        let bytes = fs::read(&first).unwrap();
        let header = StoredPmdkHeader::new(*bytes.first_chunk().unwrap());
        assert!(header.is_intact() && header.features().has_single_header(), "{texts}");
        assert_eq!(run(&path, Flags::FORMAT_STR).0, Verdict::Consistent);
    }
}

#[test]
fn check_that_is_ended_early_is_no_repair() {
    let (_folder, path, first) = single(|bytes| {
        bytes[0x18] ^= 1;
        bytes[0x700] ^= 1;
    });
    let before = fs::read(&first).unwrap();
    // At the first question, and after an answer, at a message and at the second question.
    for end in ["unused area", "setting pool_hdr.unused", "invalid pool_hdr.checksum"] {
        let mut check = begin(&path, REPAIR);
        while let Some(Status::Info(text) | Status::Question(text)) = check.next(Answer::Yes) {
            if text.contains(end) {
                break;
            }
        }
        assert_eq!(check.end(), Verdict::Error, "{end}");
    }
    assert!(fs::read(&first).unwrap() == before);
}
