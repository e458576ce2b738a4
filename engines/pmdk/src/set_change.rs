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
//! | 2, a hidden file is gone | the set as before    | takes the change back                                           |
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

use crate::change_file;
use crate::error::PmdkError;
use crate::file_proof::FileProof;
use crate::locked_part::{LockedPart, PmdkAccess};
use crate::pool_set::PoolSet;
use crate::staged_part::{hidden_beside, is_replacing, persist_names, remove_hidden, rename, replace};
use crate::stops;
use lode_layout::{BLOCK, LINE, PmdkKind, PmdkObj, PmdkUuidField, StoredPmdkHeader, fletcher64};
use lode_pmem::ByAddress;
use rustix::io::Errno;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The steps of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetChange {
    pub(crate) named: Vec<NamedFile>,
    /// Parts that stay and get another header: the old one, and the new one.
    pub(crate) headers: Vec<(PathBuf, StoredPmdkHeader, StoredPmdkHeader)>,
    /// Parts that go, and their files.
    pub(crate) removed: Vec<(PathBuf, FileProof)>,
    /// A part that content was copied from, and the checksum of its page that each open for writing changes.
    pub(crate) source: Option<(PathBuf, u64)>,
}

/// A hidden file, and the part that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) hidden: PathBuf,
    pub(crate) part: PathBuf,
    /// The file.
    pub(crate) file: FileProof,
    /// Inode number of the file that it replaces; `None` if there was none.
    pub(crate) replaced: Option<u64>,
}

/// The names that a file has which becomes a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NameState {
    Hidden,
    Named,
    /// It has neither name.
    Missing,
    /// It has its hidden name, and another file that of the part.
    Taken,
}

impl NamedFile {
    fn state(&self) -> Result<NameState, PmdkError> {
        if self.file.is_at(&self.part)? {
            return Ok(NameState::Named);
        }
        if !self.file.is_at(&self.hidden)? {
            return Ok(NameState::Missing);
        }
        match self.part.symlink_metadata() {
            Ok(found) if Some(found.ino()) != self.replaced => Ok(NameState::Taken),
            _ => Ok(NameState::Hidden),
        }
    }

    /// Gives the file the name of the part.
    fn take_name(&self, state: NameState) -> Result<(), PmdkError> {
        match (state, self.replaced) {
            (NameState::Hidden, Some(_)) => replace(&self.hidden, &self.part),
            // A file that has the name by now is kept.
            (NameState::Hidden, None) => rename(&self.hidden, &self.part),
            // A file system that can't rename without replacing has left both names.
            _ if self.file.is_at(&self.hidden)? => {
                fs::remove_file(&self.hidden).map_err(PmdkError::io("unlink", &self.hidden))
            }
            _ => Ok(()),
        }
    }
}

/// The end of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Made,
    /// Nothing of the set has changed.
    TakenBack,
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

impl HeaderState {
    fn is_old(&self) -> bool {
        matches!(self, HeaderState::Old | HeaderState::OldUsed)
    }
}

/// Returns the path of the description of a change of a set: one for all paths that lead to the set file.
pub(crate) fn description(set: &Path) -> PathBuf {
    beside(set, "change")
}

fn beside(set: &Path, word: &str) -> PathBuf {
    // A set file that is gone has no other path.
    hidden_beside(&set.canonicalize().unwrap_or_else(|_| set.to_owned()), word)
}

impl SetChange {
    /// Makes the change. The caller has all parts locked that stay or go, and the new ones are durable.
    ///
    /// # Durability
    /// The change is durable on return. The head of this file has the table of what is left before that.
    pub(crate) fn make(&self, set: &Path, locks: &[Arc<LockedPart>]) -> Result<(), PmdkError> {
        self.describe(set)?;
        match self.finish(set, locks, None)? {
            Outcome::Made => Ok(()),
            Outcome::TakenBack => {
                let what = "other files have its names, and it was taken back".to_owned();
                Err(PmdkError::ChangedSince { path: description(set), what })
            }
        }
    }

    /// Writes the description: steps 1 and 2.
    fn describe(&self, set: &Path) -> Result<(), PmdkError> {
        let (path, new) = (description(set), beside(set, "change-new"));
        let text = self.to_text();
        if text.len() as u64 > change_file::LEN_MAX {
            return Err(PmdkError::errno("write", &new)(Errno::FBIG));
        }
        stops::step()?;
        let refused = PmdkError::io("write", &new);
        let mut file = change_file::create(&new)?;
        stops::name_made(&new);
        file.write_all(&text).map_err(&refused)?;
        // ORDER: the text before its name. Stop here: row 1.
        file.sync_all().map_err(&refused)?;
        stops::content_persisted(&file);
        stops::step()?;
        // ORDER: the hidden parts before the description that names them. Stop here: row 1.
        persist_names(self.named.iter().map(|named| &*named.hidden))?;
        stops::step()?;
        replace(&new, &path)?;
        // ORDER: the description before any part of the set changes. Stop here: row 2.
        persist_names([&*path].into_iter())
    }

