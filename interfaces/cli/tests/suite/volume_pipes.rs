//! Pipes as the input and output of volumes: they bring and take all bytes, and a signal ends a command that waits for one.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, command, lode, text};
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

const SIZE: u64 = 4 << 20;

/// A raw volume, and a named pipe beside it.
struct Fixture {
    _folder: TempDir,
    volume: PathBuf,
    pipe: PathBuf,
    capacity: usize,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let (volume, pipe) = (folder.path().join("volume"), folder.path().join("pipe"));
        lode(["volume", "create", text(&volume), "--size", &SIZE.to_string(), "--format", "raw"]).success();
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let info = lode(["--json", "volume", "info", text(&volume)]).json();
        let capacity = info["blocks"].as_u64().unwrap() * info["block_size"].as_u64().unwrap();
        Fixture { _folder: folder, volume, pipe, capacity: capacity as usize }
    }

    fn import(&self) -> Child {
        spawn(&["volume", "import", text(&self.volume), text(&self.pipe)])
    }
}

fn spawn(words: &[&str]) -> Child {
    command(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Sends SIGINT once the process handles it.
fn interrupt(child: &Child) {
    let status = format!("/proc/{}/status", child.id());
    loop {
        let status = fs::read_to_string(&status).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        if u64::from_str_radix(caught.trim(), 16).unwrap() & 1 << (Signal::INT.as_raw() - 1) != 0 {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    kill_process(Pid::from_child(child), Signal::INT).unwrap();
}

#[test]
fn signal_ends_an_import_from_a_pipe_without_a_writer() {
    let fixture = Fixture::new();
    let import = fixture.import();
    interrupt(&import);
    RunResult::of(import.wait_with_output().unwrap()).failure(130, &["volume", "interrupted after 0 of"]);
}

#[test]
fn writer_of_a_pipe_may_come_after_the_import() {
    let fixture = Fixture::new();
    let content: Vec<u8> = (0..fixture.capacity).map(|at| (at / 4096 * 3 + at) as u8).collect();
    let import = fixture.import();
    let mut link = String::new();
    while link != text(&fixture.pipe) {
        let descriptors = fs::read_dir(format!("/proc/{}/fd", import.id())).unwrap();
        let links = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        link = links
            .map(|link| text(&link).to_owned())
            .find(|link| link == text(&fixture.pipe))
            .unwrap_or_default();
    }
    fs::write(&fixture.pipe, &content).unwrap();
    RunResult::of(import.wait_with_output().unwrap()).success();
    let exported = spawn(&["volume", "export", text(&fixture.volume), "-"]).wait_with_output().unwrap();
    assert!(exported.status.success() && exported.stdout == content);
}

#[test]
fn signal_ends_an_export_that_no_reader_takes() {
    let fixture = Fixture::new();
    let mut export = spawn(&["volume", "export", text(&fixture.volume), "-"]);
    interrupt(&export);
    // The pipe is full by then, or not: the command ends either way, while its reader takes nothing.
    let status = export.wait().unwrap();
    let result = RunResult::of(export.wait_with_output().unwrap());
    assert_eq!(status.code(), Some(130), "{result:?}");
}
