//! Images: regions, namespaces and modules of a machine as files that virtual machines boot with, and back.
//!
//! ```text
//!   region over modules    | line 0 | line 1 | line 2 | ...          interleaved over their media
//!        | flatten   ^ spread
//!   image                  | data in one piece | label area |       ImageLayout
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
mod error_kind;
mod existing;
mod export;
mod file_system;
mod flatten;
mod format;
mod import;
mod kata;
mod layout;
mod mkfs;
mod new_file;
mod qemu;
mod qemu_slot;
mod sectors;
mod target;
mod user_data;

pub use crate::file::progress::{Cancelled, CopyProgress};
pub use error::ImageError;
pub use error_kind::ImageErrorKind;
pub use existing::{Image, ImageContents, ImageNamespace};
pub use export::{ExportImage, Exported};
pub use file_system::{FileSystem, FileSystemSpace};
pub use format::ImageFormat;
pub use import::{ImportImage, Imported};
pub use layout::ImageLayout;
pub use mkfs::FileSystemKind;
pub use qemu_slot::QemuSlot;
pub(crate) use user_data::{Source, export_user_data, file_digest, fill_user_data, user_digest};
