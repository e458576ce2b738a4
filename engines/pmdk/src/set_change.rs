//! A change of a set in several files: all of it, or none.
//!
//! New parts are files under hidden names. The steps that change the set are written into a file beside the set file,
//! `.NAME.lode-change`, before any part of the set is touched:
//!
//! ```text
//! 1  the description of the change, under a name of its own, synced
//! 2  its name, synced: from here on the change is made
//! 3  headers of parts that stay, each durable
//! 4  new parts get their names; the names are synced
//! 5  parts that go are removed; the names are synced
//! 6  the description is removed
//! ```
//!
//! | stops after   | on disk                          | the next repair or change of this set file, or open for writing |
//! |---------------|----------------------------------|-----------------------------------------------------------------|
//! | 1             | the set as before, hidden files  | removes the files and begins anew, or an open ignores them      |
//! | 2             | the same, and the description    | makes the rest; but removes it if the pool was open since       |
//! | 3, 4, 5       | some of the change               | makes the rest, in the same order; each step can be repeated    |
//! | half a header | lines of the old and the new one | writes the new one                                              |
//! | 6             | the set after the change         | nothing to do                                                   |
//!
//! Headers are first: from the first one on no program opens the old set, and none the new one before its parts have their names. Between
//! 2 and 3 the old set file can be opened still: then new parts lack what was stored since. The description has a checksum of the
//! page that each open for writing changes, by which that is seen. A repair seldom changes a header; the set is broken until its last
//! part has its name, or only lacks lost ranges and is opened: then parts without a name yet are removed likewise.
//!
//! The text has a line for each step and a checksum at its end. It holds old headers, too: a header that is neither the old nor the
//! new one, nor lines of both, belongs to a pool that was changed otherwise since. Nothing is written then.

use crate::error::PmdkError;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::staged_part::{hidden_beside, persist_names, replace};
use crate::stops;
use lode_layout::{
    BLOCK, LINE, PmdkKind, PmdkObj, PmdkPartHeader, PmdkUuidField, StoredPmdkHeader, fletcher64,
};
use lode_pmem::ByAddress;
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const SIGNATURE: &str = "LODE-PMDK-CHANGE 1";
/// Most bytes of a description: that of a set file's most lines would be longer than any that is made.
const LEN_MAX: u64 = 1 << 30;
const HEADER_LEN: usize = PmdkPartHeader::LEN;

/// The steps of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetChange {
    /// Hidden files, and the parts that they become.
    pub(crate) named: Vec<(PathBuf, PathBuf)>,
    /// Parts that stay and get another header: the old one, and the new one.
    pub(crate) headers: Vec<(PathBuf, StoredPmdkHeader, StoredPmdkHeader)>,
    /// Parts that go, with the numbers of their files.
    pub(crate) removed: Vec<(PathBuf, u64)>,
    /// A part that content was copied from, and the checksum of its page that each open for writing changes.
    pub(crate) source: Option<(PathBuf, u64)>,
}

/// The state of a header that has to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderState {
    Old,
    /// The old one, with other features or another shutdown state.
    OldUsed,
    /// Lines of both.
    Torn,
    New,
}

/// Returns the path of the description of a change of a set.
pub(crate) fn description(set: &Path) -> PathBuf {
    hidden_beside(set, "change")
}

impl SetChange {
    /// Returns the text of the description.
    pub fn to_text(&self) -> Vec<u8> {
        let mut text = format!("{SIGNATURE}\n").into_bytes();
        let mut line = |words: &str, path: &Path| {
            text.extend_from_slice(words.as_bytes());
            text.extend_from_slice(path.as_os_str().as_bytes());
            text.push(b'\n');
        };
        for (hidden, part) in &self.named {
            line("from ", hidden);
            line("name ", part);
        }
        for (part, old, new) in &self.headers {
            line(&format!("header {} {} ", hex(old), hex(new)), part);
        }
        if let Some((part, state)) = &self.source {
            line(&format!("source {state:016x} "), part);
        }
        for (part, file) in &self.removed {
            line(&format!("remove {file} "), part);
        }
        let end = format!("end {:016x}\n", checksum(&text));
        text.extend_from_slice(end.as_bytes());
        text
    }

