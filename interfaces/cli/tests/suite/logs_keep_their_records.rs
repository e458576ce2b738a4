//! Logs: made, appended to, printed, followed, filled, killed and damaged by the program.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::program::{RunResult, command, documented_fields, json_fields, lode, lode_with_stdin, text};
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::Stdio;
use tempfile::TempDir;

const FORMATS: [&str; 2] = ["log", "pmemlog"];

/// A folder with an empty log in it.
struct Fixture {
    folder: TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new(format: &str) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let created = lode(["--json", "log", "create", text(&path), "--size", "4MiB", "--format", format]);
        assert_eq!(json_fields(&[created.json()]), documented_fields(&["log", "create"]));
        Fixture { folder, path }
    }

    fn run(&self, verb: &str) -> RunResult {
        lode(["log", verb, text(&self.path)])
    }

    fn append(&self, lines: &str) -> RunResult {
        lode_with_stdin(["log", "append", text(&self.path)], lines.as_bytes())
    }
}

#[test]
fn records_round_trip_in_both_formats() {
    for format in FORMATS {
        let fixture = Fixture::new(format);
        let lines: String = (0..3000).map(|number| format!("record {number}\n")).collect();
        fixture.append(&lines).success();
        fixture.append("\nlast").success();
        assert!(fixture.run("walk").success() == lines.clone() + "\nlast\n", "{format}");
        let tail = lode(["--json", "log", "tail", "-n", "3", text(&fixture.path)]).json_lines();
        assert_eq!(tail.len(), 3);
        assert_eq!((&tail[0]["record"], &tail[1]["record"]), (&"record 2999".into(), &"".into()));
        let from = tail[1]["position"].to_string();
        assert_eq!(lode(["log", "walk", text(&fixture.path), "--from", &from]).success(), "\nlast\n");
        fixture.run("check").success();
    }
}

#[test]
fn full_log_keeps_the_lines_that_fit() {
    for format in FORMATS {
        let fixture = Fixture::new(format);
        let lines: String = (0..400_000).map(|number| format!("record {number}\n")).collect();
        let error = fixture
            .append(&lines)
            .failure(1, &["the log is full", "go on in another one", "lines before it are durable"]);
        let walked = fixture.run("walk").success();
        assert!(lines.starts_with(&walked), "{format}");
        let count = walked.lines().count();
        assert!(count > 10_000 && error.contains(&format!("; {count} lines before")), "{format}: {error}");
        fixture.run("check").success();
    }
}

#[test]
fn damage_exits_3_and_changes_nothing() {
    for format in FORMATS {
        let fixture = Fixture::new(format);
        fixture.append(&"abcdefghijkl\n".repeat(20)).success();
        let mut bytes = fs::read(&fixture.path).unwrap();
        let at = match format {
            "log" => bytes.windows(12).position(|found| found == b"abcdefghijkl").unwrap(),
            // A word of the descriptor, after the header of PMDK.
            _ => 4096,
        };
        bytes[at] ^= 0x40;
        fs::write(&fixture.path, &bytes).unwrap();
        for verb in ["check", "walk", "tail"] {
            assert_eq!(fixture.run(verb).code, Some(3), "{format} {verb}");
        }
        assert!(fs::read(&fixture.path).unwrap() == bytes, "{format}");
    }
}

#[test]
fn killed_appends_lose_no_acknowledged_record() {
    for format in FORMATS {
        for round in 1..4 {
            let fixture = Fixture::new(format);
            let mut append = command(["log", "append", "--ack", text(&fixture.path)]);
            let mut child = append.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut input = child.stdin.take().unwrap();
            let mut acknowledged = BufReader::new(child.stdout.take().unwrap());
            let mut line = String::new();
            for number in 0..round * 20 {
                writeln!(input, "record {number}").unwrap();
                line.clear();
                acknowledged.read_line(&mut line).unwrap();
            }
            writeln!(input, "record {}", round * 20).unwrap();
            child.kill().unwrap();
            child.wait().unwrap();
            let count: usize = line.trim().parse().unwrap();
            let walked = fixture.run("walk").success();
            let found: Vec<&str> = walked.lines().collect();
            assert!(count == round * 20 && (count..=count + 1).contains(&found.len()), "{format}: {count}");
            assert!(found.iter().enumerate().all(|(at, record)| *record == format!("record {at}")));
            fixture.run("check").success();
        }
    }
}

#[test]
fn tail_follows_an_appender() {
    for format in FORMATS {
        let fixture = Fixture::new(format);
        fixture.append("one\ntwo\n").success();
        let mut tail = command(["log", "tail", "-n", "1", "--follow", text(&fixture.path)]);
        let mut tail = tail.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(tail.stdout.take().unwrap()).lines();
        assert_eq!(lines.next().unwrap().unwrap(), "two");
        fixture.append("three\nfour\n").success();
        assert_eq!([lines.next().unwrap().unwrap(), lines.next().unwrap().unwrap()], ["three", "four"]);
        drop(lines);
        assert_eq!(tail.wait().unwrap().code(), Some(141), "its reader is gone");
    }
}

#[test]
fn wrong_arguments_are_rejected() {
    let fixture = Fixture::new("log");
    let path = text(&fixture.path);
    lode(["log", "create", path, "--size", "4MiB"]).failure(1, &["exists"]);
    lode(["log", "create", path, "--size", "4MiB", "--format", "btt"]).failure(2, &["--format"]);
    lode(["log", "walk", path, "--from", "12"]).failure(1, &["no record begins at position 12"]);
    lode(["log", "tail", path, "-n", "some"]).failure(2, &["some"]);
    let pipe = fixture.folder.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
    for verb in ["append", "walk", "tail", "check"] {
        lode(["log", verb, text(&pipe)]).failure(1, &[text(&pipe)]);
        lode(["log", verb, "/nowhere"]).failure(1, &["/nowhere"]);
        lode(["log", verb, env!("CARGO_MANIFEST_DIR")]).failure(1, &[env!("CARGO_MANIFEST_DIR")]);
    }
}

/// A log whose file was cut short is damaged for every command.
#[test]
fn logs_cut_short_are_damaged() {
    let fixture = Fixture::new("log");
    fixture.append("one\ntwo\n").success();
    fs::File::options().write(true).open(&fixture.path).unwrap().set_len(3 << 20).unwrap();
    for verb in ["walk", "tail"] {
        fixture.run(verb).failure(3, &["only 3145728 of them are there"]);
    }
    assert_eq!(fixture.run("check").code, Some(3));
    fixture.append("three\n").failure(3, &["only 3145728 of them are there"]);
    assert_eq!(fs::metadata(&fixture.path).unwrap().len(), 3 << 20);
}
