//! A machine: its hardware, and the tool versions that it emulates.

mod cxl;
mod cxl_source;
mod error;
mod firmware_activation;
mod form;
mod handle;
mod hardware;
mod included;
mod machine_error;
mod module;
mod profile;
mod reader;
mod source;
mod text;
mod typo;

pub use cxl::{AddressWindow, CxlHardware, CxlMemory, CxlPort, CxlSwitch, HostBridge};
pub(crate) use cxl_source::DECODERS as DEVICE_DECODERS;
pub use error::ModuleError;
pub use firmware_activation::FirmwareActivation;
pub use form::{FORM, FormField, FormSection, template};
pub use handle::{Handle, LargeHandle};
pub use hardware::{FIRMWARE_SPACE, Machine};
pub use included::INCLUDED;
pub use machine_error::MachineError;
pub use module::{Dram, Health, Memmap, Module, Security, Sensors, SoftReserved};
pub use profile::{IpmctlGeneration, KernelVersion, PersistenceDomain, Profile};
pub use typo::nearest;
