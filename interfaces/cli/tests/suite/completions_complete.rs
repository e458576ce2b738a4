//! The completions of each shell complete commands and options in that shell, and offer no hidden command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, lode, text};
use lode_testing::skip;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// A folder with the completions of a shell in the file `_lode`.
struct Completions {
    shell: &'static str,
    folder: TempDir,
}

impl Completions {
    /// Returns the completions of a shell. Skips the test that calls it if the shell is not there.
    fn of(shell: &'static str, test: &str) -> Option<Completions> {
        if Command::new(shell).args(["-c", ":"]).status().is_err() {
            skip(test, format_args!("no {shell}; `setup/install.sh test` installs it on Debian"));
            return None;
        }
        let completions = Completions { shell, folder: tempfile::tempdir().unwrap() };
        fs::write(completions.file(), lode(["completions", shell]).success()).unwrap();
        Some(completions)
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("_lode")
    }

    /// Runs a script in the shell, with the folder as its working directory and as its home.
    fn run(&self, script: &str) -> String {
        let mut shell = Command::new(self.shell);
        let shell =
            shell.args(["-c", script]).current_dir(self.folder.path()).env("HOME", self.folder.path());
        RunResult::of(shell.env("TERM", "dumb").output().unwrap()).success()
    }
}

#[test]
fn bash_completes() {
    let Some(bash) = Completions::of("bash", "bash_completes") else { return };
    let complete = |line: &str| {
        let words: Vec<String> = line.split(' ').map(|word| format!("'{word}'")).collect();
        let (last, before) = (&words[words.len() - 1], &words[words.len() - 2]);
        let count = words.len() - 1;
        let words = words.join(" ");
        let call = format!("COMP_WORDS=({words}); COMP_CWORD={count}; _lode lode {last} {before}");
        bash.run(&format!(". ./_lode; complete -p lode > /dev/null && {call}; echo \"${{COMPREPLY[@]}}\""))
    };
    assert_eq!(complete("lode kv loa"), "load\n");
    assert_eq!(complete("lode kv load --cr"), "--crlf\n");
    assert_eq!(complete("lode kv load --format k"), "keys\n");
    assert_eq!(complete("lode bench --q"), "--quick\n");
    assert_eq!(complete("lode man"), "\n", "the command is hidden");
}

#[test]
fn fish_completes() {
    let Some(fish) = Completions::of("fish", "fish_completes") else { return };
    // Fish prints a description after each word.
    let complete = |line: &str| {
        let offered = fish.run(&format!("source _lode; complete -C '{line}'"));
        offered.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(complete("lode kv loa"), ["load"]);
    assert_eq!(complete("lode kv load --cr"), ["--crlf"]);
    assert_eq!(complete("lode kv load --format k"), ["keys"]);
    assert_eq!(complete("lode bench --q"), ["--quick"]);
    assert_eq!(complete("lode man"), [""; 0], "the command is hidden");
}

/// Types a line with tabs into zsh on a terminal of its own, where a function prints the words of the finished line.
#[test]
fn zsh_completes() {
    let Some(zsh) = Completions::of("zsh", "zsh_completes") else { return };
    let folder = text(zsh.folder.path());
    let script = format!(
        "zmodload zsh/zpty; zpty z zsh -f -i\n\
         zpty -w z 'fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D; lode() {{ print words: $*; }}'\n\
         zpty -w z \"print re''ady\"; zpty -r z out '*ready*'\n\
         zpty -w z $'lode kv loa\\t--cr\\t--format k\\t'\n\
         zpty -w z $'lode be\\t--q\\t'\n\
         zpty -w z exit; while zpty -r z out; do print -r -- $out; done"
    );
    let typed = zsh.run(&script);
    assert!(typed.contains("words: kv load --crlf --format keys"), "{typed}");
    assert!(typed.contains("words: bench --quick"), "{typed}");
    assert!(!fs::read_to_string(zsh.file()).unwrap().contains("manual:"), "the command is hidden");
}
