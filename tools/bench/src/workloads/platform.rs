//! platform-12, platform-1536: the slowest command on an emulated machine, from the start of the program to its end.
//!
//! Each round makes a machine, and runs the commands in their order. A command's time is the median of its rounds.

use super::Findings;
use crate::clock::lap;
use crate::figure::Figure;
use crate::plan::{Selection, Size};
use crate::program;
use crate::rounds::median;
use anyhow::{Context, Result, ensure};
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Sockets and modules of each: the machine of `platform-12`.
const SMALL: (u32, u32) = (2, 6);
/// Modules of each socket of `platform-1536`.
const MODULES: u32 = 24;
/// Commands that a note names.
const NAMED: usize = 5;

/// The commands, on one machine. The first one makes it.
const COMMANDS: [&str; 44] = [
    "platform init machine.toml",
    "platform show",
    "ipmctl show -topology",
    "ipmctl show -dimm",
    "ipmctl show -a -dimm",
    "ipmctl show -memoryresources",
    "ipmctl show -sensor",
    "ipmctl show -dimm -pcd Config",
    "ipmctl show -system -capabilities",
    "platform plan --fsdax 100GiB",
    "ipmctl create -f -goal",
    "ipmctl show -goal",
    "ipmctl delete -goal",
    "ipmctl create -f -goal",
    "platform reboot",
    "ipmctl show -region",
    "platform plan --fsdax 100GiB --apply",
    "ndctl create-namespace -r region1 -m devdax -s 96G",
    "ndctl create-namespace -r region1 -m sector -s 12G",
    "ndctl list",
    "ndctl list -BDRNHXMFCi",
    "ndctl list -v",
    "daxctl list -DRMi",
    "platform show --html page.html",
    "platform where namespace0.0",
    "platform evacuate nmem0 --to .",
    "platform replace nmem0 --to .",
    "platform extend namespace0.0 --size 120GiB",
    "ndctl inject-error namespace0.0 -B 9 -n 1",
    "ndctl start-scrub",
    "ndctl clear-errors namespace0.0",
    "ndctl inject-smart -m 90 nmem0",
    "ndctl check-labels all",
    "ndctl disable-namespace all",
    "ndctl read-infoblock all",
    "ndctl enable-namespace all",
    "ndctl check-namespace -f namespace1.1",
    "daxctl reconfigure-device -m system-ram -N dax1.0",
    "platform reboot",
    "ndctl destroy-namespace -f all",
    "ndctl disable-region all",
    "ndctl zero-labels nmem0",
    "ndctl init-labels nmem0",
    "ipmctl delete -f -pcd Config",
];

/// Runs the rows.
pub(super) fn run(selection: &Selection, size: &Size, folder: &Path) -> Result<Findings> {
    let mut findings = Findings::default();
    for (row, machine) in [("platform-12", SMALL), ("platform-1536", (size.sockets, MODULES))] {
        if selection.has(row) {
            let times = times(size.load_rounds, machine, &folder.join(row))?;
            let (_, slowest) = *times.first().context("no command ran")?;
            findings.figures.push(Figure { workload: row.to_owned(), value: slowest });
            findings.notes.push(note(row, &times));
        }
    }
    Ok(findings)
}

/// Returns the line that names the slowest commands.
fn note(row: &str, times: &[(&str, f64)]) -> String {
    let named = times.iter().take(NAMED).map(|(command, ms)| format!("{command} {ms:.0} ms"));
    let typical = times.get(times.len() / 2).map_or(0.0, |(_, ms)| *ms);
    format!(
        "{row}: {}; half of the commands take {typical:.0} ms or less",
        named.collect::<Vec<_>>().join(", ")
    )
}

/// Returns the commands with their times in milliseconds, the slowest first.
fn times(rounds: usize, machine: (u32, u32), folder: &Path) -> Result<Vec<(&'static str, f64)>> {
    let program = program::lode().context(program::NO_LODE)?;
    let mut laps = vec![Vec::new(); COMMANDS.len()];
    for _ in 0..rounds {
        fs::create_dir(folder)?;
        fs::write(folder.join("machine.toml"), machine_file(machine))?;
        for (line, laps) in COMMANDS.iter().zip(&mut laps) {
            let mut command = Command::new(&program);
            command.args(line.split(' ')).env("LODE_STATE", folder.join("state")).current_dir(folder);
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
            let (lap, output) = lap(1, || command.output());
            let output = output?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "lode {line} ended with {}: {}", output.status, said.trim());
            laps.push(lap.ns as f64 / 1e6);
        }
        fs::remove_dir_all(folder)?;
    }
    let mut times: Vec<_> =
        COMMANDS.into_iter().zip(&laps).map(|(command, laps)| (command, median(laps))).collect();
    times.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    Ok(times)
}

/// Returns the file of a machine with DRAM and so many modules at each socket.
fn machine_file((sockets, modules): (u32, u32)) -> String {
    let mut text = "name = \"bench\"\n[profile]\nipmctl = 3\nndctl = 76\nkernel = \"6.1\"\n".to_owned();
    for socket in 0..sockets {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "[[dram]]\nsocket = {socket}\nphysical_id = {socket}\nlocator = \"CPU{socket}_DRAM\"\ncapacity = \"192GiB\"\n"
        );
        for slot in 0..modules {
            let number = socket * modules + slot;
            let handle = (socket << 12) | ((slot / 6) << 8) | ((slot % 6) << 4) | 1;
            let _ = write!(
                text,
                "[[module]]\nhandle = {handle:#x}\nphysical_id = {}\nlocator = \"CPU{socket}_{slot}\"\n\
                 capacity = \"258512MiB\"\nid = \"8089-a2-2018-{number:08x}\"\n",
                sockets + number
            );
        }
    }
    text
}
