//! Firmware of modules: images, their staging, and their activation.
//!
//! ```text
//!   image.rs  -->  update.rs: stage, arm, disarm  -->  activate.rs: while the machine runs
//!   a file's            |                                   |
//!   header         module_firmware.rs, the entry in the state: what runs, what is staged, the last result
//!                       |
//!                  start: what is staged runs
//! ```
//!
//! The rules are those of the manual pages of ndctl 76, of the kernel's
//! `Documentation/driver-api/nvdimm/firmware-activate.rst`, and of its `tools/testing/nvdimm/test/nfit.c`:
//!
//! | state of the bus | armed modules                             | arm           | activate                     |
//! |------------------|-------------------------------------------|---------------|------------------------------|
//! | idle             | none                                      | armed         | refused                      |
//! | armed            | as many as the platform has the time for  | armed         | done                         |
//! | overflow         | more                                      | with force    | without the platform's limit |
//!
//! An activation takes no time here, so no state is `busy`. A machine whose platform activates firmware at a start only
//! arms no module: what is staged waits for the start.

mod activate;
mod activation_state;
mod entries;
mod error;
mod image;
mod image_fault;
mod limits;
mod module_firmware;
mod update;
mod version;

pub use activate::activate;
pub use activation_state::{ActivationState, activation, bus_state};
pub(crate) use entries::{entry, settle_all, updates};
pub use error::FirmwareError;
pub use image::{FirmwareImage, FirmwareKind};
pub use image_fault::ImageFault;
pub use module_firmware::{ActivationResult, ModuleFirmware};
pub(crate) use update::start;
pub use update::{arm, disarm, stage};
pub use version::FirmwareVersion;