    /// Reads a description. `None` if it is none. Never panics, for any content.
    pub fn parse(text: &[u8]) -> Option<SetChange> {
        let body_len = text.strip_suffix(b"\n")?.iter().rposition(|byte| *byte == b'\n')? + 1;
        let (body, end) = text.split_at(body_len);
        if end != format!("end {:016x}\n", checksum(body)).as_bytes() {
            return None;
        }
        let body = body.strip_prefix(SIGNATURE.as_bytes())?.strip_prefix(b"\n")?;
        let mut change = SetChange::default();
        let mut from = None;
        for line in body.strip_suffix(b"\n").into_iter().flat_map(|body| body.split(|byte| *byte == b'\n')) {
            let (word, rest) = cut(line)?;
            match word {
                "from" if from.is_none() => from = Some(path(rest)?),
                "name" => change.named.push((from.take()?, path(rest)?)),
                "header" => {
                    let (old, rest) = cut(rest)?;
                    let (new, rest) = cut(rest)?;
                    change.headers.push((path(rest)?, unhex(old)?, unhex(new)?));
                }
                "source" if change.source.is_none() => {
                    let (state, rest) = cut(rest)?;
                    change.source = Some((path(rest)?, u64::from_str_radix(state, 16).ok()?));
                }
                "remove" => {
                    let (file, rest) = cut(rest)?;
                    change.removed.push((path(rest)?, file.parse().ok()?));
                }
                _ => return None,
            }
        }
        from.is_none().then_some(change)
    }

    /// Makes the change. The caller has all parts locked that stay or go, and the new ones are durable.
    ///
    /// # Durability
    /// The change is durable on return. The head of this file has the table of what is left before that.
    pub(crate) fn make(&self, set: &Path, locks: &[Arc<LockedPart>]) -> Result<(), PmdkError> {
        self.describe(set)?;
        self.finish(set, locks, None)
    }

    /// Writes the description: steps 1 and 2.
    fn describe(&self, set: &Path) -> Result<(), PmdkError> {
        let (path, new) = (description(set), hidden_beside(set, "change-new"));
        stops::step()?;
        let refused = PmdkError::io("write", &new);
        let mut file = File::create(&new).map_err(PmdkError::io("open", &new))?;
        stops::name_made(&new);
        file.write_all(&self.to_text()).map_err(&refused)?;
        // ORDER: the text before its name. Stop here: row 1.
        file.sync_all().map_err(&refused)?;
        stops::step()?;
        // ORDER: the hidden parts before the description that names them. Stop here: row 1.
        persist_names(self.named.iter().map(|(hidden, _)| &**hidden))?;
        stops::step()?;
        replace(&new, &path)?;
        // ORDER: the description before any part of the set changes. Stop here: row 2.
        persist_names([&*path].into_iter())
    }

    /// Makes the change, or the rest of it: steps 3 to 6.
    fn finish(
        &self,
        set: &Path,
        locks: &[Arc<LockedPart>],
        program: Option<ByAddress>,
    ) -> Result<(), PmdkError> {
        let parts = self.open_headers(set, locks, program)?;
        let states = self.states(set, &parts)?;
        let gone = self.open_removed(locks)?;
        let held = [locks, &parts].concat();
        if self.is_overtaken(&states, &held, program)? {
            return self.abandon(set);
        }
        for (((path, _, new), part), state) in self.headers.iter().zip(&parts).zip(states) {
            stops::step()?;
            match state {
                HeaderState::New => {}
                HeaderState::OldUsed => return Err(changed(set, path, "has another header")),
                // The call is durable: a header before the names of new parts. Stop here: row 3, or half a header.
                HeaderState::Old | HeaderState::Torn => part.write_header(0, new.bytes())?,
            }
        }
        for (hidden, part) in &self.named {
            stops::step()?;
            if hidden.symlink_metadata().is_ok() {
                replace(hidden, part)?;
            } else if part.symlink_metadata().is_err() {
                return Err(changed(set, part, "is missing"));
            }
        }
        stops::step()?;
        // ORDER: new parts before the others go. Stop here: row 3, of step 4.
        persist_names(self.named.iter().map(|(_, part)| &**part))?;
        for path in self.removed.iter().map(|(path, _)| path).filter(|path| gone.contains(path)) {
            stops::step()?;
            fs::remove_file(path).map_err(PmdkError::io("unlink", path))?;
            stops::name_removed(path);
        }
        // ORDER: the parts that go before the description. Stop here: row 3, of step 5.
        persist_names(self.removed.iter().map(|(path, _)| &**path).filter(|path| folder_exists(path)))?;
        remove_description(set)
    }

