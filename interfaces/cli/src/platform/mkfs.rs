//! `lode platform mkfs`.

use super::image::with_progress;
use super::{MachineLocation, failed};
use crate::failure::Failure;
use crate::fields;
use crate::interrupt::Interrupt;
use crate::output::Output;
use clap::{Args, ValueEnum};
use lode_platform::Purpose;
use lode_platform::image::FileSystemKind;
use std::ffi::OsString;

const FIELDS: &[(&str, &str)] = &[
    ("namespace", "namespace of the file system"),
    ("kind", "ext4 or xfs"),
    ("uuid", "UUID of the file system"),
    ("label", "label of the file system"),
];

/// The kind of a file system.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum KindOption {
    /// Made by mke2fs
    Ext4,
    /// Made by mkfs.xfs
    Xfs,
}

/// Make a file system on an fsdax namespace, with mke2fs or mkfs.xfs; its old content is lost
#[derive(Args, Debug)]
#[command(after_long_help = fields::help(FIELDS))]
pub(crate) struct Mkfs {
    /// The namespace, as namespace0.0
    namespace: String,
    /// Kind of the file system
    kind: KindOption,
    #[command(flatten)]
    location: MachineLocation,
    /// Further options of the program, as `-- -L name`, or `-- -d folder`, with which mke2fs copies a folder in
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<OsString>,
}

pub(crate) fn run(mkfs: &Mkfs) -> Result<Output, Failure> {
    let what = "making a file system";
    let mut directory = mkfs.location.open(Purpose::Change)?;
    let interrupt = Interrupt::listen()?;
    let kind = match mkfs.kind {
        KindOption::Ext4 => FileSystemKind::Ext4,
        KindOption::Xfs => FileSystemKind::Xfs,
    };
    let (_, namespace) = directory.platform().namespace(&mkfs.namespace).map_err(failed(what))?;
    let made = with_progress(what, namespace.usable(), &interrupt, |watch| {
        directory.make_file_system(&mkfs.namespace, kind, &mkfs.options, watch)
    });
    let made = made.map_err(failed(what))?;
    let text = format!("{}: {} {}\n", mkfs.namespace, made.kind, made.uuid);
    let output = Output::text(text).with("namespace", mkfs.namespace.as_str()).with("kind", made.kind);
    Ok(output.with("uuid", made.uuid.to_string()).with("label", made.label))
}
