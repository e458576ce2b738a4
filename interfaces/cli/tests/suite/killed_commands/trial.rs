//! Runs of a command that are killed, each on a copy of the machine.

use super::commands::{Change, Effect, KEEP_KEY, LOAD_KEYS, MONITOR, PATCH_IMAGE, Start};
use super::observed::Observed;
use crate::cxl_listings_match_cxl::MACHINE;
use crate::program::{RunResult, command, text};
use fastrand::Rng;
use lode_platform::machine::Machine;
use lode_testing::firmware_image;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

/// Runs of a command until one is killed in time.
const ATTEMPTS: u32 = 40;
/// Starts a machine. That removes its keys from the kernel's keyring.
const START: &str = "platform reboot";
/// Runs after a kill until a command of several steps has completed.
const RUNS_TO_END: usize = 4;

/// Counts of kills.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) kills: u64,
    /// Kills that left a journal.
    pub(super) journals: u64,
    /// Kills after which the machine was as before.
    pub(super) before: u64,
    /// Kills after which the machine was as after the command.
    pub(super) after: u64,
    /// Runs that had ended before their kill.
    pub(super) late: u64,
}

/// Machines to which the commands of a list happened.
pub(super) struct Templates {
    root: TempDir,
    folders: HashMap<Vec<String>, PathBuf>,
    copies: u32,
}

/// A command, the machine before it, and the machine after it.
pub(super) struct Subject {
    change: Change,
    /// The machine before the command, except for what happens to each copy of it.
    template: PathBuf,
    /// Commands on each copy before the command.
    prelude: Vec<&'static str>,
    /// A folder for copies.
    copy: PathBuf,
    before: Observed,
    after: Observed,
    /// Time from the start of the command to its end, and from its first write on.
    duration: Duration,
    writing: Duration,
}

/// The moment of a kill.
enum Moment {
    AfterStart(Duration),
    AfterFirstWrite(Duration),
}

impl Templates {
    pub(super) fn new() -> Templates {
        Templates { root: TempDir::new().unwrap(), folders: HashMap::new(), copies: 0 }
    }

    /// Runs the command once, to its end.
    pub(super) fn subject(&mut self, change: &Change) -> Subject {
        let mut before: Vec<&str> = change.before.split(';').filter(|line| !line.is_empty()).collect();
        // The state of a machine may have paths of its files, and the kernel's keyring the folder of a machine.
        let prelude = match change.effect {
            Effect::Steps => std::mem::take(&mut before),
            _ if change.needs_keys() => vec![LOAD_KEYS],
            _ => Vec::new(),
        };
        let lines: Vec<String> = change.start.lines().into_iter().chain(before).map(str::to_owned).collect();
        let template = self.template(&lines);
        let copy = self.root.path().join("copy");
        let nothing = || Observed::read(Path::new("/nonexistent"));
        let mut subject = Subject {
            change: *change,
            template,
            prelude,
            copy,
            before: nothing(),
            after: nothing(),
            duration: Duration::ZERO,
            writing: Duration::ZERO,
        };
        subject.begin();
        subject.before = Observed::read(&subject.copy);
        let start = Instant::now();
        let mut child = subject.spawn();
        let first_write = await_write(&subject.copy, &mut child);
        finished(child, change.line).success();
        subject.duration = start.elapsed();
        subject.writing = first_write.map_or(Duration::ZERO, |at| at.elapsed());
        subject.after = Observed::read(&subject.copy);
        subject.end();
        subject
    }

    /// Returns the folder of a machine to which these commands happened.
    fn template(&mut self, lines: &[String]) -> PathBuf {
        if let Some(folder) = self.folders.get(lines) {
            return folder.clone();
        }
        self.copies += 1;
        let folder = self.root.path().join(format!("machine{}", self.copies));
        match lines.split_last() {
            None => make_files(&folder),
            Some((last, first)) => {
                let earlier = self.template(first);
                copy(&earlier, &folder);
                if folder.join("state/keys").exists() {
                    finished(spawn(&folder, LOAD_KEYS), LOAD_KEYS).success();
                }
                carry_out(&folder, last);
            }
        }
        self.folders.insert(lines.to_vec(), folder.clone());
        folder
    }
}

impl Drop for Templates {
    fn drop(&mut self) {
        // A start removes the keys of a machine from the kernel's keyring.
        for folder in self.folders.values().filter(|folder| folder.join("state/keys").exists()) {
            let _ = spawn(folder, START).wait();
        }
    }
}

impl Subject {
    /// Makes a copy of the machine before the command.
    fn begin(&self) {
        copy(&self.template, &self.copy);
        self.prelude.iter().for_each(|line| carry_out(&self.copy, line));
    }

    /// Removes the copy, and its keys.
    fn end(&self) {
        if self.change.start == Start::Keys {
            finished(spawn(&self.copy, START), START).success();
        }
        fs::remove_dir_all(&self.copy).unwrap();
    }

    fn spawn(&self) -> Child {
        spawn(&self.copy, self.change.line)
    }

