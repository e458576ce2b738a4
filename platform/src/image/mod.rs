//! Images: regions, namespaces and modules of a machine as files that virtual machines boot with, and back.
//!
//! ```text
//!   region over modules    | line 0 | line 1 | line 2 | ...          interleaved over their media
//!        | flatten   ^ spread
//!   image                  | data in one piece | label area |       Shape
//! ```
//!
//! QEMU gives each module a region of its own, and an identity that follows from its slot. So the labels are written
//! anew for the slot: one for each namespace instead of one for each module of the set. Info blocks stay as they are:
//! they name the namespace, which keeps its identity, and offsets inside of it. What is aligned in physical memory is
//! aligned alike in the image.
//!
//! Where an image came from is known by the identities of its namespaces: what it goes back into is the one region of
//! that size that has one of them in the same place, or the one namespace. A kernel may have unmade them all: then
//! somebody has to say it.

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
pub(crate) mod sparse;
mod target;
mod used;
mod watch;

pub use export::{ExportImage, Exported};
pub use fault::ImageFault;
pub use file_system::FileSystem;
pub use form::ImageForm;
pub use import::Imported;
pub use mkfs::FileSystemKind;
pub use shape::Shape;
pub use slot::QemuSlot;
pub use used::{Image, ImageContents, ImageNamespace};
pub use watch::Watch;
