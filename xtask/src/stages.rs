//! What each stage of `make test` runs.

use crate::cargo::Cargo;
use crate::mutants::Selection;
use crate::tally::Tally;
use crate::workspace::Workspace;
use crate::{cost, man, tidy};
use anyhow::Result;
use std::fmt;

/// A named part of the tests.
pub(crate) struct Stage {
    pub(crate) name: &'static str,
    /// What it shows, for the list.
    pub(crate) what: &'static str,
    pub(crate) run: fn(&mut Run) -> Result<Verdict>,
}

/// How a stage ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    Failed,
    /// The workspace holds nothing that this stage is for.
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

/// All stages: the quick ones first, so that a slip shows early.
pub(crate) const STAGES: &[Stage] = &[
    Stage { name: "fmt", what: "sources are formatted", run: fmt },
    Stage {
        name: "tidy",
        what: "rules that no other tool checks",
        run: |run| Ok(tidy::run(run.workspace)?.into()),
    },
    Stage { name: "clippy", what: "lints, warnings denied, all targets", run: clippy },
    Stage { name: "docs", what: "documentation builds without a warning", run: docs },
    Stage { name: "targets", what: "every crate compiles for aarch64", run: targets },
    Stage { name: "features", what: "every crate compiles with each of its features", run: features },
    Stage { name: "test", what: "all tests, optimised, with assertions and overflow checks", run: test },
    Stage { name: "release", what: "all tests, without assertions and overflow checks", run: release },
    Stage {
        name: "man",
        what: "manual pages are those that `lode` makes",
        run: |run| Ok(man::check(run.workspace)?.into()),
    },
    Stage { name: "cost", what: "golden drains, lines and bytes of each operation", run: golden },
    Stage { name: "bugs", what: "seeded bugs are found, in a build with cfg(lode_bugs)", run: bugs },
    Stage {
        name: "mutants",
        what: "a tenth of the mutants in xtask/mutants.toml is killed",
        run: |run| mutants(run, &Selection::Tenth(0)),
    },
    Stage {
        name: "loom",
        what: "lock-free parts in every interleaving: tests/loom.rs, cfg(loom)",
        run: loom,
    },
    Stage {
        name: "miri",
        what: "tests without assembly and without a kernel under them, in Miri",
        run: miri,
    },
    Stage { name: "corpora", what: "fuzz corpora replay on the stable toolchain", run: corpora },
    Stage { name: "fuzz", what: "fuzz targets build on the nightly toolchain", run: fuzz },
    Stage { name: "lab", what: "lode on real kernels and emulated persistent memory", run: lab },
];

/// The run of one stage.
pub(crate) struct Run<'a> {
    pub(crate) workspace: &'a Workspace,
    pub(crate) tally: Tally,
    /// Environment variables for the tests.
    pub(crate) settings: Vec<(&'static str, String)>,
}

