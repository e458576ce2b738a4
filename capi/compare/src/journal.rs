//! A program with maps in a pool, and a journal of the changes that have returned.

use crate::object_examples::program_with_maps;
use crate::{Library, on_library};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The program `c/pmemobj_journal.c`.
#[derive(Debug)]
pub struct Journal {
    program: PathBuf,
    ours: PathBuf,
    has_pmempool: bool,
}

impl Journal {
    /// Compiles the program. `None`, and a line of a skipped test, if the examples of libpmemobj-dev are not installed.
    pub fn compile() -> Option<Journal> {
        let program = program_with_maps("pmemobj_journal")?;
        let has_pmempool = Command::new("pmempool").arg("--version").output().is_ok();
        if !has_pmempool {
            lode_testing::skip("libpmemobj", "pmempool, a judge of the pools, is not installed");
        }
        Some(Journal { program, ours: Library::PMEMOBJ.ours(), has_pmempool })
    }

    /// Returns the command `word POOL` of the program, on our library or on Debian's.
    pub fn command(&self, is_ours: bool, word: &str, pool: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(word).arg(pool);
        on_library(&mut command, is_ours.then_some(&*self.ours));
        command
    }

    /// Makes a pool on our library, in a file that is not there.
    ///
    /// # Errors
    /// What the program prints.
    pub fn create(&self, pool: &Path) -> Result<(), String> {
        run(&mut self.command(true, "create", pool))
    }

    /// Checks that the pool has each change that the output of a program that is gone acknowledges, and no change in part: with our library
    /// twice, where the first process ends without a close; then with Debian's library and tools.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, pool: &Path, output: &str) -> Result<(), String> {
        let numbers = acknowledged(output).map(|number| number.to_string());
        for (is_ours, word) in [(true, "look"), (true, "check"), (false, "check")] {
            let library = if is_ours { "ours" } else { "Debian's" };
            run(self.command(is_ours, word, pool).args(&numbers))
                .map_err(|error| format!("{word} with {library}, {numbers:?}: {error}"))?;
        }
        if !self.has_pmempool {
            return Ok(());
        }
        let mut command = Command::new("pmempool");
        on_library(&mut command, None);
        run(command.args(["check", "-v"]).arg(pool))
    }
}

/// Returns the last number of each of the four threads in the lines of a program. The last line may be cut short.
fn acknowledged(output: &str) -> [u64; 4] {
    let mut numbers = [0; 4];
    for line in output.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        let (thread, number) = line.split_once(' ').unwrap();
        numbers[thread.parse::<usize>().unwrap()] = number.parse().unwrap();
    }
    numbers
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().unwrap();
    if output.status.success() {
        return Ok(());
    }
    let [out, errors] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    Err(format!("{}: {out}{errors}", output.status))
}

#[cfg(test)]
mod test {
    use super::*;

    #[test]
    fn last_whole_lines_count() {
        assert_eq!(acknowledged("0 1\n3 1\n0 2\n3 27\n0 31"), [2, 0, 0, 27]);
    }
}
