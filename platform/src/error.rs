//! Errors of operations on a platform.

use crate::image::ImageFault;
use crate::machine::{Handle, MachineFault};
use crate::namespace::Mode;
use crate::plan::Impossible;
use lode_nvdimm::{BttDamage, InfoBlockError, LabelError};
use std::fmt;
use std::io;
use std::path::PathBuf;
use uuid::Uuid;

/// Error of an operation on a platform. The operation changed nothing, except after [`Interrupted`].
///
/// [`Interrupted`]: PlatformError::Interrupted
#[derive(Debug)]
#[non_exhaustive]
pub enum PlatformError {
    /// The machine file can't be used.
    Machine {
        /// The file, or the name of the machine.
        source: PathBuf,
        /// The fault.
        fault: MachineFault,
    },
    /// The kernel refused an operation.
    Io {
        /// The operation.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The change is durable, but not all files have it: the next command completes it.
    Interrupted {
        /// The operation.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The directory does not hold the state of a platform.
    NoState {
        /// The directory.
        path: PathBuf,
    },
    /// The directory is not empty.
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The folder is not a kernel's sysfs.
    NoSysfs {
        /// The folder.
        path: PathBuf,
    },
    /// Kernels do not show the value in sysfs.
    NotInSysfs {
        /// The value.
        what: &'static str,
        /// The command that shows it.
        ask: &'static str,
    },
    /// The memory is poisoned: the medium can't return the data.
    Poisoned {
        /// The region or module that is read.
        of: String,
        /// Offset of the range in it, in bytes.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// The module that holds the range.
        module: Handle,
    },
    /// The sectors are not in the namespace.
    NoSuchSectors {
        /// The namespace.
        name: String,
        /// The first sector.
        first: u64,
        /// Number of sectors.
        count: u64,
        /// Sectors that the namespace has.
        has: u64,
    },
    /// The sectors are more than can be injected or found at a time.
    TooManySectors {
        /// Number of sectors.
        count: u64,
        /// The limit.
        most: u64,
    },
    /// The region is not made of modules.
    NoModulesBehind {
        /// The region.
        region: u32,
    },
    /// Another command uses the directory.
    InUse {
        /// The directory.
        path: PathBuf,
    },
    /// A newer program made the directory.
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
        /// The newest known version.
        known: u32,
    },
    /// A file of the directory is not one that this program wrote.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Message of the parser.
        says: String,
    },
    /// The module does not exist.
    UnknownModule {
        /// The handle that was given.
        module: Handle,
    },
    /// No value has this name.
    UnknownValue {
        /// The name that was given.
        name: String,
    },
    /// The socket does not exist.
    UnknownSocket {
        /// The number that was given.
        socket: u16,
    },
    /// The module does not answer.
    DeadModule {
        /// The module.
        module: Handle,
    },
    /// The module is locked: its data is not accessible.
    LockedModule {
        /// The module.
        module: Handle,
    },
    /// No module can be used.
    NoModules,
    /// The percentages of a goal exceed 100.
    Percentages {
        /// Percentage of volatile memory.
        memory: u8,
        /// Percentage that stays unmapped.
        reserved: u8,
    },
    /// A percentage of a goal is less than half of firmware's alignment.
    TooSmallAPart {
        /// The percentage.
        percent: u8,
        /// The module.
        module: Handle,
        /// Its capacity in bytes.
        capacity: u64,
        /// Firmware allocates multiples of these bytes.
        alignment: u64,
    },
    /// The module has a goal that did not take effect yet.
    GoalPending {
        /// The module.
        module: Handle,
    },
    /// The module holds a part of a namespace.
    ModuleInUse {
        /// The module.
        module: Handle,
        /// The namespace.
        namespace: String,
    },
    /// The region does not exist.
    UnknownRegion {
        /// Its number.
        region: u32,
    },
    /// The namespace does not exist.
    UnknownNamespace {
        /// The name that was given.
        name: String,
    },
    /// The kernel has no module with this number.
    UnknownDevice {
        /// N of nmemN.
        index: usize,
    },
    /// The region is disabled, or one of its modules is dead or locked.
    RegionDisabled {
        /// Its number.
        region: u32,
    },
    /// The namespace is disabled, so it has no device.
    NamespaceDisabled {
        /// Its name.
        name: String,
    },
    /// The region is active, so the labels of its modules can't be changed.
    RegionActive {
        /// Its number.
        region: u32,
        /// The module.
        module: Handle,
    },
    /// The region has no labels: all of it is one namespace.
    NoLabels {
        /// Its number.
        region: u32,
    },
    /// The region's label areas have no free slot for another namespace.
    NoSlots {
        /// Its number.
        region: u32,
    },
    /// The step is only for real machines.
    OnlyReal,
    /// The namespace is active.
    NamespaceActive {
        /// Its name.
        name: String,
    },
    /// No free range is large enough.
    NoSpace {
        /// The region; `None` if all regions were tried.
        region: Option<u32>,
        /// Bytes that are required.
        want: u64,
        /// The largest free range in bytes.
        largest: u64,
    },
    /// The size is not a multiple of the unit.
    Misaligned {
        /// The size in bytes.
        size: u64,
        /// Number of modules over which the region is interleaved.
        ways: u64,
        /// The unit in bytes.
        unit: u64,
        /// The next valid size.
        fitting: u64,
    },
    /// The alignment is invalid for page maps, or the namespace has no page map.
    Align {
        /// The alignment in bytes.
        align: u64,
        /// Mode of the namespace.
        mode: Mode,
    },
    /// The namespace is smaller than the kernel's minimum.
    TooSmall {
        /// Its size in bytes.
        size: u64,
        /// The kernel's minimum in bytes.
        size_min: u64,
    },
    /// The text contains no memory map.
    NoMemoryMap,
    /// A range of a memory map ends before its start, or after the last address.
    MemoryRange {
        /// The number of the line, from 1.
        line: u64,
        /// Its first byte.
        start: u64,
        /// Its last byte.
        last: u64,
    },
    /// The RAM has too few whole sections for the request.
    NoRam {
        /// Bytes that were requested.
        want: u64,
        /// Bytes of the largest range that is available.
        largest: u64,
    },
    /// The namespace has no BTT.
    NoSectors {
        /// Its name.
        name: String,
    },
    /// The first info block of an arena is damaged.
    ArenaInfo {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
        /// The damage.
        error: InfoBlockError,
    },
    /// An arena extends past the end of its namespace.
    ArenaEnd {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
    },
    /// The info block at the end of an arena differs from the one at its start.
    ArenaCopies {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
    },
    /// The map or the flog of an arena is damaged.
    Arena {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
        /// The damage.
        error: BttDamage,
    },
    /// The sector size is not supported.
    SectorSize {
        /// The size in bytes.
        size: u64,
    },
    /// The UUID belongs to another namespace.
    UuidTaken {
        /// The UUID.
        uuid: Uuid,
    },
    /// The page map or BTT does not fit the namespace.
    Info {
        /// The size of the namespace in bytes.
        size: u64,
        /// The reason.
        error: InfoBlockError,
    },
    /// The label area of a module can't be used, or has no space.
    Labels {
        /// The module.
        module: Handle,
        /// The reason.
        error: LabelError,
    },
    /// The label area already holds labels.
    LabelsThere {
        /// The module.
        module: Handle,
    },
    /// The length is not that of the label area.
    LabelAreaSize {
        /// The module.
        module: Handle,
        /// Bytes of the area.
        size: u64,
        /// Bytes that were given.
        found: u64,
    },
    /// The image can't be used or made.
    Image {
        /// Path of the image.
        path: PathBuf,
        /// The fault.
        fault: Box<ImageFault>,
    },
    /// The namespace is not in fsdax mode.
    NotFsdax {
        /// Its name.
        name: String,
    },
    /// A program is not installed.
    NoProgram {
        /// Its name.
        program: &'static str,
        /// The Debian package that contains it.
        package: &'static str,
    },
    /// A program failed.
    ProgramFailed {
        /// Its name.
        program: &'static str,
        /// Its error output.
        says: String,
    },
    /// The user stopped the operation.
    Stopped,
    /// The module shares an interleave set with a module that the goal does not include.
    SetSplit {
        /// The module that the goal is for.
        module: Handle,
        /// The module that it shares a set with.
        other: Handle,
    },
    /// No plan can fulfil the request.
    Impossible(
        /// The request, the reason, and the nearest request that can be fulfilled.
        Box<Impossible>,
    ),
}

