//! Crashes, bad directories and two commands at once.

use super::commit::{change_of_state, journal_text, state_text, write};
use super::error::DirectoryError;
use super::journal::{Change, FileWrite, JOURNAL, JOURNAL_NEW};
use super::lock::{Purpose, take};
use super::paths::{KEYS, LOCK, MACHINE, MODULES, NEW_STATE, STATE, labels_path, media_path};
use super::staged::STAGED;
use super::state_dir::Directory;
use super::step::Step;
use crate::boot;
use crate::error::PlatformError;
use crate::goal::{self, GoalRequest};
use crate::machine::INCLUDED;
use crate::platform::Platform;
use crate::security::{self, Passphrase, Role};
use crate::state::Goal;
use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

fn init() -> (TempDir, Directory) {
    let folder = TempDir::new().unwrap();
    let (name, text) = INCLUDED[4];
    let directory = Directory::init(&folder.path().join("state"), Path::new(name), text).unwrap();
    (folder, directory)
}

fn goals(platform: &Platform) -> Vec<Goal> {
    goal::plan(platform, &GoalRequest::default()).unwrap()
}

/// Returns the states that a crash in the middle of `step` can leave: an empty file, or a part of the bytes.
fn halves(step: &Step) -> Vec<Step> {
    match step {
        Step::Create(path, bytes) => {
            [0, bytes.len() / 2].map(|len| Step::Create(path.clone(), bytes[..len].to_vec())).to_vec()
        }
        Step::Write(path, off, bytes) => {
            vec![Step::Write(path.clone(), *off, bytes[..bytes.len() / 2].to_vec())]
        }
        Step::Zero(path, off, len) => vec![Step::Zero(path.clone(), *off, len / 2)],
        _ => Vec::new(),
    }
}

/// Crashes a change after each of its steps and in the middle of each write. The next command finds the state before or
/// after, and no journal. Another recovery finds the same.
#[test]
fn killed_change_is_atomic() {
    let (_folder, mut directory) = init();
    let root = directory.root.clone();
    let before = directory.platform.state.clone();
    let mut after = directory.platform.clone();
    let goals = goals(&after);
    goal::create(&mut after, goals);
    let mut change = directory.change_to(&mut after);
    let labels = labels_path(after.machine.modules[1].handle);
    change.writes.push(FileWrite::bytes(labels.clone(), 512, b"label"));
    change.writes.push(FileWrite::Zeros { file: labels.clone(), off: 600, len: 8 });
    fs::write(root.join(&labels), [7; 4096]).unwrap();
    let journal = change.steps_to_journal(journal_text(&change));
    let steps: Vec<Step> = journal.iter().cloned().chain(change.steps_to_apply()).collect();
    let mut found = Vec::new();
    for stop in 0..=steps.len() {
        let halves = steps.get(stop).map(halves).unwrap_or_default();
        for half in halves.into_iter().map(Some).chain([None]) {
            drop(directory);
            for step in steps[..stop].iter().chain(half.as_ref()) {
                step.run(&root).unwrap();
            }
            directory = Directory::open(&root, Purpose::ReadOnly).unwrap();
            let state = &directory.platform.state;
            let label = fs::read(root.join(&labels)).unwrap();
            let done = *state == after.state;
            assert!(done || *state == before, "between, after {stop} steps and {half:?}");
            assert_eq!(&label[512..517], if done { b"label".as_slice() } else { &[7; 5] }, "{stop} {half:?}");
            assert_eq!(
                label[599..609],
                if done { [7, 0, 0, 0, 0, 0, 0, 0, 0, 7] } else { [7; 10] },
                "{stop}"
            );
            assert!(!root.join(JOURNAL).exists() && !root.join(JOURNAL_NEW).exists(), "{stop} {half:?}");
            found.push((stop, done));
            let undo = [
                FileWrite::Whole { file: STATE.into(), text: state_text(&before) },
                FileWrite::bytes(labels.clone(), 512, &[7; 96]),
            ];
            write(&root, &Change { writes: undo.into() }).unwrap();
        }
    }
    let first = found.iter().find(|(_, done)| *done).unwrap().0;
    assert_eq!(first, journal.len() - 1, "done as soon as the journal has its name");
    assert!(found.iter().all(|(stop, done)| *done == (*stop >= first)), "{found:?}");
}

