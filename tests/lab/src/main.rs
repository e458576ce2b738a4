//! The lab: real kernels on emulated persistent memory, and `lode` in them.
//!
//! ```text
//!   scenarios/*.toml   what each machine has, runs, and must print
//!   kernel             Debian's, unpacked by setup/install.sh lab
//!   root               the guest's files: tools with their libraries, modules, guest/init, lode
//!   machine -> guest   QEMU, and one run of it
//!   trial              the boots of a scenario on a kernel, and the verdict
//! ```
//!
//! It does: build lode and the guests' files once, run scenarios side by side, keep the files of a failed one under
//! `target/lab`. It does not: install anything, need root, or need KVM.
#![forbid(unsafe_code)]

mod guest;
mod kernel;
mod machine;
mod root;
mod scenario;
mod trial;

use anyhow::{Context, Error, Result, bail, ensure};
use clap::Parser;
use kernel::{Kernel, SERIES};
use scenario::Scenario;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};
use std::{env, fs, thread};
use trial::{Ours, Trial};

/// Time that a scenario should take at most; the output marks a slower one.
const TIME_GOAL: Duration = Duration::from_secs(20);

/// Run lode on real kernels and emulated persistent memory.
#[derive(Parser)]
#[command(name = "lode-lab")]
struct Arguments {
    /// Scenarios to run; when none is named, all, without those that only soak runs on a kernel
    scenarios: Vec<String>,
    /// Run all scenarios on all kernels
    #[arg(long, conflicts_with = "scenarios")]
    all: bool,
    /// The kernel to run them on, 6.1 or 6.12 [default: both]
    #[arg(long, value_name = "SERIES")]
    kernel: Option<String>,
    /// Print the scenarios and what they show
    #[arg(long)]
    list: bool,
    /// Machines that run at a time [default: one for each CPU, up to 4]
    #[arg(long, value_name = "N")]
    jobs: Option<NonZeroUsize>,
}

/// Result of a trial, and its duration.
struct Outcome {
    name: String,
    result: Result<()>,
    time: Duration,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let scenarios = chosen(&arguments.scenarios)?;
    if arguments.list {
        for scenario in &scenarios {
            println!("{:<16} {}", scenario.name, scenario.what);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let target = target();
    let folder = target.join("lab");
    let kernels = kernels(&folder, arguments.kernel.as_deref())?;
    if !is_in_path("qemu-system-x86_64") {
        println!("SKIP lab/qemu: it is not there; `setup/install.sh lab` installs it on Debian");
        return Ok(ExitCode::SUCCESS);
    }
    if kernels.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let begin = Instant::now();
    let programs = build_programs()?;
    let libraries = link_libraries(&folder)?;
    let mut roots = BTreeMap::new();
    for kernel in &kernels {
        roots.insert(kernel.series, root::build(&folder, kernel, &programs)?);
    }
    println!("guests of {} are ready after {:.1} s", names(&kernels), begin.elapsed().as_secs_f64());
    let ours = Ours { lode: &programs[0], libraries: &libraries };
    let mut trials = trials(&scenarios, &kernels, &roots, (ours, &folder));
    if !arguments.all && arguments.scenarios.is_empty() && kernels.len() > 1 {
        trials.retain(|trial| !trial.scenario.soak_on.iter().any(|series| series == trial.kernel.series));
    }
    let cpus = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let jobs = arguments.jobs.map_or_else(|| cpus().min(4), NonZeroUsize::get);
    let (passed, failed) = run_all(&trials, jobs, &folder);
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!(
        "test result: {word}. {passed} passed; {failed} failed; finished in {:.1} s",
        begin.elapsed().as_secs_f64()
    );
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the scenarios with these names, or all.
fn chosen(names: &[String]) -> Result<Vec<Scenario>> {
    let mut all = Scenario::read_all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios"))?;
    if let Some(name) = names.iter().find(|name| all.iter().all(|scenario| scenario.name != **name)) {
        bail!("no scenario is called {name}; --list prints them");
    }
    all.retain(|scenario| names.is_empty() || names.contains(&scenario.name));
    Ok(all)
}

/// Returns the folder in which cargo builds.
fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| home().join("target"), |target| home().join(target))
}

fn kernels(folder: &Path, asked: Option<&str>) -> Result<Vec<Kernel>> {
    let mut found = Vec::new();
    for series in SERIES.into_iter().filter(|series| asked.is_none_or(|asked| asked == *series)) {
        match Kernel::find(folder, series)? {
            Some(kernel) => found.push(kernel),
            None => println!("SKIP lab/kernel-{series}: it is not there; `setup/install.sh lab` unpacks it"),
        }
    }
    Ok(found)
}

fn names(kernels: &[Kernel]) -> String {
    kernels.iter().map(|kernel| kernel.release.as_str()).collect::<Vec<_>>().join(" and ")
}

fn is_in_path(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| folder.join(program).exists())
}

/// Builds lode as it ships, the other programs of the guests, and the archives of the C ABI, in the profile that the tests have built
/// already. Returns the paths of the programs.
fn build_programs() -> Result<[PathBuf; 5]> {
    const PROGRAMS: [&str; 5] = ["lode", "replay-log", "poison", "nbd-sockets", "content"];
    let mut cargo = Command::new("cargo");
    cargo.args(["--config", ".cargo/shipped.toml", "build", "--locked", "--workspace", "--profile", "test"]);
    cargo.args(PROGRAMS.iter().flat_map(|program| ["--bin", program])).arg("--lib");
    cargo.current_dir(home());
    ensure!(cargo.status().context("cargo")?.success(), "lode can't be built");
    Ok(PROGRAMS.map(|program| built().join(program)))
}

