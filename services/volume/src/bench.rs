//! Measuring random writes of 4 KiB to a medium: an ordinary file, atomic blocks, and a volume that is mapped.

use crate::atomic::Atomic;
use crate::block_error::BlockFault;
use crate::create::create;
use crate::device::{BlockDevice, Op, Request, of_block};
use crate::error::VolumeError;
use crate::format::VolumeFormat;
use crate::info::describe_medium;
use crate::plan::CreateVolume;
use crate::transfer::Watch;
use crate::volume::map;
use lode_blocks::BlockPool;
use lode_layout::{PoolOffset, VolumeClass};
use lode_pmem::{Durability, DurabilityReport, FaultScope, Mapping, Medium};
use lode_pool::{Access, OpenOptions};
use rustix::fs::OFlags;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Size of a write in bytes.
const WRITE: usize = 4096;
/// Bytes that are written at a time while the file is filled.
const PART: usize = 1 << 20;
/// Writes between two readings of the clock.
const LAP_LEN: u64 = 16;

/// The thing that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BenchTarget {
    /// A file that is opened with O_DIRECT and O_DSYNC, by a system call a write.
    File,
    /// A volume of atomic blocks, by a request with FUA a write.
    Block,
    /// A DAX volume, by a copy and a drain a write.
    Dax,
}

impl BenchTarget {
    /// All targets.
    pub const ALL: [BenchTarget; 3] = [BenchTarget::File, BenchTarget::Block, BenchTarget::Dax];
}

/// The options of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct BenchOptions {
    /// Size of the file in bytes.
    pub size: u64,
    /// Time of the writes before those that count.
    pub warm_up: Duration,
    /// Time of the writes that count.
    pub time: Duration,
    /// The durability to use. `None` uses the durability that the medium offers, which must then be durable.
    pub durability: Option<Durability>,
}

/// The result of a measurement.
#[derive(Clone, Debug)]
pub struct BenchFigure {
    /// Number of writes that count.
    pub writes: u64,
    /// Their time.
    pub time: Duration,
    /// The durability of the volume and its evidence; `None` of a file, whose writes are durable by O_DSYNC if the medium is.
    pub report: Option<DurabilityReport>,
}

impl BenchFigure {
    /// Returns the number of writes in a second.
    pub fn iops(&self) -> f64 {
        self.writes as f64 / self.time.as_secs_f64()
    }

    /// Returns the mean time of a write in nanoseconds.
    pub fn ns(&self) -> f64 {
        self.time.as_nanos() as f64 / self.writes as f64
    }

    /// Returns the number of MiB written in a second.
    pub fn mib_per_s(&self) -> f64 {
        self.iops() * WRITE as f64 / (1 << 20) as f64
    }
}

/// The reason why a measurement ended early.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The volume can't be made or written.
    #[error(transparent)]
    Volume(#[from] VolumeError),
    /// The file can't be made, written or removed.
    #[error("{}: can't {op} a file of the measurement: {error}; {}", .folder.display(), step(.error))]
    File {
        /// The folder.
        folder: PathBuf,
        /// The operation.
        op: &'static str,
        /// The error of the system call.
        #[source]
        error: io::Error,
    },
    /// The file has fewer bytes than a write needs.
    #[error("a file of {size} bytes has no block of 4096; choose a larger size")]
    TooSmall {
        /// Size of the file in bytes.
        size: u64,
    },
    /// The callback has ended the measurement.
    #[error("interrupted; nothing is left")]
    Interrupted,
}

/// Returns the next step of the user after an error of a file.
fn step(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge | io::ErrorKind::QuotaExceeded => {
            "free space, or choose a smaller size"
        }
        _ => "choose another folder",
    }
}

/// Measures random writes of 4 KiB to a new file in `folder`. The file loses its name before it is filled, so a program that
/// is killed later leaves nothing. `watch` is called at least every 16 writes, or MiB while the file is filled.
///
/// Returns `None` if the file system does not know O_DIRECT, which [`BenchTarget::File`] needs.
///
/// # Errors
/// [`BenchError`]. Nothing is left in the folder.
///
/// # Cost
/// Writes the file whole, then runs for the time of the options.
pub fn bench(
    folder: &Path,
    target: BenchTarget,
    options: &BenchOptions,
    watch: &mut Watch<'_>,
) -> Result<Option<BenchFigure>, BenchError> {
    let name = Unnamed { path: folder.join(format!(".lode-volume-bench-{}", Uuid::new_v4())) };
    let open = match target {
        BenchTarget::File => open_file(&name.path, options.size),
        BenchTarget::Block => open_blocks(&name.path, options).map(Some),
        BenchTarget::Dax => open_dax(&name.path, options).map(Some),
    };
    // No writer runs while the file has a name, except the one that made it.
    name.remove().map_err(|error| BenchError::File { folder: folder.to_owned(), op: "remove", error })?;
    let measured = match open? {
        Some(open) => measure(&open, options, watch),
        None => Ok(None),
    };
    measured.map_err(|error| match error {
        BenchError::Volume(error) => error.at(folder).into(),
        error => error,
    })
}

/// The name of a file that is removed.
struct Unnamed {
    path: PathBuf,
}

