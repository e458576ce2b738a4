//! The stages of `make test`.

use crate::cargo::{Cargo, Program};
use crate::flavor::Flavor;
use crate::log::Log;
use crate::mutants::Selection;
use crate::runner::{self, TestEnvironment};
use crate::tally::Tally;
use crate::tidy;
use crate::workspace::{Package, Workspace};
use anyhow::{Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// A named part of the tests.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// Description of the stage, for the list.
    pub(crate) what: &'static str,
    /// Minutes that the stage may take on two slow cores, beside another stage, with nothing built before.
    pub(crate) budget_min: u64,
    pub(crate) run: fn(&mut Run) -> Result<Verdict>,
}

/// Result of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// The workspace has no code that this stage checks.
    Nothing,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Passed => "passed",
            Verdict::Failed => "FAILED",
            Verdict::Nothing => "nothing to run",
        })
    }
}

impl From<bool> for Verdict {
    fn from(good: bool) -> Verdict {
        if good { Verdict::Passed } else { Verdict::Failed }
    }
}

macro_rules! stages {
    ($($name:ident, $budget:literal min: $what:literal;)+) => {
        /// All stages, in the order in which they begin, two at a time. The quick ones are first, to report simple
        /// mistakes early. The interpreter, which uses one core, runs beside the builds, and so do the stages that build in
        /// folders of their own. Stages that use all cores are last.
        pub(crate) const STAGES: &[Stage] =
            &[$(Stage { name: stringify!($name), what: $what, budget_min: $budget, run: $name }),+];
    };
}

stages! {
    fmt, 1 min: "sources are formatted";
    tidy, 1 min: "rules that no other tool checks";
    clippy, 4 min: "lints, warnings denied, all targets";
    miri, 13 min: "tests without assembly and without a kernel under them, in Miri";
    docs, 1 min: "documentation builds without a warning";
    test, 21 min: "all tests, optimised, with assertions and overflow checks";
    oldest, 3 min: "every crate with a layer compiles with the oldest Rust that it names";
    loom, 4 min: "lock-free parts in every interleaving: tests/loom.rs, cfg(loom)";
    package, 1 min: "every crate with a layer can be packaged";
    targets, 2 min: "every crate compiles for aarch64";
    features, 2 min: "every crate compiles with each of its features";
    lab, 12 min: "lode on real kernels and emulated persistent memory";
    release, 6 min: "tests of the crates with assertions or unsafe code, without assertions and overflow checks";
    bugs, 7 min: "seeded bugs are found, in the build of the mutants";
    fuzz, 2 min: "fuzz targets compile on the nightly toolchain";
    mutants, 3 min: "a tenth of the mutants in tools/xtask/mutants.toml is killed";
}

impl Stage {
    /// Returns the time that the stage may take.
    pub(crate) fn budget(&self) -> Duration {
        Duration::from_secs(60 * self.budget_min)
    }
}

/// The run of one stage.
pub(crate) struct Run<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) tally: Tally,
    pub(crate) log: Log,
    /// Environment variables for the tests.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// True if the tests that take too long for `make test` run, too.
    pub(crate) is_soak: bool,
}

