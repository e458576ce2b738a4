//! Programs that are killed at moments which the speed of the machine does not decide.

use crate::program::compiled;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};
use tempfile::TempDir;

/// The status of `kill_at` where the kernel lets it trace no program.
const UNTRACED: i32 = 3;

/// The program `c/kill_at.c`, which kills others.
#[derive(Debug)]
pub struct Killer {
    /// Removed together with the program.
    _folder: TempDir,
    path: PathBuf,
}

/// A moment of a program's run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// Calls of the kernel that have returned, of those that change files or names.
    pub calls: u64,
    /// Instructions after the last one of them.
    pub steps: u64,
}

/// A run that was killed, or ended before its moment.
#[derive(Clone, Debug)]
pub struct KilledRun {
    /// The standard output.
    pub output: String,
    /// The calls of the kernel that had returned.
    pub calls: u64,
    /// Those of msync(2) among them.
    pub mapping_syncs: u64,
    /// Those of fsync(2) and fdatasync(2) among them.
    pub file_syncs: u64,
    /// Its exit status; `None` if it was killed.
    pub status: Option<i32>,
}

impl Moment {
    /// A moment that no run reaches.
    pub const NEVER: Moment = Moment { calls: u64::MAX, steps: 0 };

    /// Draws a moment of a run with so many calls: often directly after a call, and seldom thousands of instructions after it.
    pub fn draw(calls: u64, random: &mut fastrand::Rng) -> Moment {
        let end = if random.bool() { 1 } else { 1 << random.u32(1..14) };
        let steps = random.u64(..end);
        Moment { calls: random.u64(1..=calls.max(1)), steps }
    }
}

impl Killer {
    /// Compiles the program. `None`, and a line of a skipped test, if the kernel lets no program be traced.
    pub fn compile() -> Option<Killer> {
        let (folder, path) = compiled("kill_at");
        let killer = Killer { _folder: folder, path };
        let mut probe = killer.command(Moment { calls: 1, steps: 0 }, "true".as_ref());
        if probe.output().unwrap().status.code() == Some(UNTRACED) {
            lode_testing::skip("killed_programs", "the kernel lets no program be traced");
            return None;
        }
        Some(killer)
    }

    /// Returns the command that runs the program at `path`, with arguments that are still to be added, and kills it at the moment.
    pub fn command(&self, moment: Moment, path: &OsStr) -> Command {
        let mut command = Command::new(&self.path);
        command.arg(moment.calls.to_string()).arg(moment.steps.to_string()).arg(path);
        command
    }
}

impl KilledRun {
    /// Reads the end of the output of a command of [`Killer::command`].
    ///
    /// # Panics
    /// If the output has no such end.
    pub fn of(output: &Output) -> KilledRun {
        let text = String::from_utf8_lossy(&output.stdout);
        let (before, last) = text.trim_end().rsplit_once('\n').unwrap_or_else(|| panic!("{output:?}"));
        let words: Vec<&str> = last.split(' ').collect();
        let (status, counts) = match words[..] {
            ["killed", ref counts @ ..] => (None, counts),
            ["ended", status, ref counts @ ..] => (status.parse().ok(), counts),
            _ => panic!("{output:?}"),
        };
        let counts: Vec<u64> = counts.iter().map(|count| count.parse().unwrap()).collect();
        let [calls, mapping_syncs, file_syncs] = counts[..] else { panic!("{output:?}") };
        let output = format!("{before}{}", String::from_utf8_lossy(&output.stderr));
        KilledRun { output, calls, mapping_syncs, file_syncs, status }
    }
}