impl<'a> Run<'a> {
    pub(crate) fn new(workspace: &'a Workspace) -> Run<'a> {
        Run { workspace, tally: Tally::default(), settings: Vec::new() }
    }

    fn stable(&mut self, words: &str) -> Result<bool> {
        self.call(Cargo::stable(self.workspace, words))
    }

    fn call(&mut self, mut cargo: Cargo) -> Result<bool> {
        for (name, value) in &self.settings {
            cargo = cargo.set(name, value);
        }
        let outcome = cargo.run()?;
        self.tally.add(outcome.tally);
        Ok(outcome.success)
    }

    /// Whether the folder is a workspace of its own beside this one, built apart because of what it depends on.
    fn has_beside(&self, folder: &str) -> bool {
        self.workspace.root.join(folder).join("Cargo.toml").exists()
    }
}

fn fmt(run: &mut Run) -> Result<Verdict> {
    let mut good = run.stable("fmt --all --check")?;
    for folder in ["fuzz", "bench"] {
        if run.has_beside(folder) {
            good &= run.stable(&format!("fmt --manifest-path {folder}/Cargo.toml --check"))?;
        }
    }
    Ok(good.into())
}

fn clippy(run: &mut Run) -> Result<Verdict> {
    let mut good = run.stable("clippy --locked --workspace --all-targets -- -D warnings")?;
    if run.has_beside("fuzz") {
        good &= run.stable("clippy --locked --manifest-path fuzz/Cargo.toml --no-default-features --all-targets -- -D warnings")?;
    }
    Ok(good.into())
}

fn docs(run: &mut Run) -> Result<Verdict> {
    let cargo = Cargo::stable(run.workspace, "doc --locked --workspace --no-deps --document-private-items");
    Ok(run.call(cargo.set("RUSTDOCFLAGS", "-D warnings"))?.into())
}

fn targets(run: &mut Run) -> Result<Verdict> {
    Ok(run.stable("check --locked --workspace --exclude xtask --target aarch64-unknown-linux-gnu")?.into())
}

fn features(run: &mut Run) -> Result<Verdict> {
    let workspace = run.workspace;
    let mut verdict = Verdict::Nothing;
    for package in workspace.packages.iter().filter(|package| !package.features.is_empty()) {
        let each = package.features.iter().map(|feature| format!(" --features {feature}"));
        for choice in each.chain([String::new(), " --all-features".into()]) {
            let words = format!("check --locked --package {} --no-default-features{choice}", package.name);
            verdict = (run.stable(&words)? && verdict != Verdict::Failed).into();
        }
    }
    Ok(verdict)
}

/// All tests as contributors run them.
pub(crate) fn test(run: &mut Run) -> Result<Verdict> {
    Ok(run.stable("test --locked --workspace --no-fail-fast")?.into())
}

fn release(run: &mut Run) -> Result<Verdict> {
    let words = "test --locked --workspace --exclude xtask --no-fail-fast --profile test-release --lib --bins --tests";
    // The explorers have had their full round with assertions on.
    Ok(run.call(Cargo::stable(run.workspace, words).set("LODE_BUDGET", "0.1"))?.into())
}

fn golden(run: &mut Run) -> Result<Verdict> {
    if run.workspace.with_test("cost").next().is_none() {
        return Ok(Verdict::Nothing);
    }
    let outcome = cost::run(run.workspace, false)?;
    let good = outcome.good();
    run.tally.add(outcome.tally);
    Ok(good.into())
}

/// The tests of `workspace.metadata.bugs`.
pub(crate) fn bugs(run: &mut Run) -> Result<Verdict> {
    let tests = &run.workspace.rules.bugs.tests;
    built_apart(run, "lode_bugs", tests.iter().filter_map(|test| test.split_once('/')))
}

/// The mutants of the selection.
pub(crate) fn mutants(run: &mut Run, selection: &Selection) -> Result<Verdict> {
    let tally = crate::mutants::run(run.workspace, selection)?;
    let good = tally.failed == 0;
    run.tally.add(tally);
    Ok(good.into())
}

/// The tests in `tests/loom.rs` of any crate.
pub(crate) fn loom(run: &mut Run) -> Result<Verdict> {
    let packages = run.workspace.with_test("loom");
    built_apart(run, "loom", packages.map(|package| (package.name.as_str(), "loom")))
}

/// Runs tests, each given by its package and its name, in a build of their own with `--cfg` and this word.
fn built_apart<'a>(
    run: &mut Run,
    cfg: &str,
    tests: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Verdict> {
    let mut verdict = Verdict::Nothing;
    for (package, test) in tests {
        let cargo = Cargo::stable(run.workspace, &format!("test --locked --package {package} --test {test}"))
            .set("RUSTFLAGS", format!("--cfg {cfg}"))
            .set("CARGO_TARGET_DIR", run.workspace.target.join(cfg));
        verdict = (run.call(cargo)? && verdict != Verdict::Failed).into();
    }
    Ok(verdict)
}

fn miri(run: &mut Run) -> Result<Verdict> {
    let workspace = run.workspace;
    let mut good = true;
    for tests in &workspace.rules.miri.tests {
        let words = match tests.split_once('/') {
            None => format!("miri test --locked --no-fail-fast --package {tests}"),
            Some((package, module)) => format!("miri test --locked --package {package} --lib -- {module}"),
        };
        let cargo = Cargo::nightly(workspace, &words)?
            .set("CARGO_PROFILE_TEST_OPT_LEVEL", "0")
            // Tests may read their own sources. Property tests need few cases: only how the code gets there counts.
            .set("MIRIFLAGS", "-Zmiri-disable-isolation")
            .set("PROPTEST_CASES", "4");
        good &= run.call(cargo)?;
    }
    Ok(good.into())
}

fn corpora(run: &mut Run) -> Result<Verdict> {
    if !run.has_beside("fuzz") {
        return Ok(Verdict::Nothing);
    }
    Ok(run.stable("test --locked --manifest-path fuzz/Cargo.toml --no-default-features")?.into())
}

fn fuzz(run: &mut Run) -> Result<Verdict> {
    if !run.has_beside("fuzz") {
        return Ok(Verdict::Nothing);
    }
    let cargo = Cargo::nightly(run.workspace, "fuzz build")?;
    Ok(run.call(cargo)?.into())
}

/// The scenarios of the lab, each on each kernel.
fn lab(run: &mut Run) -> Result<Verdict> {
    Ok(run.stable("run --locked --quiet --package lode-lab")?.into())
}
