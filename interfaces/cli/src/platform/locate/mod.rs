//! `lode platform where`.

mod objects;
mod report;

use super::{MachineLocation, OpenedMachine, failed};
use crate::failure::Failure;
use crate::fields;
use crate::output::Output;
use crate::pool::pmdk::{object_of, places_in_set};
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
     its device and sector; files, with the block, pool, objects with their keys or OIDs, and processes; and notes on \
     what is unknown",
)];

const HELP: &str = "\
A place is a physical address, a sector of 512 bytes of a namespace's device, or a byte of a file. A device alone stands for \
its bad blocks. FILE:NUMBER:OFFSET is an object of libpmemobj by its identifier (OID): pool_uuid_lo and off. A FILE may be \
the set file of a pool set of PMDK: OFFSET is that of the pool, and each replica has a place. Addresses of real machines, and the modules of their interleaved regions, are shown to root only.

Files that hold a sector are found by asking for the extents of all files on the device. The keys of objects are found by a \
walk over the pool, if no process has it open for writing. Of pools of PMDK, the structure or the object is shown: that of \
libpmemobj with its OID, type number and size, as the next open leaves it; the byte of a log, or the number of a block.";

/// Find the module, namespace, file, object and processes of a byte, or the module of an object
#[derive(Args, Debug)]
#[command(after_help = HELP, after_long_help = format!("{HELP}\n\n{}", fields::help(FIELDS)))]
pub(crate) struct Where {
    /// ADDRESS as 0x1c0000000, DEVICE:SECTOR as pmem0:8, FILE:OFFSET, FILE:OID, or DEVICE for its bad blocks
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
            let mut located = machine.locator.at_sector(device, *sector).map_err(failed(WHAT))?;
            located.modules = machine.locator.modules_of(&located, 1);
            vec![machine.finding(located, SECTOR)?]
        }
        Query::BadBlocks { device } => machine.bad_blocks(device)?,
        Query::Byte { path, offset } => machine.of_file(&query, &args.place, path, *offset)?,
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

    /// Returns where a byte of a file, or of a pool set, or an object of libpmemobj is.
    fn of_file(&self, query: &Query, text: &str, path: &Path, offset: u64) -> Result<Vec<Finding>, Failure> {
        if matches!(self.below, Below::Emulated(_)) {
            return Err(failed(WHAT)(LocateError::NoFiles { text: text.to_owned() }));
        }
        let object = query.as_object().filter(|_| path.symlink_metadata().is_err());
        let (path, range) = match object {
            Some((path, oid)) => {
                let range = object_of(WHAT, &path, oid)?;
                (path, range)
            }
            None => (path.to_owned(), offset..offset.saturating_add(1)),
        };
        match places_in_set(&path, range.start) {
            None => Ok(vec![self.of_range(&path, &range, None)?]),
            Some(places) if places.is_empty() => {
                let why = format!("{}: no part of the pool has byte {:#x}", path.display(), range.start);
                Err(Failure::new(WHAT, why))
            }
            Some(places) => places
                .into_iter()
                .map(|(part, at)| {
                    let of_part = at..at.saturating_add(range.end - range.start);
                    self.of_range(&part, &of_part, Some((&path, &range)))
                })
                .collect(),
        }
    }

    /// Returns where a range of a file is. If the file is a part of a pool set, `of_set` has the set file, and the range of the pool.
    fn of_range(
        &self,
        path: &Path,
        range: &Range<u64>,
        of_set: Option<(&Path, &Range<u64>)>,
    ) -> Result<Finding, Failure> {
        let Below::Real { sysfs, .. } = &self.below else { return Ok(Finding::default()) };
        let io = |error: io::Error| Failure::io(WHAT, path, &error);
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = File::options().read(true).custom_flags(flags.bits() as i32).open(path);
        let file = opened.map_err(io)?;
        let mut finding = Finding::default();
        match FilePlace::of(&file, sysfs) {
            Ok(Some(place)) => match place.device_off(range.start) {
                Some(device_off) if self.locator.has_device(&place.device) => {
                    match self.locator.at_byte(&place.device, device_off) {
                        Ok(mut located) => {
                            self.add_modules(&mut located, &place, range);
                            finding.located = Some(located);
                        }
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
        let mut found = file_finding(path, range.clone(), block);
        if let Some((set, of_pool)) = of_set {
            found.pool = objects::in_range(set, of_pool);
        }
        finding.files = vec![found];
        Ok(finding)
    }

    /// Adds the modules that hold the later bytes of a range of a file, whose first one was located.
    fn add_modules(&self, located: &mut Located, place: &FilePlace, range: &Range<u64>) {
        for extent in &place.extents {
            let start = range.start.max(extent.file_off);
            let end = range.end.min(extent.file_off.saturating_add(extent.len));
            if end <= start || (start == range.start && end - start == 1) {
                continue;
            }
            let device_off = extent.device_off + (start - extent.file_off);
            let Ok(first) = self.locator.at_byte(&place.device, device_off) else { continue };
            let sectors = (first.region.offset % SECTOR + (end - start)).div_ceil(SECTOR);
            for module in self.locator.modules_of(&first, sectors) {
                if located.modules.iter().all(|known| known.number != module.number) {
                    located.modules.push(module);
                }
            }
        }
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
