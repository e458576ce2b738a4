//! Running a killer: on sound code, where it must find no fault, and on a mutant, where it must fail.

use super::build::Programs;
use super::list::Killer;
use anyhow::{Context, Result};
use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Least time limit of a killer. One that takes longer, and far longer than on sound code, is taken to hang.
const LIMIT: Duration = Duration::from_secs(120);
/// Factor by which a killer may take longer than on sound code.
const LIMIT_FACTOR: u32 = 20;
/// Time between two checks of a running program.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// The ways in which a run of a killer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The killer ended with this status.
    Exit(ExitStatus),
    /// The killer was still running after this time.
    Hung(Duration),
}

impl End {
    /// Returns true if the killer found no fault.
    pub(super) fn survived(self) -> bool {
        matches!(self, End::Exit(status) if status.success())
    }
}

/// The runs of killers, whose output is kept in a folder.
#[derive(Debug)]
pub(super) struct Trials<'a> {
    programs: &'a Programs,
    folder: PathBuf,
    /// Result of each killer on sound code.
    sound: Mutex<BTreeMap<Killer, (End, Duration)>>,
}

impl<'a> Trials<'a> {
    pub(super) fn new(programs: &'a Programs, folder: PathBuf) -> Result<Trials<'a>> {
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Trials { programs, folder, sound: Mutex::new(BTreeMap::new()) })
    }

    /// Runs `killer` on sound code, once. Returns its end, and the time that it took.
    pub(super) fn on_sound(&self, killer: &Killer) -> Result<(End, Duration)> {
        if let Some(known) = self.known().get(killer) {
            return Ok(*known);
        }
        let ran = self.run(killer, None, LIMIT * LIMIT_FACTOR)?;
        self.known().insert(killer.clone(), ran);
        Ok(ran)
    }

    /// Runs `killer` on the mutant with this name, after it ran on sound code. Returns its end, and the time that it
    /// took.
    pub(super) fn on_mutant(&self, killer: &Killer, name: &str) -> Result<(End, Duration)> {
        let sound = self.known().get(killer).map_or(Duration::ZERO, |(_, time)| *time);
        self.run(killer, Some(name), LIMIT.max(sound * LIMIT_FACTOR))
    }

    /// Returns the path of a run's output.
    pub(super) fn output(&self, name: Option<&str>) -> PathBuf {
        self.folder.join(name.unwrap_or("sound")).with_extension("txt")
    }

    fn run(&self, killer: &Killer, name: Option<&str>, limit: Duration) -> Result<(End, Duration)> {
        let mut command = self.programs.command(killer)?;
        let path = match name {
            Some(_) => self.output(name),
            None => self.folder.join(format!("sound {}.txt", killer.to_string().replace('/', " "))),
        };
        let output = File::create(&path).with_context(|| path.display().to_string())?;
        command.stdout(output.try_clone()?).stderr(output);
        if let Some(name) = name {
            command.env("LODE_MUTANT", name);
        }
        let start = Instant::now();
        let mut child = command.spawn().with_context(|| killer.to_string())?;
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok((End::Exit(status), start.elapsed()));
            }
            if start.elapsed() > limit {
                child.kill()?;
                child.wait()?;
                return Ok((End::Hung(limit), start.elapsed()));
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Killer, (End, Duration)>> {
        self.sound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the folder of the output.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Calls `work` for each of `items`, as many at once as there are CPUs, until one call fails.
pub(super) fn for_each<T: Send>(items: Vec<T>, work: impl Fn(T) -> Result<()> + Sync) -> Result<()> {
    let queue = Mutex::new(VecDeque::from(items));
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let worker = || -> Result<()> {
        while let Some(item) = next() {
            work(item)?;
        }
        Ok(())
    };
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(worker)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(result) => result,
            Err(payload) => std::panic::resume_unwind(payload),
        })
    })
}
