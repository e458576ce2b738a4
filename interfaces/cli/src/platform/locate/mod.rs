//! `lode platform where`.

mod objects;
mod report;

use super::{MachineLocation, OpenedMachine, failed};
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use clap::Args;
use lode_platform::Directory;
use lode_platform::locate::{LocateError, Located, Locator, Query, holders, mappers};
use lode_platform::ndctl::SECTOR;
use lode_platform::sysfs::Sysfs;
use lode_pmem::FilePlace;
use report::{FileFinding, Finding};
use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const FIELDS: &[(&str, &str)] = &[(
    "places",
    "one, or one for each bad range: of each the sectors, in mode sector those of the namespace, the address, region, module with slot and offset, namespace with \
     its device and sector; files, with the block, pool, objects with their keys, and processes; and notes on what is \
     unknown",
)];

const HELP: &str = "\
A place is a physical address, a sector of 512 bytes of a namespace's device, or a byte of a file. A device alone stands for \
its bad blocks. Addresses of real machines, and the modules of their interleaved regions, are shown to root only.

Files that hold a sector are found by asking for the extents of all files on the device. The keys of objects are found by a \
walk over the pool, if no process has it open for writing.";

/// Find the module, namespace, file, object and processes of a byte, or the module of an object
#[derive(Args, Debug)]
#[command(after_help = HELP, after_long_help = format!("{HELP}\n\n{}", fields::help(FIELDS)))]
pub(crate) struct Where {
    /// ADDRESS as 0x1c0000000, DEVICE:SECTOR as pmem0:8, FILE:OFFSET, or DEVICE for its bad blocks
    #[arg(value_name = "PLACE")]
    place: String,
    #[command(flatten)]
    location: MachineLocation,
}

const WHAT: &str = "locating";

pub(crate) fn run(args: &Where) -> Result<Output, Failure> {
    let query = Query::parse(&args.place).map_err(|error| Failure::usage_error(error.to_string()))?;
    let machine = match args.location.open_read_only()? {
        OpenedMachine::Emulated(directory) => {
            Machine { locator: Locator::of_platform(directory.platform()), below: Below::Emulated(directory) }
        }
        OpenedMachine::Real(sysfs) => Machine {
            locator: Locator::of_sysfs(&sysfs),
            below: Below::Real {
                is_running: sysfs.root() == Path::new(Sysfs::LIVE),
                sysfs: lode_pmem::Sysfs::at(sysfs.root()),
            },
        },
    };
    let findings = match &query {
        Query::Address(address) => {
            let located = machine.locator.at_address(*address).map_err(failed(WHAT))?;
            vec![machine.finding(located, 1)?]
        }
        Query::Sector { device, sector } => {
            let located = machine.locator.at_sector(device, *sector).map_err(failed(WHAT))?;
            vec![machine.finding(located, SECTOR)?]
        }
        Query::BadBlocks { device } => machine.bad_blocks(device)?,
        Query::Byte { path, offset } => vec![machine.of_byte(&args.place, path, *offset)?],
    };
    Ok(report::output(&findings))
}

/// The machine that is asked.
struct Machine {
    locator: Locator,
    below: Below,
}

/// The layer below the namespaces' devices.
enum Below {
    Emulated(Box<Directory>),
    /// A real machine: the one that runs, or a copy of the sysfs of another one.
    Real {
        sysfs: lode_pmem::Sysfs,
        is_running: bool,
    },
}

impl Machine {
    /// Returns what holds `len` bytes from a located one on.
    fn finding(&self, located: Located, len: u64) -> Result<Finding, Failure> {
        let mut finding = Finding::default();
        let namespace = located.namespace.as_ref();
        let on_device =
            namespace.and_then(|namespace| Some((namespace.device.clone()?, namespace.part.device_off()?)));
        if let Some((device, offset)) = on_device {
            let range = offset..offset.saturating_add(len);
            let findings = std::slice::from_mut(&mut finding);
            self.add_files(&device, std::slice::from_ref(&range), findings)?;
        }
        if let Below::Emulated(directory) = &self.below {
            finding.notes.extend(file_system(directory, &located));
        }
        finding.located = Some(located);
        Ok(finding)
    }