    /// Kills the command once, and runs it again.
    pub(super) fn kill(&self, rng: &mut Rng, tally: &mut Tally, said: &str) {
        for attempt in 0..ATTEMPTS {
            self.begin();
            // A run may be faster than the first one was.
            let divisor = 1 + attempt / 4;
            let moment = if rng.bool() {
                Moment::AfterStart(below(rng, self.duration / divisor))
            } else {
                Moment::AfterFirstWrite(below(rng, self.writing / divisor))
            };
            let mut child = self.spawn();
            await_moment(&self.copy, &mut child, &moment);
            // It may have ended already.
            let _ = kill_process(Pid::from_child(&child), Signal::KILL);
            let output = child.wait_with_output().unwrap();
            let was_killed = output.status.signal().is_some();
            if was_killed {
                tally.kills += 1;
                tally.journals += u64::from(self.copy.join("state/journal").exists());
                self.check_killed(tally, said);
            } else {
                tally.late += 1;
                RunResult::of(output).success();
                self.check_after(&Observed::read(&self.copy), said);
            }
            self.end();
            if was_killed {
                return;
            }
        }
        panic!("{said}: it ends before each kill");
    }

    /// Checks the machine after a kill, and the next run.
    fn check_killed(&self, tally: &mut Tally, said: &str) {
        let found = Observed::read(&self.copy);
        let is_before = found.has_bytes_of(&self.before);
        tally.before += u64::from(is_before);
        tally.after += u64::from(!is_before);
        if is_before {
            finished(self.spawn(), said).success();
        } else if self.change.effect == Effect::Steps && !found.looks_like(&self.after) {
            let ended = (0..RUNS_TO_END).any(|_| finished(self.spawn(), said).code == Some(0));
            assert!(ended, "{said}: {:?}", finished(self.spawn(), said));
        } else {
            self.check_after(&found, said);
            // It may be refused now.
            let again = finished(self.spawn(), said);
            assert!(again.code.is_some_and(|code| code < 100), "{said}: {again:?}");
            Observed::read(&self.copy);
            return;
        }
        self.check_after(&Observed::read(&self.copy), said);
    }

    fn check_after(&self, found: &Observed, said: &str) {
        let is_after = match self.change.effect {
            Effect::Same => found.has_bytes_of(&self.after),
            Effect::Random | Effect::Steps => found.looks_like(&self.after),
        };
        assert!(is_after, "{said}: neither before nor after: {}", found.difference(&self.after));
    }
}

/// Returns a random time below this one.
fn below(rng: &mut Rng, time: Duration) -> Duration {
    Duration::from_micros(rng.u64(..time.as_micros().max(1) as u64))
}

/// Makes the files to which the commands refer.
fn make_files(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let machine = Machine::included("lab-pair").unwrap();
    let live = machine.replace("[profile]", "firmware_activation = \"live\"\n[profile]");
    let reserved = "\n[[soft_reserved]]\nstart = \"64GiB\"\nsize = \"1GiB\"\n";
    fs::write(folder.join("machine.toml"), live + reserved).unwrap();
    fs::write(folder.join("cxl.toml"), MACHINE).unwrap();
    fs::write(folder.join("firmware"), firmware_image([2, 3, 0, 0, 1])).unwrap();
}

/// Runs a command, or what stands for one.
fn carry_out(folder: &Path, line: &str) {
    match line {
        KEEP_KEY => {
            let keys = folder.join("state/keys");
            fs::create_dir_all(&keys).unwrap();
            fs::write(keys.join("nvdimm-master.blob"), "a key of any bytes").unwrap();
        }
        PATCH_IMAGE => {
            let image = File::options().write(true).open(folder.join("image")).unwrap();
            for off in [0, 1 << 20, 100 << 20] {
                image.write_all_at(b"a change of the virtual machine", off).unwrap();
            }
        }
        _ => drop(finished(spawn(folder, line), line).success()),
    }
}

/// Copies a folder. Holes stay holes.
fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-r", "--sparse=always", text(from), text(to)]).output().unwrap();
    assert!(copied.status.success(), "{copied:?}");
}

/// Starts a command on the machine in `folder`.
fn spawn(folder: &Path, line: &str) -> Child {
    let word = |word: &str| match word.strip_prefix('@') {
        Some(name) => text(&folder.join(name)).to_owned(),
        None => word.to_owned(),
    };
    let mut program = command(line.split(' ').map(word));
    program.env("LODE_STATE", folder.join("state")).stdout(Stdio::null()).stderr(Stdio::piped());
    program.spawn().unwrap()
}

/// Waits for the end of a command. A monitor is ended as systemd does, once it observes its modules.
#[track_caller]
fn finished(mut child: Child, said: &str) -> RunResult {
    if said.ends_with(MONITOR) {
        let mut note = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut note).unwrap();
        assert!(note.starts_with("lode: note: observing "), "{said}: {note}");
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.signal().is_none(), "{said}: {output:?}");
    RunResult::of(output)
}

/// Returns the time of the last change of names in the machine's directory.
fn changed(folder: &Path) -> Option<SystemTime> {
    let of = |path: PathBuf| fs::metadata(path).and_then(|found| found.modified()).ok();
    of(folder.join("state")).max(of(folder.join("state/modules")))
}

/// Waits until the command makes, renames or removes a file of the machine. Returns `None` if it ends before.
fn await_write(folder: &Path, child: &mut Child) -> Option<Instant> {
    let first = changed(folder);
    while changed(folder) == first {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
    }
    Some(Instant::now())
}

fn await_moment(folder: &Path, child: &mut Child, moment: &Moment) {
    let (start, delay) = match moment {
        Moment::AfterStart(delay) => (Instant::now(), delay),
        Moment::AfterFirstWrite(delay) => match await_write(folder, child) {
            Some(start) => (start, delay),
            None => return,
        },
    };
    // A sleep would be longer than most delays.
    while start.elapsed() < *delay && child.try_wait().unwrap().is_none() {}
}
