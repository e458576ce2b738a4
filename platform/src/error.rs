//! Why something could not be done to a platform.

use crate::machine::{Handle, MachineFault};
use lode_layout::{InfoBlockError, LabelError};
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
    /// An alignment that page maps can't have.
    Align {
        /// The alignment in bytes.
        align: u64,
    },
    /// A namespace that is smaller than the kernel takes.
    TooSmall {
        /// Its size in bytes.
        size: u64,
        /// The least that the kernel takes.
        size_min: u64,
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
    /// The module shares an interleave set with one that the goal leaves as it is.
    SetSplit {
        /// The module that the goal is for.
        module: Handle,
        /// The module that it shares a set with.
        other: Handle,
    },
}

impl fmt::Display for PlatformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use PlatformError as E;
        match self {
            E::Machine { .. }
            | E::Io { .. }
            | E::Interrupted { .. }
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
            | E::RegionActive { .. }
            | E::NoLabels { .. }
            | E::NamespaceActive { .. }
            | E::NoSpace { .. }
            | E::Misaligned { .. }
            | E::Align { .. }
            | E::TooSmall { .. }
            | E::SectorSize { .. }
            | E::UuidTaken { .. }
            | E::Info { .. } => self.fmt_namespace(f),
        }
    }
}

impl PlatformError {
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
            E::Align { align } => write!(f, "page maps can be aligned to 4K, 2M or 1G, not to {align} bytes"),
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
}

impl std::error::Error for PlatformError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PlatformError::Machine { fault, .. } => Some(fault),
            PlatformError::Io { error, .. } | PlatformError::Interrupted { error, .. } => Some(error),
            PlatformError::Info { error, .. } => Some(error),
            PlatformError::Labels { error, .. } => Some(error),
            _ => None,
        }
    }
}
