//! Running a killer: on sound code, where it must find no fault, and on a mutant, where it must.

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

/// What a killer may take at least. One that takes longer, and far longer than on sound code, does not end.
const LIMIT: Duration = Duration::from_secs(120);
/// How much longer than on sound code it may take.
const LIMIT_FACTOR: u32 = 20;
/// Between two looks at a program that runs.
const LOOK: Duration = Duration::from_millis(10);

/// How a run of a killer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// With this status.
    Exit(ExitStatus),
    /// It was still running after this time.
    Hung(Duration),
}

impl End {
    /// Whether the killer found no fault.
    pub(super) fn survived(self) -> bool {
        matches!(self, End::Exit(status) if status.success())
    }
}

/// The runs of killers, with what they printed in a folder.
#[derive(Debug)]
pub(super) struct Trials<'a> {
    programs: &'a Programs,
    folder: PathBuf,
    /// How each killer ended on sound code.
    sound: Mutex<BTreeMap<Killer, (End, Duration)>>,
}

impl<'a> Trials<'a> {
    pub(super) fn new(programs: &'a Programs, folder: PathBuf) -> Result<Trials<'a>> {
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Trials { programs, folder, sound: Mutex::new(BTreeMap::new()) })
    }

    /// Runs `killer` on sound code, once; how it ended, and after which time.
    pub(super) fn on_sound(&self, killer: &Killer) -> Result<(End, Duration)> {
        if let Some(known) = self.known().get(killer) {
            return Ok(*known);
        }
        let ran = self.run(killer, None, LIMIT * LIMIT_FACTOR)?;
        self.known().insert(killer.clone(), ran);
        Ok(ran)
    }

    /// Runs `killer` on the mutant of this name; how it ended, and after which time. It was run on sound code before.
    pub(super) fn on_mutant(&self, killer: &Killer, name: &str) -> Result<(End, Duration)> {
        let sound = self.known().get(killer).map_or(Duration::ZERO, |(_, time)| *time);
        self.run(killer, Some(name), LIMIT.max(sound * LIMIT_FACTOR))
    }

    /// Where the output of a run is.
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
            thread::sleep(LOOK);
        }
    }

    fn known(&self) -> std::sync::MutexGuard<'_, BTreeMap<Killer, (End, Duration)>> {
        self.sound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the runs print to.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Does `work` for each of `items`, as many at once as there are CPUs, until one fails.
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
