//! Building the copy: the programs that tell mutants from sound code, each with all mutants in it.

use super::list::Killer;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use cargo_metadata::{Artifact, Message, TargetKind};
use std::collections::BTreeMap;
use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program of the copy.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Program {
    /// The explorations of `lode crash`, without the rest of it.
    Explorer,
    Test { package: String, test: String },
    Loom,
}

impl Program {
    /// The program that `killer` runs.
    pub(super) fn of(killer: &Killer) -> Program {
        match killer {
            Killer::Crash(_) => Program::Explorer,
            Killer::Loom(_) => Program::Loom,
            Killer::Test { package, test, .. } => {
                Program::Test { package: package.clone(), test: test.clone() }
            }
        }
    }

    /// Package, test and `cfg` of the build.
    fn build(&self) -> (&str, &str, &str) {
        match self {
            Program::Explorer => ("lode-index", "mutants", "lode_bugs"),
            Program::Loom => ("lode-heap", "loom", "loom"),
            Program::Test { package, test } => (package, test, "lode_bugs"),
        }
    }

    fn is_made_by(&self, artifact: &Artifact) -> bool {
        let is = |kind| artifact.target.kind.contains(&kind);
        match self {
            Program::Test { test, .. } if test == "lib" => is(TargetKind::Lib) && artifact.profile.test,
            Program::Explorer | Program::Loom | Program::Test { .. } => {
                is(TargetKind::Test) && artifact.target.name == self.build().1
            }
        }
    }
}

/// Where the programs are, and the folder that each runs in.
#[derive(Debug, Default)]
pub(super) struct Programs {
    at: BTreeMap<Program, (PathBuf, PathBuf)>,
}

impl Programs {
    /// Builds `program` from the copy, unless that was done.
    ///
    /// # Errors
    /// Cargo fails: a mutated line does not compile, if the workspace does.
    pub(super) fn build(&mut self, workspace: &Workspace, copy: &Path, program: &Program) -> Result<()> {
        if self.at.contains_key(program) {
            return Ok(());
        }
        let (package, test, cfg) = program.build();
        let which = if test == "lib" { "--lib".to_owned() } else { format!("--test {test}") };
        let words = format!("test --no-run --locked --package {package} {which}");
        println!("$ RUSTFLAGS=\"--cfg {cfg}\" cargo {words}, in {}", copy.display());
        let mut child = Command::new("cargo")
            .args(words.split(' '))
            .arg("--message-format=json-render-diagnostics")
            .current_dir(copy)
            .env("RUSTFLAGS", format!("--cfg {cfg}"))
            .env("CARGO_TARGET_DIR", workspace.target.join(cfg))
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
        // So a build beside this one does not take the program away while it runs.
        let kept = workspace.target.join("mutants/programs").join(format!("{package}-{test}"));
        fs::create_dir_all(kept.parent().unwrap_or(copy))?;
        if kept.exists() {
            fs::remove_file(&kept)?;
        }
        fs::hard_link(&executable, &kept).or_else(|_| fs::copy(&executable, &kept).map(drop))?;
        self.at.insert(program.clone(), (kept, folder));
        Ok(())
    }

    /// The command that runs `killer`, on sound code as it stands.
    pub(super) fn command(&self, killer: &Killer) -> Result<Command> {
        let (program, folder) = self.at.get(&Program::of(killer)).context("not built")?;
        // A mutant may ask for more memory than there is.
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 16000000 -c 0; exec \"$@\"", "sh"]).arg(program).current_dir(folder);
        match killer {
            Killer::Crash(arguments) => command.args(arguments.split_whitespace()),
            Killer::Loom(test) => command.args([test, "--exact"]),
            Killer::Test { filter, .. } => command.args(filter.split_whitespace()),
        };
        command.env("CARGO_MANIFEST_DIR", folder).env_remove("LODE_MUTANT").stdin(Stdio::null());
        Ok(command)
    }
}