impl Unnamed {
    fn remove(self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            // The file was never made.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

/// An open target.
enum Open {
    File(File, PathBuf, u64),
    Block(Box<Atomic>),
    Dax { medium: Box<Mapping>, data_off: u64, count: u64 },
}

/// Opens a new file. `None` if the file system refuses O_DIRECT.
fn open_file(path: &Path, size: u64) -> Result<Option<Open>, BenchError> {
    let flags = (OFlags::DIRECT | OFlags::DSYNC).bits().cast_signed();
    let folder = path.parent().unwrap_or(path).to_owned();
    match File::options().read(true).write(true).create_new(true).custom_flags(flags).open(path) {
        Ok(file) => Ok(Some(Open::File(file, folder, size / WRITE as u64))),
        Err(error) if refuses_direct(&error) => Ok(None),
        Err(error) => Err(BenchError::File { folder, op: "make", error }),
    }
}

fn refuses_direct(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

fn create_options(options: &BenchOptions, format: VolumeFormat, class: VolumeClass) -> CreateVolume {
    let BenchOptions { size, durability, .. } = *options;
    CreateVolume { size, format, block_size: WRITE as u64, class, durability }
}

fn open_blocks(path: &Path, options: &BenchOptions) -> Result<Open, BenchError> {
    create(path, &create_options(options, VolumeFormat::Atomic, VolumeClass::Block))?;
    let options = OpenOptions { durability: options.durability, ..OpenOptions::new(Access::ReadWrite) };
    Ok(Open::Block(Box::new(Atomic(BlockPool::open(path, &options).map_err(VolumeError::from)?))))
}

fn open_dax(path: &Path, options: &BenchOptions) -> Result<Open, BenchError> {
    create(path, &create_options(options, VolumeFormat::Raw, VolumeClass::Dax))?;
    let (_lock, medium) = map(path, Access::ReadWrite, options.durability)?;
    let info = describe_medium(&medium, None)?;
    let data_off = info.data_off.ok_or(VolumeError::Absent)?;
    Ok(Open::Dax { medium: Box::new(medium), data_off, count: info.block_count })
}

impl Open {
    /// Returns the number of blocks.
    fn count(&self) -> u64 {
        match self {
            Open::File(_, _, count) | Open::Dax { count, .. } => *count,
            Open::Block(atomic) => atomic.block_count(),
        }
    }

    fn report(&self) -> Option<DurabilityReport> {
        match self {
            Open::File(..) => None,
            Open::Block(atomic) => Some(atomic.0.file().medium().report().clone()),
            Open::Dax { medium, .. } => Some(medium.report().clone()),
        }
    }

    /// Writes blocks from `block` on. They are durable on return, as far as the medium is.
    fn write(&self, block: u64, from: &[u8]) -> Result<(), BenchError> {
        match self {
            Open::File(file, folder, _) => file
                .write_all_at(from, block * WRITE as u64)
                .map_err(|error| BenchError::File { folder: folder.clone(), op: "write", error }),
            Open::Block(atomic) => {
                let mut batch = [Request::new(Op::Write { block, from }).with_fua()];
                atomic.run(&mut batch);
                let [Request { result, .. }] = batch;
                Ok(result.map_err(VolumeError::from)?)
            }
            Open::Dax { medium, data_off, .. } => {
                let at = PoolOffset::new(data_off + block * WRITE as u64);
                let faulted = |fault| VolumeError::from(of_block(block, WRITE)(BlockFault::from(fault)));
                FaultScope::run(|| medium.copy(at, from)).map_err(faulted)?;
                // ORDER: nothing follows: the content counts for nothing. Stop here: the file has no name any more.
                Ok(medium.drain().map_err(VolumeError::from)?)
            }
        }
    }
}

/// Fills the target, warms up and measures.
fn measure(
    open: &Open,
    options: &BenchOptions,
    watch: &mut Watch<'_>,
) -> Result<Option<BenchFigure>, BenchError> {
    let count = open.count();
    if count == 0 {
        return Err(BenchError::TooSmall { size: options.size });
    }
    let mut rng = fastrand::Rng::with_seed(count);
    // O_DIRECT wants a buffer at a multiple of the block size.
    let mut buffer = vec![0; PART + WRITE];
    let begin = buffer.as_ptr().align_offset(WRITE);
    let part = &mut buffer[begin..begin + PART];
    rng.fill(part);
    match fill(open, count, part, watch) {
        Err(BenchError::File { error, .. }) if refuses_direct(&error) => return Ok(None),
        filled => filled?,
    }
    let block = &mut part[..WRITE];
    write_for(open, options.warm_up, &mut rng, block, watch)?;
    let (writes, time) = write_for(open, options.time, &mut rng, block, watch)?;
    Ok(Some(BenchFigure { writes, time, report: open.report() }))
}

/// Calls `watch`.
fn go_on(bytes: usize, watch: &mut Watch<'_>) -> Result<(), BenchError> {
    if watch(bytes as u64).is_break() { Err(BenchError::Interrupted) } else { Ok(()) }
}

/// Writes all blocks.
fn fill(open: &Open, count: u64, part: &[u8], watch: &mut Watch<'_>) -> Result<(), BenchError> {
    let step = part.len() / WRITE;
    for block in (0..count).step_by(step) {
        let len = (count - block).min(step as u64) as usize * WRITE;
        open.write(block, &part[..len])?;
        go_on(len, watch)?;
    }
    Ok(())
}

/// Writes random blocks until the time is over. Returns the number of writes and their time.
fn write_for(
    open: &Open,
    time: Duration,
    rng: &mut fastrand::Rng,
    block: &mut [u8],
    watch: &mut Watch<'_>,
) -> Result<(u64, Duration), BenchError> {
    let (count, begin, mut writes) = (open.count(), Instant::now(), 0_u64);
    loop {
        for _ in 0..LAP_LEN {
            writes += 1;
            block[..8].copy_from_slice(&writes.to_le_bytes());
            open.write(rng.u64(..count), block)?;
        }
        let elapsed = begin.elapsed();
        if elapsed >= time {
            return Ok((writes, elapsed));
        }
        go_on(LAP_LEN as usize * WRITE, watch)?;
    }
}
