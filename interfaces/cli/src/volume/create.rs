//! `lode volume create`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::input::STREAM;
use crate::output::Output;
use crate::volume::failed;
use crate::volume::info::{class_name, describe};
use clap::{Args, ValueEnum};
use lode_layout::VolumeClass;
use lode_volume::{CreateInPlace, CreateVolume, VolumeFormat};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

/// The error of a new file without a size.
const NO_SIZE: &str = "--size is required for a new file";

pub(crate) const FIELDS: &[(&str, &str)] = super::info::FIELDS;

/// The value of `--format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatOption {
    /// A block translation table of version 1.1, as the kernel makes in a sector namespace
    Btt,
    /// A block translation table of version 2.0
    Btt2,
    /// A block pool of PMDK, for programs with libpmemblk
    Pmemblk,
    /// Atomic blocks of our own, with checksums: one drain a write
    Atomic,
    /// Plain blocks after a header
    Raw,
}

/// The value of `--class`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ClassOption {
    /// Programs map the volume while it is served as blocks: raw volumes only
    Dax,
    /// The volume is read and written by blocks
    Block,
}

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// A file that does not exist yet, or a device-DAX node
    path: PathBuf,
    /// Size of the file: 64MiB, 64M, 1GB, or a number of bytes. The blocks have a little less
    ///
    /// A volume on a device, or in a file that exists, takes all of it. There the size is only compared.
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    size: Option<u64>,
    /// Format of the volume, which is recognised ever after
    #[arg(long, value_name = "FORMAT")]
    format: FormatOption,
    /// Size of a block; tables also have 520, 528, 4104, 4160 and 4224, with metadata of the user
    #[arg(long, value_name = "SIZE", default_value = "4096", value_parser = crate::size::parse)]
    block_size: u64,
    /// Use of the volume, fixed for good
    #[arg(long, value_name = "CLASS", default_value = "block")]
    class: ClassOption,
    /// Make the volume in the file that exists, such as the image of a namespace; it keeps its length
    #[arg(long)]
    in_place: bool,
    /// Overwrite what is recognised on the device. A file is never overwritten
    #[arg(long)]
    overwrite_device: bool,
}

pub(crate) fn run(create: &Create, durability: DurabilityOption) -> Result<Output, Failure> {
    if create.path.as_os_str() == STREAM {
        return Err(Failure::usage_error(
            "-: a volume is a file, not standard output; name one, or ./- for a file of this name",
        ));
    }
    let format = match create.format {
        FormatOption::Btt => VolumeFormat::Btt,
        FormatOption::Btt2 => VolumeFormat::Btt2,
        FormatOption::Pmemblk => VolumeFormat::Pmemblk,
        FormatOption::Atomic => VolumeFormat::Atomic,
        FormatOption::Raw => VolumeFormat::Raw,
    };
    let class = match create.class {
        ClassOption::Dax => VolumeClass::Dax,
        ClassOption::Block => VolumeClass::Block,
    };
    if class == VolumeClass::Dax && format != VolumeFormat::Raw {
        return Err(Failure::usage_error(format!(
            "--class dax wants --format raw: a {format} volume moves its blocks, so programs can't map them"
        )));
    }
    let Create { path, size, block_size, in_place, overwrite_device, .. } = create;
    let (block_size, durability) = (*block_size, durability.forced());
    let is_device = fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device());
    let made = match size {
        Some(size) if !is_device && !in_place => {
            let options = CreateVolume { size: *size, format, block_size, class, durability };
            lode_volume::create(path, &options)
        }
        None if !is_device && !in_place => return Err(Failure::usage_error(NO_SIZE)),
        size => {
            let overwrite_device = *overwrite_device;
            let options =
                CreateInPlace { size: *size, format, block_size, class, durability, overwrite_device };
            lode_volume::create_in_place(path, &options)
        }
    };
    let info = made.map_err(failed("creating a volume"))?;
    let text = format!(
        "{}: a {format} volume of {} blocks of {} bytes, class {}\n",
        create.path.display(),
        info.block_count,
        info.block_size,
        class_name(info.class),
    );
    Ok(describe(Output::text(text), &create.path, &info))
}