    /// Returns true if no header was changed yet, and the pool was open since.
    fn is_overtaken(
        &self,
        states: &[HeaderState],
        locks: &[Arc<LockedPart>],
        program: Option<ByAddress>,
    ) -> Result<bool, PmdkError> {
        let is_old = |state: &HeaderState| matches!(state, HeaderState::Old | HeaderState::OldUsed);
        let Some((path, state)) = self.source.as_ref().filter(|_| states.iter().all(is_old)) else {
            return Ok(false);
        };
        if states.contains(&HeaderState::OldUsed) {
            return Ok(true);
        }
        match open(path, locks, program).and_then(|first| source_state(&first)) {
            Err(error @ PmdkError::InUse { .. }) => Err(error),
            found => Ok(found.ok() != Some(*state)),
        }
    }

    /// Takes the change back: nothing of the set has changed.
    fn abandon(&self, set: &Path) -> Result<(), PmdkError> {
        remove_description(set)?;
        for (hidden, _) in &self.named {
            stops::step()?;
            // One that stays is removed by the next change.
            let _ = fs::remove_file(hidden);
        }
        Ok(())
    }

    /// Returns the parts whose headers change.
    fn open_headers(
        &self,
        set: &Path,
        locks: &[Arc<LockedPart>],
        program: Option<ByAddress>,
    ) -> Result<Vec<Arc<LockedPart>>, PmdkError> {
        let is_missing = |error: &PmdkError| matches!(error, PmdkError::Io { errno, .. } if *errno == Errno::NOENT.raw_os_error());
        let of = |(path, ..): &(PathBuf, _, _)| match open(path, locks, program) {
            Err(error) if is_missing(&error) => Err(changed(set, path, "is missing")),
            opened => opened,
        };
        self.headers.iter().map(of).collect()
    }

    /// Returns the states of their headers. Refuses one that is neither the old nor the new one.
    fn states(&self, set: &Path, parts: &[Arc<LockedPart>]) -> Result<Vec<HeaderState>, PmdkError> {
        let state = |((path, old, new), part): (&(PathBuf, _, _), &Arc<LockedPart>)| {
            let found = StoredPmdkHeader::new(part.read_header()?);
            header_state(&found, old, new).ok_or_else(|| changed(set, path, "has another header"))
        };
        self.headers.iter().zip(parts).map(state).collect()
    }

    /// Returns the paths of the parts that go and are there still. A file that has taken the place of one stays.
    fn open_removed(&self, locks: &[Arc<LockedPart>]) -> Result<Vec<PathBuf>, PmdkError> {
        let mut paths = Vec::new();
        for (path, file) in &self.removed {
            match path.metadata() {
                Ok(found) if found.ino() == *file => {
                    if !locks.iter().any(|lock| lock.path() == path) {
                        // Refuses one that is in use.
                        LockedPart::open(path, PmdkAccess::ReadWrite, None)?;
                    }
                    paths.push(path.clone());
                }
                _ => {}
            }
        }
        Ok(paths)
    }
}

/// Returns the state of a header; `None` if it is neither the old nor the new one, nor lines of both.
fn header_state(
    found: &StoredPmdkHeader,
    old: &StoredPmdkHeader,
    new: &StoredPmdkHeader,
) -> Option<HeaderState> {
    let is_like = |other: &StoredPmdkHeader| found.is_intact() && links(found) == links(other);
    let lines = |header: &StoredPmdkHeader| header.bytes().as_chunks::<{ LINE as usize }>().0.to_vec();
    let is_either = || {
        let (old, new) = (lines(old), lines(new));
        lines(found).iter().zip(old.iter().zip(&new)).all(|(found, (old, new))| found == old || found == new)
    };
    match () {
        () if found == old => Some(HeaderState::Old),
        // Also if the pool was open since then.
        () if found == new || is_like(new) => Some(HeaderState::New),
        () if is_like(old) => Some(HeaderState::OldUsed),
        () if is_either() => Some(HeaderState::Torn),
        () => None,
    }
}

/// Returns the fields of a header that a change of the set concerns.
fn links(header: &StoredPmdkHeader) -> (Option<PmdkKind>, bool, [[u8; 16]; 6]) {
    let fields = [
        PmdkUuidField::PoolSet,
        PmdkUuidField::Part,
        PmdkUuidField::NextPart,
        PmdkUuidField::PrevPart,
        PmdkUuidField::NextReplica,
        PmdkUuidField::PrevReplica,
    ];
    (header.kind(), header.features().has_single_header(), fields.map(|field| header.uuid(field)))
}