/// Makes our libpmem2, libpmemobj, libpmempool, and the libpmem that they need, of the archives that are built. Returns their folder.
fn link_libraries(folder: &Path) -> Result<PathBuf> {
    let libraries = folder.join("capi");
    for name in ["pmem", "pmem2", "pmempool", "pmemobj"] {
        let mut linker = Command::new(home().join("capi/link.sh"));
        linker.arg(name).arg(built().join(format!("liblode_capi_{name}.a"))).arg(&libraries);
        ensure!(linker.status().context("capi/link.sh")?.success(), "lib{name} can't be linked");
    }
    Ok(libraries.canonicalize()?)
}

/// Returns the folder of the sources.
fn home() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the folder of what `build_programs` builds.
fn built() -> PathBuf {
    home().join("target/shipped/debug")
}

/// Returns a trial of each scenario on each kernel; the reason is printed for a kernel on which a scenario can't run.
fn trials<'a>(
    scenarios: &'a [Scenario],
    kernels: &'a [Kernel],
    roots: &'a BTreeMap<&str, PathBuf>,
    (ours, folder): (Ours<'a>, &Path),
) -> Vec<Trial<'a>> {
    let mut trials = Vec::new();
    for scenario in scenarios {
        for kernel in kernels {
            let name = format!("{}-{}", scenario.name, kernel.series);
            match scenario.not_on.get(kernel.series) {
                Some(reason) => println!("SKIP lab/{name}: {reason}"),
                None => match qemu(scenario, folder) {
                    None => println!(
                        "SKIP lab/{name}: the newer QEMU is not there; `setup/install.sh lab` unpacks it on Debian 12"
                    ),
                    Some(qemu) => {
                        let folder = folder.join("trials").join(name);
                        trials.push(Trial {
                            scenario,
                            kernel,
                            root: &roots[kernel.series],
                            ours,
                            qemu,
                            folder,
                        });
                    }
                },
            }
        }
    }
    trials
}

/// Returns the QEMU that a scenario needs.
fn qemu(scenario: &Scenario, folder: &Path) -> Option<PathBuf> {
    if scenario.newer_qemu { machine::newer_qemu(folder) } else { Some(PathBuf::from("qemu-system-x86_64")) }
}

/// Runs trials, `jobs` at a time, and reports each. Returns the numbers of trials that passed and that failed.
fn run_all(trials: &[Trial], jobs: usize, folder: &Path) -> (usize, usize) {
    let waiting = Mutex::new(trials.iter());
    let (sender, receiver) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (waiting, sender) = (&waiting, sender.clone());
            scope.spawn(move || worker(waiting, &sender));
        }
        drop(sender);
        let (mut passed, mut failures) = (0, Vec::new());
        for outcome in receiver {
            report(&outcome, folder);
            match outcome.result {
                Ok(()) => passed += 1,
                Err(error) => failures.push((outcome.name, error)),
            }
        }
        // Printed at the end, so the last lines of a log show them.
        for (name, error) in &failures {
            println!("{}", fail_line(name, error));
        }
        (passed, failures.len())
    })
}

fn worker<'a>(waiting: &Mutex<impl Iterator<Item = &'a Trial<'a>>>, sender: &Sender<Outcome>) {
    loop {
        let next = waiting.lock().expect("nothing panics while it is held").next();
        let Some(trial) = next else { return };
        let begin = Instant::now();
        let result = trial.run();
        let name = format!("{} on {}", trial.scenario.name, trial.kernel.series);
        // The receiver waits until all trials are done, so sending does not fail.
        let _ = sender.send(Outcome { name, result, time: begin.elapsed() });
    }
}

fn report(outcome: &Outcome, folder: &Path) {
    let Outcome { name, result, time } = outcome;
    let slow =
        if *time > TIME_GOAL { format!("  more than {} s", TIME_GOAL.as_secs()) } else { String::new() };
    let word = if result.is_ok() { "ok" } else { "FAILED" };
    println!("{name:<28} {word:<6} {:>6.1} s{slow}", time.as_secs_f64());
    if let Err(error) = result {
        println!("    {error:#}");
        let place = folder.join("trials").join(name.replace(" on ", "-"));
        println!("    console and what it printed: {}", place.display());
        for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
            print_end(&entry.path());
        }
    }
}

/// Formats a failed trial and its reason as the one line that `cargo xtask ci` reads.
fn fail_line(trial: &str, error: &Error) -> String {
    let reason = format!("{error:#}");
    let lines: Vec<&str> = reason.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    format!("FAIL lab/{}: {}", trial.replace(" on ", "-"), lines.join("; "))
}

/// Prints the last lines of a guest's output.
fn print_end(path: &Path) {
    const LINES: usize = 30;
    if path.extension().is_none_or(|extension| extension != "log") {
        return;
    }
    let text = String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    if !lines.is_empty() {
        println!("    ---- {}", path.file_name().unwrap_or_default().display());
    }
    for line in &lines[lines.len().saturating_sub(LINES)..] {
        println!("    {line}");
    }
}

#[cfg(test)]
mod test {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn failure_reason_fits_one_line() {
        let error = anyhow!("the script before the boot failed: 1c1\n< a\n---\n\n> b\n").context("boot 2");
        assert_eq!(
            fail_line("image-modes on 6.12", &error),
            "FAIL lab/image-modes-6.12: boot 2: the script before the boot failed: 1c1; < a; ---; > b"
        );
    }
}
