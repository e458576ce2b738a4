//! Errors of all operations on a platform.

use crate::cxl::CxlError;
use crate::dax::DaxError;
use crate::directory::error::{BttError, DirectoryError};
use crate::e820::error::MemoryMapError;
use crate::file::error::FileError;
use crate::file::progress::Cancelled;
use crate::firmware::FirmwareError;
use crate::goal::error::GoalError;
use crate::image::error::ImageError;
use crate::info_block::error::InfoBlockFault;
use crate::ipmctl::error::ShowError;
use crate::locate::error::LocateError;
use crate::machine::ModuleError;
use crate::media_error::error::MediaFault;
use crate::namespace::error::NamespaceError;
use crate::plan::error::PlanError;
use crate::relocate::RelocateError;
use crate::security::SecurityError;
use crate::smart::SmartError;
use crate::sysfs::error::SysfsError;
use thiserror::Error;

/// Error of an operation on a platform. The operation changed nothing, except after [`Interrupted`].
///
/// [`Interrupted`]: DirectoryError::Interrupted
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlatformError {
    /// A module does not exist, or can't be used.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// A goal is impossible.
    #[error(transparent)]
    Goal(#[from] GoalError),
    /// A region or a namespace does not exist, or can't be changed as requested.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
    /// A character device does not exist, or can't be changed as requested.
    #[error(transparent)]
    Dax(#[from] DaxError),
    /// CXL memory does not exist, or can't be changed as requested.
    #[error(transparent)]
    Cxl(#[from] CxlError),
    /// The BTT of a namespace is missing or damaged.
    #[error(transparent)]
    Btt(#[from] BttError),
    /// A byte can't be located.
    #[error(transparent)]
    Locate(#[from] LocateError),
    /// Media can't be read, or an injection of media errors is invalid.
    #[error(transparent)]
    Media(#[from] MediaFault),
    /// Info blocks can't be read, written or verified.
    #[error(transparent)]
    InfoBlock(#[from] InfoBlockFault),
    /// There is no plan, or a plan can't be executed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A security command is refused.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// Namespaces can't be moved, or a module can't be exchanged or added.
    #[error(transparent)]
    Relocate(#[from] RelocateError),
    /// SMART of a module can't be changed.
    #[error(transparent)]
    Smart(#[from] SmartError),
    /// Firmware can't be staged, armed or activated.
    #[error(transparent)]
    Firmware(#[from] FirmwareError),
    /// A directory can't be used, or its change was interrupted.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// An image can't be used or made.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The kernel refused an operation on a file.
    #[error(transparent)]
    File(#[from] FileError),
    /// The user stopped the operation.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A listing names modules, sockets or values that do not exist.
    #[error(transparent)]
    Show(#[from] ShowError),
    /// A folder is not a sysfs, or sysfs does not have a value.
    #[error(transparent)]
    Sysfs(#[from] SysfsError),
    /// A memory map can't be read, or has too little RAM.
    #[error(transparent)]
    MemoryMap(#[from] MemoryMapError),
}