/// Returns the checksum of the page that each open for writing changes: it has the number of the run.
pub(crate) fn source_state(first: &LockedPart) -> Result<u64, PmdkError> {
    let mut page = [0; BLOCK as usize];
    first.read_content(PmdkObj::OFF, &mut page)?;
    Ok(fletcher64(&page))
}

/// Opens and locks a part that is not among those that are locked.
fn open(
    path: &Path,
    locks: &[Arc<LockedPart>],
    program: Option<ByAddress>,
) -> Result<Arc<LockedPart>, PmdkError> {
    match locks.iter().find(|lock| lock.path() == path) {
        Some(lock) => Ok(Arc::clone(lock)),
        None => LockedPart::open(path, PmdkAccess::ReadWrite, program).map(Arc::new),
    }
}

fn changed(set: &Path, part: &Path, words: &str) -> PmdkError {
    PmdkError::ChangedSince { path: description(set), what: format!("{} {words}", part.display()) }
}

/// Removes the description: step 6.
fn remove_description(set: &Path) -> Result<(), PmdkError> {
    stops::step()?;
    let path = description(set);
    fs::remove_file(&path).map_err(PmdkError::io("unlink", &path))?;
    stops::name_removed(&path);
    stops::step()?;
    // ORDER: the description goes before the caller is told. Stop here: row 3, whose steps change nothing then.
    persist_names([&*path].into_iter())
}

/// Returns true if an interrupted change of the set is left.
pub(crate) fn is_left(set: &Path) -> bool {
    description(set).symlink_metadata().is_ok()
}

/// Makes the rest of a change of the set that was interrupted. Returns false if there is none.
pub(crate) fn finish_left(set: &Path, program: Option<ByAddress>) -> Result<bool, PmdkError> {
    let path = description(set);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(PmdkError::io("open", &path)(error)),
    };
    let mut text = Vec::new();
    file.take(LEN_MAX).read_to_end(&mut text).map_err(PmdkError::io("read", &path))?;
    let Some(change) = SetChange::parse(&text) else {
        let what = "its description is damaged".to_owned();
        return Err(PmdkError::ChangedSince { path, what });
    };
    change.finish(set, &[], program)?;
    Ok(true)
}

fn folder_exists(path: &Path) -> bool {
    path.parent().is_some_and(Path::is_dir)
}

/// Returns the checksum of a text, padded to whole words.
fn checksum(text: &[u8]) -> u64 {
    let mut words = text.to_vec();
    words.resize(text.len().next_multiple_of(4), 0);
    fletcher64(&words)
}

/// Cuts the first word off a line.
fn cut(line: &[u8]) -> Option<(&str, &[u8])> {
    let end = line.iter().position(|byte| *byte == b' ')?;
    Some((str::from_utf8(&line[..end]).ok()?, &line[end + 1..]))
}

fn path(bytes: &[u8]) -> Option<PathBuf> {
    let is_path = bytes.starts_with(b"/") && !bytes.contains(&0);
    is_path.then(|| PathBuf::from(OsStr::from_bytes(bytes)))
}

