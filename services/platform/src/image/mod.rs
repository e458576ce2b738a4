//! Images: regions, namespaces and modules of a machine as files that virtual machines boot with, and back.
//!
//! ```text
//!   region over modules    | line 0 | line 1 | line 2 | ...          interleaved over their media
//!        | flatten   ^ spread
//!   image                  | data in one piece | label area |       Shape
//! ```
//!
//! QEMU gives each module a region of its own, and derives the module's identity from its slot. So the export writes
//! new labels for the slot: one for each namespace instead of one for each module of the set. Info blocks stay
//! unchanged, since they hold only the namespace's UUID and offsets within it. The image preserves alignment in
//! physical memory.
//!
//! An import finds the origin of an image by the UUIDs of its namespaces. The origin is the only region of that size
//! with one of them at the same offset, or the only such namespace. If a kernel destroyed them all, the user must name
//! the origin.

pub(crate) mod error;
mod export;
mod fault;
mod file_system;
mod flatten;
mod form;
mod import;
mod kata;
mod mkfs;
mod new_file;
mod qemu;
mod sectors;
mod shape;
mod slot;
mod target;
mod used;

pub use crate::file::watch::{Stopped, Watch};
pub use error::ImageError;
pub use export::{ExportImage, Exported};
pub use fault::ImageFault;
pub use file_system::FileSystem;
pub use form::ImageForm;
pub use import::Imported;
pub use mkfs::FileSystemKind;
pub use shape::Shape;
pub use slot::QemuSlot;
pub use used::{Image, ImageContents, ImageNamespace};
