//! `lode ndctl read-infoblock` and `write-infoblock`.

use super::base::NamespaceFilter;
use super::namespace::MapOption;
use super::{count_output, count_text, listing_value};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use crate::size;
use clap::{Args, ValueEnum};
use lode_nvdimm::PageMapUser;
use lode_platform::Purpose;
use lode_platform::info_block::{self, InfoBlockArea, StoredInfoBlock, WriteInfoBlock};
use lode_platform::ndctl;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use uuid::Uuid;

const READING: &str = "reading info blocks";
const WRITING: &str = "writing info blocks";

#[derive(Args, Debug)]
pub(super) struct Read {
    /// Name of a disabled namespace, as namespace0.0, or all [default: standard input]
    #[arg(value_name = "NAMESPACE", conflicts_with = "input")]
    name: Option<String>,
    /// File to read from instead: an image of a namespace
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Refuse info blocks with a wrong checksum, or of another namespace
    #[arg(short = 'V', long)]
    verify: bool,
    /// Print the info blocks as JSON instead of the bytes, as ndctl does with its --json
    #[arg(short)]
    j: bool,
    /// Print JSON with numbers in human-readable form
    #[arg(short = 'u', long)]
    human: bool,
    #[command(flatten)]
    filter: NamespaceFilter,
}

impl Read {
    /// Returns true if no machine is needed.
    pub(super) fn is_of_file(&self) -> bool {
        self.name.is_none()
    }

    /// Reads the info blocks of each namespace, also after one that fails.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let (mut areas, mut failures) = (Vec::new(), Vec::new());
        match (&self.name, &self.input) {
            (Some(name), _) => {
                let directory = location.open(Purpose::ReadOnly)?;
                for name in self.filter.names(directory.platform(), name)? {
                    match directory.info_blocks(&name) {
                        Ok(area) => areas.push(area),
                        Err(error) => failures.push(failed(READING)(error)),
                    }
                }
            }
            (None, Some(path)) => areas.push(InfoBlockArea::read_file(path).map_err(failed(READING))?),
            (None, None) => {
                let input = Path::new("<stdin>");
                let area = InfoBlockArea::read(input.display().to_string(), io::stdin().lock(), input);
                areas.push(area.map_err(failed(READING))?);
            }
        }
        let mut refused = Vec::new();
        let mut takes = |area: &InfoBlockArea, block: &StoredInfoBlock| {
            let checked = if self.verify { area.verify(block) } else { Ok(()) };
            checked.map_err(|fault| refused.push(failed(READING)(fault))).is_ok()
        };
        let listing = ndctl::info_blocks(&areas, &mut takes, self.human);
        let as_json = self.j || self.human;
        let bytes = if as_json {
            listing.into_bytes()
        } else {
            areas.iter().flat_map(|area| area.bytes.clone()).collect()
        };
        let values = listing_value(&ndctl::info_blocks(&areas, |_, _| true, false));
        failures.extend(refused);
        let count = count_text("read", areas.len(), "infoblock");
        if areas.is_empty()
            && let Some(failure) = Failure::join(std::mem::take(&mut failures))
        {
            return Err(failure.after(count));
        }
        if let Some(path) = &self.output {
            fs::write(path, bytes).map_err(|error| Failure::io(WRITING, path, &error))?;
            return match Failure::join(failures) {
                Some(failure) => Err(failure.after(count)),
                None => Ok(count_output("read", areas.len(), "infoblock").with("output", values)),
            };
        }
        match Failure::join(failures) {
            Some(failure) if as_json => Err(failure.after(String::from_utf8_lossy(&bytes).into_owned())),
            Some(failure) => Err(failure),
            None => Ok(Output::text(bytes).with("count", areas.len()).with("output", values)),
        }
    }
}

/// The value of `--mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum InfoModeOption {
    /// For file systems that map files
    #[value(alias = "memory")]
    Fsdax,
    /// A character device that is mapped
    #[value(alias = "dax")]
    Devdax,
}

#[derive(Args, Debug)]
pub(super) struct Write {
    /// Name of a disabled namespace, as namespace0.0, or all
    #[arg(value_name = "NAMESPACE", conflicts_with_all = ["output", "stdout"])]
    #[arg(required_unless_present_any = ["output", "stdout"])]
    name: Option<String>,
    /// File to write to instead: an image of a namespace
    #[arg(short, long, value_name = "FILE", conflicts_with = "stdout")]
    output: Option<PathBuf>,
    /// Write to standard output
    #[arg(short = 'c', long, requires = "size")]
    stdout: bool,
    /// Mode of the info block
    #[arg(short, long, value_name = "MODE", default_value = "fsdax", ignore_case = true)]
    mode: InfoModeOption,
    /// Size of the image in bytes, or with K, M, G or T [default: that of the file or namespace]
    #[arg(short, long, value_parser = size::parse)]
    size: Option<u64>,
    /// Alignment of mappings in bytes [default: 2M in a file, 4K in a namespace]
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    align: Option<u64>,
    /// UUID of the info block [default: random]
    #[arg(short, long)]
    uuid: Option<Uuid>,
    /// Place of the page map [default: dev]
    #[arg(short = 'M', long, value_name = "PLACE")]
    map: Option<MapOption>,
    /// UUID of the namespace [default: that of the namespace; nil in a file]
    #[arg(short, long, value_name = "UUID")]
    parent_uuid: Option<Uuid>,
    /// Physical address of the namespace, which decides on padding
    #[arg(short = 'O', long, value_name = "ADDRESS", default_value = "0", value_parser = size::parse)]
    offset: u64,
    #[command(flatten)]
    filter: NamespaceFilter,
}

impl Write {
    /// Returns true if no machine is needed.
    pub(super) fn is_of_file(&self) -> bool {
        self.name.is_none()
    }

    /// Writes the info block of each namespace, also after one that fails.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let request = || WriteInfoBlock {
            user: match self.mode {
                InfoModeOption::Fsdax => PageMapUser::FileSystem,
                InfoModeOption::Devdax => PageMapUser::Device,
            },
            map: self.map.map(MapOption::location).unwrap_or_default(),
            size: self.size,
            align: self.align,
            uuid: self.uuid.unwrap_or_else(Uuid::new_v4),
            parent_uuid: self.parent_uuid,
            offset: self.offset,
        };
        let Some(name) = &self.name else {
            return match &self.output {
                Some(path) => {
                    info_block::write_file(path, &request()).map_err(failed(WRITING))?;
                    Ok(count_output("wrote", 1, "infoblock"))
                }
                None => {
                    let bytes = request().bytes(0).map_err(failed(WRITING))?;
                    Ok(Output::text(bytes).with("count", 1))
                }
            };
        };
        let mut directory = location.open(Purpose::Change)?;
        let (mut wrote, mut failures) = (0, Vec::new());
        for name in self.filter.names(directory.platform(), name)? {
            match directory.change(|platform| info_block::write(platform, &name, &request())) {
                Ok(()) => wrote += 1,
                Err(error) => failures.push(failed(WRITING)(error)),
            }
        }
        match Failure::join(failures) {
            Some(failure) => Err(failure.after(count_text("wrote", wrote, "infoblock"))),
            None => Ok(count_output("wrote", wrote, "infoblock")),
        }
    }
}