    /// Makes the change, or the rest of it: steps 3 to 6. All that can be refused is looked at before anything is written.
    fn finish(
        &self,
        set: &Path,
        locks: &[Arc<LockedPart>],
        program: Option<ByAddress>,
    ) -> Result<Outcome, PmdkError> {
        let parts = self.open_headers(set, locks, program)?;
        let states = self.states(set, &parts)?;
        let gone = self.open_removed(locks, program)?;
        let held = [locks, &parts].concat();
        if self.is_overtaken(&states, &held, program)? {
            return self.abandon(set);
        }
        let names = self.named.iter().map(NamedFile::state).collect::<Result<Vec<_>, _>>()?;
        if let Err(error) = self.check_names(set, &names) {
            let is_begun = names.contains(&NameState::Named) || !states.iter().all(HeaderState::is_old);
            return if is_begun { Err(error) } else { self.abandon(set) };
        }
        if let Some(used) = states.iter().position(|state| *state == HeaderState::OldUsed) {
            return Err(changed(set, &self.headers[used].0, "has another header"));
        }
        for (((_, _, new), part), state) in self.headers.iter().zip(&parts).zip(states) {
            stops::step()?;
            if state != HeaderState::New {
                // The call is durable: a header before the names of new parts. Stop here: row 3, or half a header.
                part.write_header(0, new.bytes())?;
            }
        }
        for (named, state) in self.named.iter().zip(names) {
            stops::step()?;
            named.take_name(state)?;
        }
        stops::step()?;
        // ORDER: new parts before the others go. Stop here: row 3, of step 4.
        persist_names(self.named.iter().map(|named| &*named.part))?;
        for ((path, file), _lock) in gone {
            stops::step()?;
            if file.is_at(path)? {
                fs::remove_file(path).map_err(PmdkError::io("unlink", path))?;
                stops::name_removed(path);
            }
        }
        // ORDER: the parts that go before the description. Stop here: row 3, of step 5.
        persist_names(self.removed.iter().map(|(path, _)| &**path).filter(|path| folder_exists(path)))?;
        remove_description(set)?;
        Ok(Outcome::Made)
    }

    /// Refuses a new part whose file is missing, or whose name another file has.
    fn check_names(&self, set: &Path, names: &[NameState]) -> Result<(), PmdkError> {
        for (named, state) in self.named.iter().zip(names) {
            match state {
                NameState::Hidden | NameState::Named => {}
                NameState::Missing => return Err(changed(set, &named.part, "is missing")),
                NameState::Taken => return Err(changed(set, &named.part, "is another file")),
            }
        }
        Ok(())
    }

    /// Returns a path of the description that no change into this set writes to.
    ///
    /// Parts that go belong to the old set, whose file may be gone: each is told by its proof, or by its old header.
    fn foreign_path(&self, set: &PoolSet) -> Option<&Path> {
        let is_cleared = |new: &StoredPmdkHeader| new.bytes().iter().all(|byte| *byte == 0);
        let headers = self.headers.iter().filter(|(_, _, new)| !is_cleared(new)).map(|(path, ..)| path);
        let stays = self.named.iter().map(|named| &named.part).chain(headers);
        let goes = self.removed.iter().map(|(path, _)| path);
        let hidden = self.named.iter().filter(|named| !is_replacing(&named.hidden, &named.part));
        let foreign = stays.filter(|path| !set.has_part(path)).chain(goes.filter(|path| set.has_part(path)));
        foreign.chain(hidden.map(|named| &named.hidden)).map(|path| &**path).next()
    }