    /// Returns what holds the bad blocks of a device.
    fn bad_blocks(&self, name: &str) -> Result<Vec<Finding>, Failure> {
        let all = self.locator.bad_blocks(name).map_err(failed(WHAT))?;
        let mut findings = Vec::new();
        let mut ranges = Vec::new();
        let mut is_moved = false;
        for blocks in all {
            let mut finding = Finding::default();
            match self.locator.at_sector(name, blocks.offset) {
                Ok(mut located) => {
                    located.modules = self.locator.modules_of(&located, blocks.count);
                    if let Below::Emulated(directory) = &self.below {
                        finding.notes.extend(file_system(directory, &located));
                    }
                    finding.located = Some(located);
                }
                // The sectors are known all the same.
                Err(error @ (LocateError::Moved { .. } | LocateError::HiddenAddresses)) => {
                    is_moved |= matches!(error, LocateError::Moved { .. });
                    finding.notes.push(error.to_string());
                }
                Err(error) => return Err(failed(WHAT)(error)),
            }
            let end = blocks.offset.saturating_add(blocks.count);
            ranges.push(blocks.offset.saturating_mul(SECTOR)..end.saturating_mul(SECTOR));
            finding.sectors = Some(blocks.offset..end);
            findings.push(finding);
        }
        let device = self.locator.device_of(name).map_err(failed(WHAT))?;
        if let Some(device) = device.filter(|_| !is_moved) {
            self.add_files(&device, &ranges, &mut findings)?;
        }
        Ok(findings)
    }

    /// Adds to each finding the files that hold its range of a device.
    fn add_files(
        &self,
        device: &str,
        ranges: &[Range<u64>],
        findings: &mut [Finding],
    ) -> Result<(), Failure> {
        let Below::Real { sysfs, is_running } = &self.below else { return Ok(()) };
        let note = |findings: &mut [Finding], text: &str| {
            findings.iter_mut().for_each(|finding| finding.notes.push(text.to_owned()));
        };
        if ranges.is_empty() {
            return Ok(());
        }
        if !is_running {
            note(
                findings,
                "files and processes are not searched: this sysfs is not that of the running machine",
            );
            return Ok(());
        }
        // A character device is its own file.
        if device.starts_with("dax") {
            let path = Path::new("/dev").join(device);
            for (finding, range) in findings.iter_mut().zip(ranges) {
                finding.files.push(file_finding(&path, range.clone(), 0));
            }
            return Ok(());
        }
        let all = holders(device, ranges, sysfs)
            .map_err(|error| Failure::io(WHAT, Path::new("/proc/self/mountinfo"), &error))?;
        for holder in &all.found {
            let held = findings.iter_mut().zip(ranges).find(|(_, range)| range.contains(&holder.device_off));
            if let Some((finding, _)) = held {
                finding.files.push(file_finding(&holder.path, holder.file.clone(), holder.block));
            }
        }
        if all.unread > 0 {
            note(findings, &format!("{} files or folders could not be read", all.unread));
        }
        if all.is_composed {
            note(findings, &format!("another device is made of /dev/{device}: its files are not searched"));
        }
        Ok(())
    }

    /// Returns where a byte of a file is.
    fn of_byte(&self, text: &str, path: &Path, offset: u64) -> Result<Finding, Failure> {
        let Below::Real { sysfs, .. } = &self.below else {
            return Err(failed(WHAT)(LocateError::NoFiles { text: text.to_owned() }));
        };
        let io = |error: io::Error| Failure::io(WHAT, path, &error);
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = File::options().read(true).custom_flags(flags.bits() as i32).open(path);
        let file = opened.map_err(io)?;
        let mut finding = Finding::default();
        match FilePlace::of(&file, sysfs) {
            Ok(Some(place)) => match place.device_off(offset) {
                Some(device_off) if self.locator.has_device(&place.device) => {
                    match self.locator.at_byte(&place.device, device_off) {
                        Ok(located) => finding.located = Some(located),
                        Err(error) => finding.notes.push(error.to_string()),
                    }
                }
                Some(device_off) => finding.notes.push(format!(
                    "it is byte {device_off:#x} of /dev/{}, which is no persistent memory",
                    place.device
                )),
                None => finding.notes.push(
                    "it has no place on a device: it is in a hole, after the end, or not kept as it is"
                        .to_owned(),
                ),
            },
            Ok(None) => finding.notes.push("its file system does not lie on one block device".to_owned()),
            Err(error) => finding.notes.push(format!("its file system does not tell where it is: {error}")),
        }
        let block = rustix::fs::fstat(&file).map_or(0, |status| status.st_blksize as u64);
        finding.files = vec![file_finding(path, offset..offset.saturating_add(1), block)];
        Ok(finding)
    }
}

fn file_finding(path: &Path, range: Range<u64>, block: u64) -> FileFinding {
    FileFinding {
        pool: objects::in_range(path, &range),
        mappers: mappers(path, &range),
        path: path.to_owned(),
        range,
        block,
    }
}

/// Returns a note on the file system of an emulated namespace, if it has one.
fn file_system(directory: &Directory, located: &Located) -> Option<String> {
    let name = &located.namespace.as_ref()?.name;
    let (_, found) = directory.file_system(name).ok()?;
    let found = found?;
    Some(format!(
        "{name} has a file system, {} {}: only a machine that mounts it shows its files",
        found.kind, found.uuid
    ))
}
