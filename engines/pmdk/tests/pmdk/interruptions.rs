//! Creations that stop at each step, as a kill does: before or after, never between.

use crate::judge::Pmdk;
use crate::power_cut::{Lost, losing};
use crate::{create, names, open, options, quick_folder, unlocked, write_set};
use lode_layout::PmdkKind;
use lode_pmdk::{PmdkError, PmdkPool, stopping_after};
use lode_testing::{scaled, seed};
use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Kind, lines of the set, and the files that are there before, with their sizes in MiB.
type Case = (PmdkKind, &'static str, &'static [(&'static str, u64)]);

const CASES: [Case; 7] = [
    (PmdkKind::Log, "2M @/a\n2M @/b\n2M @/c\n", &[]),
    (PmdkKind::Log, "OPTION SINGLEHDR\n2M @/a\n2M @/b\n2M @/c\n", &[]),
    (PmdkKind::Log, "OPTION SINGLEHDR\n64M @/folder\n", &[]),
    (PmdkKind::Objects, "OPTION SINGLEHDR\n64M @/folder\nREPLICA\n64M @/other\n", &[]),
    (PmdkKind::Objects, "8M @/a\n2M @/b\nREPLICA\n9M @/c\n2M @/d\n", &[]),
    (PmdkKind::Log, "2M @/a\n2M @/b\n2M @/c\n", &[("a", 2), ("c", 2)]),
    (PmdkKind::Log, "2M @/a\n2M @/b\n2M @/c\n", &[("b", 2)]),
];

/// The folders beside the set file.
const FOLDERS: [&str; 2] = ["folder", "other"];

fn place(case: &Case) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = quick_folder();
    for name in FOLDERS {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    for (name, mib) in case.2 {
        File::create(folder.path().join(name)).unwrap().set_len(mib << 20).unwrap();
    }
    let path = write_set(folder.path(), case.1);
    (folder, path)
}

fn hidden(folder: &Path) -> usize {
    let is_hidden = |name: &String| name.starts_with('.');
    let of = |folder: &Path| names(folder).iter().filter(|name| is_hidden(name)).count();
    of(folder) + FOLDERS.map(|name| of(&folder.join(name))).iter().sum::<usize>()
}

/// Stops a creation after each number of steps. Then either no pool can be opened and a creation makes one, or an open
/// finds a whole one, and a creation refuses.
#[test]
fn stopped_creation_is_before_or_after() {
    let pmdk = Pmdk::find();
    for case in &CASES {
        let kind = case.0;
        let (mut before, mut after) = (0, 0);
        'steps: for steps in 0.. {
            for opens_first in [true, false] {
                let (folder, path) = place(case);
                let (_, was_stopped) = stopping_after(steps, || drop(create(kind, &path, None)));
                if !was_stopped {
                    assert!(before > 4 && after > 1, "{case:?}: {before} stops before, {after} after");
                    break 'steps;
                }
                let opened = opens_first.then(|| PmdkPool::open(&path, &options(kind)));
                let is_there = opened.as_ref().map(|opened| opened.is_ok());
                drop(opened.map(|opened| opened.map(PmdkPool::close)));
                let made = create(kind, &path, None);
                let (is_made, place) = (made.is_ok(), format!("{case:?}, step {steps}"));
                match made {
                    Ok(pool) => {
                        before += 1;
                        assert_eq!(after, 0, "{place}: no pool after there was one");
                        pool.close().unwrap();
                    }
                    Err(PmdkError::NotEmpty { .. }) => after += 1,
                    Err(error) => panic!("{place}: {error}"),
                }
                assert!(is_there.is_none_or(|is_there| is_there != is_made), "{place}: open, then create");
                open(kind, &path).close().unwrap();
                assert_eq!(hidden(folder.path()), 0, "{case:?}, step {steps}");
                if let Some(pmdk) = pmdk.filter(|_| steps % 3 == 0) {
                    pmdk.assert_consistent(&path);
                }
            }
        }
    }
}

/// An open for reading completes nothing, and says what is missing.
#[test]
fn reader_changes_nothing() {
    let case = &CASES[0];
    for steps in 0.. {
        let (folder, path) = place(case);
        let (made, was_stopped) = stopping_after(steps, || create(case.0, &path, None));
        drop(made);
        let listed = names(folder.path());
        let options = lode_pmdk::OpenOptions { access: lode_pmdk::PmdkAccess::ReadOnly, ..options(case.0) };
        let opened = PmdkPool::open(&path, &options).map(drop);
        assert_eq!(names(folder.path()), listed);
        if !was_stopped {
            opened.unwrap();
            break;
        }
        let _ = opened;
    }
}

/// An error takes back what was made, without a kill.
#[test]
fn failed_creation_leaves_nothing() {
    for case in &CASES {
        let (folder, path) = place(case);
        let files = || {
            let read = |name: &(&str, u64)| fs::read(folder.path().join(name.0)).unwrap();
            (
                names(folder.path()),
                FOLDERS.map(|name| names(&folder.path().join(name))),
                case.2.iter().map(read).collect::<Vec<_>>(),
            )
        };
        let before = files();
        let made = PmdkPool::create(&path, None, &lode_pmdk::CreateOptions::new(case.0), |_, _| {
            Err(PmdkError::Exists { path: "by the content".into() })
        });
        assert!(matches!(made.unwrap_err(), PmdkError::Exists { .. }));
        assert!(files() == before, "{case:?}");
    }
}

/// What a hidden file of another creation has is not taken for a part.
#[test]
fn hidden_files_of_other_pools_are_not_parts() {
    let case = &CASES[0];
    let (folder, path) = place(case);
    create(case.0, &path, None).unwrap().close().unwrap();
    fs::remove_file(folder.path().join("b")).unwrap();
    let stranger = folder.path().join(".b.lode-00000000-0000-0000-0000-000000000001");
    File::create(&stranger).unwrap().set_len(2 << 20).unwrap();
    let error = PmdkPool::open(&path, &options(case.0)).unwrap_err();
    assert!(matches!(error, PmdkError::Io { errno: 2, .. }), "{error}");
    assert!(stranger.exists());
}

/// The variable that names the set file to the process that is killed.
const SET: &str = "LODE_STORM_POOL";

#[test]
#[ignore = "the test of killed creations starts it in a process of its own"]
fn creates_once() {
    let path = std::env::var_os(SET).unwrap();
    create(PmdkKind::Log, Path::new(&path), None).unwrap().close().unwrap();
}

#[test]
fn killed_creation_is_before_or_after() {
    let mut rng = fastrand::Rng::with_seed(seed(1));
    let case = &CASES[0];
    for _ in 0..scaled(16) {
        let (folder, path) = place(case);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "interruptions::creates_once", "--ignored"]).env(SET, &path);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(rng.u64(1..20_000)));
        child.kill().unwrap();
        child.wait().unwrap();
        match create(case.0, &path, None) {
            Ok(pool) => pool.close().unwrap(),
            Err(PmdkError::NotEmpty { .. }) => open(case.0, &path).close().unwrap(),
            Err(error) => panic!("seed {}: {error}", seed(1)),
        }
        assert_eq!(hidden(folder.path()), 0);
    }
}