#[test]
fn refused_write_is_undone_or_resumed() {
    let (_folder, mut directory) = init();
    let root = directory.root.clone();
    // A folder has the journal's name, so the journal can't be written.
    fs::create_dir(root.join(JOURNAL_NEW)).unwrap();
    let refused = directory.change(|platform| {
        goal::create(platform, goals(platform));
        Ok::<_, PlatformError>(())
    });
    assert!(matches!(refused, Err(PlatformError::Directory(DirectoryError::File(_)))), "{refused:?}");
    assert!(directory.platform.state.goals.is_empty());
    fs::remove_dir(root.join(JOURNAL_NEW)).unwrap();
    // A folder has the new state's name, so the change is durable but not complete.
    fs::create_dir(root.join("state.new")).unwrap();
    let refused = directory.change(|platform| {
        goal::create(platform, goals(platform));
        Ok::<_, PlatformError>(())
    });
    assert!(
        matches!(refused, Err(PlatformError::Directory(DirectoryError::Interrupted { .. }))),
        "{refused:?}"
    );
    drop(directory);
    fs::remove_dir(root.join("state.new")).unwrap();
    assert_eq!(Directory::open(&root, Purpose::ReadOnly).unwrap().platform.state.goals.len(), 2);
}

#[test]
fn one_writer_or_many_readers() {
    let (_folder, directory) = init();
    let root = directory.root.clone();
    for purpose in [Purpose::ReadOnly, Purpose::Change] {
        let refused = Directory::open(&root, purpose);
        assert!(matches!(refused, Err(DirectoryError::InUse { .. })), "{refused:?}");
    }
    drop(directory);
    let first = Directory::open(&root, Purpose::ReadOnly).unwrap();
    let second = Directory::open(&root, Purpose::ReadOnly).unwrap();
    assert!(matches!(Directory::open(&root, Purpose::Change), Err(DirectoryError::InUse { .. })));
    drop((first, second));
    Directory::open(&root, Purpose::Change).unwrap();
}

/// A waiting command runs as soon as the other one has ended, and not before.
#[test]
fn commands_wait_for_each_other() {
    let (_folder, directory) = init();
    let root = directory.root.clone();
    for purpose in [Purpose::ReadOnly, Purpose::Change] {
        let wait = Duration::from_millis(20);
        let refused = Directory::open_within(&root, purpose, wait);
        assert!(
            matches!(refused, Err(DirectoryError::InUse { waited, .. }) if waited == wait),
            "{refused:?}"
        );
    }
    let waiting = [Purpose::Change, Purpose::ReadOnly, Purpose::Change].map(|purpose| {
        let root = root.clone();
        thread::spawn(move || {
            let mut directory = Directory::open_within(&root, purpose, Duration::from_secs(600)).unwrap();
            if purpose == Purpose::Change {
                let count = |platform: &mut Platform| {
                    platform.state.boots += 1;
                    Ok::<_, PlatformError>(())
                };
                directory.change(count).unwrap();
            }
        })
    });
    thread::sleep(Duration::from_millis(20));
    assert_eq!(fs::read_to_string(root.join(STATE)).unwrap(), state_text(&directory.platform.state));
    drop(directory);
    waiting.into_iter().for_each(|command| command.join().unwrap());
    assert_eq!(Directory::open(&root, Purpose::ReadOnly).unwrap().platform.state.boots, 3);
}