impl<'a> Run<'a> {
    pub(crate) fn new(workspace: &'a Workspace, log: Log) -> Run<'a> {
        Run { workspace, tally: Tally::default(), log, settings: Vec::new(), is_soak: false }
    }

    fn stable(&mut self, words: &str) -> Result<bool> {
        self.call(Cargo::stable(self.workspace, words))
    }

    fn call(&mut self, cargo: Cargo) -> Result<bool> {
        let outcome = self.with_settings(cargo).run(self.log)?;
        self.tally.add(outcome.tally);
        Ok(outcome.success)
    }

    /// Returns the call with the environment of the tests, which build scripts read, too.
    fn with_settings(&self, cargo: Cargo) -> Cargo {
        self.settings.iter().fold(cargo, |cargo, (name, value)| cargo.set(name, value))
    }

    /// Runs the tests of these programs on all cores, without those whose names begin as `left_out` says.
    fn run_tests(&mut self, programs: &[Program], left_out: &[String]) -> Result<Verdict> {
        let (libraries, settings) = (&self.workspace.libraries, &self.settings);
        let environment = TestEnvironment { libraries, settings, left_out };
        let tally = runner::run(programs, &environment, self.log)?;
        let good = tally.failed == 0;
        self.tally.add(tally);
        Ok(good.into())
    }

    /// Returns true if the folder is a separate workspace next to this one, built apart because of its dependencies.
    fn has_workspace(&self, folder: &str) -> bool {
        self.workspace.root.join(folder).join("Cargo.toml").exists()
    }
}

fn fmt(run: &mut Run) -> Result<Verdict> {
    let mut good = run.stable("fmt --all --check")?;
    if run.has_workspace("tools/bench") {
        good &= run.stable("fmt --manifest-path tools/bench/Cargo.toml --check")?;
    }
    Ok(good.into())
}

fn tidy(run: &mut Run) -> Result<Verdict> {
    let mut good = tidy::run(run.workspace, run.log)?;
    if run.has_workspace("tools/bench") {
        // `make bench` refuses a lock file that does not fit the crates.
        good &= run.stable("update --workspace --locked --quiet --manifest-path tools/bench/Cargo.toml")?;
    }
    Ok(good.into())
}

fn clippy(run: &mut Run) -> Result<Verdict> {
    let good = run.stable("clippy --locked --workspace --all-targets -- -D warnings")?;
    // No other build has both the lints and the code under this cfg.
    let words = "check --locked --workspace --test seeded_bugs --test explorer --test pool_crash";
    Ok((run.call(Flavor::Bugs.cargo(run.workspace, words))? && good).into())
}

fn docs(run: &mut Run) -> Result<Verdict> {
    let cargo = Cargo::stable(run.workspace, "doc --locked --workspace --no-deps --document-private-items");
    Ok(run.call(cargo.set("RUSTDOCFLAGS", "-D warnings"))?.into())
}

fn targets(run: &mut Run) -> Result<Verdict> {
    Ok(run.stable("check --locked --workspace --exclude xtask --target aarch64-unknown-linux-gnu")?.into())
}

/// Packages what a registry would get. Nothing is sent anywhere.
fn package(run: &mut Run) -> Result<Verdict> {
    let selected =
        selection(run.workspace.packages.iter().filter(|package| run.workspace.has_layer(package)));
    let words = format!("package --locked --offline --allow-dirty --no-verify --quiet{selected}");
    Ok(run.stable(&words)?.into())
}

/// Compiles the crates with the toolchains of their `rust-version`, in a folder of their own.
fn oldest(run: &mut Run) -> Result<Verdict> {
    let workspace = run.workspace;
    let mut by_version: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    for package in workspace.packages.iter().filter(|package| workspace.has_layer(package)) {
        if let Some(version) = &package.rust_version {
            by_version.entry(version).or_default().push(package);
        }
    }
    let mut good = !by_version.is_empty();
    for (version, packages) in by_version {
        let words = format!("+{version} check --locked --all-features{}", selection(packages.into_iter()));
        let cargo = Cargo::stable(workspace, &words);
        good &= run.call(cargo.set("CARGO_TARGET_DIR", workspace.target.join("oldest")))?;
    }
    Ok(good.into())
}

/// Returns cargo's options that select these packages.
fn selection<'a>(packages: impl Iterator<Item = &'a Package>) -> String {
    packages.map(|package| format!(" --package {}", package.name)).collect()
}

fn features(run: &mut Run) -> Result<Verdict> {
    let workspace = run.workspace;
    let mut verdict = Verdict::Nothing;
    let packages = workspace.packages.iter().filter(|package| package.name != "lode-fuzz");
    for package in packages.filter(|package| !package.features.is_empty()) {
        let each = package.features.iter().map(|feature| format!(" --features {feature}"));
        for choice in each.chain([String::new(), " --all-features".into()]) {
            let words = format!("check --locked --package {} --no-default-features{choice}", package.name);
            verdict = (run.stable(&words)? && verdict != Verdict::Failed).into();
        }
    }
    Ok(verdict)
}

/// Runs all tests, as contributors do.
pub(crate) fn test(run: &mut Run) -> Result<Verdict> {
    let cargo = Flavor::Checked.cargo(run.workspace, "test --locked --workspace");
    let programs = run.with_settings(cargo).build(run.workspace, run.log)?;
    let verdict = run.run_tests(&programs, &[])?;
    // With the same options, so that the libraries are those of the other tests.
    let words = "test --locked --workspace --doc --no-fail-fast";
    let good = run.call(Flavor::Checked.cargo(run.workspace, words))?;
    Ok(if good { verdict } else { Verdict::Failed })
}

/// Runs the unit tests of all libraries, and the other tests of the crates in `workspace.metadata.release`, as the program
/// ships. In soak, all tests.
pub(crate) fn release(run: &mut Run) -> Result<Verdict> {
    let rules = &run.workspace.rules.release;
    let is_known = |name: &&String| run.workspace.packages.iter().any(|package| package.name == **name);
    if let Some(name) = rules.crates.iter().find(|name| !is_known(name)) {
        bail!("workspace.metadata.release of Cargo.toml names a crate that does not exist, {name}");
    }
    let is_chosen = |package: &str| run.is_soak || rules.crates.iter().any(|name| name == package);
    let chosen = run.workspace.packages.iter().filter(|package| is_chosen(&package.name));
    let names: BTreeSet<&str> = chosen.flat_map(|package| &package.tests).map(String::as_str).collect();
    let names: Vec<String> = names.into_iter().map(|name| format!(" --test {name}")).collect();
    // One call for all packages, so features are those of every other build.
    let kinds = if run.is_soak { "--lib --bins" } else { "--lib" };
    let words = format!("test --locked --workspace {kinds}{}", names.concat());
    let mut programs = Flavor::Shipped.cargo(run.workspace, &words).build(run.workspace, run.log)?;
    let is_library = |name: &str| name.ends_with("--lib");
    programs.retain(|program| is_chosen(&program.package) || is_library(&program.name));
    let mut left_out = rules.left_out.clone();
    if !run.is_soak {
        // The explorers have had their full budget in the build with assertions.
        run.settings.push(("LODE_BUDGET", "0.1".into()));
        left_out.extend_from_slice(&rules.left_to_soak);
    }
    run.run_tests(&programs, &left_out)
}

