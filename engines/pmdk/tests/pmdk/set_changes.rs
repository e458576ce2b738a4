//! Repairs of replicas and changes of sets that stop at each step, as a kill does, and lose names and contents, as a power cut does.

use crate::judge::Pmdk;
use crate::power_cut::{Lost, inode, losing, write_sparse};
use crate::{create, names, options, put, quick_folder};
use lode_layout::{PmdkKind, PmdkObj, PmdkObjState};
use lode_pmdk::{PmdkPool, ReplicaError, ReplicaOptions, repair_replicas, stopping_after, transform};
use lode_testing::scaled;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The lines of the set, and those of the new one; none for a repair, and the parts that are removed before.
struct Case {
    lines: &'static str,
    new: Option<&'static str>,
    removed: &'static [&'static str],
}

const TWO: &str = "8M @/a\n8M @/b\nREPLICA\n9M @/c\n8M @/d\n";
const CASES: [Case; 6] = [
    Case { lines: TWO, new: None, removed: &["d"] },
    Case { lines: TWO, new: None, removed: &["a", "b"] },
    Case { lines: "8M @/a\n", new: Some("8M @/a\nREPLICA\n8M @/c\n8M @/d\n"), removed: &[] },
    Case { lines: TWO, new: Some("9M @/c\n8M @/d\n"), removed: &[] },
    Case {
        lines: TWO,
        new: Some("OPTION SINGLEHDR\n8M @/a\n8M @/b\nREPLICA\n9M @/c\n8M @/d\n"),
        removed: &[],
    },
    Case {
        lines: "OPTION SINGLEHDR\n15M @/a\nREPLICA\n8M @/c\n8M @/d\n",
        new: Some("15M @/a\nREPLICA\n8M @/c\n8M @/d\n"),
        removed: &[],
    },
];

/// Content that tells each place from the others.
const MARKS: [(u64, u8); 4] = [(12_000, 3), (8_384_000, 5), (8_400_000, 7), (9_300_000, 9)];

type Files = BTreeMap<String, Vec<u8>>;