    /// Returns true if no header was changed yet, and the pool was open since.
    fn is_overtaken(
        &self,
        states: &[HeaderState],
        locks: &[Arc<LockedPart>],
        program: Option<ByAddress>,
    ) -> Result<bool, PmdkError> {
        let Some((path, state)) = self.source.as_ref().filter(|_| states.iter().all(HeaderState::is_old))
        else {
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
    fn abandon(&self, set: &Path) -> Result<Outcome, PmdkError> {
        remove_description(set)?;
        for named in &self.named {
            stops::step()?;
            // One that stays is removed by the next change.
            let _ = fs::remove_file(&named.hidden);
        }
        Ok(Outcome::TakenBack)
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

    /// Returns the parts that go and are there still, and locks those that are not. A file that has taken the place of one stays.
    #[allow(clippy::type_complexity, reason = "a part as it is described, and its lock")]
    fn open_removed(
        &self,
        locks: &[Arc<LockedPart>],
        program: Option<ByAddress>,
    ) -> Result<Vec<(&(PathBuf, FileProof), Arc<LockedPart>)>, PmdkError> {
        let mut gone = Vec::new();
        for removed @ (path, file) in &self.removed {
            if file.is_at(path)? {
                // Refuses one that is in use.
                gone.push((removed, open(path, locks, program)?));
            }
        }
        Ok(gone)
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
    (header.kind(), header.features().has_single_header(), PmdkUuidField::ALL.map(|field| header.uuid(field)))
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
pub(crate) fn finish_left(set: &PoolSet, program: Option<ByAddress>) -> Result<bool, PmdkError> {
    let path = description(&set.path);
    let Some(text) = change_file::read(&path, &set.path)? else { return Ok(false) };
    let refused = |what: String| PmdkError::ChangedSince { path: path.clone(), what };
    let change = SetChange::parse(&text).ok_or_else(|| refused("its description is damaged".to_owned()))?;
    if let Some(foreign) = change.foreign_path(set) {
        return Err(refused(format!("{} is none of its parts", foreign.display())));
    }
    change.finish(&set.path, &[], program)?;
    Ok(true)
}

/// Removes what an interrupted change of a set has left whose parts are gone: the description, and the hidden files of parts. Nothing of
/// the set changes.
///
/// # Errors
/// [`PmdkError::Io`], and [`PmdkError::InUse`] for a hidden file of a call that is under way.
///
/// # Cost
/// Reads the folder of each part.
pub fn remove_left_change(set: &PoolSet) -> Result<(), PmdkError> {
    if !is_left(&set.path) {
        return Ok(());
    }
    // The description is last: it tells another call that files are left.
    set.all_parts().try_for_each(|(part, _)| remove_hidden(part))?;
    remove_description(&set.path)
}

/// Refuses a new pool in place of a set whose change was interrupted: an open would go on with the change.
pub(crate) fn refuse_left(set: &Path) -> Result<(), PmdkError> {
    if !is_left(set) {
        return Ok(());
    }
    let what = "it is in the way of a new pool, and no part is there".to_owned();
    Err(PmdkError::ChangedSince { path: description(set), what })
}

fn folder_exists(path: &Path) -> bool {
    path.parent().is_some_and(Path::is_dir)
}

#[cfg(test)]
mod test {
    use super::*;
    use lode_layout::{PmdkFeatures, PmdkPartHeader, PmdkShutdownRecord};
    use lode_pmem::Sysfs;
    use uuid::Uuid;

    const HEADER_LEN: usize = PmdkPartHeader::LEN;

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
        fs::write(&set, format!("PMEMPOOLSET\n8M {}\n", part.display())).unwrap();
        fs::write(description(&set), change.to_text()).unwrap();
        (folder, set, part)
    }

    fn finish(set: &Path) -> Result<bool, PmdkError> {
        finish_left(&PoolSet::read(set, &Sysfs::default()).unwrap(), None)
    }

    /// No path of a description leads out of the set.
    #[test]
    fn foreign_paths_are_refused() {
        let (folder, set, part) = described(&header(1, 1));
        let other = folder.path().join("other");
        fs::copy(&part, &other).unwrap();
        let proof = FileProof { ino: fs::metadata(&other).unwrap().ino(), uuids: None };
        let named = |hidden: &Path, part: &Path| NamedFile {
            hidden: hidden.to_owned(),
            part: part.to_owned(),
            file: proof,
            replaced: None,
        };
        let changes = [
            SetChange { named: vec![named(&other, &part)], ..SetChange::default() },
            SetChange { named: vec![named(&part, &other)], ..SetChange::default() },
            SetChange { removed: vec![(part.clone(), proof)], ..SetChange::default() },
            SetChange { headers: vec![(other.clone(), header(1, 1), header(1, 2))], ..SetChange::default() },
        ];
        let before = fs::read(&other).unwrap();
        for change in changes {
            fs::write(description(&set), change.to_text()).unwrap();
            let error = finish(&set).unwrap_err().to_string();
            assert!(error.contains("is none of its parts"), "{error}");
            assert_eq!(
                (fs::read(&other).unwrap(), fs::read(&part).unwrap()),
                (before.clone(), before.clone())
            );
        }
    }

    #[test]
    fn paths_to_a_set_file_have_one_description() {
        let (folder, set, _) = described(&header(1, 1));
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&set, &link).unwrap();
        assert_eq!(description(&link), description(&set));
        assert!(is_left(&link));
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
            assert!(finish(&set).unwrap());
            assert_eq!(fs::read(&part).unwrap()[..HEADER_LEN], new.bytes()[..], "{kept:#b}");
            assert!(!is_left(&set) && !finish(&set).unwrap());
        }
    }

    #[test]
    fn foreign_header_stays() {
        let (_folder, set, part) = described(&header(3, 1));
        let before = fs::read(&part).unwrap();
        let error = finish(&set).unwrap_err();
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
        assert!(finish(&set).unwrap());
        assert!(!is_left(&set) && fs::read(&part).unwrap() == bytes);
        // From the first new header on no program opens it, so the page is not compared.
        let (_folder, set, part) = described(&header(1, 2));
        let bytes = [&header(1, 2).bytes()[..], &bytes[HEADER_LEN..]].concat();
        fs::write(&part, &bytes).unwrap();
        assert!(finish(&set).unwrap() && !is_left(&set));
        assert_eq!(fs::read(&part).unwrap(), bytes);
    }
}
