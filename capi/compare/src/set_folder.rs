//! A folder with a pool set, whose pool both libraries use in turn.

use crate::{KilledRun, Killer, Moment, Program, in_memory, on_library};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// A folder with the set file `set`, and a folder `d` for parts.
#[derive(Debug)]
pub struct SetFolder {
    folder: TempDir,
}

impl SetFolder {
    /// Makes the folder. Paths in the lines of the set file begin with `@` for it.
    pub fn new(lines: &str) -> SetFolder {
        let folder = in_memory();
        fs::create_dir(folder.path().join("d")).unwrap();
        let set = SetFolder { folder };
        set.write(lines);
        set
    }

    /// Writes the set file anew.
    pub fn write(&self, lines: &str) {
        let lines = lines.replace('@', self.path().to_str().unwrap());
        fs::write(self.path().join("set"), format!("PMEMPOOLSET\n{lines}")).unwrap();
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the names of all files, those of `d` with its name before them, sorted.
    pub fn names(&self) -> Vec<String> {
        let list = |folder: &Path, before: &str| {
            let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            names.map(|name| format!("{before}{}", name.to_string_lossy())).collect::<Vec<_>>()
        };
        let mut names = list(self.path(), "");
        names.retain(|name| name != "d");
        names.extend(list(&self.path().join("d"), "d/"));
        names.sort();
        names
    }

    /// Runs one call of the program, and returns what it prints, as an error if it fails.
    ///
    /// # Errors
    /// What the program prints.
    pub fn call(&self, program: &Program, is_ours: bool, arguments: &[&str]) -> Result<String, String> {
        self.call_with(program, is_ours, arguments, &[])
    }

    /// Runs one call, as [`call`](SetFolder::call) does, in an environment with these variables.
    ///
    /// # Errors
    /// What the program prints.
    pub fn call_with(
        &self,
        program: &Program,
        is_ours: bool,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Result<String, String> {
        let variables: Vec<_> = [("PMEM_IS_PMEM_FORCE", "1")].iter().chain(variables).copied().collect();
        let output = program.run_in(self.path(), is_ours, arguments, &variables);
        let text = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
        if output.status.success() { Ok(text) } else { Err(format!("{} {text}", output.status)) }
    }

    /// Kills one call of the program on our library after so many microseconds.
    pub fn kill(&self, program: &Program, arguments: &[&str], after_us: u64) {
        let mut command = Command::new(program.path());
        command.args(arguments).current_dir(self.path()).stdout(Stdio::null());
        on_library(&mut command, Some(&program.library().ours()));
        let mut child = command.env("PMEM_IS_PMEM_FORCE", "1").spawn().unwrap();
        std::thread::sleep(Duration::from_micros(after_us));
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Kills one call of the program on our library at this moment.
    pub fn kill_at(
        &self,
        killer: &Killer,
        program: &Program,
        arguments: &[&str],
        moment: Moment,
    ) -> KilledRun {
        let mut command = killer.command(moment, program.path().as_os_str());
        command.args(arguments).current_dir(self.path());
        on_library(&mut command, Some(&program.library().ours()));
        KilledRun::of(&command.env("PMEM_IS_PMEM_FORCE", "1").output().unwrap())
    }

    /// Fails unless Debian's `pmempool check` finds the pool consistent. Does nothing where it is not installed.
    pub fn assert_consistent(&self) {
        let mut command = Command::new("pmempool");
        on_library(&mut command, None);
        command.args(["check", "-v", "set"]).current_dir(self.path()).env("PMEM_IS_PMEM_FORCE", "1");
        let Ok(output) = command.output() else { return };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("consistent"), "{text}");
    }

    /// Asserts that a create that was killed left no pool or a whole one: our library opens it or makes it, Debian's opens it after
    /// that, and no other file is there.
    ///
    /// # Panics
    /// If that is not so. Returns true if there was a pool.
    pub fn assert_before_or_after(&self, program: &Program, create: &[&str], look: &[&str]) -> bool {
        let found = self.call(program, true, look);
        let made = self.call(program, true, create);
        assert_ne!(found.is_ok(), made.is_ok(), "{found:?}, {made:?}");
        if let Err(words) = made {
            assert!(words.contains("Non-empty file detected"), "{words}");
        }
        self.call(program, false, look).unwrap();
        self.assert_consistent();
        let hidden = self.names().into_iter().filter(|name| name.contains(".lode-"));
        assert_eq!(hidden.count(), 0);
        found.is_ok()
    }
}
