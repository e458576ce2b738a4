//! Real machines from which emulated ones are made.

use super::failed;
use crate::failure::Failure;
use clap::Args;
use lode_platform::discovery::{Discovered, from_ipmctl, from_sysfs};
use lode_platform::machine::KernelVersion;
use lode_platform::sysfs::Sysfs;
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the running kernel.
const RUNNING_KERNEL: &str = "/proc/sys/kernel/osrelease";

/// Notes on sources, for help and the manual page.
pub(crate) const NOTES: &str = "\
--from-sysfs reads the sysfs of the machine that lode runs on, or a copy of one: the folders bus, devices
and firmware/dmi. As root, it also has capacities, slots and DRAM.

--from-ipmctl reads what `ipmctl show` printed, as text or with -o nvmxml, in one file or several. With
`-a -dimm -units B`, `-topology -units B`, `-a -region -units B`, `-goal -units B` and `-sensor` it knows all that a
machine file has, except the versions of the kernel and of ndctl. Regions, partitions and goals are taken
over; namespaces are not. What was assumed is told, and is in comments of the machine file.";

/// A real machine, as it shows itself.
#[derive(Args, Debug)]
#[group(multiple = false)]
pub(crate) struct RealMachine {
    /// Take the real machine that the sysfs in this directory shows
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = Sysfs::LIVE)]
    from_sysfs: Option<PathBuf>,
    /// Take the real machine that saved listings of `ipmctl show` describe; repeat it for more files
    #[arg(long, value_name = "FILE")]
    from_ipmctl: Vec<PathBuf>,
}

impl RealMachine {
    /// Reads the machine, and calls it `name`; `None` if no source is named.
    pub(crate) fn discover(&self, name: &str) -> Result<Option<Discovered>, Failure> {
        if let Some(root) = &self.from_sysfs {
            let sysfs = Sysfs::open(root).map_err(failed("reading a machine"))?;
            let kernel = if root == Path::new(Sysfs::LIVE) { running_kernel() } else { None };
            let found = from_sysfs(name, &sysfs, kernel);
            return found.map(Some).map_err(|error| Failure::new("reading a machine", error));
        }
        if self.from_ipmctl.is_empty() {
            return Ok(None);
        }
        let what = "reading listings";
        let mut files = Vec::new();
        for path in &self.from_ipmctl {
            let bytes = fs::read(path).map_err(|error| Failure::io(what, path, &error))?;
            let text = String::from_utf8(bytes).map_err(|error| {
                let off = error.utf8_error().valid_up_to();
                let path = path.display();
                Failure::new(
                    what,
                    format_args!("{path}: byte {off} is not text; save what `ipmctl show` prints"),
                )
            })?;
            files.push((path.display().to_string(), text));
        }
        from_ipmctl(name, &files).map(Some).map_err(|error| Failure::new(what, error))
    }

    /// Returns true if a source is named.
    pub(crate) fn is_named(&self) -> bool {
        self.from_sysfs.is_some() || !self.from_ipmctl.is_empty()
    }
}

fn running_kernel() -> Option<KernelVersion> {
    let release = fs::read_to_string(RUNNING_KERNEL).ok()?;
    let numbers = release.trim().split(|sign: char| !sign.is_ascii_digit()).take(2).collect::<Vec<_>>();
    KernelVersion::parse(&numbers.join("."))
}
