//! Why something could not be done to a platform.

use crate::image::ImageFault;
use crate::machine::{Handle, MachineFault};
use crate::namespace::Mode;
use crate::plan::Impossible;
use lode_layout::{BttDamage, InfoBlockError, LabelError};
use std::fmt;
use std::io;
use std::path::PathBuf;
use uuid::Uuid;

/// Why something could not be done to a platform. Nothing was changed then, [`Interrupted`] apart.
///
/// [`Interrupted`]: PlatformError::Interrupted
#[derive(Debug)]
#[non_exhaustive]
pub enum PlatformError {
    /// A machine file that can't be used.
    Machine {
        /// The file, or the name of the machine.
        source: PathBuf,
        /// What is wrong.
        fault: MachineFault,
    },
    /// The kernel refused.
    Io {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The change is durable but not yet everywhere: the next command finishes it.
    Interrupted {
        /// What was tried.
        what: &'static str,
        /// Where.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The directory does not hold the state of a platform.
    NoState {
        /// The directory.
        path: PathBuf,
    },
    /// There is something in the directory already.
    NotEmpty {
        /// The directory.
        path: PathBuf,
    },
    /// The folder is not what a kernel shows of a machine.
    NoSysfs {
        /// The folder.
        path: PathBuf,
    },
    /// Kernels don't tell it in sysfs.
    NotInSysfs {
        /// What.
        what: &'static str,
        /// The command that tells it.
        ask: &'static str,
    },
    /// What is to be read is lost: the medium can't give it.
    Poisoned {
        /// The region that is read, or the module.
        of: String,
        /// Where the range begins, in bytes from its start.
        offset: u64,
        /// Bytes.
        len: u64,
        /// The module that it is on.
        module: Handle,
    },
    /// The namespace does not have such sectors.
    NoSuchSectors {
        /// The namespace.
        name: String,
        /// The first sector.
        first: u64,
        /// How many.
        count: u64,
        /// How many it has.
        has: u64,
    },
    /// More sectors than can be lost or found at a time.
    TooManySectors {
        /// How many.
        count: u64,
        /// The most.
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
        /// Its format.
        found: u32,
        /// The newest format that is known.
        known: u32,
    },
    /// A file of the directory is not what this program wrote.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        says: String,
    },
    /// There is no such module.
    UnknownModule {
        /// What was asked for.
        module: Handle,
    },
    /// There is no value of this name to show.
    UnknownValue {
        /// What was asked for.
        name: String,
    },
    /// There is no such socket.
    UnknownSocket {
        /// What was asked for.
        socket: u16,
    },
    /// The module does not answer.
    DeadModule {
        /// Which.
        module: Handle,
    },
    /// The module's data can't be reached.
    LockedModule {
        /// Which.
        module: Handle,
    },
    /// No module is left to do it with.
    NoModules,
    /// Parts of a goal that are more than the whole.
    Percentages {
        /// For volatile memory.
        memory: u8,
        /// Not to be mapped.
        reserved: u8,
    },
    /// A part of a goal that is less than half of what firmware can give.
    TooSmallAPart {
        /// The part.
        percent: u8,
        /// Of which module.
        module: Handle,
        /// Its capacity in bytes.
        capacity: u64,
        /// Firmware gives multiples of these bytes.
        alignment: u64,
    },
    /// The module has a goal that did not take effect yet.
    GoalPending {
        /// Which.
        module: Handle,
    },
    /// The module has a part of a namespace.
    ModuleInUse {
        /// Which.
        module: Handle,
        /// The namespace.
        namespace: String,
    },
    /// There is no such region.
    UnknownRegion {
        /// Its number.
        region: u32,
    },
    /// There is no such namespace.
    UnknownNamespace {
        /// What was asked for.
        name: String,
    },
    /// There is no such module, by the kernel's number.
    UnknownDevice {
        /// N of nmemN.
        index: usize,
    },
    /// The region is switched off, or a module of it is dead or locked.
    RegionDisabled {
        /// Its number.
        region: u32,
    },
    /// The namespace is switched off, so it has no device.
    NamespaceDisabled {
        /// Its name.
        name: String,
    },
    /// The region is in use, so the labels of its modules are not changed.
    RegionActive {
        /// Its number.
        region: u32,
        /// The module.
        module: Handle,
    },
    /// The region has no labels, but is one namespace.
    NoLabels {
        /// Its number.
        region: u32,
    },
    /// The labels of the region have no room for another namespace.
    NoSlots {
        /// Its number.
        region: u32,
    },
    /// It is a step of a plan for a real machine.
    OnlyReal,
    /// The namespace is in use.
    NamespaceActive {
        /// Its name.
        name: String,
    },
    /// No free range is large enough.
    NoSpace {
        /// The region; none if all were looked at.
        region: Option<u32>,
        /// Bytes that are wanted.
        want: u64,
        /// The largest free range in bytes.
        largest: u64,
    },
    /// A size that is not a multiple of what it must be.
    Misaligned {
        /// The size in bytes.
        size: u64,
        /// Over how many modules the region is interleaved.
        ways: u64,
        /// What it must be a multiple of.
        unit: u64,
        /// The next size that fits.
        fitting: u64,
    },
    /// An alignment that page maps can't have, or that is asked for where there is no page map.
    Align {
        /// The alignment in bytes.
        align: u64,
        /// What the namespace was to be.
        mode: Mode,
    },
    /// A namespace that is smaller than the kernel takes.
    TooSmall {
        /// Its size in bytes.
        size: u64,
        /// The least that the kernel takes.
        size_min: u64,
    },
    /// A text without a memory map.
    NoMemoryMap,
    /// A range of a memory map that ends before it begins, or behind the last address.
    MemoryRange {
        /// The number of the line, from 1.
        line: u64,
        /// Its first byte.
        start: u64,
        /// Its last byte.
        last: u64,
    },
    /// More RAM than a range of it has in whole sections.
    NoRam {
        /// Bytes that were asked for.
        want: u64,
        /// Bytes of the largest part that could be had.
        largest: u64,
    },
    /// A namespace without the table that makes sectors atomic.
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
        /// What is wrong.
        error: InfoBlockError,
    },
    /// An arena goes on behind its namespace.
    ArenaEnd {
        /// The namespace.
        name: String,
        /// The number of the arena, from 0.
        arena: u64,
    },
    /// The info block at the end of an arena is not the one at its start.
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
        /// What is wrong.
        error: BttDamage,
    },
    /// A size of sectors that there is not.
    SectorSize {
        /// The size in bytes.
        size: u64,
    },
    /// The identity belongs to another namespace.
    UuidTaken {
        /// The identity.
        uuid: Uuid,
    },
    /// What is to be made of a namespace does not fit it.
    Info {
        /// The size of the namespace in bytes.
        size: u64,
        /// Why.
        error: InfoBlockError,
    },
    /// The label area of a module can't be used, or has no space.
    Labels {
        /// Which.
        module: Handle,
        /// Why.
        error: LabelError,
    },
    /// The label area holds labels already.
    LabelsThere {
        /// Which.
        module: Handle,
    },
    /// Bytes that are not as many as the label area has.
    LabelAreaSize {
        /// Which.
        module: Handle,
        /// The bytes of the area.
        size: u64,
        /// The bytes that were given.
        found: u64,
    },
    /// An image that can't be used, or made.
    Image {
        /// Its file.
        path: PathBuf,
        /// What is wrong.
        fault: Box<ImageFault>,
    },
    /// A namespace without a page map for file systems.
    NotFsdax {
        /// Its name.
        name: String,
    },
    /// A program of this machine is not there.
    NoProgram {
        /// Its name.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program of this machine failed.
    ProgramFailed {
        /// Its name.
        program: &'static str,
        /// What it says.
        says: String,
    },
    /// Somebody wanted it to stop.
    Stopped,
    /// The module shares an interleave set with one that the goal leaves as it is.
    SetSplit {
        /// The module that the goal is for.
        module: Handle,
        /// The module that it shares a set with.
        other: Handle,
    },
    /// A wish that no plan can meet.
    Impossible(
        /// Which, why, and the nearest one that can be met.
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
    /// An image that can't be used, or made.
    pub(crate) fn image(path: impl Into<PathBuf>, fault: ImageFault) -> PlatformError {
        PlatformError::Image { path: path.into(), fault: Box::new(fault) }
    }

    /// Of machine files and directories.
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
            E::Corrupt { path, says } => write!(f, "{} was changed by somebody else: {says}", path.display()),
            _ => Ok(()),
        }
    }

    /// Of modules and goals.
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

    /// Of regions and namespaces.
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

    /// Of what can't be read.
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

    /// Of memory maps.
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

    /// Of images.
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

    /// Of atomic sectors.
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
