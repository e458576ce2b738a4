//! `lode ndctl init-labels`, `zero-labels`, `read-labels` and `write-labels`.

use super::base::BaseOptions;
use super::modules::ModuleNames;
use super::{count_output, count_text, listing_value, number};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use crate::size;
use clap::{Args, ValueEnum};
use lode_platform::namespace::{self, NamespaceError, label_extent};
use lode_platform::ndctl::{LabelAreaBytes, index_area_len, label_areas};
use lode_platform::{Directory, LabelVersion, Purpose, nmem};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;

/// The value of `--label-version`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum VersionOption {
    /// Labels from before UEFI
    #[value(name = "1.1", alias = "v1.1")]
    V1_1,
    /// Labels of UEFI
    #[value(name = "1.2", alias = "v1.2")]
    V1_2,
}

/// A part of a label area.
#[derive(Args, Debug)]
struct Extent {
    /// Number of bytes; 0 for all up to the end of the label area
    #[arg(short, long, default_value = "0", value_parser = size::parse)]
    size: u64,
    /// Offset of the first byte in the label area
    #[arg(short = 'O', long, default_value = "0", value_parser = size::parse)]
    offset: u64,
}

impl Extent {
    fn is_all(&self) -> bool {
        (self.size, self.offset) == (0, 0)
    }

    /// Returns the part of the label area.
    fn of(&self, directory: &Directory, index: usize, area: &[u8]) -> Result<(usize, usize), NamespaceError> {
        let (size, off, len) = (area.len() as u64, self.offset, self.size);
        if self.is_all() {
            return Ok((0, area.len()));
        }
        let module = nmem::find(directory.platform(), index)?;
        let place = label_extent(size, len, off);
        let place = place.ok_or(NamespaceError::LabelExtent { module, size, off, len })?;
        Ok((place.start as usize, place.end as usize))
    }
}

#[derive(Args, Debug)]
pub(super) struct Zero {
    #[command(flatten)]
    modules: ModuleNames,
    #[command(flatten)]
    extent: Extent,
}

impl Zero {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        if self.extent.is_all() {
            return change(&self.modules, location, "zeroed", None, true);
        }
        let mut directory = location.open(Purpose::Change)?;
        let numbers = self.modules.numbers(&directory)?;
        for index in &numbers {
            let area = directory.label_area(*index).map_err(failed("erasing labels"))?;
            let (start, end) = self.extent.of(&directory, *index, &area).map_err(failed("erasing labels"))?;
            let zeroed = directory.write_labels_at(*index, start as u64, &vec![0; end - start]);
            zeroed.map_err(failed("erasing labels"))?;
        }
        Ok(count_output("zeroed", numbers.len(), "nmem"))
    }
}

/// Initializes the label areas of modules, or erases them without a version.
fn change(
    modules: &ModuleNames,
    location: &MachineLocation,
    done: &str,
    version: Option<LabelVersion>,
    force: bool,
) -> Result<Output, Failure> {
    let mut directory = location.open(Purpose::Change)?;
    let numbers = modules.numbers(&directory)?;
    let change = directory.change(|platform| {
        numbers.iter().try_for_each(|index| namespace::init_labels(platform, *index, version, force))
    });
    change.map_err(failed("initializing labels"))?;
    Ok(count_output(done, numbers.len(), "nmem"))
}

#[derive(Args, Debug)]
pub(super) struct Init {
    #[command(flatten)]
    modules: ModuleNames,
    /// Version of the labels
    #[arg(short = 'V', long, value_name = "VERSION", default_value = "1.2")]
    label_version: VersionOption,
    /// Replace existing labels
    #[arg(short, long)]
    force: bool,
}

impl Init {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let version = match self.label_version {
            VersionOption::V1_1 => LabelVersion::V1_1,
            VersionOption::V1_2 => LabelVersion::V1_2,
        };
        change(&self.modules, location, "initialized", Some(version), self.force)
    }
}

#[derive(Args, Debug)]
pub(super) struct Read {
    #[command(flatten)]
    modules: ModuleNames,
    #[command(flatten)]
    extent: Extent,
    /// Only the index blocks
    #[arg(short = 'I', long)]
    index: bool,
    /// Print index blocks and labels as JSON instead of the bytes, as ndctl does with its --json
    #[arg(short)]
    j: bool,
    /// Print JSON with numbers in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Read {
    /// Reads the areas one after the other. A module that does not answer is skipped if another one does, as by ndctl.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let as_json = self.j || self.human;
        if as_json && !self.extent.is_all() {
            return Err(Failure::usage_error("--size and --offset are incompatible with --json"));
        }
        if self.index && self.extent.size != 0 {
            return Err(Failure::usage_error("pick either --size, or --index, not both"));
        }
        let directory = location.open(Purpose::ReadOnly)?;
        let (mut bytes, mut areas, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for index in self.modules.numbers(&directory)? {
            match directory.label_area(index) {
                Ok(area) => {
                    let part = if self.index {
                        (0, (index_area_len(area.len() as u64) as usize).min(area.len()))
                    } else {
                        self.extent.of(&directory, index, &area).map_err(failed("reading labels"))?
                    };
                    bytes.extend(&area[part.0..part.1]);
                    areas.push(LabelAreaBytes { module: index as u32, bytes: area });
                }
                Err(error) => failures.push(failed("reading labels")(error)),
            }
        }
        let read = areas.len();
        let listed = listing_value(&label_areas(&areas, self.index, false));
        if as_json {
            bytes = label_areas(&areas, self.index, self.human).into_bytes();
        }
        match (Failure::join(failures), &self.output) {
            (Some(failure), _) if read == 0 => Err(failure.after(count_text("read", read, "nmem"))),
            (_, None) => Ok(Output::text(bytes).with("count", read).with("output", listed)),
            (_, Some(path)) => {
                fs::write(path, bytes).map_err(|error| Failure::io("writing labels", path, &error))?;
                Ok(count_output("read", read, "nmem").with("output", listed))
            }
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct Write {
    /// Name of the module, as nmem0
    #[arg(value_name = "DIMM")]
    name: String,
    #[command(flatten)]
    base: BaseOptions,
    #[command(flatten)]
    extent: Extent,
    /// File to read from [default: standard input]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
}

impl Write {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let mut bytes = Vec::new();
        let read = match &self.input {
            Some(path) => File::open(path).and_then(|mut file| file.read_to_end(&mut bytes)),
            None => io::stdin().lock().read_to_end(&mut bytes),
        };
        let path = self.input.clone().unwrap_or_else(|| "<stdin>".into());
        read.map_err(|error| Failure::io("reading labels", &path, &error))?;
        let index = number(&self.name, "nmem")? as usize;
        let mut directory = location.open(Purpose::Change)?;
        self.base.buses(directory.platform())?;
        let change = if self.extent.is_all() {
            directory.change(|platform| namespace::write_labels(platform, index, bytes))
        } else {
            if self.extent.size != 0 {
                bytes.truncate(self.extent.size as usize);
            }
            directory.write_labels_at(index, self.extent.offset, &bytes)
        };
        change.map_err(failed("writing labels"))?;
        Ok(count_output("wrote", 1, "nmem"))
    }
}
