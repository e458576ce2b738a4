//! `lode ndctl monitor`: notifications of emulated and real modules, as they come.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use crate::emulated::Emulated;
use crate::program::{command, documented_fields, json_fields, lode, text};
use crate::sysfs_captures::unpack_capture;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStderr, ChildStdout, Stdio};
use std::thread;
use std::time::Duration;

/// A running monitor, which ends with this value.
struct Monitor {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Monitor {
    /// Starts a monitor, and waits until it observes its modules.
    #[track_caller]
    fn start(location: [&str; 2], words: &str) -> (Monitor, String) {
        let words = words.split(' ').filter(|word| !word.is_empty());
        let words = ["ndctl"].into_iter().chain(location).chain(["monitor", "-v"]).chain(words);
        let mut child = command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        let mut monitor = Monitor { child, out, err };
        let note = monitor.note();
        assert!(note.starts_with("lode: note: observing "), "{note}");
        (monitor, note)
    }

    /// Waits for a line of standard error.
    fn note(&mut self) -> String {
        let mut line = String::new();
        self.err.read_line(&mut line).unwrap();
        line
    }

    /// Waits for a notification.
    #[track_caller]
    fn notification(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Stops the process, and waits until it has stopped.
    fn pause(&self) {
        self.signal(Signal::STOP);
        let stat = format!("/proc/{}/stat", self.child.id());
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Ends the monitor as systemd does. Returns its last lines of standard output.
    fn end(mut self) -> Vec<String> {
        self.signal(Signal::TERM);
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        rest.lines().map(str::to_owned).collect()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a machine with two modules.
fn machine() -> Emulated {
    Emulated::included("lab-pair")
}

fn inject(machine: &Emulated, words: &str) {
    machine.ndctl(&format!("inject-smart {words}")).success();
}

/// Only the selected events of the selected modules are printed, each when it comes.
#[test]
fn events_are_printed_as_they_come() {
    let machine = machine();
    let words = "-d nmem0 -b ACPI.NFIT -D dimm-media-temperature";
    let (mut monitor, note) = Monitor::start(machine.location(), words);
    assert_eq!(note, "lode: note: observing nmem0\n");
    inject(&machine, "-m 90 nmem1");
    inject(&machine, "-s 1 -f nmem0");
    inject(&machine, "-m 91 nmem0");
    let first = monitor.notification();
    assert_eq!(first["event"], json!({"dimm-media-temperature": true}));
    assert_eq!((&first["pid"], &first["dimm"]["dev"]), (&json!(monitor.child.id()), &json!("nmem0")));
    assert_eq!(first["dimm"]["health"]["temperature_celsius"], 91.0);
    let fields = json_fields(std::slice::from_ref(&first));
    assert_eq!(fields, documented_fields(&["ndctl", "monitor"]));
    inject(&machine, "-N nmem0");
    inject(&machine, "-m 92 nmem0");
    assert_eq!(monitor.notification()["dimm"]["health"]["temperature_celsius"], 92.0);
    assert!(monitor.end().is_empty());
}

/// Events that come faster than they are read make one notification, and the others are counted.
#[test]
fn coalesced_events_are_told() {
    let machine = machine();
    let (mut monitor, _) = Monitor::start(machine.location(), "-D all");
    monitor.pause();
    for degrees in [85, 86, 87] {
        inject(&machine, &format!("-m {degrees} nmem0"));
    }
    inject(&machine, "-N nmem0");
    monitor.signal(Signal::CONT);
    let late = monitor.notification();
    assert_eq!(late["event"]["dimm-media-temperature"], true, "it came, though it is over");
    assert_eq!(late["event"]["dimm-spares-remaining"], false);
    assert_eq!(late["dimm"]["health"]["temperature_celsius"], 33.0);
    let note = monitor.note();
    assert_eq!(
        note,
        "lode: note: nmem0: 2 events came before the next notification, which has later values\n"
    );
    assert!(monitor.end().is_empty());
}

/// A monitor enables the alarms of its events, and reports what holds: at its start, and with --poll again.
#[test]
fn what_holds_is_reported_at_start_and_polled() {
    let machine = machine();
    inject(&machine, "--media-temperature-alarm off -m 90 nmem0");
    let (mut monitor, _) = Monitor::start(machine.location(), "-p 1 -D all");
    for _ in 0..2 {
        let found = monitor.notification();
        assert_eq!(found["event"]["dimm-media-temperature"], true);
        assert_eq!(found["dimm"]["health"]["alarm_enabled_media_temperature"], true);
    }
    inject(&machine, "-U nmem1");
    machine.start();
    let unclean = loop {
        let found = monitor.notification();
        if found["dimm"]["dev"] == "nmem1" {
            break found;
        }
    };
    assert_eq!(unclean["event"]["dimm-unclean-shutdown"], true);
}

#[test]
fn config_file_selects_and_log_is_appended() {
    let machine = machine();
    let (config, log) = (machine.file("monitor.conf"), machine.file("log"));
    fs::write(&log, "before\n").unwrap();
    let lines = format!("[monitor]\ndimm = nmem1\ndimm-event = dimm-health-state\nlog = {}\n", text(&log));
    fs::write(&config, lines).unwrap();
    let (monitor, note) = Monitor::start(machine.location(), &format!("-u -c {}", text(&config)));
    assert_eq!(note, "lode: note: observing nmem1\n");
    inject(&machine, "-f nmem1");
    let written = loop {
        let written = fs::read_to_string(&log).unwrap();
        if written.ends_with("\n}\n") {
            break written;
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(written.starts_with("before\n{\n  \"timestamp\":\""), "{written}");
    assert!(written.contains("\"dimm-health-state\":true\n"), "{written}");
    assert!(monitor.end().is_empty());
}

/// The unit for systemd starts a monitor with arguments that this program takes.
#[test]
fn systemd_unit_starts_a_monitor() {
    let unit = include_str!("../../../../setup/systemd/lode-ndctl-monitor.service");
    let starts: Vec<&str> = unit.lines().filter_map(|line| line.strip_prefix("ExecStart=")).collect();
    let [start] = starts.as_slice() else { panic!("{unit}") };
    let words = start.strip_prefix("/usr/local/bin/lode ").unwrap().split(' ');
    let machine = machine();
    let mut child = command(words.chain(["-v"]))
        .env("LODE_STATE", &machine.state)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let err = BufReader::new(child.stderr.take().unwrap());
    let mut monitor = Monitor { child, out, err };
    assert_eq!(monitor.note(), "lode: note: observing nmem0, nmem1\n");
    assert!(monitor.end().is_empty());
}

#[test]
fn invalid_monitor_options_are_refused() {
    let machine = machine();
    let config = machine.file("monitor.conf");
    fs::write(&config, "[monitor]\ndim = nmem0\n").unwrap();
    let config = format!("-c {}", text(&config));
    for (words, code, said) in [
        ("--daemon", 2, "run it as a service of systemd"),
        ("-l syslog", 2, "standard output in the journal"),
        ("-D dimm-fire", 2, "there is no event dimm-fire: the events are dimm-spares-remaining, "),
        ("-p 0", 2, "--poll"),
        ("-d nmem9", 1, "no module is selected; `lode ndctl list -DH`"),
        ("-l /nowhere/log", 1, "opening the log: /nowhere/log"),
        ("-c /nowhere", 1, "/nowhere: No such file"),
        (config.as_str(), 1, "monitor.conf: line 2 sets dim; the keys are bus, dimm,"),
    ] {
        machine.ndctl(&format!("monitor {words}")).failure(code, &[said]);
    }
    let gone = lode(["ndctl", "--state", text(&machine.file("none")), "monitor"]);
    gone.failure(1, &["watching", "none"]);
}

/// The kernel shows flags without root. A copy of a sysfs gives no notice of changes, so it is polled.
#[test]
fn flags_of_real_modules_are_monitored() {
    let sysfs = unpack_capture("6.12", false);
    let place = ["--sysfs", text(sysfs.path())];
    let (mut monitor, note) = Monitor::start(place, "-p 1 -d nmem1");
    assert_eq!(note, "lode: note: observing nmem1\n");
    fs::write(sysfs.path().join("bus/nd/devices/nmem1/nfit/flags"), "not_armed\n").unwrap();
    let found = monitor.notification();
    assert_eq!(
        (&found["event"], &found["dimm"]["dev"]),
        (&json!({"dimm-health-state": true}), &json!("nmem1"))
    );
    assert_eq!(found["dimm"]["flag_failed_arm"], true);
    assert_eq!(monitor.notification()["event"]["dimm-health-state"], true, "it holds");
    let refused = lode(["ndctl"].into_iter().chain(place).chain(["monitor", "-D", "dimm-media-temperature"]));
    refused.failure(1, &["only dimm-health-state without root", "run `ndctl monitor`"]);
}