/// Runs the tests of `workspace.metadata.bugs`, in the copy that holds the mutants, too: both need a build with
/// `cfg(lode_bugs)`.
pub(crate) fn bugs(run: &mut Run) -> Result<Verdict> {
    let tests = &run.workspace.rules.bugs.tests;
    let tests: Vec<(&str, &str)> = tests.iter().filter_map(|test| test.split_once('/')).collect();
    // One call for all packages, so features are those of every other build.
    let names: BTreeSet<String> = tests.iter().map(|(_, test)| format!(" --test {test}")).collect();
    let names: Vec<String> = names.into_iter().collect();
    let words = format!("test --locked --workspace{}", names.concat());
    let mut programs = crate::mutants::build_tests(run.workspace, Flavor::Bugs, &words, run.log)?;
    let names: BTreeSet<String> =
        tests.iter().map(|(package, test)| format!("-p {package} --test {test}")).collect();
    programs.retain(|program| names.contains(&program.name));
    ensure!(
        programs.len() == names.len(),
        "workspace.metadata.bugs of Cargo.toml names a test that does not exist"
    );
    run.run_tests(&programs, &[])
}

/// Runs the first tenth of the mutants.
fn mutants(run: &mut Run) -> Result<Verdict> {
    mutants_of(run, &Selection::Tenth(0))
}

/// Runs the mutants of the selection.
pub(crate) fn mutants_of(run: &mut Run, selection: &Selection) -> Result<Verdict> {
    let tally = crate::mutants::run(run.workspace, selection, run.log)?;
    let good = tally.failed == 0;
    run.tally.add(tally);
    Ok(good.into())
}

/// Runs the tests in `tests/loom.rs` of any crate.
pub(crate) fn loom(run: &mut Run) -> Result<Verdict> {
    let packages: Vec<&Package> = run.workspace.with_test("loom").collect();
    if packages.is_empty() {
        return Ok(Verdict::Nothing);
    }
    let words = format!("test --locked{} --test loom", selection(packages.into_iter()));
    let programs = Flavor::Loom.cargo(run.workspace, &words).build(run.workspace, run.log)?;
    run.run_tests(&programs, &[])
}

pub(crate) fn miri(run: &mut Run) -> Result<Verdict> {
    let workspace = run.workspace;
    let rules = &workspace.rules.miri;
    let mut good = true;
    for tests in &rules.tests {
        good &= interpret(run, tests, "")?;
    }
    for tests in if run.is_soak { &rules.soak[..] } else { &[] } {
        good &= interpret(run, tests, " --include-ignored")?;
    }
    Ok(good.into())
}

/// Runs the tests of a package, or of a module of its library, in Miri.
fn interpret(run: &mut Run, tests: &str, which: &str) -> Result<bool> {
    let words = match tests.split_once('/') {
        None => format!("miri test --locked --no-fail-fast --package {tests} --{which}"),
        Some((package, module)) => format!("miri test --locked --package {package} --lib -- {module}{which}"),
    };
    let cargo = Cargo::nightly(run.workspace, &words)?
        .set("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
        // Tests may read their own sources. Property tests need few cases here: Miri checks the code paths, not the
        // values.
        .set("MIRIFLAGS", "-Zmiri-disable-isolation")
        .set("PROPTEST_CASES", "4");
    run.call(cargo)
}

fn fuzz(run: &mut Run) -> Result<Verdict> {
    if !run.has_workspace("tests/fuzz") {
        return Ok(Verdict::Nothing);
    }
    let cargo = Cargo::nightly(run.workspace, "fuzz check --fuzz-dir tests/fuzz --dev --features libfuzzer")?;
    Ok(run.call(cargo)?.into())
}

/// Runs the scenarios of the lab, each on each kernel on which it shows something else. In soak, on all.
pub(crate) fn lab(run: &mut Run) -> Result<Verdict> {
    let all = if run.is_soak { " -- --all" } else { "" };
    Ok(run.stable(&format!("run --locked --quiet --package lode-lab{all}"))?.into())
}

/// Runs the scenario of random namespaces on both kernels, with the seed of the run.
pub(crate) fn random_namespaces(run: &mut Run) -> Result<Verdict> {
    Ok(run.stable("run --locked --quiet --package lode-lab -- image-random")?.into())
}
