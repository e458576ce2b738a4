//! Devices in the arguments of cxl.

use crate::failure::Failure;
use crate::size;
use clap::{Args, ValueEnum};
use lode_platform::Platform;
use lode_platform::cxl::{self, CxlKind};

/// The options of commands on devices.
#[derive(Args, Debug)]
pub(super) struct MemdevNames {
    /// Names of devices, as mem0 or 0, or all
    #[arg(required = true, value_name = "MEMDEV")]
    pub(super) names: Vec<String>,
    /// The names are serial numbers
    #[arg(short = 'S', long)]
    serial: bool,
    /// Accepted for compatibility with cxl; without effect
    #[arg(short, long)]
    verbose: bool,
}

impl MemdevNames {
    /// Returns the numbers of the devices, and notes on the names that select none.
    ///
    /// # Errors
    /// Fails if no name is one of a device.
    pub(super) fn numbers(&self, platform: &Platform) -> Result<(Vec<u32>, Vec<String>), Failure> {
        let inventory = cxl::inventory(platform);
        let (mut numbers, mut notes, mut invalid) = (Vec::new(), Vec::new(), 0);
        for name in &self.names {
            let digits = if self.serial { name } else { name.strip_prefix("mem").unwrap_or(name) };
            let is_name = digits.starts_with(|first: char| first.is_ascii_digit());
            if !is_name && (self.serial || name != "all") {
                invalid += 1;
                let of = if self.serial { "serial number" } else { "name" };
                notes.push(format!("'{name}' is not a valid memdev {of}"));
                continue;
            }
            let found = inventory.memdevs_called(name, self.serial);
            if found.is_empty() {
                notes.push(format!("no memdev matches {name}; `lode cxl list -Mi` lists them"));
            }
            numbers.extend(found);
        }
        if invalid == self.names.len() {
            return Err(Failure::usage_error(notes.join("; ")));
        }
        Ok((numbers, notes))
    }
}

/// The value of `--type`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum KindOption {
    /// Persistent memory
    Pmem,
    /// Volatile memory
    #[value(alias = "volatile")]
    Ram,
}

impl KindOption {
    pub(super) fn kind(self) -> CxlKind {
        match self {
            KindOption::Pmem => CxlKind::Pmem,
            KindOption::Ram => CxlKind::Ram,
        }
    }
}

/// A part of a label area.
#[derive(Args, Debug)]
pub(super) struct Extent {
    /// Number of bytes; 0 for all up to the end of the label area
    #[arg(short, long, default_value = "0", value_parser = size::parse)]
    pub(super) size: u64,
    /// Offset of the first byte in the label area
    #[arg(short = 'O', long, default_value = "0", value_parser = size::parse)]
    pub(super) offset: u64,
}
