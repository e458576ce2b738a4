//! Plans on the command line: applied, or printed as commands with the same result.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, lode, text};
use lode_platform::plan::Table;
use lode_platform::{Directory, Purpose};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A machine in a directory.
struct Emulated {
    _folder: TempDir,
    state: PathBuf,
}

impl Emulated {
    fn new(machine: &str) -> Emulated {
        let folder = TempDir::new().unwrap();
        let state = folder.path().join("state");
        lode(["platform", "init", machine, "--state", text(&state)]).success();
        Emulated { _folder: folder, state }
    }

    fn plan(&self, words: &str) -> RunResult {
        let words = words.split_whitespace();
        lode(["platform", "plan", "--state", text(&self.state)].into_iter().chain(words))
    }

    fn table(&self) -> Table {
        table(&self.state)
    }

    /// Runs the commands of a real machine, with our programs under their names.
    fn run_commands(&self, script: &str) {
        let bin = self.state.with_extension("bin");
        std::fs::create_dir_all(&bin).unwrap();
        for (name, words) in [("ipmctl", "ipmctl"), ("ndctl", "ndctl"), ("reboot", "platform reboot")] {
            use std::os::unix::fs::PermissionsExt;
            let path = bin.join(name);
            let program = env!("CARGO_BIN_EXE_lode");
            std::fs::write(&path, format!("#!/bin/sh\nexec {program} {words} \"$@\"\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let path = format!("{}:/usr/bin:/bin", bin.display());
        let mut shell = Command::new("/bin/sh");
        let output =
            shell.args(["-euc", script]).env("PATH", path).env("LODE_STATE", &self.state).output().unwrap();
        assert!(output.status.success(), "{script}\n{output:?}");
    }
}

fn table(state: &Path) -> Table {
    Table::of(Directory::open(state, Purpose::ReadOnly).unwrap().platform())
}

#[test]
fn printed_commands_match_applied_plan() {
    for (machine, plans) in [
        (
            "e4-pmserver",
            &["--fsdax 999GiB --socket 0 --interleaved --name it's --rest memory-mode"] as &[&str],
        ),
        (
            "e4-pmserver",
            &[
                "--fsdax 600GiB --socket 0 --devdax max --not-interleaved --socket 0 --rest unconfigured",
                "--sector 1200GiB --fsdax 12GiB --map mem --align 1GiB --socket 1",
                "--raw max --socket 0 --not-interleaved --name=-x --fsdax 504GiB --socket 0",
                "--rest memory-mode",
            ],
        ),
        ("e4-storage", &["--sector 96GiB --sector-size 512 --raw 1GiB --rest app-direct", "--devdax 200GiB"]),
        ("fujitsu-primergy", &["--fsdax max --devdax 126GiB --socket 1 --rest memory-mode"]),
        ("lab-pair", &["--fsdax 512MiB --devdax 256MiB --sector 128MiB --raw 32MiB"]),
    ] {
        let (ours, theirs) = (Emulated::new(machine), Emulated::new(machine));
        for plan in plans {
            let shown = ours.plan(&format!("{plan} --json")).json();
            theirs.run_commands(&theirs.plan(&format!("{plan} --commands")).success());
            let done = ours.plan(&format!("{plan} --apply --force")).success();
            assert!(done.ends_with("Done, as one change.\n"), "{done}");
            assert!(done.contains(&ours.table().text().lines().last().unwrap().trim().to_owned()), "{done}");
            assert_eq!(ours.table(), theirs.table(), "{machine}: {plan}");
            let sizes: Vec<u64> = ours.table().rows.iter().map(|row| row.size).collect();
            let shown: Vec<u64> =
                shown["table"].as_array().unwrap().iter().map(|row| row["size"].as_u64().unwrap()).collect();
            assert_eq!(sizes, shown, "{machine}: {plan}");
        }
    }
}

#[test]
fn plan_with_losses_needs_force() {
    let machine = Emulated::new("lab-pair");
    machine.plan("--fsdax 512MiB --name data --apply").success();
    let before = machine.table();
    let refused = machine.plan("--rest memory-mode --apply");
    refused
        .failure(1, &["would be lost: namespace0.0 \"data\" (fsdax, 512 MiB) with all its data", "--force"]);
    machine.plan("--rest memory-mode").success();
    machine.plan("--rest memory-mode --commands").success();
    assert_eq!(machine.table(), before);
    machine.plan("--rest memory-mode --apply -f").success();
    assert_ne!(machine.table(), before);
}

#[test]
fn second_apply_has_nothing_to_do() {
    let machine = Emulated::new("e4-pmserver");
    let wish = "--fsdax 100GiB --name data --usable 64GiB --name more --rest memory-mode";
    let first = machine.plan(&format!("{wish} --apply")).success();
    assert!(first.contains("--fsdax 100GiB --socket 0 --name=data is rounded up to 102408MiB"), "{first}");
    assert!(first.ends_with("Done, as one change.\n"), "{first}");
    let made = machine.table();
    let second = machine.plan(&format!("{wish} --apply")).success();
    assert!(second.starts_with("Nothing to do.\n"), "{second}");
    assert!(second.contains("--usable 64GiB --name=more is there: namespace0.1"), "{second}");
    assert!(!second.contains("Done"), "{second}");
    assert_eq!(machine.table(), made);
    machine.plan("--fsdax 90GiB --name data").failure(1, &["namespace0.0 has the name already, and has"]);
    machine.plan("--raw 12GiB --name data --add --socket 1 --apply --force").success();
    assert_eq!(machine.table().text().matches("data").count(), 2);
    machine.plan("--exact --fsdax 100GiB").failure(1, &["100GiB over 6 modules is not a multiple of 12MiB"]);
}

#[test]
fn impossible_requests_and_arguments_are_rejected() {
    let machine = Emulated::new("fujitsu-primergy");
    machine
        .plan("--fsdax 300GiB --socket 1")
        .failure(1, &["at most 252 GiB", "0x1101 (CPU2_DIMM_D2) is dead"]);
    machine.plan("--fsdax 1GiB --socket 7").failure(1, &["there is no socket 7", "--fsdax 1GiB --socket 1"]);
    machine.plan("").failure(2, &["no namespace is requested"]);
    machine.plan("--fsdax much").failure(2, &["much"]);
    machine.plan("--fsdax 1GiB --force").failure(2, &["--apply"]);
    machine.plan("--rest nothing").failure(2, &["memory-mode"]);
    assert!(machine.table().rows.iter().all(|row| row.region.is_none() || row.modules == 0));
}
