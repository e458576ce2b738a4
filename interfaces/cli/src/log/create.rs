//! `lode log create`.

use crate::durability::DurabilityOption;
use crate::failure::Failure;
use crate::log::{LogFormat, failed, pmem_failed};
use crate::output::Output;
use crate::progress::Progress;
use clap::Args;
use lode_log::LogPool;
use lode_log::pmdk::PmemLogPool;
use lode_pool::CreateOptions;
use std::path::PathBuf;

const WHAT: &str = "creating a log";

pub(crate) const FIELDS: &[(&str, &str)] = &[
    ("path", "path of the log"),
    ("format", "its format: log or pmemlog"),
    ("size", "size of the file in bytes"),
    ("capacity", "bytes that records can take; in the format log each takes 32 bytes and more for itself"),
];

#[derive(Args, Debug)]
pub(crate) struct Create {
    /// A file that does not exist yet, or a device-DAX node for the format log
    path: PathBuf,
    /// Size of the file: 64MiB, 64M, 1GB, or a number of bytes. The records have a little less
    #[arg(long, value_name = "SIZE", value_parser = crate::size::parse)]
    size: u64,
    /// Format of the log, which is recognised ever after
    #[arg(long, value_name = "FORMAT", default_value = "log")]
    format: LogFormat,
    /// Overwrite what is on the device. A file is never overwritten
    #[arg(long)]
    overwrite_device: bool,
}

pub(crate) fn run(create: &Create, durability: DurabilityOption) -> Result<Output, Failure> {
    let Create { path, size, format, overwrite_device } = create;
    if *overwrite_device && matches!(format, LogFormat::Pmemlog) {
        return Err(Failure::usage_error(
            "--overwrite-device wants --format log: a log of PMDK is made in a file",
        ));
    }
    let progress = Progress::spinner("writing the log");
    let capacity = match format {
        LogFormat::Log => {
            let options = CreateOptions {
                durability: durability.forced(),
                overwrite_device: *overwrite_device,
                ..CreateOptions::new(*size, LogPool::layout())
            };
            let pool = LogPool::create(path, &options).map_err(failed(WHAT))?;
            let capacity = pool.log().capacity();
            pool.close().map_err(failed(WHAT))?;
            capacity
        }
        LogFormat::Pmemlog => {
            let pool = PmemLogPool::create(path, *size, durability.forced()).map_err(pmem_failed(WHAT))?;
            let capacity = pool.log().capacity();
            pool.close().map_err(pmem_failed(WHAT))?;
            capacity
        }
    };
    drop(progress);
    let (shown, format) = (path.display(), format.name());
    Ok(Output::text(format!("{shown}: an empty log of format {format}, room for {capacity} bytes\n"))
        .with("path", path.display().to_string())
        .with("format", format)
        .with("size", *size)
        .with("capacity", capacity))
}