impl fmt::Display for PlatformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::Machine { .. }
            | E::Io { .. }
            | E::Interrupted { .. }
            | E::NoSysfs { .. }
            | E::NotInSysfs { .. }
            | E::NoState { .. }
            | E::NotEmpty { .. }
            | E::InUse { .. }
            | E::Newer { .. }
            | E::Corrupt { .. } => self.fmt_directory(f),
            E::UnknownModule { .. }
            | E::UnknownValue { .. }
            | E::UnknownSocket { .. }
            | E::DeadModule { .. }
            | E::LockedModule { .. }
            | E::NoModules
            | E::Percentages { .. }
            | E::TooSmallAPart { .. }
            | E::GoalPending { .. }
            | E::SetSplit { .. }
            | E::ModuleInUse { .. }
            | E::UnknownDevice { .. }
            | E::Labels { .. }
            | E::LabelsThere { .. }
            | E::LabelAreaSize { .. } => self.fmt_module(f),
            E::UnknownRegion { .. }
            | E::UnknownNamespace { .. }
            | E::RegionDisabled { .. }
            | E::NamespaceDisabled { .. }
            | E::RegionActive { .. }
            | E::NoLabels { .. }
            | E::NoSlots { .. }
            | E::OnlyReal
            | E::NamespaceActive { .. }
            | E::NoSpace { .. }
            | E::Misaligned { .. }
            | E::Align { .. }
            | E::TooSmall { .. }
            | E::SectorSize { .. }
            | E::UuidTaken { .. }
            | E::Info { .. } => self.fmt_namespace(f),
            E::NoSectors { .. }
            | E::ArenaInfo { .. }
            | E::ArenaEnd { .. }
            | E::ArenaCopies { .. }
            | E::Arena { .. } => self.fmt_sectors(f),
            E::Image { .. }
            | E::NotFsdax { .. }
            | E::NoProgram { .. }
            | E::ProgramFailed { .. }
            | E::Stopped => self.fmt_image(f),
            E::Poisoned { .. }
            | E::NoSuchSectors { .. }
            | E::TooManySectors { .. }
            | E::NoModulesBehind { .. } => self.fmt_media_errors(f),
            E::Impossible(impossible) => impossible.fmt(f),
            E::NoMemoryMap | E::MemoryRange { .. } | E::NoRam { .. } => self.fmt_memory(f),
        }
    }
}

