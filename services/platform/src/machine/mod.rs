//! A machine: its hardware, and the tool versions that it emulates.

mod error;
mod handle;
mod hardware;
mod included;
mod machine_error;
mod module;
mod profile;
mod source;
mod typo;

pub use error::ModuleError;
pub use handle::Handle;
pub use hardware::{FIRMWARE_SPACE, Machine};
pub use included::INCLUDED;
pub use machine_error::MachineError;
pub use module::{Dram, Health, Memmap, Module, Security, Sensors};
pub use profile::{IpmctlGeneration, KernelVersion, PersistenceDomain, Profile};
pub use typo::nearest;