/// Issue 12: after a durable journal, a full disk made even reading commands fail. A folder with the name of the new
/// state stands for the full disk.
#[test]
fn readers_see_a_change_that_cannot_be_written() {
    let (_folder, directory) = init();
    let root = directory.root.clone();
    let mut after = directory.platform.clone();
    goal::create(&mut after, goals(&directory.platform));
    let [first, second] = [0, 1].map(|index| after.machine.modules[index].handle);
    let (labels, media, other) = (labels_path(first), media_path(first), media_path(second));
    fs::write(root.join(&labels), [7; 4096]).unwrap();
    let len = fs::metadata(root.join(&media)).unwrap().len();
    let by = PathBuf::from(STAGED).join("0x0001.media");
    fs::create_dir(root.join(STAGED)).unwrap();
    fs::write(root.join(&by), [5; 8192]).unwrap();
    OpenOptions::new().write(true).open(root.join(&by)).unwrap().set_len(len).unwrap();
    let mut writes = change_of_state(&after.state).writes;
    writes.extend([
        FileWrite::bytes(labels.clone(), 512, b"label"),
        FileWrite::Zeros { file: labels.clone(), off: 600, len: 8 },
        FileWrite::Replaced { file: media.clone(), by },
        FileWrite::bytes(media.clone(), 4096, b"behind"),
        FileWrite::bytes(other.clone(), 1 << 30, b"in a hole"),
    ]);
    fs::create_dir(root.join("state.new")).unwrap();
    let refused = write(&root, &Change { writes });
    assert!(matches!(refused, Err(DirectoryError::Interrupted { .. })), "{refused:?}");
    drop(directory);
    for is_full in [true, true, false] {
        if !is_full {
            let refused = Directory::open(&root, Purpose::Change);
            assert!(matches!(refused, Err(DirectoryError::Interrupted { .. })), "{refused:?}");
            fs::remove_dir(root.join("state.new")).unwrap();
        }
        let directory = Directory::open(&root, Purpose::ReadOnly).unwrap();
        let another = is_full.then(|| Directory::open(&root, Purpose::ReadOnly).unwrap());
        assert!(
            another.is_none_or(|another| another.platform.state == after.state),
            "readers do not exclude each other"
        );
        assert_eq!(directory.unfinished().is_some(), is_full);
        assert_eq!(directory.platform.state, after.state, "{is_full}");
        let area = directory.label_area(0).unwrap();
        assert_eq!(
            (&area[510..518], area[599..609].as_ref()),
            (b"\x07\x07label\x07".as_slice(), [7, 0, 0, 0, 0, 0, 0, 0, 0, 7].as_slice())
        );
        let read = |module, off| {
            let mut bytes = [1; 10];
            directory.media().read_module(module, off, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(&read(first, 4092), b"\x05\x05\x05\x05behind");
        assert_eq!(&read(second, (1 << 30) - 1), b"\0in a hole");
        let data = directory.media().next_module_data(second, 0..len).unwrap().unwrap();
        assert!(data.start <= 1 << 30 && data.end > 1 << 30, "{data:?}");
        assert_eq!(root.join(JOURNAL).exists(), is_full);
    }
}

#[test]
fn foreign_directory_is_refused_unchanged() {
    let (folder, directory) = init();
    let root = directory.root.clone();
    drop(directory);
    let state = fs::read_to_string(root.join(STATE)).unwrap();
    let newer = state.replace("format = 1", "format = 2\nfuture = true");
    fs::write(root.join(STATE), &newer).unwrap();
    let refused = Directory::open(&root, Purpose::Change);
    assert!(matches!(refused, Err(DirectoryError::Newer { found: 2, known: 1, .. })), "{refused:?}");
    fs::write(root.join(STATE), "format = 1\nboots = \"many\"").unwrap();
    let refused = Directory::open(&root, Purpose::ReadOnly);
    assert!(matches!(refused, Err(DirectoryError::Corrupt { .. })), "{refused:?}");
    let (name, text) = INCLUDED[3];
    let refused = Directory::init(&root, Path::new(name), text);
    assert!(matches!(refused, Err(DirectoryError::NotEmpty { .. })), "{refused:?}");
    fs::write(folder.path().join("foreign"), "").unwrap();
    let refused = Directory::init(folder.path(), Path::new(name), text);
    assert!(matches!(refused, Err(DirectoryError::NotEmpty { .. })), "{refused:?}");
    assert!(!folder.path().join(MODULES).exists(), "nothing is made beside what is there");
    let refused = Directory::open(folder.path(), Purpose::ReadOnly);
    assert!(matches!(refused, Err(DirectoryError::NoState { .. })), "{refused:?}");
    let refused = Directory::init(&folder.path().join("new"), Path::new("x.toml"), "name = 1");
    assert!(matches!(refused, Err(DirectoryError::Machine { .. })), "{refused:?}");
    assert!(!folder.path().join("new").exists(), "nothing is made for a bad machine");
}

/// After a crash of `init` at any step, the directory is invalid and the next `init` makes a complete one. Other files
/// in it stay.
#[test]
fn interrupted_init_leaves_no_directory() {
    let (name, text) = INCLUDED[4];
    let half = || {
        let (folder, directory) = init();
        let root = directory.root.clone();
        fs::rename(root.join(STATE), root.join(NEW_STATE)).unwrap();
        (folder, root)
    };
    let parts =
        [NEW_STATE, MACHINE, "modules/0x0101.labels", "modules/0x0101.media", "modules/0x0001.labels"];
    for gone in 0..=parts.len() {
        let (_folder, root) = half();
        parts[..gone].iter().for_each(|part| fs::remove_file(root.join(part)).unwrap());
        fs::write(root.join("modules/0x0001.media"), "of a machine that is gone").unwrap();
        let refused = Directory::open(&root, Purpose::ReadOnly);
        assert!(matches!(refused, Err(DirectoryError::NoState { .. })), "{refused:?}");
        let made = Directory::init(&root, Path::new(name), text).unwrap();
        assert!(matches!(
            Directory::init(&root, Path::new(name), text),
            Err(DirectoryError::NotEmpty { .. })
        ));
        drop(made);
        let media = fs::metadata(root.join("modules/0x0001.media")).unwrap();
        assert_eq!((media.len(), media.blocks()), (1344 << 20, 0), "new, and nothing is in it");
        Directory::open(&root, Purpose::Change).unwrap();
    }
    for foreign in ["notes.txt", "modules/notes.media", "modules/0x0001.txt"] {
        let (_folder, root) = half();
        fs::write(root.join(foreign), "").unwrap();
        let refused = Directory::init(&root, Path::new(name), text);
        assert!(matches!(refused, Err(DirectoryError::NotEmpty { .. })), "{foreign}: {refused:?}");
        assert!(root.join("modules/0x0001.media").exists(), "nothing is removed");
    }
    let (_folder, root) = half();
    let busy = OpenOptions::new().read(true).open(root.join(LOCK)).unwrap();
    take(&busy, Purpose::Change, &root, Duration::ZERO).unwrap();
    let refused = Directory::init(&root, Path::new(name), text);
    assert!(matches!(refused, Err(DirectoryError::InUse { .. })), "{refused:?}");
}

#[test]
fn modules_have_sparse_media_files() {
    let folder = TempDir::new().unwrap();
    let (name, text) = INCLUDED[0];
    let directory = Directory::init(folder.path(), Path::new(name), text).unwrap();
    let media = fs::metadata(folder.path().join("modules/0x0001.media")).unwrap();
    assert_eq!((media.len(), media.blocks()), (258_512 << 20, 0));
    let labels = fs::metadata(folder.path().join("modules/0x1001.labels")).unwrap();
    assert_eq!(labels.len(), 128 << 10);
    assert_eq!(directory.platform().machine.modules.len(), 4);
}

/// Crashes a change that replaces media after each of its steps. The next command finds both media and state as before,
/// or both as after.
#[test]
fn replaced_media_and_state_are_atomic() {
    let (_folder, mut directory) = init();
    let root = directory.root.clone();
    let before = directory.platform.state.clone();
    let mut after = directory.platform.clone();
    let goals = goals(&after);
    goal::create(&mut after, goals);
    let media = media_path(after.machine.modules[0].handle);
    let by = PathBuf::from(STAGED).join("0x0001.media");
    let mut change = Change { writes: vec![FileWrite::Replaced { file: media.clone(), by: by.clone() }] };
    change.writes.extend(directory.change_to(&mut after).writes);
    let journal = change.steps_to_journal(journal_text(&change));
    let steps: Vec<Step> = journal.iter().cloned().chain(change.steps_to_apply()).collect();
    for stop in 0..=steps.len() {
        drop(directory);
        fs::write(root.join(&media), "old").unwrap();
        fs::create_dir(root.join(STAGED)).unwrap();
        fs::write(root.join(&by), "new").unwrap();
        for step in &steps[..stop] {
            step.run(&root).unwrap();
        }
        directory = Directory::open(&root, Purpose::ReadOnly).unwrap();
        let is_done = directory.platform.state == after.state;
        assert!(is_done || directory.platform.state == before, "between, after {stop} steps");
        assert_eq!(is_done, stop + 1 >= journal.len(), "{stop}");
        let found = fs::read_to_string(root.join(&media)).unwrap();
        assert_eq!(found, if is_done { "new" } else { "old" }, "after {stop} steps");
        assert!(!root.join(STAGED).exists() && !root.join(JOURNAL).exists(), "{stop}");
        let undo = [FileWrite::Whole { file: STATE.into(), text: state_text(&before) }];
        write(&root, &Change { writes: undo.into() }).unwrap();
    }
}

/// Crashes a change of a passphrase and its removal after each of their steps. The blob is there if and only if the state
/// has the passphrase.
#[test]
fn blob_and_state_are_atomic() {
    let (_folder, mut directory) = init();
    let root = directory.root.clone();
    let blob = Path::new(KEYS).join("nvdimm_1_host.blob");
    for is_removal in [false, true] {
        let before = directory.platform.state.clone();
        let mut after = directory.platform.clone();
        let passphrase = Passphrase::new(b"a").unwrap();
        if is_removal {
            security::disable_passphrase(&mut after, 0, &passphrase).unwrap();
            after.contents.remove_key("nvdimm_1_host.blob");
        } else {
            security::set_passphrase(&mut after, 0, Role::User, &Passphrase::ZERO, &passphrase).unwrap();
            after.contents.write_key("nvdimm_1_host.blob", "sealed".to_owned());
        }
        let change = directory.change_to(&mut after);
        let journal = change.steps_to_journal(journal_text(&change));
        let steps: Vec<Step> = journal.iter().cloned().chain(change.steps_to_apply()).collect();
        for stop in 0..=steps.len() {
            drop(directory);
            for step in &steps[..stop] {
                step.run(&root).unwrap();
            }
            directory = Directory::open(&root, Purpose::ReadOnly).unwrap();
            let is_done = directory.platform.state == after.state;
            assert!(is_done || directory.platform.state == before, "between, after {stop} steps");
            assert_eq!(is_done, stop + 1 >= journal.len(), "{stop}");
            assert_eq!(root.join(&blob).exists(), is_done != is_removal, "{is_removal}, after {stop} steps");
            let mut undo = vec![FileWrite::Whole { file: STATE.into(), text: state_text(&before) }];
            undo.push(if is_removal {
                FileWrite::Whole { file: blob.clone(), text: "sealed".to_owned() }
            } else {
                Step::MakeFolder(KEYS.into()).run(&root).unwrap();
                FileWrite::Removed { file: blob.clone() }
            });
            write(&root, &Change { writes: undo }).unwrap();
        }
        write(&root, &change).unwrap();
        drop(directory);
        directory = Directory::open(&root, Purpose::Change).unwrap();
    }
    let folder = fs::metadata(root.join(KEYS)).unwrap();
    assert_eq!(folder.mode() & 0o777, 0o700, "others may not enter");
}

/// A share above 100 % once made a region larger than its modules.
#[test]
fn edited_state_is_validated_as_a_machine_file_is() {
    let (_folder, mut directory) = init();
    let root = directory.root.clone();
    let configured = directory.change(|platform| {
        let planned = goals(platform);
        goal::create(platform, planned);
        boot::reboot(platform);
        let planned = goals(platform);
        goal::create(platform, planned);
        Ok::<(), PlatformError>(())
    });
    configured.unwrap();
    drop(directory);
    let sound = fs::read_to_string(root.join(STATE)).unwrap();
    Directory::open(&root, Purpose::ReadOnly).unwrap();
    let error = "\n[[media_error]]\nmodule = 1\noff = 4096\nlen = 9999999999\n";
    for (from, to, entry, said) in [
        ("share = 1073741824", "share = 107374182400", "[[set]]", "module 0x0001 can't give 107374182400 B"),
        ("share = 1073741824", "share = 1000", "[[set]]", "a share can't be 1000 B"),
        ("offset = 268435456", "offset = 0", "[[set]]", "1073741824 B at 0 of module 0x0001 are outside"),
        ("memory = 0", "memory = 4096", "[[set]]", "of module 0x0001 are outside"),
        ("reserved = 0", "reserved = 134217728", "[[partition]]", "module 0x0001 can't give 1207959552 B"),
        ("module = 257", "module = 258", "[[partition]]", "the machine has no module 0x0102"),
        ("module = 257", "module = 1", "[[partition]]", "module 0x0001 is named twice"),
        ("size = 1073741824", "size = 1099511627776", "[[goal]]", "module 0x0001 can't give"),
        ("size = 1073741824", "size = 8192", "[[goal]]", "differ in set 0"),
        ("", error, "[[media_error]]", "9999999999 B at 4096 of module 0x0001 are outside"),
        (
            "",
            "\n[[error]]\nmodule = 1\nsequence = 0\nlevel = \"low\"\nwhat = \"percentage-remaining\"\n",
            "[[error]]",
            "can't have this entry",
        ),
        (
            "",
            "\n[[error]]\nmodule = 1\nsequence = 1\nlevel = \"high\"\nwhat = { uncorrectable = { dpa = 0, len = 3, found_by = \"patrol-scrub\" } }\n",
            "[[error]]",
            "can't have this entry",
        ),
        ("boots = 2", "boots = -2", "boots", "invalid value"),
        ("boots = 2", "boots = 2\ncleared = [4]", "cleared", "no module 0x0004"),
    ] {
        let edited = if from.is_empty() { sound.clone() + to } else { sound.replacen(from, to, 1) };
        assert_ne!(edited, sound, "{from}");
        fs::write(root.join(STATE), &edited).unwrap();
        let refused = Directory::open(&root, Purpose::Change).unwrap_err().to_string();
        assert!(refused.contains(said) && refused.contains("undo the edit"), "{to}: {refused}");
        let line = refused.split_once(", line ").unwrap().1.split(':').next().unwrap();
        let line = edited.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap();
        assert!(line.starts_with(entry), "{to}: {line}");
        assert_eq!(fs::read_to_string(root.join(STATE)).unwrap(), edited, "nothing is changed");
    }
    fs::write(root.join(STATE), &sound).unwrap();
    let machine = fs::read_to_string(root.join(MACHINE)).unwrap();
    fs::write(root.join(MACHINE), machine.replacen("1344MiB", "344MiB", 1)).unwrap();
    let refused = Directory::open(&root, Purpose::ReadOnly).unwrap_err().to_string();
    assert!(refused.contains("machine.toml") && refused.contains("leaves 92274688 B"), "{refused}");
}