impl PlatformError {
    /// Makes the error of an image that can't be used or made.
    pub(crate) fn image(path: impl Into<PathBuf>, fault: ImageFault) -> PlatformError {
        PlatformError::Image { path: path.into(), fault: Box::new(fault) }
    }

    /// Formats the errors of machine files and directories.
    fn fmt_directory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::Machine { source, fault } => write!(f, "{}: {fault}", source.display()),
            E::Io { what, path, error } => write!(f, "{what} {}: {error}", path.display()),
            E::Interrupted { what, path, error } => {
                write!(
                    f,
                    "{what} {}: {error}; the change is noted, the next command finishes it",
                    path.display()
                )
            }
            E::NoSysfs { path } => write!(
                f,
                "{} is not what a kernel shows of a machine: there is no folder `bus` in it; the live one is /sys",
                path.display()
            ),
            E::NotInSysfs { what, ask } => {
                write!(f, "kernels don't tell {what} in sysfs; `{ask}` does, as root")
            }
            E::NoState { path } => {
                write!(f, "{} holds no platform; `lode platform init` makes one", path.display())
            }
            E::NotEmpty { path } => write!(f, "{} is not empty; choose another directory", path.display()),
            E::InUse { path } => write!(f, "{} is in use by another command; try again", path.display()),
            E::Newer { path, found, known } => write!(
                f,
                "{} has format {found}, made by a newer program; this one knows formats up to {known}",
                path.display()
            ),
            E::Corrupt { path, says } => {
                write!(f, "{} was changed by another program: {says}", path.display())
            }
            _ => Ok(()),
        }
    }

    /// Formats the errors of modules and goals.
    fn fmt_module(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::UnknownModule { module } => {
                write!(f, "there is no module {module}; `lode ipmctl show -dimm` lists them")
            }
            E::UnknownValue { name } => write!(f, "there is no value {name} to show; -a shows all"),
            E::UnknownSocket { socket } => {
                write!(f, "there is no socket {socket:#06x}; `lode ipmctl show -topology` lists the modules")
            }
            E::DeadModule { module } => {
                write!(f, "module {module} is dead: no goal or namespace can use it; leave it out with -dimm")
            }
            E::LockedModule { module } => {
                write!(f, "module {module} is locked: unlock it first, or leave it out with -dimm")
            }
            E::NoModules => f.write_str("no module is left that could be used"),
            E::Percentages { memory, reserved } => {
                write!(f, "MemoryMode={memory} and Reserved={reserved} are more than 100 together")
            }
            E::TooSmallAPart { percent, module, capacity, alignment } => write!(
                f,
                "{percent}% of the {capacity} bytes of module {module} is less than half of {alignment} bytes, of \
                 which firmware gives whole multiples"
            ),
            E::GoalPending { module } => write!(
                f,
                "module {module} has a goal already; reboot, or delete it with `lode ipmctl delete -goal`"
            ),
            E::SetSplit { module, other } => write!(
                f,
                "module {module} is interleaved with {other}, which the goal leaves as it is; add it to -dimm"
            ),
            E::ModuleInUse { module, namespace } => write!(
                f,
                "module {module} has a part of {namespace}, whose data a goal would destroy; \
                 `lode ndctl destroy-namespace {namespace}` first"
            ),
            E::UnknownDevice { index } => {
                write!(f, "there is no module nmem{index}; `lode ndctl list -Di` lists them")
            }
            E::Labels { module, error } => write!(f, "the labels of module {module}: {error}"),
            E::LabelsThere { module } => {
                write!(
                    f,
                    "module {module} has labels already; -f makes them anew, and its namespaces are gone"
                )
            }
            E::LabelAreaSize { module, size, found } => {
                write!(f, "the label area of module {module} has {size} bytes, not {found}")
            }
            _ => Ok(()),
        }
    }

    /// Formats the errors of regions and namespaces.
    fn fmt_namespace(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::UnknownRegion { region } => {
                write!(f, "there is no region{region}; `lode ndctl list -R` lists them")
            }
            E::UnknownNamespace { name } => {
                write!(f, "there is no namespace {name}; `lode ndctl list -Ni` lists them")
            }
            E::RegionDisabled { region } => {
                write!(f, "region{region} is disabled; `lode ndctl enable-region region{region}`")
            }
            E::NamespaceDisabled { name } => {
                write!(f, "{name} is disabled; `lode ndctl enable-namespace {name}`")
            }
            E::RegionActive { region, module } => write!(
                f,
                "module {module} is part of region{region}, which is in use; \
                 `lode ndctl disable-region region{region}` first"
            ),
            E::NoLabels { region } => write!(
                f,
                "region{region} has no labels, so it is one namespace that stays as it is; where modules have label \
                 areas, `lode ndctl init-labels` makes them"
            ),
            E::NoSlots { region } => write!(
                f,
                "the labels of region{region} have no room for another namespace; `ndctl destroy-namespace` makes room"
            ),
            E::OnlyReal => f.write_str("this is done to real machines; emulated ones have no CXL devices"),
            E::NamespaceActive { name } => {
                write!(f, "{name} is in use; disable it first, or say -f")
            }
            E::NoSpace { region, want, largest } => {
                let place = region.map_or("any region".to_owned(), |region| format!("region{region}"));
                write!(f, "{want} bytes are not free in {place}: the largest free range has {largest}")
            }
            E::Misaligned { size, ways, unit, fitting } => write!(
                f,
                "{size} bytes over {ways} modules are not a multiple of {unit} bytes; --size={fitting} is"
            ),
            E::Align { mode: mode @ (Mode::Sector | Mode::Raw), .. } => {
                write!(
                    f,
                    "mode {} has no page map that could be aligned: leave the alignment out",
                    mode.word()
                )
            }
            E::Align { align, .. } => {
                write!(f, "page maps can be aligned to 4K, 2M or 1G, not to {align} bytes")
            }
            E::TooSmall { size, size_min } => {
                write!(f, "a namespace of {size} bytes is too small: this mode takes {size_min} and more")
            }
            E::SectorSize { size } => write!(
                f,
                "sectors can't have {size} bytes: those of mode sector have 512, 520, 528, 4096, 4104, 4160 or 4224, \
                 others 512 or 4096"
            ),
            E::UuidTaken { uuid } => write!(f, "there is a namespace {uuid} already"),
            E::Info { size, error } => write!(f, "a namespace of {size} bytes can't be that: {error}"),
            _ => Ok(()),
        }
    }

    /// Formats the errors of poisoned media.
    fn fmt_media_errors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::Poisoned { of, offset, len, module } => write!(
                f,
                "{of}: the range of {len} bytes at {offset:#x} can't be read: the memory is poisoned, on \
                 module {module}; `lode ndctl list -RM` lists what is known to be lost"
            ),
            E::NoSuchSectors { name, first, count, has } => {
                write!(f, "{name} has {has} sectors of 512 bytes: it can't be {count} from {first} on")
            }
            E::TooManySectors { count, most } => {
                write!(f, "{count} sectors are too many at a time: {most} are the most")
            }
            E::NoModulesBehind { region } => {
                write!(f, "region{region} is RAM that stands in for modules: it has no media errors")
            }
            _ => Ok(()),
        }
    }

    /// Formats the errors of memory maps.
    fn fmt_memory(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::NoMemoryMap => f.write_str(
                "there is no memory map in it: lines like `BIOS-e820: [mem 0x0000000100000000-0x0000000c7fffffff] \
                 usable`, or with `user:`, which the kernel prints first of all; `dmesg` may have lost them, \
                 `journalctl -k -b` has them",
            ),
            E::MemoryRange { line, start, last } => {
                write!(f, "line {line}: a range of memory can't go from {start:#x} to {last:#x}")
            }
            E::NoRam { want, largest: 0 } => write!(
                f,
                "{want} bytes of RAM can't be had: behind the first GiB no range of it has a whole section of 128M"
            ),
            E::NoRam { want, largest } => write!(
                f,
                "{want} bytes of RAM can't be had in one piece: the largest that would fit is {}M",
                largest >> 20
            ),
            _ => Ok(()),
        }
    }

    /// Formats the errors of images.
    fn fmt_image(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::Image { path, fault } => write!(f, "{}: {fault}", path.display()),
            E::NotFsdax { name } => write!(
                f,
                "{name} is not in use as fsdax; `lode ndctl create-namespace -e {name} -m fsdax -f` makes it so"
            ),
            E::NoProgram { program, package } => write!(
                f,
                "{program} is not on this machine; install it, on Debian with `apt-get install {package}`"
            ),
            E::ProgramFailed { program, says } => write!(f, "{program} failed: {says}"),
            E::Stopped => f.write_str("it was stopped; nothing was changed"),
            _ => Ok(()),
        }
    }

    /// Formats the errors of BTTs.
    fn fmt_sectors(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::NoSectors { name } => {
                write!(f, "{name} has no atomic sectors, or the block that tells of them is not sound")
            }
            E::ArenaInfo { name, arena, error } => write!(f, "{name}, arena {arena}: {error}"),
            E::ArenaEnd { name, arena } => {
                write!(f, "{name}, arena {arena}: it is longer than the namespace")
            }
            E::ArenaCopies { name, arena } => {
                write!(f, "{name}, arena {arena}: the info blocks at its start and its end differ")
            }
            E::Arena { name, arena, error } => write!(f, "{name}, arena {arena}: {error}"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for PlatformError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlatformError::Machine { fault, .. } => Some(fault),
            PlatformError::Io { error, .. } | PlatformError::Interrupted { error, .. } => Some(error),
            PlatformError::Info { error, .. } | PlatformError::ArenaInfo { error, .. } => Some(error),
            PlatformError::Arena { error, .. } => Some(error),
            PlatformError::Labels { error, .. } => Some(error),
            PlatformError::Image { fault, .. } => Some(fault.as_ref()),
            _ => None,
        }
    }
}