fn hex(header: &StoredPmdkHeader) -> String {
    header.bytes().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(text: &str) -> Option<StoredPmdkHeader> {
    let digits = text.as_bytes();
    if digits.len() != 2 * HEADER_LEN {
        return None;
    }
    let mut bytes = [0; HEADER_LEN];
    for (byte, digits) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(StoredPmdkHeader::new(bytes))
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::{PmdkFeatures, PmdkShutdownRecord};
    use uuid::Uuid;

    fn sample() -> SetChange {
        let header = |byte| StoredPmdkHeader::new([byte; HEADER_LEN]);
        SetChange {
            named: vec![("/a/.b".into(), "/a/b".into()), ("/a/.c d".into(), "/a/c d".into())],
            headers: vec![("/a/e".into(), header(1), header(0xfe))],
            removed: vec![("/a/f".into(), 77)],
            source: Some(("/a/g".into(), 88)),
        }
    }

    #[test]
    fn descriptions_round_trip() {
        for change in [sample(), SetChange::default()] {
            assert_eq!(SetChange::parse(&change.to_text()), Some(change));
        }
    }

    #[test]
    fn torn_description_is_none() {
        let text = sample().to_text();
        for len in 0..text.len() {
            assert_eq!(SetChange::parse(&text[..len]), None, "{len}");
        }
        for at in (0..text.len()).step_by(7) {
            let mut text = text.clone();
            text[at] ^= 1;
            assert_eq!(SetChange::parse(&text), None, "{at}");
        }
    }

    #[test]
    fn relative_paths_and_unknown_lines_are_refused() {
        for body in [
            "name /a\n",
            "from /a\n",
            "from a\nname /b\n",
            "remove x /a\n",
            "other /a\n",
            "header 00 00 /a\n",
            "\n",
        ] {
            let body = format!("{SIGNATURE}\n{body}").into_bytes();
            let end = format!("end {:016x}\n", checksum(&body)).into_bytes();
            assert_eq!(
                SetChange::parse(&[body.clone(), end].concat()),
                None,
                "{}",
                String::from_utf8_lossy(&body)
            );
        }
    }

    fn header(part: u128, next_replica: u128) -> StoredPmdkHeader {
        let uuid = Uuid::from_u128;
        let header = PmdkPartHeader {
            kind: PmdkKind::Objects,
            features: PmdkFeatures::DEFAULT,
            poolset_uuid: uuid(9),
            uuid: uuid(part),
            prev_part: uuid(part),
            next_part: uuid(part),
            prev_replica: uuid(next_replica),
            next_replica: uuid(next_replica),
            created: 1,
            shutdown: PmdkShutdownRecord::Empty,
        };
        StoredPmdkHeader::new(header.encode())
    }

    /// Makes a part with this header, and a description that gives it another one. Returns the paths of set and part.
    fn described(found: &StoredPmdkHeader) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let (set, part) = (folder.path().join("set"), folder.path().join("part"));
        fs::write(&part, [*found.bytes(), [0; HEADER_LEN]].concat()).unwrap();
        let change = SetChange {
            headers: vec![(part.clone(), header(1, 1), header(1, 2))],
            source: Some((part.clone(), fletcher64(&[0; HEADER_LEN]))),
            ..SetChange::default()
        };
        fs::write(description(&set), change.to_text()).unwrap();
        (folder, set, part)
    }

    /// A power cut leaves any of the lines of a header.
    #[test]
    fn torn_header_becomes_the_new_one() {
        let (old, new) = (header(1, 1), header(1, 2));
        let differs = |line: &usize| old.bytes()[line * 64..][..64] != new.bytes()[line * 64..][..64];
        let lines: Vec<usize> = (0..64).filter(differs).collect();
        assert!(lines.len() > 1);
        for kept in 0..1_u32 << lines.len() {
            let mut bytes = *old.bytes();
            for (_, line) in lines.iter().enumerate().filter(|(index, _)| kept >> index & 1 == 1) {
                bytes[line * 64..][..64].copy_from_slice(&new.bytes()[line * 64..][..64]);
            }
            let (_folder, set, part) = described(&StoredPmdkHeader::new(bytes));
            assert!(finish_left(&set, None).unwrap());
            assert_eq!(fs::read(&part).unwrap()[..HEADER_LEN], new.bytes()[..], "{kept:#b}");
            assert!(!is_left(&set) && !finish_left(&set, None).unwrap());
        }
    }

    #[test]
    fn foreign_header_stays() {
        let (_folder, set, part) = described(&header(3, 1));
        let before = fs::read(&part).unwrap();
        let error = finish_left(&set, None).unwrap_err();
        assert!(matches!(&error, PmdkError::ChangedSince { .. }), "{error}");
        assert_eq!(fs::read(&part).unwrap(), before);
        assert!(is_left(&set));
    }

    /// The pool was opened by its old set file after the description: new parts would lack its stores.
    #[test]
    fn overtaken_change_is_taken_back() {
        let (_folder, set, part) = described(&header(1, 1));
        let mut bytes = fs::read(&part).unwrap();
        bytes[HEADER_LEN + 2056] = 2;
        fs::write(&part, &bytes).unwrap();
        assert!(finish_left(&set, None).unwrap());
        assert!(!is_left(&set) && fs::read(&part).unwrap() == bytes);
        // From the first new header on no program opens it, so the page is not compared.
        let (_folder, set, part) = described(&header(1, 2));
        let bytes = [&header(1, 2).bytes()[..], &bytes[HEADER_LEN..]].concat();
        fs::write(&part, &bytes).unwrap();
        assert!(finish_left(&set, None).unwrap() && !is_left(&set));
        assert_eq!(fs::read(&part).unwrap(), bytes);
    }
}