/// A folder with the files of a case.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let place = Place { folder: quick_folder() };
        fs::create_dir(place.sets()).unwrap();
        place
    }

    /// The folder of the set files, which is none of parts.
    fn sets(&self) -> PathBuf {
        self.folder.path().join("sets")
    }

    fn set(&self) -> PathBuf {
        self.sets().join("set")
    }

    fn target(&self, case: &Case) -> PathBuf {
        self.sets().join(if case.new.is_some() { "new" } else { "set" })
    }

    fn write_set(&self, name: &str, lines: &str) {
        let lines = lines.replace('@', self.folder.path().to_str().unwrap());
        fs::write(self.sets().join(name), format!("PMEMPOOLSET\n{lines}")).unwrap();
    }

    /// Makes a pool of objects, as far as a program of PMDK that opens it looks.
    fn make(case: &Case) -> Files {
        let place = Place::new();
        place.write_set("set", case.lines);
        let pool = create(PmdkKind::Objects, &place.set(), None).unwrap();
        let (medium, size) = (pool.medium(), pool.size());
        let descriptor = PmdkObj { layout: Vec::new(), lanes: 8192, lane_count: 1024, heap: 0x30_2000 };
        put(&**medium, PmdkObj::OFF, &descriptor.encode());
        put(&**medium, PmdkObjState::HEAP_SIZE_OFF.get(), &(size - 0x30_2000).to_le_bytes());
        for (at, mark) in MARKS.into_iter().filter(|(at, _)| *at < size) {
            put(&**medium, at, &[mark; 4096]);
        }
        pool.close().unwrap();
        let read = |name: &String| (name.clone(), fs::read(place.folder.path().join(name)).unwrap());
        names(place.folder.path()).iter().filter(|name| name.len() == 1).map(read).collect()
    }

    /// Writes the files of the pool, and the sets.
    fn of(case: &Case, files: &Files) -> Place {
        let place = Place::new();
        place.write_set("set", case.lines);
        if let Some(new) = case.new {
            place.write_set("new", new);
        }
        for (name, bytes) in files.iter().filter(|(name, _)| !case.removed.contains(&name.as_str())) {
            write_sparse(&place.folder.path().join(name), bytes);
        }
        place
    }

    fn run(&self, case: &Case) -> Result<(), ReplicaError> {
        let options = ReplicaOptions::default();
        match case.new {
            None => repair_replicas(&self.set(), &options),
            Some(_) => transform(&self.set(), &self.target(case), &options),
        }
    }

    /// Checks that the pool has its content in each replica, that no other file is there, and that PMDK accepts it.
    fn assert_done(&self, case: &Case, context: &str) {
        let lines = case.new.unwrap_or(case.lines);
        let mut want: Vec<String> = lines.split("@/").skip(1).map(|line| line[..1].to_owned()).collect();
        want.push("sets".to_owned());
        want.sort();
        assert_eq!(names(self.folder.path()), want, "{context}");
        let sets: &[&str] = if case.new.is_some() { &["new", "set"] } else { &["set"] };
        assert_eq!(names(&self.sets()), sets, "{context}");
        let target = self.target(case);
        repair_replicas(&target, &ReplicaOptions::default())
            .or_else(|error| if lines.contains("REPLICA") { Err(error) } else { Ok(()) })
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        let pool = PmdkPool::open(&target, &options(PmdkKind::Objects))
            .unwrap_or_else(|error| panic!("{context}: {error}"));
        pool.close().unwrap();
        let size = if lines.matches("8M").count() > 1 { u64::MAX } else { 8 << 20 };
        let skip = if lines.contains("SINGLEHDR") { 0 } else { 4096 };
        for replica in lines.split("REPLICA") {
            let mut bytes = Vec::new();
            for (index, line) in replica.split("@/").skip(1).enumerate() {
                let part = fs::read(self.folder.path().join(&line[..1])).unwrap();
                bytes.extend_from_slice(&part[if index == 0 { 0 } else { skip }..]);
            }
            for (at, mark) in MARKS
                .into_iter()
                .filter(|(at, _)| at + 4096 < size && case.lines != CASES[2].lines || *at < 4 << 20)
            {
                let found = &bytes[at as usize..at as usize + 4096];
                assert!(found.iter().all(|byte| *byte == mark), "{context}: {replica:?} at {at}");
            }
        }
    }
}

/// Runs the case up to a stop, loses something, and then finishes it: by the same call, or by an open for writing where the change
/// is described. Returns whether it was stopped, and the number of masks.
fn stop(case: &Case, files: &Files, steps: u64, lost: Lost, opens: bool, pmdk: Option<Pmdk>) -> (bool, u32) {
    let place = Place::of(case, files);
    let folders = [place.folder.path(), &place.sets()];
    let ((done, was_stopped), masks) = losing(&folders, lost, || stopping_after(steps, || place.run(case)));
    let context = format!("{:?} -> {:?}, step {steps}, lost {lost:?}, opens {opens}", case.lines, case.new);
    if !was_stopped {
        done.unwrap_or_else(|error| panic!("{context}: {error}"));
    }
    if case.new.is_some()
        && was_stopped
        && !place.sets().join(".new.lode-change").exists()
        && !is_whole(&place, case)
    {
        PmdkPool::open(&place.set(), &options(PmdkKind::Objects))
            .unwrap_or_else(|error| panic!("{context}: the old set is as before: {error}"))
            .close()
            .unwrap();
    }
    if opens {
        drop(PmdkPool::open(&place.target(case), &options(PmdkKind::Objects)).map(PmdkPool::close));
    }
    if was_stopped && !(opens && is_whole(&place, case)) {
        let again = place.run(case);
        // What was done and is described no more can't be done again.
        assert!(
            again.is_ok() || is_whole(&place, case),
            "{context}: {:?}",
            again.err().map(|error| error.to_string())
        );
    }
    place.assert_done(case, &context);
    if let Some(pmdk) = pmdk {
        pmdk.assert_consistent(&place.target(case));
    }
    (was_stopped, masks)
}

