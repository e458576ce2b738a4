//! `lode volume`: volumes of blocks.

mod bench;
mod check;
mod create;
mod export;
mod grow;
mod import;
mod info;
mod repair;
mod serve;

use crate::failure::{DAMAGED, Failure};
use crate::fields;
use crate::global_options::GlobalOptions;
use crate::hint::volume_hint;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use clap::{Args, Subcommand};
use lode_volume::{TransferError, VolumeError, Watch};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// The commands of `lode volume`.
#[derive(Debug, Subcommand)]
pub(crate) enum VolumeCommand {
    /// Create a volume in a new, sparse file, or on a device-DAX node
    ///
    /// On a device, and with --in-place in a file that exists, the volume takes all of it. If a volume, a pool, a file system or
    /// other content is recognised there, the command fails and changes nothing. Until they are written, blocks of the formats
    /// btt, btt2 and raw have the content that lies in their places there, or zeros; those of other formats, and of a new file, are
    /// zeros.
    ///
    /// A namespace of an emulated machine is a file as its image: `lode platform image export NAMESPACE FILE --for virtio-pmem`,
    /// then this command with --in-place, and `lode platform image import FILE --into NAMESPACE`.
    ///
    /// A block of the formats btt, btt2, pmemblk and atomic is its old or its new self after a power cut, never a mixture; a block of
    /// a raw volume may be a mixture.
    ///
    /// A DAX volume is a raw one that programs map while it is served as blocks: block 0 lies at the offset that `lode volume
    /// info` prints, a multiple of 2 MiB. Accesses of the mapping, of the file and of the export see each other at once. Only a
    /// volume of class dax may be mapped. A client that keeps a cache of the export, as nbdfuse without O_DIRECT, sees a store when
    /// it opens the file anew.
    ///
    /// A DAX volume gives up what a layer can do that sees each write. After a power cut a block may be a mixture; each program
    /// flushes its own stores and orders them. Content has no checksum, so rot is not found. It can't be encrypted,
    /// compressed or moved on its way. Snapshots, replicas, change journals, quotas and virus scanners do not learn of a store,
    /// and the file's modification time may not. A store to lost memory, or to a hole on a full file system, ends the program
    /// by SIGBUS; a request of the export fails there and the rest go on.
    #[command(after_long_help = fields::help(create::FIELDS))]
    Create(create::Create),
    /// Print the properties of a volume, also of one that another process has open
    #[command(after_long_help = fields::help(info::FIELDS))]
    Info(VolumeArgs),
    /// Check a volume for damage; write nothing
    ///
    /// A volume that a killed program left is not damaged: the next one that opens it finishes its writes. Atomic blocks are
    /// compared with their checksums. Blocks of other formats have none, so their content is not checked.
    #[command(after_long_help = fields::help(check::FIELDS))]
    Check(VolumeArgs),
    /// Rebuild structures that can be derived, and list the blocks that are lost
    ///
    /// A block is lost if its map entry is of no use. Reading it is an error until it is written again. Of atomic blocks whose
    /// map entries name the same content, the one keeps it whose checksum fits, and if it fits several, all are lost. If any
    /// block is lost, the exit code is 3.
    #[command(after_long_help = fields::help(repair::FIELDS))]
    Repair(VolumeArgs),
    /// Make a volume larger; the new blocks are zeros
    ///
    /// Volumes of the formats atomic and raw grow in place. A table keeps its size: create a larger volume, and copy with
    /// `export` and `import`. After a power cut the volume has its old or its new size. A full disk leaves the old one.
    #[command(after_long_help = fields::help(grow::FIELDS))]
    Grow(grow::Grow),
    /// Write the whole content of a volume from a file, or from standard input (-)
    ///
    /// A file must be as long as the volume's blocks; nothing is written otherwise. An import that ends early leaves blocks of
    /// the input before those of the old content. Blocks of zeros take no space.
    #[command(after_long_help = fields::help(import::FIELDS))]
    Import(import::Import),
    /// Copy the whole content of a volume to a new, sparse file, or to standard output (-)
    #[command(after_long_help = fields::help(export::FIELDS))]
    Export(export::Export),
    /// Serve volumes as network block devices until SIGINT or SIGTERM
    ///
    /// Clients of the NBD protocol, such as qemu, nbdcopy, fio and nbd-client, connect to the exports by name. The first one
    /// has the empty name, too. A client may read and write parts of blocks; one that keeps to whole blocks is faster. A
    /// write that was answered is as durable as the volume makes it: at durability commit after a flush or with FUA, else at
    /// once. There is neither encryption nor a password: who reaches the address reads and writes.
    ///
    /// A server that is killed loses nothing that it answered, flushed or not: a client that connects again by itself, as qemu
    /// with reconnect-delay does, goes on where it was. At durability commit, tables (btt, btt2, pmemblk) sync each batch before
    /// they answer it for that; volumes of the formats atomic and raw do not need to, and are faster there.
    ///
    /// A client with the extension RESIZE of the protocol can grow volumes of the formats atomic and raw while they are served,
    /// up to what the disk has room for; atomic ones at most 63 times. Others see the new size when they connect again.
    ///
    /// A socket file without a server is replaced. Started by systemd with sockets, it listens at these, without --nbd. The
    /// first signal stops the server: what was received is answered, then the volumes are flushed.
    #[command(after_long_help = fields::help(serve::FIELDS))]
    Serve(serve::Serve),
    /// Measure random writes of 4 KiB to a medium: an ordinary file, a block volume and a DAX volume
    ///
    /// One thread writes to one new file at a time, which loses its name before it is filled: nothing is left, also after a
    /// kill. The figures hold for the medium and the durability that are printed. With a durability that is forced, DRAM or
    /// the page cache stands in for persistent memory: the figures are then not those of persistent memory.
    #[command(after_long_help = fields::help(bench::FIELDS))]
    Bench(bench::Bench),
}

