//! Runs the groups, each in a process of its own, and keeps every lap.

use crate::duration::Schedule;
use crate::group::Durability;
use crate::lacks::lacking;
use crate::machine::Machine;
use crate::plan::{Selection, Size};
use crate::workloads::Findings;
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use tempfile::TempDir;

/// All that a run measured.
#[derive(Serialize, Deserialize)]
pub(crate) struct Laps {
    /// The machine that ran the laps.
    pub(crate) machine: Machine,
    /// Seed of the random order of keys and places.
    pub(crate) seed: u64,
    /// True if the run only checked that all workloads still run.
    pub(crate) quick: bool,
    /// Laps of each engine.
    pub(crate) rounds: usize,
    /// Laps of each engine in the workloads whose laps take seconds.
    #[serde(default)]
    pub(crate) long_rounds: usize,
    /// Laps of each engine in `load-words` and `store-*`.
    #[serde(default)]
    pub(crate) load_rounds: usize,
    /// Size of `store-*`, as a part of redb's own bench.
    #[serde(default)]
    pub(crate) scale: f64,
    /// The rows that were to run; none in the laps of older versions, where all were.
    #[serde(default)]
    pub(crate) rows: Vec<String>,
    /// True if the pools of trees were touched before they were timed.
    pub(crate) touched: bool,
    /// The results of the groups.
    pub(crate) findings: Findings,
    /// The groups that failed, with the reason.
    pub(crate) failed: Vec<String>,
}

impl Laps {
    #[cfg(test)]
    pub(crate) fn sample() -> Laps {
        let here = Path::new(".");
        let machine = Machine::detect(here, here).unwrap();
        Laps {
            machine,
            seed: 1,
            quick: true,
            rounds: 1,
            long_rounds: 1,
            load_rounds: 1,
            scale: 1.0,
            rows: Vec::new(),
            touched: false,
            findings: Findings::default(),
            failed: Vec::new(),
        }
    }

    fn path(out: &Path) -> PathBuf {
        out.join("laps.json")
    }

    /// Reads what an earlier run wrote.
    pub(crate) fn read(out: &Path) -> Result<Laps> {
        let path = Laps::path(out);
        let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        serde_json::from_reader(BufReader::new(file)).with_context(|| format!("reading {}", path.display()))
    }

    /// Writes all laps, so that they can be reported again.
    pub(crate) fn write(&self, out: &Path) -> Result<()> {
        let path = Laps::path(out);
        fs::write(&path, serde_json::to_vec(self)?).with_context(|| format!("writing {}", path.display()))
    }
}

/// A folder for the files of the groups on one durability, removed at the end, and on SIGINT and SIGTERM.
fn folders(out: &Path) -> Result<(TempDir, TempDir)> {
    let make = |parent: &Path| {
        let folder = tempfile::Builder::new().prefix("lode-bench-").tempdir_in(parent);
        folder.with_context(|| format!("creating a folder in {}", parent.display()))
    };
    let (tmpfs, disk) = (make(Path::new("/dev/shm"))?, make(out)?);
    let paths = [tmpfs.path().to_owned(), disk.path().to_owned()];
    ctrlc::set_handler(move || {
        for path in &paths {
            // Nothing can be done about a folder that stays, and the process ends here.
            let _ = fs::remove_dir_all(path);
        }
        std::process::exit(130);
    })?;
    Ok((tmpfs, disk))
}

/// Runs the groups one after the other. One that fails is noted, and the others still run.
pub(crate) fn run(selections: &[Selection], quick: bool, size: &Size, seed: u64, out: &Path) -> Result<Laps> {
    let (tmpfs, disk) = folders(out)?;
    let mut machine = Machine::detect(tmpfs.path(), disk.path())?;
    eprintln!("seed {seed}, {} rounds, {}", size.rounds, machine.summary());
    let mut schedule = Schedule::new(selections, quick, size.rounds);
    let hint = if quick { "" } else { "; --quick runs each row once, and measures nothing" };
    eprintln!("this takes {}{hint}", schedule.left());
    lacking(selections).iter().for_each(|line| eprintln!("{line}"));
    let mut findings = Findings::default();
    let mut failed = Vec::new();
    for (number, selection) in (1..).zip(selections) {
        let parent = match selection.group.durability() {
            Durability::Line => &tmpfs,
            Durability::Commit => &disk,
        };
        let name = selection.group.to_possible_value().context("every group has a name")?;
        let folder = parent.path().join(name.get_name());
        fs::create_dir(&folder)?;
        let (count, left) = (selections.len(), schedule.left());
        eprintln!("{number} of {count}: {}, {left} left", name.get_name());
        let begin = Instant::now();
        match run_group(selection, quick, size, seed, &folder) {
            Ok(found) => {
                findings.comparisons.extend(found.comparisons);
                findings.figures.extend(found.figures);
                findings.notes.extend(found.notes);
            }
            Err(error) => {
                eprintln!("{}: {error:#}", name.get_name());
                failed.push(format!("{}: {error:#}", name.get_name()));
            }
        }
        schedule.end(begin.elapsed());
        fs::remove_dir_all(&folder)?;
    }
    let rows = selections.iter().flat_map(|selection| &selection.rows).map(ToString::to_string).collect();
    machine.record_final_load()?;
    let Size { rounds, long_rounds, load_rounds, scale, touched, .. } = *size;
    Ok(Laps {
        machine,
        seed,
        quick,
        rounds,
        long_rounds,
        load_rounds,
        scale,
        rows,
        touched,
        findings,
        failed,
    })
}

/// Runs one group in a process of its own.
fn run_group(selection: &Selection, quick: bool, size: &Size, seed: u64, folder: &Path) -> Result<Findings> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(&selection.rows).arg("--inside").arg(folder).args(["--seed", &seed.to_string()]);
    if quick {
        command.arg("--quick");
    } else {
        command.args(["--rounds", &size.rounds.to_string()]);
    }
    command.args(["--scale", &size.scale.to_string()]);
    command.args(["--give-up", &size.overdue.as_secs().to_string()]);
    if size.touched {
        command.arg("--touched");
    }
    match selection.group.durability() {
        Durability::Line => command.env("PMEM_IS_PMEM_FORCE", "1"),
        Durability::Commit => command.env_remove("PMEM_IS_PMEM_FORCE"),
    };
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "ended with {}", output.status);
    match serde_json::from_slice(&output.stdout) {
        Ok(findings) => Ok(findings),
        Err(error) => bail!("printed something else than its findings: {error}"),
    }
}
