//! An emulated machine in a directory, on which tests run commands of the tools.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, documented_fields, json_fields, lode, text};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;

/// An emulated machine in a directory.
pub(crate) struct Emulated {
    /// The folder of the directory, for further files.
    pub(crate) folder: TempDir,
    /// The directory of the machine.
    pub(crate) state: PathBuf,
}

impl Emulated {
    /// Returns an included machine.
    pub(crate) fn included(name: &str) -> Emulated {
        let machine = Emulated::without_state();
        machine.init(name);
        machine
    }

    /// Returns the machine of a machine file with this text.
    pub(crate) fn of_text(machine_file: &str) -> Emulated {
        let machine = Emulated::without_state();
        let file = machine.file("machine.toml");
        fs::write(&file, machine_file).unwrap();
        machine.init(text(&file));
        machine
    }

    fn without_state() -> Emulated {
        let folder = TempDir::new().unwrap();
        let state = folder.path().join("state");
        Emulated { folder, state }
    }

    fn init(&self, machine: &str) {
        lode(["platform", "init", machine, "--state", text(&self.state)]).success();
    }

    /// Interleaves the modules of each socket.
    pub(crate) fn interleaved(self) -> Emulated {
        self.run("ipmctl", "create -f -goal").success();
        self.start();
        self
    }

    /// Starts the machine again.
    pub(crate) fn start(&self) {
        lode(["platform", "reboot", "--state", text(&self.state)]).success();
    }

    /// Returns the options that select the machine.
    pub(crate) fn location(&self) -> [&str; 2] {
        ["--state", text(&self.state)]
    }

    /// Returns the path of a file beside the directory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs a command of a tool.
    pub(crate) fn run(&self, tool: &str, words: &str) -> RunResult {
        lode([tool].into_iter().chain(self.location()).chain(words.split(' ')))
    }

    pub(crate) fn ndctl(&self, words: &str) -> RunResult {
        self.run("ndctl", words)
    }

    pub(crate) fn daxctl(&self, words: &str) -> RunResult {
        self.run("daxctl", words)
    }

    /// Checks that the documented fields of a command are those that it prints, on this machine and on a real one.
    #[track_caller]
    pub(crate) fn check_fields(&self, tool: &str, verb: &str, words: &str) {
        let nothing = TempDir::new().unwrap();
        let on = |location: [&str; 2]| {
            let words = words.split(' ').filter(|word| !word.is_empty());
            lode(["--json", tool].into_iter().chain(location).chain([verb]).chain(words)).json_lines()
        };
        let mut found = json_fields(&on(self.location()));
        found.extend(json_fields(&on(["--sysfs", text(nothing.path())])));
        assert_eq!(found, documented_fields(&[tool, verb]), "{tool} {verb}");
    }
}
