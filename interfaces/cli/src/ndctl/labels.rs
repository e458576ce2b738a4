//! `lode ndctl init-labels`, `zero-labels`, `read-labels` and `write-labels`.

use super::{count_output, count_text, number};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::{Args, ValueEnum};
use lode_platform::namespace;
use lode_platform::{Directory, LabelVersion, Purpose};
use std::fs;
use std::path::PathBuf;

/// The value of `--label-version`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum VersionOption {
    /// Labels from before UEFI
    #[value(name = "1.1")]
    V1_1,
    /// Labels of UEFI
    #[value(name = "1.2")]
    V1_2,
}

#[derive(Args, Debug)]
pub(super) struct ModuleNames {
    /// Names of modules, as nmem0, or all
    #[arg(required = true, value_name = "DIMM")]
    names: Vec<String>,
}

impl ModuleNames {
    fn numbers(&self, directory: &Directory) -> Result<Vec<usize>, Failure> {
        let modules = &directory.platform().machine.modules;
        let mut numbers = Vec::new();
        for name in &self.names {
            match name.as_str() {
                "all" => numbers.extend((0..modules.len()).filter(|index| modules[*index].usable())),
                name => numbers.push(number(name, "nmem")? as usize),
            }
        }
        Ok(numbers)
    }

    pub(super) fn zero(&self, location: &MachineLocation) -> Result<Output, Failure> {
        self.change(location, "zeroed", None, true)
    }

    fn change(
        &self,
        location: &MachineLocation,
        done: &str,
        version: Option<LabelVersion>,
        force: bool,
    ) -> Result<Output, Failure> {
        let mut directory = location.open(Purpose::Change)?;
        let numbers = self.numbers(&directory)?;
        let change = directory.change(|platform| {
            numbers.iter().try_for_each(|index| namespace::init_labels(platform, *index, version, force))
        });
        change.map_err(failed("initializing labels"))?;
        Ok(count_output(done, numbers.len(), "nmem"))
    }
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
        self.modules.change(location, "initialized", Some(version), self.force)
    }
}

#[derive(Args, Debug)]
pub(super) struct Read {
    #[command(flatten)]
    modules: ModuleNames,
    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Read {
    /// Reads the areas one after the other. A module that does not answer is skipped if another one does, as by ndctl.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let directory = location.open(Purpose::ReadOnly)?;
        let (mut bytes, mut read, mut failures) = (Vec::new(), 0, Vec::new());
        for index in self.modules.numbers(&directory)? {
            match directory.label_area(index) {
                Ok(area) => {
                    bytes.extend(area);
                    read += 1;
                }
                Err(error) => failures.push(failed("reading labels")(error)),
            }
        }
        let count = count_output("read", read, "nmem");
        match (Failure::join(failures), &self.output) {
            (Some(failure), _) if read == 0 => Err(failure.after(count_text("read", read, "nmem"))),
            (_, None) => Ok(Output::text(bytes).with("count", read)),
            (_, Some(path)) => {
                fs::write(path, bytes).map_err(|error| Failure::io("writing labels", path, &error))?;
                Ok(count)
            }
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct Write {
    /// Name of the module, as nmem0
    #[arg(value_name = "DIMM")]
    name: String,
    /// File to read from
    #[arg(short, long, value_name = "FILE")]
    input: PathBuf,
}

impl Write {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let bytes =
            fs::read(&self.input).map_err(|error| Failure::io("reading labels", &self.input, &error))?;
        let index = number(&self.name, "nmem")? as usize;
        let mut directory = location.open(Purpose::Change)?;
        let change = directory.change(|platform| namespace::write_labels(platform, index, bytes));
        change.map_err(failed("writing labels"))?;
        Ok(count_output("wrote", 1, "nmem"))
    }
}