/// Arguments of a command for one volume.
#[derive(Args, Debug)]
pub(crate) struct VolumeArgs {
    /// The volume
    path: PathBuf,
}

pub(crate) fn run(command: &VolumeCommand, options: &GlobalOptions) -> Result<Output, Failure> {
    match command {
        VolumeCommand::Create(create) => create::run(create, options.durability),
        VolumeCommand::Info(args) => info::run(&args.path),
        VolumeCommand::Check(args) => check::run(&args.path),
        VolumeCommand::Repair(args) => repair::run(&args.path, options.durability),
        VolumeCommand::Grow(grow) => grow::run(grow, options.durability),
        VolumeCommand::Import(import) => import::run(import, options.durability),
        VolumeCommand::Export(export) => export::run(export, options.json),
        VolumeCommand::Serve(serve) => serve::run(serve, options),
        VolumeCommand::Bench(bench) => bench::run(bench, options),
    }
}

/// Returns a function that turns an error of a volume into the failure of `what`.
fn failed(what: &'static str) -> impl Fn(VolumeError) -> Failure {
    move |error| {
        let why = format!("{error}{}", volume_hint(&error));
        if error.is_damage() { Failure::damage(what, why) } else { Failure::new(what, why) }
    }
}

/// Copies the content of the volume at `path` with a progress bar of `len` bytes. SIGINT ends the copy.
fn transfer(
    what: &'static str,
    path: &Path,
    len: u64,
    interrupt: &Interrupt,
    copy: impl FnOnce(&mut Watch<'_>) -> Result<(), TransferError>,
) -> Result<(), Failure> {
    let progress = Progress::of_bytes(what, len);
    let mut watch = |bytes| {
        progress.add(bytes);
        if interrupt.is_set() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    copy(&mut watch).map_err(|error| match error {
        TransferError::Output(_) if interrupt.is_set() => {
            Failure::interrupted(format!("{what}: {}: interrupted", path.display()))
        }
        TransferError::Output(error) => Failure::stdout(error),
        error @ TransferError::Interrupted { .. } => {
            Failure::interrupted(format!("{what}: {}: {error}", path.display()))
        }
        TransferError::Input { done, .. } if interrupt.is_set() => {
            let path = path.display();
            Failure::interrupted(format!("{what}: {path}: interrupted after {done} of {len} bytes"))
        }
        TransferError::Block(error) if error.fault.is_damage() => {
            Failure::damage(what, format_args!("{}: {error}", path.display()))
        }
        error => Failure::new(what, format_args!("{}: {error}", path.display())),
    })
}

/// Returns the findings of a check, each in a line.
fn lines<T: ToString>(all: &[T]) -> Vec<String> {
    all.iter().map(ToString::to_string).collect()
}

/// Returns the exit code of a command that may have found damage.
fn exit_code(is_damaged: bool) -> u8 {
    if is_damaged { DAMAGED } else { 0 }
}