/// Returns true if the new set can be opened for reading: it is whole.
fn is_whole(place: &Place, case: &Case) -> bool {
    let reader =
        lode_pmdk::OpenOptions { access: lode_pmdk::PmdkAccess::ReadOnly, ..options(PmdkKind::Objects) };
    PmdkPool::open(&place.target(case), &reader).is_ok()
}

#[test]
fn order_and_option_are_not_changed_at_once() {
    let new = Some("OPTION SINGLEHDR\n9M @/c\n8M @/d\nREPLICA\n8M @/a\n8M @/b\n");
    let case = Case { lines: TWO, new, removed: &[] };
    let files = Place::make(&case);
    let place = Place::of(&case, &files);
    let error = place.run(&case).unwrap_err().to_string();
    assert!(error.starts_with("cannot change the order of replicas and the SINGLEHDR option"), "{error}");
    assert_eq!(names(&place.sets()), ["new", "set"]);
    for (name, bytes) in files {
        assert!(fs::read(place.folder.path().join(&name)).unwrap() == bytes, "{name} was changed");
    }
}

#[test]
fn stopped_change_is_before_after_or_finished() {
    let pmdk = Pmdk::find();
    for case in &CASES {
        let files = Place::make(case);
        for steps in 0.. {
            let judge = pmdk.filter(|_| steps % 4 == 0);
            let (was_stopped, masks) = stop(case, &files, steps, Lost::Names(0), false, judge);
            stop(case, &files, steps, Lost::Names(0), true, None);
            for mask in (1..masks).take(scaled(3) as usize) {
                stop(case, &files, steps, Lost::Names(mask), mask % 2 == 0, None);
            }
            for mask in [0, masks - 1] {
                stop(case, &files, steps, Lost::NamesAndContents(mask), steps % 2 == 0, None);
            }
            stop(case, &files, steps, Lost::Sectors(steps), steps % 2 == 1, None);
            if !was_stopped {
                assert!(steps > 8, "{steps}");
                break;
            }
        }
    }
}

/// The call that makes the rest may be stopped, too.
#[test]
fn stopped_rest_goes_on() {
    for case in &CASES[1..3] {
        let files = Place::make(case);
        for (first, again) in
            (4..40).step_by(3).flat_map(|first| (0..9).step_by(2).map(move |again| (first, again)))
        {
            let place = Place::of(case, &files);
            if !stopping_after(first, || place.run(case)).1 {
                break;
            }
            let _ = stopping_after(again, || place.run(case));
            let result = place.run(case);
            assert!(
                result.is_ok() || is_whole(&place, case),
                "{first}, {again}: {:?}",
                result.err().map(|e| e.to_string())
            );
            place.assert_done(case, &format!("{:?}, {first}, {again}", case.lines));
        }
    }
}

/// A part that is in use is refused, and left alone. PMDK takes it for damaged.
#[test]
fn part_in_use_is_not_made_anew() {
    let case = &CASES[0];
    let files = Place::make(case);
    let place = Place::of(&Case { removed: &[], ..*case }, &files);
    let path = place.folder.path().join("c");
    let before = inode(&path);
    let file = File::open(&path).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    for is_dry_run in [false, true] {
        let error =
            repair_replicas(&place.set(), &ReplicaOptions { is_dry_run, ..ReplicaOptions::default() })
                .unwrap_err();
        assert!(error.to_string().starts_with("flock \""), "{error}");
    }
    let after = inode(&path);
    assert_eq!(before, after);
}

/// Stops the case at the first step for which `is_there`, and returns the files.
fn stopped_where(case: &Case, is_there: impl Fn(&Place) -> bool) -> Place {
    let files = Place::make(case);
    let stopped = |steps| {
        let place = Place::of(case, &files);
        let (_, was_stopped) = stopping_after(steps, || place.run(case));
        assert!(was_stopped, "step {steps}");
        is_there(&place).then_some(place)
    };
    (0..).find_map(stopped).unwrap()
}

fn is_described(place: &Place) -> bool {
    place.sets().join(".new.lode-change").exists()
}