/// An open that completes a creation may be stopped, too.
#[test]
fn stopped_completion_goes_on() {
    for case in &CASES {
        let mut completions = 0;
        for steps in 0.. {
            let (_folder, path) = place(case);
            if !stopping_after(steps, || drop(create(case.0, &path, None))).1 {
                break;
            }
            if PmdkPool::open(&path, &options(case.0)).is_err() {
                continue;
            }
            for open_steps in 0.. {
                let (folder, path) = place(case);
                stopping_after(steps, || drop(create(case.0, &path, None)));
                if !stopping_after(open_steps, || drop(PmdkPool::open(&path, &options(case.0)))).1 {
                    break;
                }
                completions += 1;
                open(case.0, &path).close().unwrap();
                assert_eq!(hidden(folder.path()), 0, "{case:?}: {steps}, {open_steps}");
            }
        }
        // A pool of one part needs no completion.
        assert!(completions > 0 || case.1.ends_with("@/folder\n"), "{case:?}");
    }
}

/// Makes a pool up to a stop, and loses something. Then there is a pool or none, one that was made is there, and a creation makes the
/// rest. Returns whether it was stopped, and the number of masks.
fn cut(case: &Case, steps: u64, lost: Lost) -> (bool, u32) {
    let kind = case.0;
    let (folder, path) = place(case);
    let [first, second] = FOLDERS.map(|name| folder.path().join(name));
    let run = || stopping_after(steps, || create(kind, &path, None).is_ok());
    let ((is_done, was_stopped), masks) = losing(&[folder.path(), &first, &second], lost, run);
    let context = format!("{case:?}, step {steps}, {lost:?} of {masks}");
    let is_there = unlocked(|| PmdkPool::open(&path, &options(kind))).map(PmdkPool::close).is_ok();
    assert!(!is_done || is_there && masks == 1, "{context}");
    match unlocked(|| create(kind, &path, None)) {
        Ok(pool) if !is_there => pool.close().unwrap(),
        Err(PmdkError::NotEmpty { .. }) if is_there => {}
        other => panic!("{context}: {is_there}, {other:?}"),
    }
    open(kind, &path).close().unwrap();
    assert_eq!(hidden(folder.path()), 0, "{context}");
    (was_stopped, masks)
}

/// A power cut loses any of the names whose folders were not synced, and contents, in a creation and after it.
#[test]
fn power_cut_in_a_creation_is_before_or_after() {
    let cases: [Case; 3] = [
        (PmdkKind::Log, "2M @/a\n2M @/b\n2M @/c\n", &[]),
        (PmdkKind::Log, "OPTION SINGLEHDR\n2M @/folder/a\n2M @/b\n2M @/folder/c\n", &[]),
        (PmdkKind::Log, "2M @/b\n2M @/folder/a\n2M @/folder/c\n", &[("b", 2)]),
    ];
    for case in &cases {
        for steps in 0.. {
            let (was_stopped, masks) = cut(case, steps, Lost::Names(0));
            (1..masks).for_each(|mask| _ = cut(case, steps, Lost::Names(mask)));
            (0..masks).for_each(|mask| _ = cut(case, steps, Lost::NamesAndContents(mask)));
            if !was_stopped {
                break;
            }
        }
    }
}

/// The same for sets of all kinds, and none or all of the names.
#[test]
fn power_cut_in_any_creation_is_before_or_after() {
    for case in &CASES {
        for steps in 0.. {
            let (was_stopped, masks) = cut(case, steps, Lost::NamesAndContents(0));
            cut(case, steps, Lost::NamesAndContents(masks - 1));
            cut(case, steps, Lost::Sectors(steps));
            if !was_stopped {
                break;
            }
        }
    }
}
