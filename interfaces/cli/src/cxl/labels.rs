//! `lode cxl read-labels`, `write-labels` and `zero-labels`.

use super::selection::{Extent, MemdevNames};
use super::tried::{Tried, counted};
use crate::failure::Failure;
use crate::output::Output;
use crate::platform::{MachineLocation, failed};
use clap::Args;
use lode_platform::cxl::{self, CxlError};
use lode_platform::{Directory, Purpose};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(super) struct Read {
    /// File to write to [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    memdevs: MemdevNames,
}

impl Read {
    /// Reads the areas one after the other.
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "reading labels";
        let directory = location.open(Purpose::ReadOnly)?;
        let (numbers, notes) = self.memdevs.numbers(directory.platform())?;
        let mut tried = Tried { notes, ..Tried::default() };
        let mut bytes = Vec::new();
        for device in numbers {
            match cxl::read_labels(&directory, device, self.extent.offset, self.extent.size) {
                Ok(read) => {
                    bytes.extend(read);
                    tried.done.push(device);
                }
                Err(refusal) => tried.refusals.push(refusal),
            }
        }
        let text = counted("read", tried.done.len(), "mem");
        let (is_read, skipped) = (!tried.done.is_empty(), tried.skipped());
        let output = tried.output(what, &text, false)?;
        match &self.output {
            // The bytes stand alone, so that they can go into a pipe.
            None => {
                skipped.iter().for_each(|why| eprintln!("lode: note: {why}"));
                Ok(output.with_text(bytes))
            }
            Some(path) if is_read => {
                fs::write(path, bytes).map_err(|error| Failure::io("writing labels", path, &error))?;
                Ok(output)
            }
            Some(_) => Ok(output),
        }
    }
}

#[derive(Args, Debug)]
pub(super) struct Zero {
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    memdevs: MemdevNames,
}

impl Zero {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "erasing labels";
        let mut directory = location.open(Purpose::Change)?;
        let (numbers, notes) = self.memdevs.numbers(directory.platform())?;
        let mut tried = Tried { notes, ..Tried::default() };
        for device in numbers {
            let zeroed = zero(&mut directory, device, &self.extent);
            match zeroed {
                Ok(()) => tried.done.push(device),
                Err(refusal) => tried.refusals.push(refusal),
            }
        }
        let text = counted("zeroed", tried.done.len(), "mem");
        tried.output(what, &text, false)
    }
}

fn zero(directory: &mut Directory, device: u32, extent: &Extent) -> Result<(), lode_platform::PlatformError> {
    let part = cxl::read_labels(directory, device, extent.offset, extent.size)?;
    cxl::write_labels(directory, device, extent.offset, &vec![0; part.len()])
}

#[derive(Args, Debug)]
pub(super) struct Write {
    /// File to read from [default: standard input]
    #[arg(short, long, value_name = "FILE")]
    input: Option<PathBuf>,
    #[command(flatten)]
    extent: Extent,
    #[command(flatten)]
    memdevs: MemdevNames,
}

impl Write {
    pub(super) fn run(&self, location: &MachineLocation) -> Result<Output, Failure> {
        let what = "writing labels";
        let (device, size) = self.device(location)?;
        // A command that writes to the input may need the machine first.
        let (mut bytes, len) = self.read(size)?;
        let mut directory = location.open(Purpose::Change)?;
        match self.extent.size {
            0 if len > size => {
                return Err(failed(what)(CxlError::LabelsTooLarge { device, len, size }));
            }
            asked if asked > size => {
                let off = self.extent.offset;
                return Err(failed(what)(CxlError::LabelExtent { device, size, off, len: asked }));
            }
            asked if asked > len => {
                let why = format!("mem{device}: the file has {len} bytes, and {asked} are to be written");
                return Err(Failure::new(what, why));
            }
            0 => {}
            asked => bytes.truncate(asked as usize),
        }
        let written = cxl::write_labels(&mut directory, device, self.extent.offset, &bytes);
        written.map_err(|error| failed(what)(error).after(counted("wrote", 0, "mem")))?;
        Ok(Output::text(counted("wrote", 1, "mem")).with("count", 1))
    }

    /// Returns the number of the device, and the bytes of its label area.
    fn device(&self, location: &MachineLocation) -> Result<(u32, u64), Failure> {
        let directory = location.open(Purpose::ReadOnly)?;
        let (numbers, notes) = self.memdevs.numbers(directory.platform())?;
        match numbers.as_slice() {
            [device] => Ok((*device, directory.platform().machine.cxl.devices[*device as usize].label_area)),
            [] => Err(Failure::new("writing labels", notes.join("; "))),
            _ => Err(Failure::usage_error("write-labels only supports writing a single memdev")),
        }
    }

    /// Reads the input, at most one byte more than a label area of this size. Returns also the bytes that the input has,
    /// as far as it tells.
    fn read(&self, size: u64) -> Result<(Vec<u8>, u64), Failure> {
        let mut bytes = Vec::new();
        let mut len = 0;
        let read = match &self.input {
            Some(path) => File::open(path).and_then(|file| {
                len = file.metadata()?.len();
                file.take(size + 1).read_to_end(&mut bytes)
            }),
            None => io::stdin().lock().take(size + 1).read_to_end(&mut bytes),
        };
        let path = self.input.clone().unwrap_or_else(|| "<stdin>".into());
        read.map_err(|error| Failure::io("reading labels", &path, &error))?;
        let len = len.max(bytes.len() as u64);
        Ok((bytes, len))
    }
}