/// Removes the hidden file of a part.
fn remove_hidden(place: &Place, part: &str) {
    let prefix = format!(".{part}.lode-");
    let hidden = names(place.folder.path()).into_iter().find(|name| name.starts_with(&prefix)).unwrap();
    fs::remove_file(place.folder.path().join(hidden)).unwrap();
}

fn open_target(place: &Place, case: &Case) -> Result<(), lode_pmdk::PmdkError> {
    PmdkPool::open(&place.target(case), &options(PmdkKind::Objects))?.close()
}

/// No header is written before all new parts are known to be there.
#[test]
fn change_without_a_hidden_file_is_taken_back() {
    let case = &CASES[2];
    for is_foreign in [false, true] {
        let place = stopped_where(case, is_described);
        remove_hidden(&place, "c");
        let (part, old) = (place.folder.path().join("c"), place.folder.path().join("a"));
        if is_foreign {
            fs::write(&part, "foreign").unwrap();
        }
        let before = fs::read(&old).unwrap();
        open_target(&place, case).unwrap_err();
        assert!(!is_described(&place) && fs::read(&old).unwrap()[..4096] == before[..4096]);
        PmdkPool::open(&place.set(), &options(PmdkKind::Objects)).unwrap().close().unwrap();
        if is_foreign {
            let error = place.run(case).unwrap_err();
            assert!(error.to_string().starts_with("some parts being added already exist"), "{error}");
            assert_eq!(fs::read(&part).unwrap(), b"foreign");
            fs::remove_file(&part).unwrap();
        }
        place.run(case).unwrap();
        place.assert_done(case, "taken back");
    }
}

/// A file that has taken the name of a part since the description is neither taken for it nor replaced.
#[test]
fn foreign_file_does_not_become_a_part() {
    let case = &CASES[2];
    for is_hidden in [true, false] {
        let place = stopped_where(case, |place| is_described(place) && !is_only_replica(place, "a"));
        if !is_hidden {
            remove_hidden(&place, "c");
        }
        let part = place.folder.path().join("c");
        fs::write(&part, "foreign").unwrap();
        let error = open_target(&place, case).unwrap_err();
        let words = if is_hidden { "/c is another file" } else { "/c is missing" };
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(fs::read(&part).unwrap(), b"foreign");
        fs::remove_file(&part).unwrap();
        if is_hidden {
            open_target(&place, case).unwrap();
            place.assert_done(case, "the rest");
        }
    }
}

/// Returns true if the header of a first part names its own replica as the one after it.
fn is_only_replica(place: &Place, part: &str) -> bool {
    let header = fs::read(place.folder.path().join(part)).unwrap();
    header[40..56] == header[104..120]
}

/// The description would be followed by the next open of the new pool.
#[test]
fn new_pool_beside_a_description_is_refused() {
    let case = &CASES[2];
    let place = stopped_where(case, is_described);
    fs::remove_file(place.folder.path().join("a")).unwrap();
    let error = create(PmdkKind::Objects, &place.target(case), None).unwrap_err();
    assert!(error.to_string().contains(".new.lode-change"), "{error}");
    let left = names(place.folder.path());
    assert!(left.len() == 3 && left[..2].iter().all(|name| name.starts_with('.')), "{left:?}");
    let set = lode_pmdk::PoolSet::read(&place.target(case), &lode_pmem::Sysfs::default()).unwrap();
    lode_pmdk::remove_left_change(&set).unwrap();
    assert_eq!(names(place.folder.path()), ["sets"]);
    create(PmdkKind::Objects, &place.target(case), None).unwrap().close().unwrap();
}

/// The number of a file may be used again by another one.
#[test]
fn foreign_file_in_place_of_a_removed_part_stays() {
    let case = &CASES[3];
    let place = stopped_where(case, |place| is_described(place) && is_only_replica(place, "c"));
    let part = place.folder.path().join("a");
    File::options().write(true).open(&part).unwrap().write_all_at(&[7; 4096], 0).unwrap();
    open_target(&place, case).unwrap();
    assert!(!is_described(&place));
    assert_eq!(names(place.folder.path()), ["a", "c", "d", "sets"]);
}
