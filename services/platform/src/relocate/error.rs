//! Errors of moves, replacements and extensions.

use crate::machine::{Handle, MachineError};
use crate::plan::amount::brief;
use std::path::PathBuf;
use thiserror::Error;
use uuid::Uuid;

/// Namespaces can't be moved, or a module can't be exchanged or added.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RelocateError {
    /// No place has room for a namespace.
    #[error(
        "{device} ({}) has no room elsewhere: {} are missing; {}{}; make room there, or name a folder to take it as a file",
        brief(*size),
        brief(size.saturating_sub(largest(free))),
        free_text(free),
        unused_text(unconfigured)
    )]
    NoRoom {
        /// The kernel's name of the namespace.
        device: String,
        /// Bytes that are needed.
        size: u64,
        /// The regions that were tried, each with the bytes of its largest free range.
        free: Vec<(u32, u64)>,
        /// Modules that are not configured, and could have room.
        unconfigured: Vec<Handle>,
    },
    /// The destination is a part of what is evacuated.
    #[error("region{region} has a part on {module}, which is evacuated; name another region, or a folder")]
    SameModule {
        /// Number of the region.
        region: u32,
        /// The module.
        module: Handle,
    },
    /// The destination is no folder.
    #[error("{} is neither a region nor a folder; name one, as region1 or /backup", path.display())]
    NoPlace {
        /// The path.
        path: PathBuf,
    },
    /// A file with the name of the copy exists.
    #[error("{} exists, and would be the copy of {device}; move it away, or name another folder", path.display())]
    FileExists {
        /// The file.
        path: PathBuf,
        /// The kernel's name of the namespace.
        device: String,
    },
    /// The namespace has no labels, so it is its whole region and can't be made anew.
    #[error(
        "{device} has no labels, so it can't be destroyed after its data was moved; copy it to an image, and label the region"
    )]
    Unlabelled {
        /// The kernel's name of the namespace.
        device: String,
    },
    /// The namespace is disabled, so it has no device to copy.
    #[error("{device} is disabled, so it has no device to copy from; enable it, or destroy it with its data")]
    Disabled {
        /// The kernel's name of the namespace.
        device: String,
    },
    /// A process maps the media of a namespace.
    #[error("{device} is in use: {program} (process {pid}) maps it; end that process first")]
    Mapped {
        /// The kernel's name of the namespace.
        device: String,
        /// The process.
        pid: u32,
        /// Name of its program.
        program: String,
    },
    /// The data read back from the copy differs.
    #[error(
        "the copy of {device} in {place} is gone, or differs from it; nothing was destroyed, repeat the command to copy it again"
    )]
    CopyDiffers {
        /// The kernel's name of the namespace.
        device: String,
        /// The copy.
        place: String,
    },
    /// A file with the data of a namespace has changed since it was written.
    #[error(
        "{} is not as it was written with the data of {device}; put the right file there, or take it as it is by force",
        path.display()
    )]
    FileChanged {
        /// The file.
        path: PathBuf,
        /// The kernel's name of the namespace.
        device: String,
    },
    /// The place of data that is to come back is gone.
    #[error(
        "{place}, where the data of {device} is, does not exist any more; bring it back, or give the data up by force"
    )]
    PlaceGone {
        /// The kernel's name of the namespace.
        device: String,
        /// The namespace or the file.
        place: String,
    },
    /// A module is dead, so data interleaved over it can't be read.
    #[error("{module} is dead, so {} can't be read; to give them up, force the replacement", devices.join(", "))]
    DataLost {
        /// The module.
        module: Handle,
        /// The kernel's names of the namespaces.
        devices: Vec<String>,
    },
    /// The new module can't be used.
    #[error("the new module for {module} {fault}; {remedy}")]
    NewModule {
        /// The slot.
        module: Handle,
        /// The fault.
        fault: String,
        /// The remedy.
        remedy: &'static str,
    },
    /// The labels of the new module belong to an interleave set.
    #[error(
        "the new module for {module} has labels of {namespaces} namespaces of {}; put it back to where it is from, or \
         erase them by force",
        if *own { "the set that it is exchanged in".to_owned() } else { format!("the interleave set {set:#x}") }
    )]
    ForeignLabels {
        /// The slot.
        module: Handle,
        /// Number of namespaces.
        namespaces: usize,
        /// The id of the set.
        set: u64,
        /// True if it is a set that the old module is part of.
        own: bool,
    },
    /// After the exchange, a namespace has no room at home.
    #[error(
        "after the exchange {device} ({}) has no room: {} are missing; take a larger module, or evacuate {module} and \
         leave it where it is then",
        brief(*size),
        brief(*missing)
    )]
    NoRoomAtHome {
        /// The kernel's name of the namespace.
        device: String,
        /// The slot.
        module: Handle,
        /// Bytes that it needs.
        size: u64,
        /// Bytes that are missing in the largest free range.
        missing: u64,
    },
    /// Other modules of the set have a passphrase, so that no goal takes effect on them.
    #[error(
        "{module} has a passphrase, and firmware applies no goal to its set; remove the passphrase first"
    )]
    Passphrase {
        /// The module.
        module: Handle,
    },
    /// A module has a goal that would take effect with the exchange.
    #[error("{module} has a goal that did not take effect yet; reboot, or delete the goal")]
    GoalPending {
        /// The module.
        module: Handle,
    },
    /// The namespace, or a copy of it, is a part of another move that is not done.
    #[error(
        "{device} is on its way in another move that is not done; repeat the command that began it first"
    )]
    Unfinished {
        /// The kernel's name of the namespace.
        device: String,
    },
    /// Namespaces that were moved away come back by another command, which is not done.
    #[error("namespaces that left {module} are on their way back by another command; finish that one first")]
    ReturnBegun {
        /// The module.
        module: Handle,
    },
    /// A namespace was destroyed while it grew, and another one has its name.
    #[error(
        "{device} was made after one of this name was destroyed while it grew; finish that one first, as {uuid}"
    )]
    OtherGrows {
        /// The kernel's name of both.
        device: String,
        /// The UUID of the destroyed one.
        uuid: Uuid,
    },
    /// The data at home differs from the copy that it was made of.
    #[error(
        "the data of {device} differs from its copy in {place}; destroy {device} to take the copy again, or keep both as \
         they are by force"
    )]
    HomeDiffers {
        /// The kernel's name of the namespace.
        device: String,
        /// The copy.
        place: String,
    },
    /// Nothing has been moved away from a module.
    #[error("nothing was moved away from {module}")]
    NothingAway {
        /// The module.
        module: Handle,
    },
    /// The slot of a new module is taken.
    #[error("slot {module} has a module already; replace that one, or name another slot")]
    SlotTaken {
        /// The slot.
        module: Handle,
    },
    /// Modules that are to be added, or the new one, can't be read.
    #[error("{}: {error}", path.display())]
    Modules {
        /// The file.
        path: PathBuf,
        /// The fault.
        #[source]
        error: MachineError,
    },
    /// All modules are configured, so there is nothing to extend by.
    #[error("all modules of the machine are configured; describe new modules in a file")]
    NothingNew,
    /// A growth to another size has begun and is not done.
    #[error("{device} grows to {} in a growth that is not done; finish it with this size first", brief(*size))]
    OtherGrowth {
        /// The kernel's name of the namespace.
        device: String,
        /// The size in bytes that it grows to.
        size: u64,
    },
    /// The namespace would not grow.
    #[error("{device} has {} already; name a larger size", brief(*size))]
    NoGrowth {
        /// The kernel's name of the namespace.
        device: String,
        /// Its size in bytes.
        size: u64,
    },
}

fn largest(free: &[(u32, u64)]) -> u64 {
    free.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0)
}

fn free_text(free: &[(u32, u64)]) -> String {
    if free.is_empty() {
        return "no other region takes namespaces".to_owned();
    }
    let one = |(region, bytes): &(u32, u64)| format!("region{region} has {} free at once", brief(*bytes));
    free.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn unused_text(modules: &[Handle]) -> String {
    if modules.is_empty() {
        return String::new();
    }
    let modules: Vec<String> = modules.iter().map(Handle::to_string).collect();
    format!(
        "; {} would have room, and {} not configured",
        modules.join(", "),
        if modules.len() == 1 { "is" } else { "are" }
    )
}
