//! README.md and the guide: their programs run, and their sessions print what the pages show.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use lode_guide::{Block, PAGES, Page, Step, is_as_shown, run};
use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The variable with the page and the number of a program, for the process that runs it.
const PROGRAM: &str = "LODE_GUIDE_PROGRAM";
/// Printed before a program runs: libtest has printed lines of its own.
const BEGIN: &str = "----- output of the program -----\n";

/// A run of a page, in a folder of its own.
struct Run {
    name: &'static str,
    folder: PathBuf,
    /// Variables that sessions have exported.
    variables: BTreeMap<String, String>,
}

impl Run {
    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.current_dir(&self.folder).stdin(Stdio::null()).env_remove("LODE_STATE").envs(&self.variables);
        command
    }

    /// Runs a program of the page in a process of its own. Returns what it printed.
    fn program(&self, number: usize) -> String {
        let mut command = self.command(env::current_exe().unwrap());
        command.args(["--exact", "guide_is_true::program_of_a_page", "--ignored", "--nocapture"]);
        let output = command.env(PROGRAM, format!("{} {number}", self.name)).output().unwrap();
        let [printed, errors] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        assert!(output.status.success(), "{}, program {number}: {errors}", self.name);
        printed.split_once(BEGIN).unwrap().1.to_owned()
    }

    fn step(&mut self, step: &Step) {
        if let Some((name, value)) =
            step.command.strip_prefix("export ").and_then(|words| words.split_once('='))
        {
            self.variables.insert(name.to_owned(), value.to_owned());
            return;
        }
        let lode = Path::new(env!("CARGO_BIN_EXE_lode")).parent().unwrap();
        let path = env::join_paths(
            [lode.to_owned()].into_iter().chain(env::split_paths(&env::var_os("PATH").unwrap())),
        );
        let script = format!("exec 2>&1\n{}", step.command);
        let output = self.command("sh").args(["-c", &script]).env("PATH", path.unwrap()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let place = format!("{}:{}: {}", self.name, step.line, step.command);
        assert!(output.status.success(), "{place}\n{}:\n{printed}", output.status);
        assert!(
            is_as_shown(&step.output, &printed),
            "{place}\nthe page shows:\n{}\nprinted was:\n{printed}",
            step.output
        );
    }

    /// Compares files that the page has made with those of the same name beside it.
    fn compare_files(&self, page: &Page) {
        for made in fs::read_dir(&self.folder).unwrap().map(|made| made.unwrap().path()) {
            let beside = page.path.with_file_name(made.file_name().unwrap());
            if made.is_file() && beside.is_file() && fs::read(&made).unwrap() != fs::read(&beside).unwrap() {
                let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join(made.file_name().unwrap());
                fs::copy(&made, &kept).unwrap();
                panic!("{} is not what {} makes: {}", beside.display(), self.name, kept.display());
            }
        }
    }
}

/// Runs all programs and sessions of a page, in their order.
fn run_page(name: &'static str) {
    let page = Page::read(name).unwrap();
    // Where sources are built, a file is on a disk.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut run = Run { name, folder: folder.path().to_owned(), variables: BTreeMap::new() };
    for block in &page.blocks {
        match block {
            Block::Program { number, output, .. } => {
                let printed = run.program(*number);
                if let Some(shown) = output {
                    let place = format!("{name}, program {number}");
                    assert!(
                        is_as_shown(shown, &printed),
                        "{place}: the page shows:\n{shown}\nprinted was:\n{printed}"
                    );
                }
            }
            Block::Session { steps } => steps.iter().for_each(|step| run.step(step)),
        }
    }
    run.compare_files(&page);
}

#[test]
#[ignore = "the tests of the pages start it in a process of its own"]
fn program_of_a_page() {
    let program = env::var(PROGRAM).unwrap();
    let (page, number) = program.split_once(' ').unwrap();
    print!("{BEGIN}");
    let code = match run(page, number.parse().unwrap()) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("Error: {error}");
            1
        }
    };
    // Before libtest prints more.
    std::process::exit(code);
}

#[test]
fn readme_is_true() {
    run_page("README.md");
}

#[test]
fn store_page_is_true() {
    run_page("docs/guide/store.md");
}

#[test]
fn typed_data_page_is_true() {
    run_page("docs/guide/typed-data.md");
}

#[test]
fn changing_types_page_is_true() {
    run_page("docs/guide/changing-types.md");
}

#[test]
fn crash_testing_page_is_true() {
    run_page("docs/guide/crash-testing-your-engine.md");
}

#[test]
fn module_to_pool_page_is_true() {
    run_page("docs/guide/from-module-to-pool.md");
}

#[test]
fn page_of_the_library_is_true() {
    run_page("interfaces/store/README.md");
}

/// A page that no test runs would go unnoticed.
#[test]
fn all_pages_are_listed() {
    let folder = Page::read("docs/guide/README.md").unwrap().path;
    let mut found: Vec<String> = fs::read_dir(folder.parent().unwrap())
        .unwrap()
        .map(|entry| format!("docs/guide/{}", entry.unwrap().file_name().to_str().unwrap()))
        .filter(|name| name.ends_with(".md"))
        .collect();
    let mut listed: Vec<&str> = PAGES.into_iter().filter(|name| name.starts_with("docs/guide/")).collect();
    found.sort();
    listed.sort();
    assert_eq!(found, listed);
    let index = Page::read("docs/guide/README.md").unwrap();
    assert_eq!(index.blocks, [], "the index has nothing to run");
}
