//! Building the copy: the programs that distinguish mutants from sound code, each with all mutants in it.

use super::list::Killer;
use crate::flavor::Flavor;
use crate::log::Log;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use cargo_metadata::{Artifact, Message, TargetKind};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The test whose build also builds `lode`.
const BUILT_WITH: &str = "power_cut_loses_no_acknowledged_key";

/// A program of the copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    Lode,
    Test { package: String, test: String },
    Loom,
}

impl Program {
    /// Returns the program that `killer` runs.
    pub(super) fn of(killer: &Killer) -> Program {
        match killer {
            Killer::Crash(_) => Program::Lode,
            Killer::Loom(_) => Program::Loom,
            Killer::Test { package, test, .. } => {
                Program::Test { package: package.clone(), test: test.clone() }
            }
        }
    }

    /// Returns the package and the test to build.
    fn target(&self) -> (&str, &str) {
        match self {
            Program::Lode => ("lodestone-cli", BUILT_WITH),
            Program::Loom => ("lode-heap", "loom"),
            Program::Test { package, test } => (package, test),
        }
    }

    /// Returns the arguments for cargo. They select all packages where possible, so features are those of every other
    /// build, and the dependencies are built already.
    fn words(&self) -> String {
        let (package, test) = self.target();
        match self {
            Program::Loom => format!("test --no-run --locked --package {package} --test {test}"),
            Program::Test { .. } if test == "lib" => {
                format!("test --no-run --locked --package {package} --lib")
            }
            Program::Test { .. } => format!("test --no-run --locked --package {package} --test {test}"),
            Program::Lode => format!("test --no-run --locked --workspace --test {test}"),
        }
    }

    fn flavor(&self) -> Flavor {
        if *self == Program::Loom { Flavor::Loom } else { Flavor::Bugs }
    }

    fn is_made_by(&self, artifact: &Artifact) -> bool {
        let is = |kind| artifact.target.kind.contains(&kind);
        artifact.package_id.repr.contains(&format!("#{}@", self.target().0))
            && match self {
                Program::Lode => {
                    is(TargetKind::Bin) && artifact.target.name == "lode" && !artifact.profile.test
                }
                Program::Test { test, .. } if test == "lib" => is(TargetKind::Lib) && artifact.profile.test,
                Program::Loom | Program::Test { .. } => {
                    is(TargetKind::Test) && artifact.target.name == self.target().1
                }
            }
    }
}

/// Returns cargo's options for a build of the copy.
pub(super) fn options(workspace: &Workspace, flavor: Flavor) -> Vec<OsString> {
    let mut options = flavor.options(&workspace.root);
    options.push("--target-dir".into());
    options.push(workspace.target.join("mutants/built").join(flavor.name()).into());
    options
}

/// Paths of the programs, each with the folder that it runs in.
#[derive(Debug, Default)]
pub(super) struct Programs {
    at: BTreeMap<Program, (PathBuf, PathBuf)>,
}

impl Programs {
    /// Builds `program` from the copy, if it is not built yet.
    ///
    /// # Errors
    /// Fails if cargo fails. A mutated line is the cause if the workspace itself compiles.
    pub(super) fn build(
        &mut self,
        workspace: &Workspace,
        copy: &Path,
        program: &Program,
        log: Log,
    ) -> Result<()> {
        if self.at.contains_key(program) {
            return Ok(());
        }
        let words = program.words();
        log.line(&format!("$ cargo {words}, in {}", copy.display()));
        let mut child = Command::new("cargo")
            .args(words.split(' '))
            .args(options(workspace, program.flavor()))
            .arg("--message-format=json-render-diagnostics")
            .current_dir(copy)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .context("cargo")?;
        let mut made = None;
        for message in Message::parse_stream(BufReader::new(child.stdout.take().context("no output")?)) {
            if let Message::CompilerArtifact(artifact) = message?
                && program.is_made_by(&artifact)
            {
                let folder = artifact.manifest_path.parent().map(|folder| folder.as_std_path().to_path_buf());
                made = artifact.executable.map(|path| path.into_std_path_buf()).zip(folder);
            }
        }
        if !child.wait()?.success() {
            bail!("the copy does not build: see above for the mutated line that does not compile");
        }
        let (executable, folder) = made.with_context(|| format!("cargo {words} made no program"))?;
        self.at.insert(program.clone(), (executable, folder));
        Ok(())
    }

    /// Returns the command that runs `killer`, on sound code unless the caller sets `LODE_MUTANT` in its environment.
    pub(super) fn command(&self, killer: &Killer) -> Result<Command> {
        let (program, folder) = self.at.get(&Program::of(killer)).context("not built")?;
        // Limit the memory: a mutant may request any amount.
        let mut command = Command::new("sh");
        command
            .args(["-c", "ulimit -v 16000000; ulimit -c 0; exec \"$@\"", "sh"])
            .arg(program)
            .current_dir(folder);
        match killer {
            Killer::Crash(arguments) => command.args(arguments.split_whitespace()),
            Killer::Loom(test) => command.args([test, "--exact"]),
            Killer::Test { filter, .. } => command.args(filter.split_whitespace()),
        };
        command.env("CARGO_MANIFEST_DIR", folder).env_remove("LODE_MUTANT").stdin(Stdio::null());
        Ok(command)
    }
}
